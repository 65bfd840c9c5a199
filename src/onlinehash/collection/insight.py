"""Insight: what a collection has learned, for people to look at."""

from __future__ import annotations

from onlinehash.collection.reader import CollectionReader


class WithInsight(CollectionReader):
    """Show what the encoder in use makes of the items."""

    @property
    def generation(self) -> int:
        """Number of the generation of codes in use; 0 before the first."""
        return self._store.position().generation
