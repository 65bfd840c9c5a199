"""Finder: answers of a collection: what a search finds, completed from the store, and items in an order."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial, reduce
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onlinehash._internal.validation import check_choice
from onlinehash.collection.filters import Filter, compared_paths
from onlinehash.collection.inputs import SearchFilter, check_item_ids, labels_of
from onlinehash.collection.ranking import ranked
from onlinehash.collection.searcher import Generation, Hits, OutOfStep, Searcher, SearchRequest
from onlinehash.collection.stores.sql import Seqs, SqlStore
from onlinehash.collection.types import Id, Item, Label
from onlinehash.encoders.calibration import ClassLists
from onlinehash.exceptions import InvalidInputError, LargeResultError, UnknownIdError
from onlinehash.types import Features, SearchResult

_log = logging.getLogger(__name__)
_ROWS_PER_READ = 1000
_FILTERS_KEPT = 16
_PAYLOADS_LOOKED_AT = 100  # for a hint


class Queries(NamedTuple):
    """Queries of a search: their vectors, whether there is one alone, and the generation that encodes them."""

    vectors: NDArray[Any]
    single: bool
    generation: Generation | None


class Found(NamedTuple):
    """What a search has found, per query, and where the store stood."""

    hits: list[Hits]
    ids: list[list[Any]]
    labels: list[list[str | None]]
    scores: Features | None  # of the queries, with the class lists of the items, for the learned order
    lists: list[ClassLists]
    seq: int
    generation: Generation | None


class Cursor(NamedTuple):
    """Where to go on in a listing: its order and direction, and the id or sequence number passed last."""

    order: str = "id"
    descending: bool = False
    after: Id | None = None

    def __str__(self) -> str:
        return f"{'-' if self.descending else ''}{self.order}:{json.dumps(self.after)}"

    def continued(self, cursor: Any, id_type: str | None) -> Cursor:
        """Return a cursor from its text, which must be that of a page in this order."""
        begin = str(self._replace(after=None)).removesuffix("null")
        try:
            after = json.loads(cursor[len(begin) :]) if isinstance(cursor, str) and cursor.startswith(begin) else None
        except (ValueError, RecursionError):
            after = None
        if type(after) not in (int, str) or (self.order == "arrival" and type(after) is not int):
            raise InvalidInputError(
                f"cursor={str(cursor)[:80]!r} is not of a page in this order; pass that of the page before, with the "
                "same order and descending."
            )
        (known,) = check_item_ids(after, id_type if self.order == "id" else "int")
        return self._replace(after=known)


class Finder:
    """Search, filter and list the items of a collection.

    Parameters
    ----------
    store, searcher, settings : the parts of a collection
    """

    def __init__(self, store: SqlStore, searcher: Searcher, settings: dict[str, Any]) -> None:
        self._store, self._searcher, self._settings = store, searcher, settings
        self._passing: dict[tuple[Filter, int], tuple[Seqs, int]] = {}

    # ------------------------------------------------------------------ filters

    def passing(self, where: Filter) -> tuple[Seqs, int]:
        """Return the sequence numbers of items whose payload passes, sorted, and where the store stood."""
        key = (where, self._searcher.head.n_changes)
        known = self._passing.get(key)
        if known is None:
            with self._store.snapshot():
                head = self._store.head()
                known = self._store.filter(where), head.seq
            if not len(known[0]):
                self._hint(where)
            if head.n_changes == key[1]:
                while len(self._passing) >= _FILTERS_KEPT:
                    self._passing.pop(next(iter(self._passing)), None)
                self._passing[key] = known
        return known

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
            seqs, seq = self.passing(among.where)
            parts.append(seqs)
            stood.append(seq)
        if among.ids is not None:
            with self._store.snapshot():
                found = self._store.seqs(among.ids)
                stood.append(self._store.head().seq)
            parts.append(np.unique(np.array(list(found.values()), np.int64)))
        with self._searcher.reading():
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

    def find(self, queries: Queries, among: SearchFilter, request: SearchRequest, parts: Sequence[str]) -> Found:
        """Return what is asked for of the queries, among items that pass the filters."""
        generation, searcher = queries.generation, self._searcher
        if generation is None:
            nothing = [Hits(np.empty(0, np.int64), np.empty(0))] * len(queries.vectors)
            return Found(nothing, [[] for _ in nothing], [[] for _ in nothing], None, [], searcher.head.seq, None)
        scores = None
        if request.scored and not request.asymmetric:
            codes, scores = generation.encode_and_score(queries.vectors)
        else:
            codes = generation.encode(queries.vectors, asymmetric=request.asymmetric)
            if request.scored:
                scores = generation.encoder.class_scores(queries.vectors)
        with self._in_one_state(among) as allowed:
            hits = searcher.search(generation, codes, allowed, request)
            ids = [searcher.catalogue.ids(seqs) for seqs, _ in hits]
            labels: list[list[str | None]] = []
            if "labels" in parts:
                labels = [searcher.catalogue.label_texts(seqs) for seqs, _ in hits]
            lists = [searcher.catalogue.class_lists(seqs) for seqs, _ in hits] if request.scored else []
            return Found(hits, ids, labels, scores, lists, searcher.head.seq, generation)

    def rescored(self, found: Found, queries: Queries, measure: str, k: int) -> Found:
        """Return the k nearest of what was found, by stored vectors or by what was learned; ties by their codes."""
        (places, vectors), generation = self._vectors(found), found.generation
        if generation is None:
            return found
        encoder, hits, orders = generation.encoder, list[Hits](), list[list[int]]()
        for row, (query, (seqs, _)) in enumerate(zip(queries.vectors, found.hits, strict=True)):
            rows = vectors[list(map(places.__getitem__, seqs.tolist()))]
            learned = (None, None) if found.scores is None else (found.scores[row], found.lists[row])
            order, distances = ranked(encoder, measure, query, learned[0], rows, learned[1], k)
            orders.append(order.tolist())
            hits.append(Hits(seqs[order], distances))
        ids = [[row[i] for i in order] for row, order in zip(found.ids, orders, strict=True)]
        labels = [[row[i] for i in order] for row, order in zip(found.labels, orders, strict=False)]  # if wanted
        return found._replace(hits=hits, ids=ids, labels=labels)

    def result(self, found: Found, parts: Sequence[str] = (), max_payload_bytes: int | None = None) -> SearchResult:
        """Return what was found with the parts that are to be included."""
        included: dict[str, Any] = {}
        if "labels" in parts:
            included["labels"] = [list(map(labels_of, texts)) for texts in found.labels]
        if "payload" in parts:
            payloads = self._payloads(found, max_payload_bytes)
            included["payload"] = [[payloads[seq] for seq in seqs.tolist()] for seqs, _ in found.hits]
        if "vectors" in parts:
            places, vectors = self._vectors(found)
            included["vectors"] = [vectors[[places[seq] for seq in seqs.tolist()]] for seqs, _ in found.hits]
        distances = [distances.tolist() for _, distances in found.hits]
        version = None if found.generation is None else found.generation.encoder.version
        return SearchResult(found.ids, distances, version, found.seq, **included, staleness=self._searcher.staleness)

    def _vectors(self, found: Found) -> tuple[dict[int, int], NDArray[Any]]:
        """Return the vectors of what was found, and where they are, by sequence number."""
        seqs = _distinct(found)
        if not seqs:
            return {}, np.empty((0, self._settings.get("n_features", 0)), self._settings["vector_dtype"])
        with self._store.snapshot():
            self._demand_step(found)
            rows = self._store.vectors(seqs, self._settings["vector_dtype"])
        return {seq: place for place, seq in enumerate(seqs)}, rows

    def _payloads(self, found: Found, max_bytes: int | None) -> dict[int, Any]:
        """Return the payloads of what was found, by sequence number."""
        n_hits = dict.fromkeys(_distinct(found), 0)
        for seqs, _ in found.hits:
            for seq in seqs.tolist():
                n_hits[seq] += 1
        payloads, n_bytes, listed = dict[int, Any](), 0, list(n_hits)
        with self._store.snapshot():
            self._demand_step(found)
            for start in range(0, len(listed), _ROWS_PER_READ):
                some = listed[start : start + _ROWS_PER_READ]
                texts = self._store.payloads(some)
                n_bytes += sum(n_hits[seq] * len(text or "") for seq, text in zip(some, texts, strict=True))
                if max_bytes is not None and n_bytes > max_bytes:
                    raise LargeResultError(
                        f"payload of the items found has more than {max_bytes} bytes; ask for fewer items, or leave it "
                        "out."
                    )
                payloads.update((seq, json.loads(text or "null")) for seq, text in zip(some, texts, strict=True))
        return payloads

    def _demand_step(self, found: Found) -> None:
        head, generation = self._store.head(), found.generation
        if head.seq != found.seq or (generation is not None and head.generation != generation.number):
            raise OutOfStep

    # ------------------------------------------------------------------ listing

    def items(self, seqs: Sequence[int]) -> list[Item]:
        """Return items by their sequence numbers, all of which must be there."""
        generation = self._searcher.generation
        version = None if generation is None else generation.encoder.version
        with self._store.snapshot():
            rows = self._store.rows(seqs, self._settings["vector_dtype"])
            payloads = self._store.payloads(seqs)
        return [
            Item(id, vector, labels_of(labels), json.loads(payload or "null"), version)
            for (id, labels, vector), payload in zip(rows, payloads, strict=True)
        ]

    def items_left(self, seqs: Sequence[int]) -> list[Item]:
        """Return those of some items that are still there."""
        with self._store.snapshot():
            return self.items(self._store.items_left(seqs))

    def cursor(self, order: str, descending: bool, after: Id | None, id_type: str | None) -> Cursor:
        """Return where a listing begins."""
        begin = Cursor(check_choice("order", order, ("id", "arrival")), bool(descending))
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
            rows = list(zip(seqs.tolist(), catalogue.ids(seqs), strict=True))
        if cursor.order == "id":
            rows.sort(key=itemgetter(1))
        key = itemgetter(1 if cursor.order == "id" else 0)
        if cursor.descending:
            rows.reverse()
        if cursor.after is None:
            return rows
        after: Any = cursor.after
        return [row for row in rows if (key(row) < after if cursor.descending else key(row) > after)]


def _distinct(found: Found) -> list[int]:
    return list(dict.fromkeys(seq for seqs, _ in found.hits for seq in seqs.tolist()))
