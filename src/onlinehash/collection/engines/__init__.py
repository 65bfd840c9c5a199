"""Engines: what searches the codes of a collection. Each is one module with a function ``open_engine``."""

from __future__ import annotations

from importlib import import_module

from onlinehash.collection.engines.engine import Engine
from onlinehash.exceptions import UnknownNameError

_MODULES = ("memory", "faiss", "gpu", "milvus")


def open_engine(search: str, name: str) -> Engine:
    """Open the engine that searches a collection.

    Parameters
    ----------
    search : str
        Name of the engine, and behind a colon what it needs: ``"memory"``, ``"faiss"``, ``"gpu"``,
        ``"milvus:http://host:19530"``.
    name : str
        Name of the collection, for an engine that keeps codes under one.

    Examples
    --------
    >>> open_engine("memory", "photos")
    <MemoryEngine>
    >>> open_engine("oracle", "photos")
    Traceback (most recent call last):
    onlinehash.exceptions.UnknownNameError: Unknown search engine 'oracle'. Known: faiss, gpu, memory, milvus.
    """
    kind, _, rest = search.partition(":")
    if kind not in _MODULES:
        raise UnknownNameError.among("search engine", kind, _MODULES)
    engine: Engine = import_module(f"{__name__}.{kind}").open_engine(rest, name)
    return engine
