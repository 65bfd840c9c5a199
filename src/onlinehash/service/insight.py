"""Insight: handlers of requests about what a collection has learned."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

import msgspec
import numpy as np

from onlinehash.collection import Collection
from onlinehash.service import insight_schemas as answers
from onlinehash.service import schemas
from onlinehash.service.limits import Limits
from onlinehash.service.media import ImageFile, open_image
from onlinehash.service.problems import Problem, over_limit

T = TypeVar("T")
_REMEMBERED = 8  # answers


class Remembered:
    """Answers that hold until the collection changes, each made once."""

    def __init__(self, collection: Collection) -> None:
        self._collection, self._lock = collection, Lock()
        self._moment: tuple[int, int] | None = None
        self._answers: dict[Any, Any] = {}

    def get(self, key: Any, make: Callable[[], T]) -> T:
        """Return the answer of a key; others that ask wait until it is made."""
        with self._lock:
            moment = self._collection.sequence, self._collection.generation
            if moment != self._moment or len(self._answers) >= _REMEMBERED:
                self._moment, self._answers = moment, {}
            if key not in self._answers:
                self._answers[key] = make()
            answer: T = self._answers[key]
            return answer


class Insight:
    """Show what a collection has learned, and how well."""

    collection: Collection
    limits: Limits
    media: Path | None = None
    _remembered: Remembered

    def stats(self) -> schemas.StatsAnswer:
        """Return the collection statistics."""
        collection = self.collection
        names = ("n_features", "readonly", "embedder", "embeds", "id_type", "unlearns", "sequence")
        stats = asdict(collection.stats()) | {name: getattr(collection, name) for name in names}
        stats["media"] = self.media is not None
        return schemas.StatsAnswer(**{name: stats[name] for name in schemas.StatsAnswer.__struct_fields__})

    def history(self) -> answers.HistoryAnswer:
        """Return the last encoders, and the last records of the quality along the stream, oldest first.

        Each new item that has a label is searched for before it is learned from, a few per request: `precision` is the
        share of items with its label among the 10 nearest, `map` the mean average precision among them.
        """
        return msgspec.convert(self.collection.history(), answers.HistoryAnswer, from_attributes=True)

    def map(self, request: answers.MapRequest) -> answers.MapAnswer:
        """Return a random sample of the items in the plane.

        The axes are the first two principal components of the class scores, or, where the hasher has none, of the real
        values whose signs are the bits. `explained` is the share of the variance along each.
        """
        if request.limit > self.limits.max_batch_size:
            raise over_limit("limit", request.limit, self.limits.max_batch_size, "ask for fewer items")
        return self._remembered.get(("map", request.limit), lambda: self._map(request.limit))

    def _map(self, limit: int) -> answers.MapAnswer:
        found = self.collection.map(limit)
        x, y = (np.round(axis, 5).tolist() for axis in (found.x, found.y))
        return answers.MapAnswer(found.version, found.ids, found.labels, x, y, list(found.explained))

    def codewords(self) -> answers.CodewordsAnswer:
        """Return the codewords of the largest classes, and the share of ones per bit among a sample of their items."""
        return self._remembered.get("codewords", self._codewords)

    def _codewords(self) -> answers.CodewordsAnswer:
        found = self.collection.codewords()
        classes = [
            answers.ClassBits(
                one.label,
                one.n_items,
                None if one.codeword is None else one.codeword.tobytes().hex(),
                np.round(one.ones, 3).tolist(),
            )
            for one in found.classes
        ]
        return answers.CodewordsAnswer(found.version, found.n_bits, found.n_class_bits, found.n_classes, classes)

    def image(self, file: str) -> ImageFile:
        """Return an image below the folder of media that the service was started with.

        The image is of the type that its first bytes say. What is no image, or outside the folder, is not there.
        """
        if self.media is None:
            raise Problem(404, "unknown-media", "This service has no folder of media; start it with --media FOLDER.")
        return open_image(self.media, file)
