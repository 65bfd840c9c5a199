"""Finder: answers of a collection: what a search finds, in which order, and items in an order.

The order of results is one rule, for collections, the service and the command line: codes find :func:`n_candidates`
items per query, which are then ordered by what :func:`measure_of` says.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache, partial, reduce
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onlinehash._internal.validation import check_choice
from onlinehash.collection.filters import Filter, compared_paths
from onlinehash.collection.inputs import SearchFilter, check_item_ids, labels_of
from onlinehash.collection.searcher import Found, Generation, OutOfStep, Request, Searcher
from onlinehash.collection.stores.sql import Seqs, SqlStore
from onlinehash.collection.types import Id, Item, Label
from onlinehash.encoders import Encoder
from onlinehash.exceptions import InvalidInputError, LargeResultError, UnknownIdError
from onlinehash.types import SearchResult

_log = logging.getLogger(__name__)
_ROWS_PER_READ = 1000
_FILTERS_KEPT = 16
_PAYLOADS_LOOKED_AT = 100  # for a hint


class Cursor(NamedTuple):
    """Where to go on in a listing: its order and direction, and the id or sequence number passed last."""

    order: str = "id"
    descending: bool = False
    after: Id | None = None

    def __str__(self) -> str:
        return f"{'-' if self.descending else ''}{self.order}:{json.dumps(self.after)}"


class Finder:
    """Search, filter and list the items of a collection.

    Parameters
    ----------
    store, searcher : the parts of a collection
    """

    def __init__(self, store: SqlStore, searcher: Searcher) -> None:
        self._store, self._searcher = store, searcher
        self._passing = lru_cache(_FILTERS_KEPT)(self._filtered)

    # ------------------------------------------------------------------ filters

    def _filtered(self, where: Filter, n_changes: int) -> tuple[Seqs, int]:
        """Return the sequence numbers of items whose payload passes, sorted, and where the store stood.

        The number of changes that memory knows makes a known answer one of now.
        """
        with self._store.snapshot():
            seqs, seq = self._store.filter(where), self._store.head().seq
        if not len(seqs):
            self._hint(where)
        return seqs, seq

    def _hint(self, where: Filter) -> None:
        """Log how to filter by lists, if nothing passes a filter that compares one with a value."""
        some = [json.loads(text) for text in self._store.first_payloads(_PAYLOADS_LOOKED_AT)]
        for path in compared_paths(where):
            values = some
            for key in path:
                values = [value.get(key) if isinstance(value, dict) else None for value in values]
            if any(isinstance(value, list) for value in values):
                name = ".".join(path)
                _log.warning("where: %r holds lists, which equal no value; use {%r: {'$contains': ...}}.", name, name)

    @contextmanager
    def _in_one_state(self, among: SearchFilter) -> Iterator[Seqs | None]:
        """Give the sequence numbers of items that pass the filters, sorted, or None without any; nothing changes then.

        Raise OutOfStep if the store, which answers some filters, is not where memory is.
        """
        parts, stood = list[Seqs](), list[int]()
        if among.where is not None:
            seqs, seq = self._passing(among.where, self._searcher.head.n_changes)
            parts.append(seqs)
            stood.append(seq)
        if among.ids is not None:
            with self._store.snapshot():
                found = self._store.seqs(among.ids)
                stood.append(self._store.head().seq)
            parts.append(np.unique(np.array(list(found.values()), np.int64)))
        with self._searcher.lock.reading():
            if stood and set(stood) != {self._searcher.head.seq}:
                raise OutOfStep
            if among.labels is not None:
                parts.append(self._searcher.catalogue.having(among.labels))
            yield reduce(partial(np.intersect1d, assume_unique=True), parts) if parts else None

    def seqs(self, among: SearchFilter) -> Seqs:
        """Return the sequence numbers of items that pass the filters, sorted."""
        with self._in_one_state(among) as allowed:
            return self._searcher.catalogue.all_seqs() if allowed is None else allowed

    def label_counts(self, among: SearchFilter) -> dict[Label | None, int]:
        """Return how many items that pass the filters have each label."""
        with self._in_one_state(among) as allowed:
            return self._searcher.catalogue.label_counts(allowed)

    # ------------------------------------------------------------------ searching

    def search(
        self, vectors: NDArray[Any], generation: Generation | None, among: SearchFilter, request: Request
    ) -> SearchResult[list[Any]]:
        """Return what is asked for of queries, which a generation encodes, among items that pass the filters."""
        searcher, parts = self._searcher, request.parts
        if generation is None:
            nothing: list[Any] = [[] for _ in vectors]
            included: dict[str, Any] = dict.fromkeys(parts, nothing)
            return SearchResult(nothing, nothing, None, searcher.head.seq, **included, staleness=searcher.staleness)
        measure = measure_of(request.rescore, generation.encoder)
        codes, scores = generation.encode_queries(vectors, request.asymmetric, measure == "learned")
        with self._in_one_state(among) as allowed:
            n_found = request.k if measure is None else n_candidates(request.k)
            found = searcher.search(generation, codes, request._replace(k=n_found), allowed)
            seq = searcher.head.seq
        included = {}
        if measure is not None or "vectors" in parts or "payload" in parts:
            with self._store.snapshot():
                head = self._store.head()
                if (head.seq, head.generation) != (seq, generation.number):
                    raise OutOfStep
                if measure is not None:
                    vectors_of = self._vectors(found)
                    for row, (query, some) in enumerate(zip(vectors, found, strict=True)):
                        far = vector_distances(query, vectors_of(some.seqs), measure)
                        if scores is not None:
                            far = generation.encoder.calibration.distances(scores[row], some.lists, 1.0 - far)
                        order = np.argsort(far, kind="stable")[: request.k]  # ties stay in order
                        found[row] = Found._make(column[order] for column in some)._replace(distances=far[order])
                if "payload" in parts:
                    included["payload"] = self._payloads(found, request.max_payload_bytes)
                if "vectors" in parts:
                    included["vectors"] = list(map(self._vectors(found), (some.seqs for some in found)))
        if "labels" in parts:
            included["labels"] = [list(map(labels_of, some.labels)) for some in found]
        ids, distances = [some.ids.tolist() for some in found], [some.distances.tolist() for some in found]
        return SearchResult(ids, distances, generation.encoder.version, seq, **included, staleness=searcher.staleness)

    def _vectors(self, found: Sequence[Found]) -> Callable[[Seqs], NDArray[Any]]:
        """Return a function that gives the vectors of sequence numbers that were found."""
        seqs = np.unique(np.concatenate([some.seqs for some in found]))
        rows = np.empty((0, self._searcher.settings["n_features"]), self._store.vector_dtype)
        if len(seqs):
            rows = self._store.rows(seqs.tolist()).vectors
        return lambda wanted: rows[np.searchsorted(seqs, wanted)]

    def _payloads(self, found: Sequence[Found], max_bytes: int | None) -> list[list[Any]]:
        """Return the payloads of what was found, per query."""
        seqs, counts = np.unique(np.concatenate([some.seqs for some in found]), return_counts=True)
        payloads, n_bytes = dict[int, Any](), 0
        for start in range(0, len(seqs), _ROWS_PER_READ):
            some = slice(start, start + _ROWS_PER_READ)
            texts = self._store.payloads(seqs[some].tolist())
            n_bytes += sum(len(text or "") * n for text, n in zip(texts, counts[some].tolist(), strict=True))
            if max_bytes is not None and n_bytes > max_bytes:
                raise LargeResultError(
                    f"payload of the items found has more than {max_bytes} bytes; ask for fewer items, or leave it out."
                )
            payloads.update(zip(seqs[some].tolist(), (json.loads(text or "null") for text in texts), strict=True))
        return [[payloads[seq] for seq in some.seqs.tolist()] for some in found]

    # ------------------------------------------------------------------ listing

    def items(self, seqs: Sequence[int]) -> list[Item]:
        """Return items by their sequence numbers, all of which must be there."""
        generation = self._searcher.generation
        version = None if generation is None else generation.encoder.version
        with self._store.snapshot():
            rows, payloads = self._store.rows(seqs), self._store.payloads(seqs)
        values = (json.loads(text or "null") for text in payloads)
        columns = zip(rows.ids, rows.vectors, map(labels_of, rows.labels), values, strict=True)
        return [Item(*row, version) for row in columns]

    def items_left(self, seqs: Sequence[int]) -> list[Item]:
        """Return those of some items that are still there."""
        with self._store.snapshot():
            return self.items(self._store.items_left(seqs))

    def cursor(self, order: str, descending: bool, after: Id | None = None, text: str | None = None) -> Cursor:
        """Return where a listing begins: behind an id, or where the text of a cursor says."""
        begin = Cursor(check_choice("order", order, ("id", "arrival")), bool(descending))
        id_type = self._searcher.settings.get("id_type")
        if text is not None:
            start, last = str(begin).removesuffix("null"), None
            if str(text).startswith(start):
                with suppress(ValueError, RecursionError):
                    last = json.loads(str(text).removeprefix(start))
            if type(last) not in ((int, str) if order == "id" else (int,)):
                raise InvalidInputError(
                    f"cursor={str(text)[:80]!r} is not of a page in this order; pass that of the page before, with the "
                    "same order and descending."
                )
            (known,) = check_item_ids(last, id_type if order == "id" else "int")
            return begin._replace(after=known)
        if after is None:
            return begin
        (id,) = check_item_ids(after, id_type)
        if order == "id":
            return begin._replace(after=id)
        seq = self._store.seqs([id]).get(id)
        if seq is None:
            raise UnknownIdError(
                f"after={after!r} is not an item of this collection, so it has no place in the order of arrival; use "
                "page, whose cursor has one."
            )
        return begin._replace(after=seq)

    def page(self, cursor: Cursor, among: SearchFilter, limit: int) -> tuple[list[Item], Cursor | None]:
        """Return the next items in an order, and the cursor after them; None if no more follow."""
        with self._store.snapshot():
            if among == SearchFilter():
                rows = self._store.page(cursor.order, cursor.after, limit + 1, descending=cursor.descending)
            else:
                rows = self.ordered(cursor, among)[: limit + 1]
            items = self.items([seq for seq, _ in rows[:limit]])
        if len(rows) <= limit:
            return items, None
        return items, cursor._replace(after=rows[limit - 1][1] if cursor.order == "id" else rows[limit - 1][0])

    def ordered(self, cursor: Cursor, among: SearchFilter) -> list[tuple[int, Any]]:
        """Return sequence numbers and ids of all items that pass the filters and follow a cursor, in its order."""
        with self._in_one_state(among) as allowed:
            if self._store.head().seq != self._searcher.head.seq:
                raise OutOfStep
            catalogue = self._searcher.catalogue
            seqs = catalogue.all_seqs() if allowed is None else allowed
            ids = catalogue.ids(seqs)
        key, after = itemgetter(1 if cursor.order == "id" else 0), cursor.after
        rows = sorted(zip(seqs.tolist(), ids, strict=True), key=key, reverse=cursor.descending)
        if after is None:
            return rows
        return [row for row in rows if (key(row) < after if cursor.descending else key(row) > after)]


def measure_of(rescore: str | None, encoder: Encoder) -> str | None:
    """Return what items are ordered by: "learned", "cosine" or "l2"; None for their codes."""
    if rescore not in ("auto", "learned"):
        return rescore
    if encoder.has_class_lists:
        return "learned"
    if rescore == "auto":
        return None
    raise InvalidInputError(
        f"rescore='learned', but {encoder.method!r} has no scores of classes; HROH has. Use rescore='cosine'."
    )


def n_candidates(k: int) -> int:
    """Return how many items codes find, of which the k nearest are returned.

    Examples
    --------
    >>> n_candidates(10), n_candidates(50)
    (100, 500)
    """
    return max(10 * k, 100)


def vector_distances(query: NDArray[Any], vectors: NDArray[Any], measure: str) -> NDArray[np.float64]:
    """Return the Euclidean distances for "l2", else one minus the cosines of the angles (1 where a vector is zero).

    Examples
    --------
    >>> vector_distances(np.zeros(2), np.array([[3.0, 4.0], [0.0, 1.0]]), "l2")
    array([5., 1.])
    """
    if not len(vectors):
        return np.empty(0)
    rows, q = vectors.astype(np.float64), np.asarray(query, np.float64)
    if measure == "l2":
        return np.asarray(np.sqrt(((rows - q) ** 2).sum(axis=1)))
    lengths = np.sqrt((rows**2).sum(axis=1)) * np.sqrt(q @ q)
    return np.asarray(1.0 - np.divide(rows @ q, lengths, out=np.zeros(len(rows)), where=lengths > 0))
