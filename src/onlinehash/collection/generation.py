"""Generation: an encoder, and how far its codes have come."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

from numpy.typing import NDArray

from onlinehash._arrays import is_on_device, to_host
from onlinehash._threads import single_threaded_products
from onlinehash.encoders import Encoder
from onlinehash.types import Codes


@dataclass
class Generation:
    """An encoder, and how far its codes have come."""

    number: int
    encoder: Encoder
    cursor: int = 0  # sequence number up to which items have their codes, while the generation is being built
    put: Callable[[NDArray[Any]], Any] | None = None  # moves vectors to where they are encoded
    begun: float = field(default_factory=monotonic)  # or resumed

    def encode(self, vectors: NDArray[Any]) -> Codes:
        """Return the codes of a chunk of vectors, on this thread: the products are too small to share."""
        rows = vectors if self.put is None else self.put(vectors)
        with single_threaded_products(len(vectors)):
            codes = self.encoder.encode(rows)
        return to_host(codes) if is_on_device(codes) else codes
