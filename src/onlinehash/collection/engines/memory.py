"""MemoryEngine: codes in the memory of this process, searched exactly."""

from __future__ import annotations

from onlinehash.collection.engines import Engine
from onlinehash.indexes import FlatIndex, Index


class MemoryEngine(Engine):
    """Search codes in memory, with the index of this library."""

    def open(self, number: int, n_bits: int) -> Index:
        """Return an empty index: memory keeps nothing."""
        return FlatIndex(n_bits, ties="hash")
