"""Handlers of requests: from a decoded request to its answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec
import numpy as np

from onlinehash.collection import Collection
from onlinehash.collection.paging import Cursor
from onlinehash.service import schemas
from onlinehash.service.answers import ArrayAnswer, found_answer
from onlinehash.service.api_keys import ApiKeys
from onlinehash.service.browsing import Browsing
from onlinehash.service.care import Care
from onlinehash.service.executors import Deadline, Executors
from onlinehash.service.insight import Insight, Remembered
from onlinehash.service.jobs import Jobs
from onlinehash.service.limits import Limits
from onlinehash.service.media import read_image
from onlinehash.service.parsing import BodyReader, check_size, rows_of
from onlinehash.service.problems import Problem, invalid, over_limit, stopping
from onlinehash.service.repeats import RecentChanges
from onlinehash.service.searching import Search, Searches
from onlinehash.types import SearchResult

_POLL = 0.05  # seconds between two checks of a running refresh


class Service(Browsing, Care, Insight):
    """A collection and the handlers of its requests.

    A handler takes a request or the id in a path. The first line of its docstring and the rest are its documentation
    in the OpenAPI document.
    """

    def __init__(self, collection: Collection, limits: Limits, keys: ApiKeys) -> None:
        self.collection, self.limits, self.keys = collection, limits, keys
        self.executors, self.bodies = Executors(limits), BodyReader(limits)
        self._recent, self.jobs = RecentChanges(collection), Jobs()
        self._searches = Searches(collection, self.executors.reading, limits)
        self._remembered, self._counted = Remembered(collection), Remembered(collection)

    # ------------------------------------------------------------------ items

    def upsert(self, request: schemas.UpsertRequest) -> schemas.ChangeAnswer:
        """Insert items, or replace those with the same ids; durable, and all or nothing.

        `application/x-npy`: records with the fields `id`, `vectors` and `label` (optional). Arrow stream: the
        columns `id`, `vectors`, `label` and `payload` (JSON text), the last two optional.
        """
        vectors = self._rows(request)
        change = partial(
            self.collection.upsert, request.ids, vectors, request.labels, request.payload, documents=request.documents
        )
        return self._change(len(request.ids), request.checkpoint, change)

    def update(self, request: schemas.UpdateRequest) -> schemas.ChangeAnswer:
        """Change vectors, documents, labels or payload of existing items; fields left out are kept, null removes."""
        vectors = self._rows(request)
        columns = {"labels": request.labels, "payload": request.payload}
        given: dict[str, Any] = {name: column for name, column in columns.items() if column is not msgspec.UNSET}
        change = partial(self.collection.update, request.ids, vectors, **given, documents=request.documents)
        return self._change(len(request.ids), request.checkpoint, change)

    def delete(self, request: schemas.DeleteRequest) -> schemas.ChangeAnswer:
        """Delete items by id, or all that pass a filter; with `unlearn`, the hasher unlearns them too."""
        ids = request.ids or []
        check_size(len(ids), self.limits)
        if request.where is not None:
            n_items = self.collection.count(request.where)
        elif request.missing == "ignore":
            n_items = sum(id in self.collection for id in ids)
        else:
            n_items = len(ids)
        options: dict[str, Any] = {"where": request.where, "missing": request.missing, "unlearn": request.unlearn}
        return self._change(n_items, request.checkpoint, partial(self.collection.delete, request.ids, **options))

    def delete_one(self, id: str) -> schemas.ChangeAnswer:
        """Delete one item."""
        return self._change(1, None, partial(self.collection.delete, [self._id(id)]))

    def indexes(self) -> schemas.IndexesAnswer:
        """Return the paths in the payload that have an index."""
        return schemas.IndexesAnswer(self.collection.indexes())

    def create_index(self, request: schemas.IndexRequest) -> schemas.IndexesAnswer:
        """Make filters by a path in the payload fast, or listing and counting by label (`$labels`)."""
        self._change(0, None, partial(self.collection.create_index, request.path))
        return self.indexes()

    def drop_index(self, path: str) -> schemas.IndexesAnswer:
        """Drop the index of a path in the payload."""
        self._change(0, None, partial(self.collection.drop_index, path))
        return self.indexes()

    def _check_documents(self, documents: list[Any] | None) -> None:
        """Refuse text where images are embedded: it would be the path of a file here."""
        embeds_images = self.collection.embeds == "image"
        if documents is not None and isinstance(documents[0], bytes) != embeds_images:
            rule = "does not embed images; send vectors, or text if it embeds that"
            if embeds_images:
                rule = "embeds images; send vectors, or search for one image, which is the body itself"
            raise invalid("documents", f"documents: this collection {rule}.")

    def _rows(self, request: Any) -> Any:
        self._check_documents(request.documents)
        check_size(len(request.ids), self.limits)
        return None if request.vectors is None else rows_of(request.vectors, self.limits)

    def _change(
        self, n_items: int, checkpoint: dict[str, Any] | None, change: Callable[..., object]
    ) -> schemas.ChangeAnswer:
        self._demand_writer()
        self._recent.apply(n_items, checkpoint, change)
        return schemas.ChangeAnswer(n_items, len(self.collection))

    def once(
        self, key: str, checksum: int, change: Callable[[], msgspec.Struct], kind: type[msgspec.Struct]
    ) -> msgspec.Struct:
        """Return the answer, of a kind, to a change; it is not applied again if one of the last had the same key."""
        changed = self._recent.begin(key, checksum)
        if changed is None:
            return change()
        return self.indexes() if kind is schemas.IndexesAnswer else schemas.ChangeAnswer(changed, len(self.collection))

    # ------------------------------------------------------------------ searching

    async def search(
        self, decode: Callable[[], schemas.SearchRequest], deadline: Deadline, is_large: bool
    ) -> schemas.SearchAnswer | ArrayAnswer:
        """Find the nearest items of vectors, documents or stored items, exactly.

        `application/x-npy`: one vector per row, and the options in the query string. An answer of that type has the
        vectors of the items found, if they are included. An image, if the embedder takes images: that is the query,
        with the options in the query string.
        """
        reading = self.executors.reading
        request = await deadline.wait(reading.submit(decode)) if is_large else decode()
        self._check_documents(request.documents)
        search = self._prepare(request)
        if request.documents is not None and self.collection.embeds == "image":
            images: list[Any] = request.documents
            read = [await deadline.wait(reading.submit(partial(read_image, image))) for image in images]
            search = replace(search, queries=read)
        if request.by_id is not None:
            ids = request.by_id
            stored = await deadline.wait(reading.submit(lambda: [item.vectors for item in self.collection.get(ids)]))
            search = replace(search, queries=np.array(stored))
        found = await self._searches.run(search, deadline)
        if request.by_id is not None:
            found = _without(found, request.by_id, None if request.radius is not None else search.k - 1)
        answer = schemas.SearchAnswer(found.version, found.ids, found.distances)
        if any(found.cursor or ()):
            answer.cursor = found.cursor
        include = search.options.get("include", ())
        for part in include:
            if part != "vectors":
                setattr(answer, part, getattr(found, part))
        return found_answer(answer, found) if "vectors" in include else answer

    def _prepare(self, request: schemas.SearchRequest) -> Search:
        """Return the search of a request, checked against the limits before any work is done."""
        if sum(some is not None for some in (request.vectors, request.documents, request.by_id)) != 1:
            raise invalid("vectors", "vectors, documents or by_id: give one of them.")
        limits = self.limits
        ranking = {"rescore": request.rescore, "asymmetric": request.asymmetric, "after": request.after}
        if request.radius is not None and (
            request.k is not None or any(value not in (None, False) for value in ranking.values())
        ):
            raise invalid("radius", "radius goes without k, rescore, asymmetric and after; leave them out.")
        queries = rows_of(request.vectors, limits) if request.vectors is not None else request.documents or []
        n_queries, k = len(queries) or len(request.by_id or ()), request.k or 10
        filters = {"labels": request.labels, "ids": request.ids, "where": request.where}
        for n_rows in (n_queries, *(len(some) for some in filters.values() if isinstance(some, list))):
            check_size(n_rows, limits)
        if request.items and request.include:
            raise invalid("include", "items is labels and payload; leave it out, and list all in include.")
        if request.after is not None:
            self._check_after(request, n_queries)
        if request.radius is None and k > limits.max_k:
            raise over_limit("k", k, limits.max_k, "ask for fewer neighbours")
        if request.radius is None and k * n_queries > limits.max_hits:
            raise over_limit("k * queries", k * n_queries, limits.max_hits, "send fewer queries at a time")
        max_hits = limits.max_hits
        if "vectors" in request.include:
            max_hits = min(max_hits, limits.max_batch_size, limits.max_values // (self.collection.n_features or 1))
            if request.radius is None and k * n_queries > max_hits:
                raise over_limit("vectors", k * n_queries, max_hits, "ask for fewer neighbours")
        if request.by_id is not None:
            self._check_vectors(n_queries)
            k += 1  # a stored item finds itself
        include = ["labels", "payload"] if request.items else request.include
        given = {**filters, **ranking, "include": include or None}
        options = {name: value for name, value in given.items() if value is not None and value is not False}
        return Search(queries, k, request.radius, options, max_hits)

    def _check_after(self, request: schemas.SearchRequest, n_queries: int) -> None:
        if request.by_id is not None or n_queries != 1:
            raise invalid("after", "after goes with one vector or document.")
        rank, most = Cursor.parse(request.after).rank, self.limits.max_hits
        if rank > most:
            raise over_limit("after", rank, most, "use a filter to find what is far away")

    def encode(self, request: schemas.EncodeRequest) -> ArrayAnswer:
        """Return the codes of vectors, made by the encoder in use."""
        vectors = rows_of(request.vectors, self.limits)
        encoder = self.collection.encoder
        if encoder is None:
            raise Problem(409, "not-learned", "There is no encoder yet; add labelled items first.")
        codes, state = encoder.encode(vectors), {"version": encoder.version, "n_bits": encoder.n_bits}
        return ArrayAnswer(
            codes, state, lambda: schemas.EncodeAnswer(**state, codes=[row.tobytes().hex() for row in codes])
        )

    # ------------------------------------------------------------------ state

    def versions(self) -> schemas.VersionAnswer:
        """Return the version of the encoder in use, and how stale it is."""
        return msgspec.convert(self.collection.stats(), schemas.VersionAnswer, from_attributes=True)

    def label_counts(self) -> schemas.LabelCountsAnswer:
        """Count items by label."""
        return self._counted.get(None, lambda: _counts(self.collection.label_counts()))

    def passing_label_counts(self, request: schemas.WhereRequest) -> schemas.LabelCountsAnswer:
        """Count items by label, those whose payload passes a filter."""
        return self.label_counts() if request.where is None else _counts(self.collection.label_counts(request.where))

    def get_limits(self) -> schemas.LimitsAnswer:
        """Return the request limits."""
        return msgspec.convert(self.limits, schemas.LimitsAnswer, from_attributes=True)

    async def refresh(
        self, decode: Callable[[], schemas.RefreshRequest], deadline: Deadline, is_large: bool
    ) -> schemas.VersionAnswer:
        """Encode all items again with the current hasher, in the background; searches go on."""
        request = decode()
        self._demand_writer()
        await self.executors.writing.run(lambda: self.collection.refresh(wait=False))
        state = await self.executors.operations.run(self.versions)
        while request.wait and state.refreshing and state.refresh_error is None and not self.executors.stopping:
            await asyncio.sleep(_POLL)
            state = await self.executors.operations.run(self.versions)
        return state

    def close(self) -> None:
        """End the job that runs, and complete the running calls."""
        self.executors.stopping = True
        super().close()
        self.executors.close()

    def check_ready(self) -> None:
        """Raise if the collection cannot be read, or the service is stopping."""
        if self.executors.stopping:
            raise stopping()
        self.collection.stats()


def _counts(counts: dict[Any, int]) -> schemas.LabelCountsAnswer:
    listed = [schemas.LabelCount(label, n) for label, n in counts.items() if label is not None]
    return schemas.LabelCountsAnswer(listed, counts.get(None, 0))


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
