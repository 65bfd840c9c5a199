"""Indexes in other engines, with the interface of all indexes. Each needs an extra and is imported on first use."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onlinehash.indexes.engines.faiss import FaissIndex
    from onlinehash.indexes.engines.gpu import GpuIndex
    from onlinehash.indexes.engines.milvus import MilvusIndex

__all__ = ["FaissIndex", "GpuIndex", "MilvusIndex"]

_MODULES = {"FaissIndex": "faiss", "GpuIndex": "gpu", "MilvusIndex": "milvus"}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
