"""A generation: an encoder, and the codes it made."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinehash.collection.order import Numbers
from onlinehash.encoders import Encoder
from onlinehash.hashers._threads import single_threaded_products
from onlinehash.indexes import BucketIndex, FlatIndex
from onlinehash.types import Codes

Index = FlatIndex | BucketIndex

_FIRST_LOOK = 1000  # items; below, a scan of anything takes no time
_REPEATS = 2  # items a distinct code from which buckets are scanned faster


class Generation:
    """An encoder, and how far it has come.

    Parameters
    ----------
    number : int
    encoder : Encoder
    cursor : int
        Sequence number up to which items have their codes, while the generation is being made.

    Examples
    --------
    >>> generation = Generation(1, Encoder(np.array([[1.0, -1.0]])))
    >>> generation.encode(np.ones((2, 1)))
    array([[1],
           [1]], dtype=uint8)
    """

    def __init__(self, number: int, encoder: Encoder, cursor: int = 0) -> None:
        self.number, self.encoder, self.cursor = number, encoder, cursor

    def encode(self, features: NDArray[Any]) -> Codes:
        """Return the codes of a chunk of features, on this thread: the products are too small to share."""
        with single_threaded_products(len(features)):
            return self.encoder.encode(features)


class IndexedGeneration(Generation):
    """The codes that one encoder made, in memory, under the numbers of their ids.

    The index is flat at first. Each time the items have doubled, and codes turn out to repeat, it becomes one of
    buckets, or flat again.

    Parameters
    ----------
    number, encoder, cursor
        As of :class:`Generation`.

    Examples
    --------
    >>> generation = IndexedGeneration(1, Encoder(np.array([[1.0, -1.0]])))
    >>> generation.put(np.arange(4000), generation.encode(np.ones((4000, 1))))
    >>> generation.reconsider()
    >>> generation.kind, len(generation.index)
    ('buckets', 4000)
    """

    def __init__(self, number: int, encoder: Encoder, cursor: int = 0) -> None:
        super().__init__(number, encoder, cursor)
        self.index: Index = FlatIndex(encoder.n_bits)
        self._next_look = _FIRST_LOOK

    @property
    def kind(self) -> str:
        """How codes are searched: "flat" or "buckets"."""
        return "buckets" if isinstance(self.index, BucketIndex) else "flat"

    def put(self, numbers: Numbers, codes: Codes) -> None:
        """Add codes, in place of those with the same numbers."""
        if not len(numbers):
            return
        if not len(self.index) and len(numbers) >= self._next_look:
            self._fit(numbers, codes)
        else:
            self.index.upsert(codes, numbers)

    def delete(self, numbers: Numbers) -> None:
        """Remove the codes of numbers, where there are any."""
        here = [number for number in numbers.tolist() if number in self.index]
        if here:
            self.index.delete(here)

    def renumber(self, old: Numbers, new: Numbers) -> None:
        """Give codes other numbers."""
        here = np.array([number in self.index for number in old.tolist()], bool)
        if here.any():
            codes = self.index.get(old[here])
            self.index.delete(old[here])
            self.index.upsert(codes, new[here])

    def reconsider(self) -> None:
        """Change the index if the items have doubled and it is not the right one any more; searches go on meanwhile."""
        if len(self.index) >= self._next_look:
            self._fit(self.index.ids, self.index.codes)

    def _fit(self, numbers: Numbers, codes: Codes) -> None:
        """Put codes into the index that suits them; a search that has begun keeps the old one."""
        self._next_look = 2 * len(numbers)
        buckets = BucketIndex(self.encoder.n_bits)
        buckets.upsert(codes, numbers)
        if _REPEATS * buckets.n_buckets <= len(numbers):
            self.index = buckets
        else:
            flat = FlatIndex(self.encoder.n_bits)
            flat.upsert(codes, numbers)
            self.index = flat
