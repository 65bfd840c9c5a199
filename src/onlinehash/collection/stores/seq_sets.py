"""Sets of sequence numbers: what is in all of several, in order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinehash._kernel import kernel
from onlinehash.codes.kernels import popcount

_WORDS = 16  # of 64 bits per sequence number, up to which marking and reading bits is faster than sorting


def common_seqs(sets: Sequence[NDArray[Any]]) -> NDArray[np.int64]:
    """Return, sorted, the sequence numbers that are in all sets; each set has distinct ones, in any order.

    Examples
    --------
    >>> common_seqs([np.array([7, 3, 5]), np.array([5, 1, 7, 9])])
    array([5, 7])
    """
    sets = sorted(sets, key=len)
    smallest = sets[0]
    if not len(smallest):
        return np.empty(0, np.int64)
    first = int(smallest.min())
    n_words = (int(smallest.max()) - first) // 64 + 1
    if n_words > _WORDS * sum(map(len, sets)):
        common = np.sort(smallest).astype(np.int64)
        for seqs in sets[1:]:
            common = common[np.isin(common, seqs)]
        return common
    bits = np.zeros(n_words, np.uint64)
    _mark(smallest, first, bits)
    for seqs in sets[1:]:
        others = np.zeros(n_words, np.uint64)
        _mark(seqs, first, others)
        bits &= others
    marked = np.empty(len(smallest), np.int64)
    return marked[: _read(bits, first, marked)]


@kernel()
def _mark(seqs: Any, first: int, bits: Any) -> None:
    """Set the bits of sequence numbers from ``first`` on; those for which there is no bit are ignored."""
    n_bits = 64 * bits.shape[0]
    for seq in seqs:
        place = seq - first
        if 0 <= place < n_bits:
            bits[place >> 6] |= np.uint64(1) << np.uint64(place & 63)


@kernel()
def _read(bits: Any, first: int, out: Any) -> int:
    """Write the sequence numbers whose bits are set, and return their number."""
    n_read = 0
    for word in range(bits.shape[0]):
        rest = bits[word]
        while rest:
            out[n_read] = first + 64 * word + popcount(~rest & (rest - np.uint64(1)))
            n_read += 1
            rest &= rest - np.uint64(1)
    return n_read
