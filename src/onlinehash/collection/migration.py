"""Migration: from one embedding model to another while the collection is searched and changed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import islice
from time import monotonic
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinehash.codes import code_width
from onlinehash.collection import _validation as check
from onlinehash.collection.documents import FIELD
from onlinehash.collection.generation import Generation
from onlinehash.collection.history import note_encoder
from onlinehash.collection.ids import check_item_ids
from onlinehash.collection.learner import as_hasher, learn_stored, same_recipe
from onlinehash.collection.reader import CollectionReader
from onlinehash.collection.stores.protocol import Rows, in_pieces, rows_at_a_time
from onlinehash.embedders import Embedder, as_embedder, make_embedder
from onlinehash.exceptions import (
    IncompleteMigrationError,
    InvalidFeaturesError,
    InvalidInputError,
    NotLearnedError,
    OnlineHashError,
    UnknownNameError,
)
from onlinehash.hashers import OnlineHasher, load_hasher
from onlinehash.types import Codes, Progress

_CHUNK = 256  # items embedded at a time

Pairs = Iterable[tuple[Any, Any]]


@dataclass(frozen=True)
class Migration:
    """A migration under way.

    Parameters
    ----------
    embedder : str or None
        Name of the new embedder; None if the new vectors are passed as they are.
    n_features : int or None
        Width of the new vectors; None before the first.
    n_done, n_items : int
        Items that have a new vector, and all.

    Examples
    --------
    >>> Migration("char_ngrams", 1024, 500, 1000).n_done
    500
    """

    embedder: str | None
    n_features: int | None
    n_done: int
    n_items: int


class MigratingCollection(CollectionReader):
    """The part of a collection that changes its embedding model."""

    _n_unlearned = 0  # calls of delete(unlearn=True)

    @property
    def migration(self) -> Migration | None:
        """The migration under way; None if there is none."""
        with self._store.reading():
            noted = self._store.setting("migration")
            return None if noted is None else Migration(**noted, n_done=self._store.n_new_vectors(), n_items=len(self))

    def migrate(
        self,
        *,
        embed: Any = None,
        vectors: Pairs | Callable[[list[Any]], Pairs] | None = None,
        hasher: OnlineHasher | str | None = None,
        progress: Progress = lambda done, total: None,
    ) -> None:
        """Move to another embedding model, of any width, while other threads search and change the collection.

        New vectors are stored beside the old ones, in batches, and a new hasher learns from them. Searches use the old
        vectors, embedder and codes until all items have both, those included that come meanwhile. Then one transaction
        replaces vectors, hasher, codes and embedder; changes wait for it, searches do not.

        Interrupted anywhere, even by a crash, the collection is as it was: call it again to go on with what is left,
        or :meth:`abandon_migration`.

        Parameters
        ----------
        embed : name, callable or model, optional
            The new embedder, as for :meth:`open`. Documents come from the payload, where the collection keeps them.
        vectors : iterable of (id, vector), or callable, optional
            New vectors that were computed elsewhere; ids that are unknown are ignored. A callable gets a list of ids
            that have none yet, again and again, and returns such pairs for them. With ``embed``, which then names the
            model that made them, only the documents of the remaining items are embedded. Without, the collection has
            no embedder afterwards.
        hasher : hasher or name of one, optional
            The new hasher. By default one like the present one, which has learned nothing.
        progress : callable, optional
            Called as ``progress(done, total)``, in items that have a new vector.

        Examples
        --------
        >>> from tempfile import TemporaryDirectory
        >>> import onlinehash as oh
        >>> texts, labels = ["my card is lost", "lost card", "refund, please", "a refund"], [0, 0, 1, 1]
        >>> folder = TemporaryDirectory()
        >>> hasher = oh.HCOH(8, random_state=0)
        >>> tickets = oh.Collection.open(f"{folder.name}/tickets.oh", hasher, embed="char_ngrams:64")
        >>> tickets.upsert(range(4), documents=texts, labels=labels)
        >>> tickets.migrate(embed="char_ngrams:512")
        >>> tickets.embedder, tickets.n_features, tickets.search("where is my card?", k=2).ids
        ('char_ngrams:512', 512, [0, 1])
        >>> tickets.close()
        >>> folder.cleanup()
        """
        new = None if embed is None else as_embedder(embed)
        if not self._migrating.acquire(blocking=False):
            raise InvalidInputError("This collection is being migrated by another thread; wait for it.")
        try:
            source = _Source(self, self._begin_migration(new, vectors, hasher), vectors, progress)
            try:
                self._finish_migration(source)
            except OnlineHashError as error:
                if not self._closed and self._store.setting("migration") is None:
                    raise InvalidInputError("The migration was abandoned; the collection is as it was.") from error
                raise
        finally:
            self._migrating.release()

    def abandon_migration(self) -> None:
        """Drop the new vectors of a migration under way; the collection stays as it is."""
        with self._writing():
            if self._store.setting("migration") is not None:
                with self._store.writing():
                    self._store.end_migration()
                    self._store.put_setting("migration", None)

    def _begin_migration(
        self, new: Embedder | None, vectors: Any, hasher: OnlineHasher | str | None
    ) -> Embedder | None:
        """Note where to go, or check that it is where a migration under way goes; return the new embedder."""
        with self._writing():
            noted = self._store.setting("migration")
            if noted is None:
                self._check_destination(new, vectors)
                now = self._learner.hasher
                assert now is not None
                own = type(now)(**now.get_params(deep=False)) if hasher is None else as_hasher(hasher)
                with self._store.writing():
                    self._store.begin_migration(own.to_bytes())
                    name = None if new is None else new.name
                    self._store.put_setting("migration", {"embedder": name, "n_features": None})
                return new
            name = noted["embedder"]
            if new is not None and new.name != name:
                under_way = "vectors without an embedder" if name is None else repr(name)
                raise InvalidInputError(
                    f"A migration to {under_way} is under way, not to {new.name!r}; go on with that, or call "
                    "collection.abandon_migration() first."
                )
            if hasher is not None and not same_recipe(load_hasher(self._store.new_hasher()), as_hasher(hasher)):
                raise InvalidInputError(
                    "A migration with another hasher is under way; leave out hasher=, or call "
                    "collection.abandon_migration() first."
                )
            if new is None and vectors is None:
                if name is None:
                    raise InvalidInputError("This migration needs more vectors; pass vectors=.")
                try:
                    return make_embedder(name)
                except UnknownNameError:
                    raise InvalidInputError(
                        f"A migration to {name!r}, which is not registered by that name, is under way; pass embed=."
                    ) from None
            return new

    def _check_destination(self, new: Embedder | None, vectors: Any) -> None:
        if new is None and vectors is None:
            raise InvalidInputError("Pass the new embedder with embed=, or new vectors with vectors=.")
        if not len(self):
            raise InvalidInputError("This collection has no items to migrate; create another with the new embedder.")
        if new is not None and new.name == self.embedder:
            raise InvalidInputError(
                f"This collection embeds with {new.name!r} already; give another model another name, with Embedder."
            )

    def _finish_migration(self, source: _Source) -> None:
        """Fill in, learn and encode without keeping others out, until little is left; then replace everything."""
        source.fill()
        made = None
        while True:
            if made is None or made.n_unlearned != self._n_unlearned:  # what is unlearned must not have been learned
                made = _Codes(self, source.width())
            made.learn()
            made.encode()
            source.fill(made.after)  # what has come meanwhile
            self._reencoder.halt()
            if self._cut_over(source, made):
                return

    def _cut_over(self, source: _Source, made: _Codes) -> bool:
        """Replace everything at once; return False if too much has come meanwhile."""
        with self._writing():
            rest = self._store.without_new_vectors(made.after, _CHUNK)
            if len(rest) == _CHUNK or made.n_unlearned != self._n_unlearned:
                self._reencoder.start()
                return False
            source.put(rest)
            made.learn()
            made.encode()
            self._replace(source, made)
            self._reencoder.read()
            self._reencoder.after_change()
        return True

    def _replace(self, source: _Source, made: _Codes) -> None:
        """Put new vectors, hasher, codes and embedder in place of the old ones, in one transaction."""
        store, generation, width = self._store, made.generation, source.width()
        if width is None:
            raise InvalidInputError(
                "All items were deleted before they had a new vector; add items and call migrate again, or call "
                "collection.abandon_migration()."
            )
        if generation is None and self._index.current is not None:
            raise NotLearnedError(
                "The new hasher has learned nothing from the new vectors, as no item has a label; add labelled items, "
                "and call migrate again."
            )
        self._learner.hasher = None  # to be read again after an error
        with ExitStack() as switching:
            with store.writing():
                if generation is not None:
                    generation.number = store.begin_generation(generation.encoder.to_bytes())
                    seqs, codes = made.put_codes(generation)
                self._learner.replace(made.hasher, self._position.seq)
                store.adopt_new_vectors()
                n_migrations = store.setting("n_migrations", 0) + 1
                name = None if source.embedder is None else source.embedder.name
                self._put_settings({"embedder": name, "n_features": width, "feature_names": None})
                self._put_settings({"migration": None, "n_migrations": n_migrations})
                switching.enter_context(self._space.changing())  # from the commit on, until all is in memory
                store.end_migration()
                if generation is not None:
                    store.finish_generation(generation.number)
                    note_encoder(store, generation)
            self._documents.given, self._n_migrations = source.embedder, n_migrations
            self._learner.hasher, self._learner.n_learned = made.hasher, made.hasher.version_
            if generation is not None:
                self._index.begin(generation.number, generation.encoder)
                self._index.put_next(seqs.tolist(), codes)
                self._index.cut_over()


class _Source:
    """New vectors of items, from documents or from the caller."""

    def __init__(
        self, collection: MigratingCollection, embedder: Embedder | None, vectors: Any, progress: Progress
    ) -> None:
        self._collection, self._store = collection, collection._store
        self.embedder, self._progress = embedder, progress
        self._ask = vectors if callable(vectors) else None
        self._pairs = iter(()) if vectors is None or callable(vectors) else iter(vectors)

    def _noted(self) -> dict[str, Any]:
        """Return what is noted about the migration."""
        noted: dict[str, Any] | None = self._store.setting("migration")
        if noted is None:
            raise InvalidInputError("There is no migration under way.")
        return noted

    def width(self) -> int | None:
        """Return the width of the new vectors, None before the first."""
        width: int | None = self._noted()["n_features"]
        return width

    def fill(self, after: int = 0) -> None:
        """Write new vectors of all items after a sequence number that have none."""
        self._put_pairs(self._pairs)
        n_items = len(self._collection)
        n_done = n_items if after else self._store.n_new_vectors()
        for rows in in_pieces(self._store.without_new_vectors, _CHUNK, after):
            self.put(rows)
            n_done += len(rows)
            self._progress(min(n_done, n_items), n_items)

    def put(self, rows: Rows) -> None:
        """Write new vectors of these items, which have none."""
        if not len(rows):
            return
        if self.embedder is not None:
            self._put(rows, self.embedder([_document(*row) for row in zip(rows.ids, rows.payloads, strict=True)]))
            return
        if self._ask is not None:
            self._put_pairs(self._ask(list(rows.ids)))
        left = self._store.without_new_vectors(rows.seqs[0] - 1, 1)
        if len(left) and left.seqs[0] <= rows.seqs[-1]:
            n_items = len(self._collection)
            raise IncompleteMigrationError(n_items - self._store.n_new_vectors(), n_items, left.ids[0])

    def _put_pairs(self, pairs: Pairs) -> None:
        left = iter(pairs)
        while given := dict(islice(left, _CHUNK)):
            rows = self._store.rows(check_item_ids(list(given), self._collection.id_type))
            if len(rows):
                self._put(rows, [given[id] for id in rows.ids])

    def _put(self, rows: Rows, vectors: Any) -> None:
        with self._collection._writing():
            noted = self._noted()
            new = check.check_rows(vectors, len(rows), False, None, self._store.setting("vector_dtype"))
            if noted["n_features"] not in (None, new.shape[1]):
                raise InvalidFeaturesError(
                    f"The new vectors have {new.shape[1]} numbers, those before have {noted['n_features']}."
                )
            with self._store.writing():
                self._store.put_new_vectors(replace(rows, vectors=new))
                self._store.put_setting("migration", {**noted, "n_features": new.shape[1]})


class _Codes:
    """A hasher that learns from the new vectors, and the codes of its encoder, as far as they have come."""

    def __init__(self, collection: MigratingCollection, width: int | None) -> None:
        self._store, self.n_unlearned = collection._store, collection._n_unlearned
        self._limit = rows_at_a_time(width)
        self.hasher = load_hasher(self._store.new_hasher())
        self.generation: Generation | None = None
        self.after = 0
        """Sequence number up to which all items have a new vector, which the hasher has learned from."""
        self._encoded: list[tuple[NDArray[np.int64], Codes]] = []
        self._encoded_to, self._begun = 0, monotonic()

    def learn(self) -> None:
        """Learn from the items that have come since."""
        for rows in self._rows(self.after):
            learn_stored(self.hasher, rows.vectors, rows.labels)
            self.after = rows.seqs[-1]

    def encode(self) -> None:
        """Encode the items that have come since, by what the hasher knew the first time."""
        if self.generation is None:
            try:
                self.generation = Generation(0, self.hasher.snapshot(), begun=self._begun)
            except NotLearnedError:
                return
        for rows in self._rows(self._encoded_to):
            self._encoded.append((np.asarray(rows.seqs, np.int64), self.generation.encode(rows.vectors)))
            self._encoded_to = rows.seqs[-1]

    def _rows(self, after: int) -> Iterator[Rows]:
        return in_pieces(self._store.new_vectors, self._limit, after)

    def put_codes(self, generation: Generation) -> tuple[NDArray[np.int64], Codes]:
        """Write the codes of all items there are, and return them with their sequence numbers."""
        none = np.empty((0, code_width(generation.encoder.n_bits)), np.uint8)
        seqs = np.concatenate([np.empty(0, np.int64), *(some for some, _ in self._encoded)])
        codes = np.concatenate([none, *(some for _, some in self._encoded)])
        after, kept = 0, [np.empty(0, np.intp)]
        for rows in self._rows(0):
            places = np.searchsorted(seqs, rows.seqs)
            self._store.put_codes(generation.number, after, rows, codes[places])
            after = rows.seqs[-1]
            kept.append(places)
        there = np.concatenate(kept)
        return seqs[there], codes[there]


def _document(id: Any, payload: str | None) -> Any:
    value = json.loads(payload or "null")
    if not isinstance(value, dict) or value.get(FIELD) is None:
        raise InvalidInputError(
            f"Item {id!r} has no {FIELD!r} in its payload to embed; pass its new vector with vectors=, which may go "
            "together with embed=."
        )
    return value[FIELD]
