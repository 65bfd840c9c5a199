"""MemoryEngine: codes in the memory of this process, searched exactly: all, or distinct ones where codes repeat."""

from __future__ import annotations

from onlinehash.collection.engines import Engine
from onlinehash.indexes import AdaptiveIndex, Index


class MemoryEngine(Engine):
    """Search codes in memory, with the indexes of this library."""

    def kind(self, index: Index | None) -> str:
        """Return "flat" or "buckets"."""
        return index.kind if isinstance(index, AdaptiveIndex) else "flat"

    def open(self, number: int, n_bits: int) -> Index:
        """Return an empty index: memory keeps nothing."""
        return AdaptiveIndex(n_bits)
