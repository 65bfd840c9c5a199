"""Concatenated codewords of two codebooks."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from onlinehash.codebooks.assignment import Codebook
from onlinehash.types import Signs


class JoinedCodebook:
    """Give every class its codeword of one codebook, followed by that of another.

    Examples
    --------
    >>> from onlinehash.codebooks import LadderCodebook
    >>> JoinedCodebook(LadderCodebook(8), LadderCodebook(4)).codeword(0).shape
    (12,)
    """

    def __init__(self, first: Codebook, second: Codebook) -> None:
        self.n_bits = first.n_bits + second.n_bits
        self._parts = first, second

    def codeword(self, index: int, label: Hashable = None) -> Signs:
        """Return the codeword of the class that arrived as number ``index``, counted from 0."""
        return np.concatenate([part.codeword(index, label) for part in self._parts])
