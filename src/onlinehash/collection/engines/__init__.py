"""Engines: what searches the codes of a collection. Each is one module with a class."""

from __future__ import annotations

from abc import ABC, abstractmethod
from importlib import import_module
from typing import Any

from numpy.typing import NDArray

from onlinehash.exceptions import InvalidInputError, UnknownNameError
from onlinehash.indexes import Index

_CLASSES = {"memory": "MemoryEngine", "faiss": "FaissEngine", "gpu": "GpuEngine", "milvus": "MilvusEngine"}


class Engine(ABC):
    """Keep the codes of a generation in an index, under the sequence numbers of their items.

    An engine is derived from the store: it may lose everything at any time and is filled again when the collection is
    opened. One that outlives the process remembers, in itself, the sequence number of the last change it has seen.

    A subclass defines :meth:`open`, and the other methods if its indexes outlive the process. ``options`` is what
    follows its name and a colon; ``name`` is that of the collection.
    """

    is_shared = False
    """Whether other processes may write to the same index."""

    takes_options = False
    """Whether something may follow its name and a colon."""

    def __init__(self, options: str, name: str) -> None:  # noqa: B027 (most need neither)
        """Open the engine; one without options needs nothing."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def kind(self, index: Index | None) -> str:
        """Return how codes are searched, for statistics."""
        return type(self).__name__.removesuffix("Engine").lower()

    @abstractmethod
    def open(self, number: int, n_bits: int, built: Index | None = None) -> Index:
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


def open_engine(search: str, name: str) -> Engine:
    """Open the engine that searches a collection, as :meth:`Collection.open` takes it.

    Examples
    --------
    >>> open_engine("memory", "photos")
    <MemoryEngine>
    >>> open_engine("oracle", "photos")
    Traceback (most recent call last):
    onlinehash.exceptions.UnknownNameError: Unknown search engine 'oracle'. Known: faiss, gpu, memory, milvus. Leave
    search out for memory, or where the items are in PostgreSQL, which then searches them.
    """
    kind, _, options = search.partition(":")
    if kind not in _CLASSES:
        unknown = UnknownNameError.among("search engine", kind, _CLASSES)
        raise UnknownNameError(
            f"{unknown} Leave search out for memory, or where the items are in PostgreSQL, which then searches them."
        )
    make: type[Engine] = getattr(import_module(f"{__name__}.{kind}"), _CLASSES[kind])
    if options and not make.takes_options:
        raise InvalidInputError(f"search={search!r}, but {kind} takes no options; use search={kind!r}.")
    return make(options, name)
