"""MemoryEngine: codes in the memory of this process, searched exactly."""

from __future__ import annotations

from onlinehash.collection.engines import Engine
from onlinehash.collection.engines.adaptive_index import AdaptiveIndex
from onlinehash.exceptions import InvalidInputError
from onlinehash.indexes import Index


class MemoryEngine(Engine):
    """Search codes in memory, with the indexes of this library."""

    def kind(self, index: Index | None) -> str:
        """Return "flat" or "buckets"."""
        return index.kind if isinstance(index, AdaptiveIndex) else "flat"

    def open(self, number: int, n_bits: int, built: AdaptiveIndex | None = None) -> Index:
        """Return the index in which a generation was built, or an empty one."""
        return AdaptiveIndex(n_bits) if built is None else built


def open_engine(rest: str, name: str) -> Engine:
    """Return the engine; it needs nothing."""
    if rest:
        raise InvalidInputError(f"search='memory:{rest}', but memory takes no options; use search='memory'.")
    return MemoryEngine()
