"""GpuEngine: codes in the memory of a GPU, searched exactly."""

from __future__ import annotations

from onlinehash.collection.engines import Engine
from onlinehash.indexes import Index
from onlinehash.indexes.engines.gpu import GpuIndex, cupy, demand_gpu


class GpuEngine(Engine):
    """Keep the codes of the generation in use on a GPU, which also encodes vectors."""

    to_device = staticmethod(cupy.asarray)

    def __init__(self, options: str, name: str) -> None:
        demand_gpu()

    def open(self, number: int, n_bits: int) -> Index:
        """Return an empty index: a GPU keeps nothing."""
        return GpuIndex(n_bits, ties="hash")
