"""Engines: what searches the codes of a collection. Each is one module with a class."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

from onlinehash._internal.plugins import plugin, plugins
from onlinehash.exceptions import InvalidInputError, UnknownNameError
from onlinehash.indexes import Index

ENGINES = {
    "faiss": "onlinehash.collection.engines.faiss:FaissEngine",
    "gpu": "onlinehash.collection.engines.gpu:GpuEngine",
    "memory": "onlinehash.collection.engines.memory:MemoryEngine",
    "milvus": "onlinehash.collection.engines.milvus:MilvusEngine",
}
"""Our engines by name. Other packages add theirs with the entry points ``onlinehash.engines``."""


class Engine(ABC):
    """Keep the codes of a generation in an index, under the sequence numbers of their items.

    An engine is derived from the store: it may lose everything at any time and is filled again when the collection is
    opened; one that outlives the process is given what it lacks.

    A subclass defines :meth:`open`, and the other methods if its indexes outlive the process. ``options`` is what
    follows its name and a colon; ``name`` is that of the collection.
    """

    is_shared = False
    """Whether other processes may write to the same index."""

    takes_options = False
    """Whether something may follow its name and a colon."""

    to_device: Callable[[NDArray[Any]], Any] | None = None
    """Copies vectors to where the engine encodes them; None: they are encoded on the host."""

    def __init__(self, options: str, name: str) -> None:  # noqa: B027 (most need neither)
        """Open the engine; one without options needs nothing."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    @property
    def kind(self) -> str:
        """How codes are searched, for statistics."""
        return type(self).__name__.removesuffix("Engine").lower()

    @abstractmethod
    def open(self, number: int, n_bits: int) -> Index:
        """Return the index of a generation, with what it holds already; with ``ties="hash"``, as every engine."""

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
    onlinehash.exceptions.UnknownNameError: Unknown search engine 'oracle'. Known: faiss, gpu, memory, milvus.
    """
    kind, _, options = search.partition(":")
    found = plugin("onlinehash.engines", kind, ENGINES)
    if found is None:
        raise UnknownNameError.among("search engine", kind, plugins("onlinehash.engines", ENGINES))
    make: type[Engine] = found.load()
    if options and not make.takes_options:
        raise InvalidInputError(f"search={search!r}, but {kind} takes no options; use search={kind!r}.")
    return make(options, name)
