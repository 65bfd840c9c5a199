"""Migration: to another embedding model, by vectors and codes that are built beside the old ones and then swapped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from time import monotonic
from typing import TYPE_CHECKING, Any

import numpy as np

from onlinehash.collection import inputs
from onlinehash.collection.decisions import calibrated, draw_labelled
from onlinehash.collection.documents import document_of
from onlinehash.collection.generations import encode_stream, taking_into_use
from onlinehash.collection.learner import Learner
from onlinehash.collection.stores.sql import NEW_STREAM, CodeColumns, SqlStore
from onlinehash.embedders import Embedder, make_embedder
from onlinehash.exceptions import (
    IncompleteMigrationError,
    InvalidFeaturesError,
    InvalidInputError,
    NotLearnedError,
    UnknownNameError,
)
from onlinehash.hashers import OnlineHasher
from onlinehash.types import Progress

if TYPE_CHECKING:
    from onlinehash.collection.collection import Collection

ITEMS_PER_CHUNK = 256
"""Items embedded at a time, and left for the moment when changes wait."""

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


def under_way(store: SqlStore, settings: Mapping[str, Any]) -> Migration | None:
    """Return the migration under way; None if there is none."""
    noted = settings.get("migration")
    if noted is None:
        return None
    with store.snapshot():
        return Migration(**noted, n_done=store.n_new_vectors(), n_items=store.head().n_items)


def migrate(collection: Collection, embedder: Embedder | None, vectors: Pairs | None, progress: Progress) -> None:
    """Move a collection to another embedding model while it is searched and changed."""
    if not collection._migrating.acquire(blocking=False):
        raise InvalidInputError("This collection is being migrated by another thread; wait for it.")
    try:
        _Move(collection, _begin(collection, embedder, vectors), vectors, progress).run()
    finally:
        collection._migrating.release()


def _begin(collection: Collection, new: Embedder | None, vectors: Any) -> Embedder | None:
    """Note where to go, or check that it is where a migration under way goes; return the new embedder."""
    with collection._changing():
        noted = collection._settings.get("migration")
        if noted is None:
            _check_destination(collection, new, vectors)
            name = None if new is None else new.name
            with collection._commit({"migration": {"embedder": name, "n_features": None}}):
                collection._store.begin_migration()
            return new
        name = noted["embedder"]
        if new is not None and new.name != name:
            target = "vectors without an embedder" if name is None else repr(name)
            raise InvalidInputError(
                f"A migration to {target} is under way, not to {new.name!r}; go on with that, or call "
                "collection.abandon_migration() first."
            )
        if new is not None or vectors is not None:
            return new
        if name is None:
            raise InvalidInputError("This migration needs more vectors; pass vectors=.")
        try:
            return make_embedder(name)
        except UnknownNameError:
            raise InvalidInputError(
                f"A migration to {name!r}, which is not registered by that name, is under way; pass embed=."
            ) from None


def _check_destination(collection: Collection, new: Embedder | None, vectors: Any) -> None:
    if new is None and vectors is None:
        raise InvalidInputError("Pass the new embedder with embed=, or new vectors with vectors=.")
    if not len(collection):
        raise InvalidInputError("This collection has no items to migrate; create another with the new embedder.")
    if new is not None and new.name == collection.embedder:
        raise InvalidInputError(
            f"This collection embeds with {new.name!r} already; give another model another name, with Embedder."
        )


class _Move:
    """New vectors of all items, a hasher that learns from them, their codes; then everything at once."""

    def __init__(self, collection: Collection, embedder: Embedder | None, vectors: Any, progress: Progress) -> None:
        self._collection, self._store, self._embedder = collection, collection._store, embedder
        self._progress, self._begun, self._pairs = progress, monotonic(), iter(vectors or ())

    def run(self) -> None:
        """Write all but the last vectors while others go on; then keep changes out, learn, encode and swap."""
        self._put_pairs()
        while True:
            self._fill()
            with self._collection._changing() as learner:
                self._noted()
                rest = self._store.without_new_vectors(ITEMS_PER_CHUNK)
                if len(rest) < ITEMS_PER_CHUNK:
                    self._put(rest)
                    self._swap(learner.hasher)
                    return

    def _noted(self) -> dict[str, Any]:
        noted: dict[str, Any] | None = self._collection._settings.get("migration")
        if noted is None:
            raise InvalidInputError("The migration was abandoned; the collection is as it was.")
        return noted

    # ------------------------------------------------------------------ vectors

    def _fill(self) -> None:
        """Write new vectors of all items that have none; those that come meanwhile have higher numbers."""
        n_items, n_done, after = len(self._collection), self._store.n_new_vectors(), 0
        while seqs := self._store.without_new_vectors(ITEMS_PER_CHUNK, after):
            self._put(seqs)
            after, n_done = seqs[-1], n_done + len(seqs)
            self._progress(min(n_done, n_items), n_items)
            if len(seqs) < ITEMS_PER_CHUNK:  # those that come meanwhile are for the end
                return

    def _put(self, seqs: list[int]) -> None:
        """Write new vectors of these items, which have none."""
        if not seqs:
            return
        self._noted()
        with self._store.snapshot():
            seqs = self._store.items_left(seqs)
            ids = self._store.rows(seqs).ids
            payloads = self._store.payloads(seqs)
        if self._embedder is not None:
            documents = [document_of(id, payload) for id, payload in zip(ids, payloads, strict=True)]
            self._write(seqs, self._embedder(documents))
            return
        if ids:
            n_items = len(self._collection)
            raise IncompleteMigrationError(n_items - self._store.n_new_vectors(), n_items, ids[0])

    def _put_pairs(self) -> None:
        while given := dict(islice(self._pairs, ITEMS_PER_CHUNK)):
            ids = inputs.check_item_ids(list(given), self._collection.id_type)
            found = self._store.seqs(ids)
            if found:
                self._write(list(found.values()), [given[id] for id in found])

    def _write(self, seqs: list[int], vectors: Any) -> None:
        with self._collection._changing():
            noted, store = self._noted(), self._store
            new = inputs.check_vectors(vectors, len(seqs), False, {"vector_dtype": store.vector_dtype})
            if noted["n_features"] not in (None, new.shape[1]):
                raise InvalidFeaturesError(
                    f"The new vectors have {new.shape[1]} numbers, those before have {noted['n_features']}."
                )
            known = store.items_left(seqs)
            there = np.isin(seqs, known)
            settings = {"migration": {**noted, "n_features": new.shape[1]}}
            with self._collection._commit(settings):
                store.put_new_vectors(known, new[there])

    # ------------------------------------------------------------------ hasher and codes

    def _swap(self, old: OnlineHasher) -> None:
        """Learn from the new vectors, and put them, hasher, codes and embedder in place, in one transaction."""
        collection, store = self._collection, self._store
        searcher, width = collection._searcher, self._noted()["n_features"]
        if width is None or not searcher.head.n_items:
            raise InvalidInputError(
                "All items were deleted before they had a new vector; add items and call migrate again, or call "
                "collection.abandon_migration()."
            )
        learner = Learner(store, type(old)(**old.get_params(deep=False)))
        learner.learn_stream(NEW_STREAM)
        encoder, chunks = None, list[CodeColumns]()
        try:
            encoder = calibrated(collection, learner.hasher, draw_labelled(collection), NEW_STREAM)
            chunks += encode_stream(collection, encoder, table=NEW_STREAM)
        except NotLearnedError:
            if searcher.generation is not None:
                raise NotLearnedError(
                    "The new hasher has learned nothing from the new vectors, as no item has a label; add labelled "
                    "items, and call migrate again."
                ) from None
        settings = {
            "embedder": None if self._embedder is None else self._embedder.name,
            "n_features": width,
            "n_migrations": collection._settings.get("n_migrations", 0) + 1,
            **dict.fromkeys(("feature_names", "migration")),
        }

        def take_over() -> None:
            collection._documents.given, collection._learner = self._embedder, learner

        if encoder is None:
            commit = collection._commit(settings, then=take_over)
        else:
            commit = taking_into_use(collection, encoder, chunks, self._begun, settings, take_over)
        with commit:
            store.end_migration(adopt=True)
            settings |= learner.save(searcher.head.seq)
        collection._refresher.after_change()
