"""What requests do with the collection: plain functions, run in threads, from a body to an answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from threading import Lock
from time import monotonic
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinehash.collection import Collection, Hits, Item
from onlinehash.exceptions import UnknownKeyError
from onlinehash.service import schemas
from onlinehash.service.bodies import (
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
from onlinehash.service.keys import ApiKeys
from onlinehash.service.limits import Limits
from onlinehash.service.metrics import Metrics
from onlinehash.service.problems import Problem, over_limit
from onlinehash.service.work import Work

Answer = dict[str, Any]
_INT64_DIGITS = 19
_QUIET = 10.0  # seconds without a search after which one may wait for a refresh: then nobody is being served


class Service:
    """A collection and all that stands between it and those who ask.

    Parameters
    ----------
    collection : Collection
    limits : Limits
    keys : ApiKeys
    """

    def __init__(self, collection: Collection, limits: Limits, keys: ApiKeys) -> None:
        self.collection, self.limits, self.keys = collection, limits, keys
        self.work, self.metrics, self.bodies = Work(limits), Metrics(), BodyReader(limits)
        self._n_changes = 0
        self._searched = -_QUIET  # time.monotonic() of the last search
        self._counting = Lock()
        self._counted: tuple[Any, Answer] | None = None

    # ------------------------------------------------------------------ items

    def add(self, media: str, body: bytes) -> Answer:
        """Add items, or replace them."""
        items = checked(_items(media, body), self.limits)
        return self._changed(
            len(items.keys), lambda: self.collection.add(items.keys, items.vectors, items.labels, items.payload)
        )

    def update(self, media: str, body: bytes) -> Answer:
        """Change what is given of items."""
        request = read_json(body, schemas.UpdateRequest)
        vectors = None if request.vectors is None else rows_of(request.vectors)
        check_size(len(request.keys), vectors, self.limits)
        given = {name: getattr(request, name) for name in ("labels", "payload") if name in request.model_fields_set}
        return self._changed(len(request.keys), lambda: self.collection.update(request.keys, vectors, **given))

    def delete(self, media: str, body: bytes) -> Answer:
        """Delete items."""
        request = read_json(body, schemas.DeleteRequest)
        check_size(len(request.keys), None, self.limits)
        before = len(self.collection)
        answer = self._changed(
            len(request.keys),
            lambda: self.collection.delete(request.keys, missing=request.missing, unlearn=request.unlearn),
        )
        return answer | {"changed": before - answer["n_items"]}

    def delete_one(self, text: str) -> Answer:
        """Delete the item of a path."""
        key = self._key(text)
        return self._changed(1, lambda: self.collection.delete([key]))

    def get(self, media: str, body: bytes) -> Answer:
        """Return items by key."""
        request = read_json(body, schemas.KeysRequest)
        check_size(len(request.keys), None, self.limits)
        return {"items": [_item(item) for item in self.collection.get(request.keys)]}

    def get_one(self, text: str) -> Answer:
        """Return the item of a path."""
        return _item(self.collection.get([self._key(text)])[0])

    def _key(self, text: str) -> int | str:
        """Return the key that a path means: a number, where the keys of the collection are numbers."""
        digits = text.removeprefix("-")
        if digits.isascii() and digits.isdecimal() and len(digits) <= _INT64_DIGITS and int(text) in self.collection:
            return int(text)
        if text not in self.collection:
            raise UnknownKeyError(f"There is no item with key {text!r} in this collection of {len(self.collection)}.")
        return text

    def _changed(self, n_items: int, change: Callable[[], None]) -> Answer:
        if self.collection.readonly:
            raise Problem(403, "read-only", "This service only reads; ask the one that writes to this collection.")
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
                raise Problem(
                    422, "invalid-input", f"{name} stands in the query, but the body is JSON; put it there.", field=name
                )
            request = read_json(body, schemas.SearchRequest)
        else:
            request = schemas.SearchRequest(**options.model_dump(exclude_unset=True))
        queries = _vectors(request.vectors, media, body)
        if (queries is None) == (request.like is None):
            raise Problem(422, "invalid-input", "vectors or like: give one of the two.", field="vectors")
        if request.radius is not None and request.model_fields_set & {"k", "rescore", "asymmetric"}:
            raise Problem(
                422, "invalid-input", "radius goes without k, rescore and asymmetric; leave them out.", field="radius"
            )
        self._check_search(request, queries)
        if request.like is not None:
            queries = np.array([item.features for item in self.collection.get(request.like)])
        assert queries is not None
        encoder = self.collection.encoder
        hits = self._neighbours(request, queries)
        found: list[list[Answer]] = [
            [{"key": key, "distance": distance} for key, distance in zip(row.keys, row.distances, strict=True)]
            for row in hits
        ]
        if request.items:
            self._describe(found)
        return {"version": None if encoder is None else encoder.version, "hits": found}

    def _check_search(self, request: schemas.SearchRequest, queries: NDArray[Any] | None) -> None:
        limits = self.limits
        n_queries = len(request.like or ()) if queries is None else len(queries)
        check_size(n_queries, queries, limits)
        check_size(len(request.within or ()), None, limits)
        if request.radius is None and request.k > limits.max_k:
            raise over_limit("k", request.k, limits.max_k, "ask for fewer neighbours")
        if request.radius is None and request.k * n_queries > limits.max_hits:
            raise over_limit("k * queries", request.k * n_queries, limits.max_hits, "send fewer queries at a time")

    def _neighbours(self, request: schemas.SearchRequest, queries: NDArray[Any]) -> list[Hits]:
        alone = 0 if request.like is None else 1  # a stored item would find itself
        wait, self._searched = monotonic() - self._searched >= _QUIET, monotonic()
        if request.radius is not None:
            found = self.collection.range_search(
                queries, request.radius, labels=request.labels, keys=request.within, wait=wait
            )
            n_found = sum(map(len, found.keys))
            if n_found > self.limits.max_hits:
                raise over_limit("hits within radius", n_found, self.limits.max_hits, "use a smaller radius")
        else:
            found = self.collection.search(
                queries,
                request.k + alone,
                labels=request.labels,
                keys=request.within,
                rescore=request.rescore,
                asymmetric=request.asymmetric,
                wait=wait,
            )
        if request.like is None:
            return list(found)
        most = None if request.radius is not None else request.k
        return [_without(key, hits, most) for key, hits in zip(request.like, found, strict=True)]

    def _describe(self, found: list[list[Answer]]) -> None:
        """Add labels and payload to what was found; what was deleted since is left out."""
        keys = list({hit["key"] for hits in found for hit in hits})
        while True:
            try:
                items = {item.key: item for item in self.collection.get(keys)}
                break
            except UnknownKeyError:
                keys = [key for key in keys if key in self.collection]
        for hits in found:
            hits[:] = [
                hit | {"labels": items[hit["key"]].labels, "payload": items[hit["key"]].payload}
                for hit in hits
                if hit["key"] in items
            ]

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

    # ------------------------------------------------------------------ telling

    def stats(self) -> Answer:
        """Tell how the collection stands."""
        collection = self.collection
        return asdict(collection.stats()) | {"n_features": collection.n_features, "readonly": collection.readonly}

    def version(self) -> Answer:
        """Tell which encoder is in use."""
        stats = self.stats()
        return {name: stats[name] for name in schemas.VersionAnswer.model_fields}

    def label_counts(self) -> Answer:
        """Count items by label; once between two changes."""
        with self._counting:
            stats = self.collection.stats()
            mark = (self._n_changes, stats.n_items, stats.n_learned, stats.generation)
            if self._counted is None or self._counted[0] != mark:
                self._counted = mark, self._count()
            return self._counted[1]

    def _count(self) -> Answer:
        counts = self.collection.label_counts()
        n_unlabelled = counts.pop(None, 0)
        return {
            "label_counts": [{"label": label, "n_items": n_items} for label, n_items in counts.items()],
            "n_unlabelled": n_unlabelled,
        }

    def metrics_text(self) -> str:
        """Return what Prometheus reads."""
        work = self.work
        gauges = {
            "reading_waiting": work.reading.n_waiting,
            "writing_waiting": work.writing.n_waiting,
            "body_bytes": self.bodies.n_bytes,
        }
        return self.metrics.text(self.collection.stats(), gauges)

    def refresh(self, media: str, body: bytes) -> Answer:
        """Begin a refresh."""
        wait = read_json(body, schemas.RefreshRequest).wait
        self._changed(0, lambda: self.collection.refresh(wait=False))
        return self.version() | {"wait": wait}


def _items(media: str, body: bytes) -> Items:
    if media == NPY:
        return items_of_npy(body)
    if media == ARROW:
        return items_of_arrow(body)
    request = read_json(body, schemas.AddRequest)
    return Items(request.keys, rows_of(request.vectors), request.labels, request.payload)


def _vectors(listed: list[list[float]] | None, media: str, body: bytes) -> NDArray[Any] | None:
    if media == NPY:
        return vectors_of(read_npy(body))
    return None if listed is None else rows_of(listed)


def _item(item: Item) -> Answer:
    return {
        "key": item.key,
        "vector": item.features.tolist(),
        "labels": item.labels,
        "payload": item.payload,
        "version": item.version,
    }


def _without(key: int | str, hits: Hits, most: int | None) -> Hits:
    kept = [(k, d) for k, d in zip(hits.keys, hits.distances, strict=True) if k != key][:most]
    return Hits([k for k, _ in kept], [d for _, d in kept])
