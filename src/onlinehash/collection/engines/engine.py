"""Engine: the base class of what searches the codes of a collection."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from numpy.typing import NDArray

from onlinehash.collection.engines.adaptive_index import AdaptiveIndex
from onlinehash.indexes import Index


class Engine(ABC):
    """Keep the codes of a generation in an index, under the sequence numbers of their items.

    An engine is derived from the store: it may lose everything at any time and is filled again when the collection is
    opened. One that outlives the process remembers, in itself, the sequence number of the last change it has seen.

    A subclass defines :meth:`open`, and the other methods if its indexes outlive the process.
    """

    is_shared = False
    """Whether other processes may write to the same index."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def kind(self, index: Index | None) -> str:
        """Return how codes are searched, for statistics."""
        return type(self).__name__.removesuffix("Engine").lower()

    @abstractmethod
    def open(self, number: int, n_bits: int, built: AdaptiveIndex | None = None) -> Index:
        """Return the index of a generation, with what it holds already; ``built`` has the same codes in memory."""

    def put(self, vectors: NDArray[Any]) -> Any:
        """Return vectors where the engine encodes them: as they are, on the host."""
        return vectors

    def seen(self, number: int) -> int:
        """Return the sequence number of the last change that the index of a generation has seen; 0 for none."""
        return 0

    def mark(self, number: int, seq: int) -> None:  # noqa: B027 (only for engines that outlive the process)
        """Remember the sequence number of the last change of a generation."""

    def keep(self, number: int) -> None:  # noqa: B027
        """Take a generation into use, and drop the others."""

    def close(self) -> None:  # noqa: B027
        """Release the engine."""
