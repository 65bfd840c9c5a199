"""GpuEngine: codes in the memory of a GPU, searched exactly."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from onlinehash.collection.engines import Engine
from onlinehash.indexes import Index
from onlinehash.indexes.engines.gpu import GpuIndex, cupy, demand_gpu


class GpuEngine(Engine):
    """Keep the codes of the generation in use on a GPU, which also encodes vectors."""

    def __init__(self, options: str, name: str) -> None:
        demand_gpu()

    def open(self, number: int, n_bits: int) -> Index:
        """Return an empty index: a GPU keeps nothing."""
        return GpuIndex(n_bits)

    def put(self, vectors: NDArray[Any]) -> Any:
        """Return a copy of the vectors on the GPU."""
        return cupy.asarray(vectors)
