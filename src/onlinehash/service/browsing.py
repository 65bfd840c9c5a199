"""Browsing: handlers of requests that list, count and show items."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import numpy as np

from onlinehash.collection import Collection, Item
from onlinehash.exceptions import UnknownIdError
from onlinehash.service import schemas
from onlinehash.service.answers import ArrayAnswer
from onlinehash.service.limits import Limits
from onlinehash.service.parsing import check_size, check_values
from onlinehash.service.problems import LESS_PAYLOAD, invalid, over_limit
from onlinehash.types import Features

_AT_A_TIME = 500  # items read at a time: a payload has up to 64 KiB
_INT64 = re.compile(r"-?[0-9]{1,19}")

Answer = dict[str, Any]


class Browsing:
    """List, count and show the items of a collection."""

    collection: Collection
    limits: Limits

    def get(self, request: schemas.IdsRequest) -> ArrayAnswer | Answer:
        """Return items in the order of their ids."""
        check_size(len(request.ids), self.limits)
        self._check_vectors(len(request.ids))
        listed, step = Listed(self.limits), self._n_at_a_time()
        for start in range(0, len(request.ids), step):
            listed.add(self.collection.get(request.ids[start : start + step]))
        return listed.answer()

    def get_one(self, id: str) -> schemas.OneItemAnswer:
        """Return one item, with its code."""
        known = self._id(id)
        (item,) = self.collection.get([known])
        _, codes, encoder = self.collection.codes_and_encoder([known])
        has_code = len(codes) > 0 and encoder is not None and item.version == encoder.version
        code = codes[0].tobytes().hex() if has_code else None
        return schemas.OneItemAnswer(
            item.id, item.vectors.tolist(), item.labels, item.payload, item.version, code, self.collection.generation
        )

    def list_items(self, request: schemas.ListRequest) -> ArrayAnswer | Answer:
        """Return items in order of id or of arrival: all, or those with a label or a payload that passes a filter.

        `cursor` of an answer continues behind its last item, even if that is deleted; it is null where nothing follows.
        """
        if request.limit > self.limits.max_batch_size:
            raise over_limit("limit", request.limit, self.limits.max_batch_size, "ask for fewer items at a time")
        if "vectors" in request.include:
            self._check_vectors(request.limit)
        self._check_labels(request.labels)
        if request.after is not None and request.cursor is not None:
            raise invalid("cursor", "cursor and after: give one of them.")
        given: dict[str, Any] = {
            "labels": request.labels,
            "where": request.where,
            "order": request.order,
            "descending": request.descending,
        }
        listed, after, cursor, left = Listed(self.limits, request.include), request.after, request.cursor, request.limit
        while left:
            page = self.collection.page(**given, after=after, cursor=cursor, limit=min(left, self._n_at_a_time()))
            listed.add(page.items)
            after, cursor, left = None, page.cursor, left - len(page.items)
            if cursor is None:
                break
        return listed.answer(cursor=cursor)

    def count(self, request: schemas.CountRequest) -> schemas.CountAnswer:
        """Return the number of items, or of those with a label or a payload that passes a filter."""
        self._check_labels(request.labels)
        return schemas.CountAnswer(self.collection.count(request.where, labels=request.labels))

    def _id(self, text: str) -> int | str:
        """Return the id that a path names, an integer if the ids of the collection are integers."""
        id = int(text) if self.collection.id_type == "int" and _INT64.fullmatch(text) else text
        if id not in self.collection:
            raise UnknownIdError(f"There is no item with id {text!r} in this collection of {len(self.collection)}.")
        return id

    def _n_at_a_time(self) -> int:
        return max(1, min(_AT_A_TIME, self.limits.max_values // (self.collection.n_features or 1)))

    def _check_labels(self, labels: Any) -> None:
        if isinstance(labels, list):
            check_size(len(labels), self.limits)

    def _check_vectors(self, n_items: int) -> None:
        """Refuse an answer with more numbers than allowed."""
        check_values(n_items * (self.collection.n_features or 0), self.limits)


class Listed:
    """An answer with items: their vectors, and the rest of each as JSON."""

    def __init__(self, limits: Limits, include: Sequence[str] = ("labels", "payload", "vectors")) -> None:
        self._include, self._max_bytes, self._n_bytes = include, limits.max_payload_bytes, 0
        self._parts, self._vectors = list[bytes](), list[Features]()

    def add(self, items: Iterable[Item]) -> None:
        """Add items; refuse the request if the payloads of all have too many bytes."""
        for item in items:
            part: dict[str, Any] = {"id": item.id}
            if "labels" in self._include:
                part["labels"] = item.labels
            if "payload" in self._include:
                payload = msgspec.json.encode(item.payload)
                self._n_bytes += len(payload)
                if self._n_bytes > self._max_bytes:
                    raise over_limit("payload", self._n_bytes, self._max_bytes, LESS_PAYLOAD)
                part["payload"] = msgspec.Raw(payload)
            self._vectors.append(item.vectors)
            self._parts.append(msgspec.json.encode({**part, "version": item.version}))

    def answer(self, **fields: Any) -> ArrayAnswer | Answer:
        """Return the answer, with further fields."""
        rest: Answer = {"items": [msgspec.Raw(part) for part in self._parts], **fields}
        if "vectors" not in self._include:
            return rest
        array = np.stack(self._vectors) if self._vectors else np.empty((0, 0), np.float32)
        return ArrayAnswer(array, rest, lambda: rest | {"items": list(map(_with_vector, self._parts, array))})


def _with_vector(item: bytes, vector: Features) -> msgspec.Raw:
    # One at a time: a number takes four times as much memory as an object as in JSON.
    return msgspec.Raw(b'{"vectors":' + msgspec.json.encode(vector.tolist()) + b"," + item[1:])
