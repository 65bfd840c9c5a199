"""Handlers of requests: from a body to an answer, run in threads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from threading import Lock
from time import monotonic
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinehash.collection import Collection, Item
from onlinehash.collection.paging import Cursor
from onlinehash.exceptions import UnknownIdError
from onlinehash.service import schemas
from onlinehash.service.api_keys import ApiKeys
from onlinehash.service.executors import Executors
from onlinehash.service.limits import Limits
from onlinehash.service.metrics import Metrics
from onlinehash.service.parsing import (
    ARROW,
    JSON,
    NPY,
    BodyReader,
    Items,
    check_size,
    checked,
    items_of_arrow,
    items_of_npy,
    read_json,
    read_npy,
    rows_of,
    vectors_of,
)
from onlinehash.service.problems import Problem, invalid, over_limit
from onlinehash.types import SearchResult

Answer = dict[str, Any]
_INT64_DIGITS = 19
_QUIET = 10.0  # seconds without a search after which the next one may wait for a refresh


class Service:
    """A collection and the handlers of its requests."""

    def __init__(self, collection: Collection, limits: Limits, keys: ApiKeys) -> None:
        self.collection, self.limits, self.keys = collection, limits, keys
        self.executors, self.metrics, self.bodies = Executors(limits), Metrics(), BodyReader(limits)
        self._n_changes = 0
        self._searched = -_QUIET  # time.monotonic() of the last search
        self._counting = Lock()
        self._counted: tuple[Any, Answer] | None = None

    # ------------------------------------------------------------------ items

    def upsert(self, media: str, body: bytes) -> Answer:
        """Insert or replace items."""
        items = checked(_items(media, body), self.limits)
        return self._changed(
            len(items.ids),
            lambda: self.collection.upsert(
                items.ids, items.vectors, items.labels, items.payload, documents=items.documents
            ),
        )

    def update(self, media: str, body: bytes) -> Answer:
        """Change existing items."""
        request = read_json(body, schemas.UpdateRequest)
        vectors = None if request.vectors is None else rows_of(request.vectors)
        check_size(len(request.ids), vectors, self.limits)
        given = {
            name: getattr(request, name)
            for name in ("labels", "payload", "documents")
            if name in request.model_fields_set
        }
        return self._changed(len(request.ids), lambda: self.collection.update(request.ids, vectors, **given))

    def delete(self, media: str, body: bytes) -> Answer:
        """Delete items."""
        request = read_json(body, schemas.DeleteRequest)
        check_size(len(request.ids or ()), None, self.limits)
        given = request.model_dump(include={"ids", "where", "missing", "unlearn"})
        deleted: list[int] = []
        answer = self._changed(0, lambda: deleted.append(self.collection.delete(**given)))
        return answer | {"changed": deleted[0]}

    def delete_one(self, text: str) -> Answer:
        """Delete the item that a path names."""
        id = self._id(text)
        return self._changed(1, lambda: self.collection.delete([id]))

    def get(self, media: str, body: bytes) -> Answer:
        """Return items by id."""
        request = read_json(body, schemas.IdsRequest)
        check_size(len(request.ids), None, self.limits)
        return {"items": [_item(item) for item in self.collection.get(request.ids)]}

    def get_one(self, text: str) -> Answer:
        """Return the item that a path names."""
        return _item(self.collection.get([self._id(text)])[0])

    def list_items(self, media: str, body: bytes) -> Answer:
        """Return the items after an id, in order of id."""
        request = read_json(body, schemas.ListRequest)
        if request.limit > self.limits.max_batch_size:
            raise over_limit("limit", request.limit, self.limits.max_batch_size, "ask for fewer items at a time")
        items = self.collection.items(where=request.where, after=request.after, limit=request.limit)
        return {"items": [_item(item) for item in items]}

    def count(self, media: str, body: bytes) -> Answer:
        """Return the number of items that pass."""
        return {"n_items": self.collection.count(read_json(body, schemas.WhereRequest).where)}

    def indexes(self) -> Answer:
        """Return the paths that have an index."""
        return {"indexes": self.collection.indexes()}

    def create_index(self, media: str, body: bytes) -> Answer:
        """Create an index of a path."""
        path = read_json(body, schemas.IndexRequest).path
        self._changed(0, lambda: self.collection.create_index(path))
        return self.indexes()

    def drop_index(self, path: str) -> Answer:
        """Drop the index of a path."""
        self._changed(0, lambda: self.collection.drop_index(path))
        return self.indexes()

    def _id(self, text: str) -> int | str:
        """Return the id that a path names, an integer if the ids of the collection are integers."""
        digits = text.removeprefix("-")
        if digits.isascii() and digits.isdecimal() and len(digits) <= _INT64_DIGITS and int(text) in self.collection:
            return int(text)
        if text not in self.collection:
            raise UnknownIdError(f"There is no item with id {text!r} in this collection of {len(self.collection)}.")
        return text

    def _changed(self, n_items: int, change: Callable[[], object]) -> Answer:
        if self.collection.readonly:
            raise Problem(403, "read-only", "This service only reads; send changes to the one that writes.")
        try:
            change()
        finally:
            self._n_changes += 1
        return {"changed": n_items, "n_items": len(self.collection)}

    # ------------------------------------------------------------------ searching

    def search(self, options: schemas.SearchOptions, media: str, body: bytes) -> Answer:
        """Find the neighbours of vectors or of stored items."""
        if media == JSON:
            if options.model_fields_set:
                name = min(options.model_fields_set)
                raise invalid(name, f"{name} is in the query, but the body is JSON; move it there.")
            request = read_json(body, schemas.SearchRequest)
        else:
            request = schemas.SearchRequest(**options.model_dump(exclude_unset=True))
        vectors = _vectors(request.vectors, media, body)
        queries: Any = vectors if request.documents is None else request.documents
        if (vectors is not None) + (request.documents is not None) + (request.by_id is not None) != 1:
            raise invalid("vectors", "vectors, documents or by_id: give one of them.")
        if request.radius is not None and request.model_fields_set & {"k", "rescore", "asymmetric", "after"}:
            raise invalid("radius", "radius goes without k, rescore, asymmetric and after; leave them out.")
        if request.after is not None and request.by_id is not None:
            raise invalid("after", "after goes with a vector, not with by_id.")
        self._check_search(request, vectors, len(request.by_id or queries))
        if request.by_id is not None:
            queries = np.array([item.vectors for item in self.collection.get(request.by_id)])
        found = self._neighbours(request, queries)
        answer = {"version": found.version, "ids": found.ids, "distances": found.distances}
        answer |= {part: getattr(found, part) for part in request.include}
        if any(found.cursor or ()):
            answer["cursor"] = found.cursor
        if "vectors" in request.include:
            answer["vectors"] = [rows.tolist() for rows in found.vectors]
        return self._with_items(answer) if request.items else answer

    def _check_search(self, request: schemas.SearchRequest, vectors: NDArray[Any] | None, n_queries: int) -> None:
        limits = self.limits
        check_size(n_queries, vectors, limits)
        check_size(len(request.ids or ()), None, limits)
        if request.items and request.include:
            raise invalid("include", "items is labels and payload; leave it out, and list all in include.")
        if "vectors" in request.include and request.k * n_queries > limits.max_batch_size:
            raise over_limit("vectors", request.k * n_queries, limits.max_batch_size, "ask for fewer neighbours")
        if request.after is not None and (rank := Cursor.parse(request.after).rank) > limits.max_hits:
            raise over_limit("after", rank, limits.max_hits, "use a filter to find what is far away")
        if request.radius is None and request.k > limits.max_k:
            raise over_limit("k", request.k, limits.max_k, "ask for fewer neighbours")
        if request.radius is None and request.k * n_queries > limits.max_hits:
            raise over_limit("k * queries", request.k * n_queries, limits.max_hits, "send fewer queries at a time")

    def _neighbours(self, request: schemas.SearchRequest, queries: Any) -> SearchResult:
        itself = 0 if request.by_id is None else 1  # a stored item finds itself
        wait, self._searched = monotonic() - self._searched >= _QUIET, monotonic()
        if request.radius is not None:
            found = self.collection.range_search(queries, request.radius, **_filters(request), wait=wait)
            n_found = sum(map(len, found.ids))
            if n_found > self.limits.max_hits:
                raise over_limit("hits within radius", n_found, self.limits.max_hits, "use a smaller radius")
        else:
            found = self.collection.search(
                queries,
                request.k + itself,
                **_filters(request),
                after=request.after,
                rescore=request.rescore,
                asymmetric=request.asymmetric,
                wait=wait,
            )
        if request.by_id is None:
            return found
        most = None if request.radius is not None else request.k
        return _without(found, request.by_id, most)

    def _with_items(self, answer: Answer) -> Answer:
        """Add labels and payload of the items found; items deleted since are left out."""
        ids = list({id for row in answer["ids"] for id in row})
        while True:
            try:
                items = {item.id: item for item in self.collection.get(ids)}
                break
            except UnknownIdError:
                ids = [id for id in ids if id in self.collection]
        pairs = [
            [(items[id], distance) for id, distance in zip(*row, strict=True) if id in items]
            for row in zip(answer["ids"], answer["distances"], strict=True)
        ]
        return answer | {
            "ids": [[item.id for item, _ in row] for row in pairs],
            "distances": [[distance for _, distance in row] for row in pairs],
            "labels": [[item.labels for item, _ in row] for row in pairs],
            "payload": [[item.payload for item, _ in row] for row in pairs],
        }

    def encode(self, media: str, body: bytes) -> Answer:
        """Return the codes of vectors."""
        listed = read_json(body, schemas.EncodeRequest).vectors if media == JSON else None
        vectors = _vectors(listed, media, body)
        assert vectors is not None
        check_size(len(vectors), vectors, self.limits)
        encoder = self.collection.encoder
        if encoder is None:
            raise Problem(409, "not-learned", "There is no encoder yet; add labelled items first.")
        codes = encoder.encode(vectors)
        return {"version": encoder.version, "n_bits": encoder.n_bits, "codes": [row.tobytes().hex() for row in codes]}

    # ------------------------------------------------------------------ state

    def stats(self) -> Answer:
        """Return the collection statistics."""
        collection = self.collection
        return asdict(collection.stats()) | {"n_features": collection.n_features, "readonly": collection.readonly}

    def version(self) -> Answer:
        """Return the version of the encoder in use."""
        stats = self.stats()
        return {name: stats[name] for name in schemas.VersionAnswer.model_fields}

    def passing_label_counts(self, media: str, body: bytes) -> Answer:
        """Count the items that pass by label."""
        return _counts(self.collection.label_counts(read_json(body, schemas.WhereRequest).where))

    def label_counts(self) -> Answer:
        """Count items by label, once between two changes."""
        with self._counting:
            stats = self.collection.stats()
            mark = (self._n_changes, stats.n_items, stats.n_learned, stats.generation)
            if self._counted is None or self._counted[0] != mark:
                self._counted = mark, _counts(self.collection.label_counts())
            return self._counted[1]

    def metrics_text(self) -> str:
        """Return the metrics for Prometheus."""
        gauges = {
            "reading_waiting": self.executors.reading.n_waiting,
            "writing_waiting": self.executors.writing.n_waiting,
            "body_bytes": self.bodies.n_bytes,
        }
        return self.metrics.text(self.collection.stats(), gauges)

    def refresh(self, media: str, body: bytes) -> Answer:
        """Start a refresh."""
        wait = read_json(body, schemas.RefreshRequest).wait
        self._changed(0, lambda: self.collection.refresh(wait=False))
        return self.version() | {"wait": wait}


def _items(media: str, body: bytes) -> Items:
    if media == NPY:
        return items_of_npy(body)
    if media == ARROW:
        return items_of_arrow(body)
    request = read_json(body, schemas.UpsertRequest)
    vectors = None if request.vectors is None else rows_of(request.vectors)
    return Items(request.ids, vectors, request.labels, request.payload, request.documents)


def _vectors(listed: list[list[float]] | None, media: str, body: bytes) -> NDArray[Any] | None:
    if media == NPY:
        return vectors_of(read_npy(body))
    return None if listed is None else rows_of(listed)


def _filters(request: schemas.SearchRequest) -> dict[str, Any]:
    return {name: getattr(request, name) for name in ("labels", "ids", "where", "include")}


def _counts(counts: dict[Any, int]) -> Answer:
    listed = [{"label": label, "n_items": n_items} for label, n_items in counts.items() if label is not None]
    return {"label_counts": listed, "n_unlabelled": counts.get(None, 0)}


def _item(item: Item) -> Answer:
    return {**vars(item), "vectors": item.vectors.tolist()}


def _without(found: SearchResult, ids: list[Any], most: int | None) -> SearchResult:
    """Return at most ``most`` neighbours per query, without the stored item itself."""
    kept = [[i for i, id in enumerate(row.ids) if id != own][:most] for own, row in zip(ids, found, strict=True)]
    parts = {name: getattr(found, name) for name in ("ids", "distances", "labels", "payload", "vectors")}
    chosen: dict[str, Any] = {
        name: [
            rows[some] if name == "vectors" else [rows[i] for i in some] for rows, some in zip(part, kept, strict=True)
        ]
        for name, part in parts.items()
        if part is not None
    }
    return replace(found, **chosen, cursor=None)
