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
from onlinehash.collection.stores.sql import NEW_STREAM, SqlStore
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
    """Move a collection to another embedding model while it is searched and changed.

    All but the last new vectors are written while others go on; then changes wait until a hasher has learned from the
    new vectors, and they, the hasher, its codes and the embedder take the place of the old ones, in one transaction.
    """
    if not collection._migrating.acquire(blocking=False):
        raise InvalidInputError("This collection is being migrated by another thread; wait for it.")
    try:
        begun, store, pairs = monotonic(), collection._store, iter(vectors or ())
        new = _begin(collection, embedder, vectors)
        while given := dict(islice(pairs, ITEMS_PER_CHUNK)):
            known = store.seqs(inputs.check_item_ids(list(given), collection.id_type))
            if known:
                _write(collection, list(known.values()), [given[id] for id in known])
        n_done, seqs = store.n_new_vectors(), [0]
        while seqs := _embed_next(collection, new, seqs[-1]):
            n_done, n_items = n_done + len(seqs), len(collection)
            progress(min(n_done, n_items), n_items)
            if len(seqs) < ITEMS_PER_CHUNK:
                break
        with collection._changing() as learner:
            while _embed_next(collection, new):  # those that came meanwhile
                pass
            _swap(collection, new, learner.hasher, begun)
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
                collection._store.create_stream(NEW_STREAM)
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


def _noted(collection: Collection) -> dict[str, Any]:
    """Return what is noted of the migration under way."""
    noted: dict[str, Any] | None = collection._settings.get("migration")
    if noted is None:
        raise InvalidInputError("The migration was abandoned; the collection is as it was.")
    return noted


def _embed_next(collection: Collection, embedder: Embedder | None, after: int = 0) -> list[int]:
    """Write new vectors of the next items that have none, and return their sequence numbers."""
    store = collection._store
    with collection._changing():
        _noted(collection)
        seqs = store.without_new_vectors(ITEMS_PER_CHUNK, after)
        ids, payloads = store.rows(seqs).ids, store.payloads(seqs)
    if seqs and embedder is None:
        n_items = len(collection)
        raise IncompleteMigrationError(n_items - store.n_new_vectors(), n_items, ids[0])
    if seqs and embedder is not None:
        _write(collection, seqs, embedder(list(map(document_of, ids, payloads))))
    return seqs


def _write(collection: Collection, seqs: list[int], vectors: Any) -> None:
    """Write new vectors of those of these items that are still there."""
    with collection._changing():
        noted, store = _noted(collection), collection._store
        new = inputs.check_vectors(vectors, len(seqs), False, {"vector_dtype": store.vector_dtype})
        if noted["n_features"] not in (None, new.shape[1]):
            raise InvalidFeaturesError(
                f"The new vectors have {new.shape[1]} numbers, those before have {noted['n_features']}."
            )
        left = store.items_left(seqs)
        with collection._commit({"migration": {**noted, "n_features": new.shape[1]}}):
            store.put_new_vectors(left, new[np.isin(seqs, left)])


def _swap(collection: Collection, new: Embedder | None, old: OnlineHasher, begun: float) -> None:
    """Learn from the new vectors, and put them, hasher, codes and embedder in place, in one transaction."""
    store, searcher, width = collection._store, collection._searcher, _noted(collection)["n_features"]
    if width is None or not searcher.head.n_items:
        raise InvalidInputError(
            "All items were deleted before they had a new vector; add items and call migrate again, or call "
            "collection.abandon_migration()."
        )
    learner = Learner(store, type(old)(**old.get_params(deep=False)))
    learner.learn_stream(NEW_STREAM)
    settings = {
        "embedder": None if new is None else new.name,
        "n_features": width,
        "n_migrations": collection._settings.get("n_migrations", 0) + 1,
        **dict.fromkeys(("feature_names", "migration")),
    }

    def take_over() -> None:
        collection._documents.given, collection._learner = new, learner

    try:
        encoder = calibrated(collection, learner.hasher, draw_labelled(collection), NEW_STREAM)
        chunks = list(encode_stream(collection, encoder, table=NEW_STREAM))
        commit = taking_into_use(collection, encoder, chunks, begun, settings, take_over)
    except NotLearnedError:
        if searcher.generation is not None:
            raise NotLearnedError(
                "The new hasher has learned nothing from the new vectors, as no item has a label; add labelled items, "
                "and call migrate again."
            ) from None
        commit = collection._commit(settings, then=take_over)
    with commit:
        store.end_migration(adopt=True)
        settings |= learner.save(searcher.head.seq)
    collection._refresher.after_change()
