"""Insight: handlers of requests about what a collection has learned."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from onlinehash.collection import Collection
from onlinehash.service import schemas
from onlinehash.service.limits import Limits


class Insight:
    """Show what a collection has learned, and how well."""

    collection: Collection
    limits: Limits
    media: Path | None = None

    def stats(self) -> schemas.StatsAnswer:
        """Return the collection statistics."""
        collection = self.collection
        names = ("n_features", "readonly", "embedder", "embeds", "id_type", "unlearns", "sequence")
        stats = asdict(collection.stats()) | {name: getattr(collection, name) for name in names}
        stats["media"] = self.media is not None
        return schemas.StatsAnswer(**{name: stats[name] for name in schemas.StatsAnswer.__struct_fields__})

    def history(self) -> schemas.HistoryAnswer:
        """Return the last encoders, and the last records of the quality along the stream, oldest first.

        Each new item that has a label is searched for before it is learned from, a few per request: `precision` is the
        share of items with its label among the 10 nearest, `map` the mean average precision among them.
        """
        history = self.collection.history()
        return schemas.HistoryAnswer(
            [schemas.EncoderRecord(**vars(one)) for one in history.encoders],
            [schemas.QualityRecord(**vars(one)) for one in history.quality],
        )
