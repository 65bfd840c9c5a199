"""Random codewords: every bit a fair coin (the error-correcting output codes of OSH)."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from onlinehash._validation import check_n_bits
from onlinehash.types import Signs


class RandomCodebook:
    """Give the i-th class that arrives a random codeword; it depends on ``(seed, i)`` alone.

    Examples
    --------
    >>> RandomCodebook(6, seed=0).codeword(2).shape
    (6,)
    """

    def __init__(self, n_bits: int, *, seed: int = 0) -> None:
        self.n_bits = check_n_bits(n_bits)
        self.seed = seed

    def codeword(self, index: int, label: Hashable = None) -> Signs:
        """Return the codeword of the class that arrived as number ``index``, counted from 0."""
        bits = np.random.default_rng([self.seed, index, 2]).integers(0, 2, self.n_bits, np.int8)
        return 2 * bits - np.int8(1)
