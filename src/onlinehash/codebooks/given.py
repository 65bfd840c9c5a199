"""Codebooks that are given or random: the interface of all codebooks, and the two simplest."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from onlinehash._internal.validation import check_n_bits, plain_label
from onlinehash.exceptions import InvalidInputError, InvalidLabelsError
from onlinehash.types import Signs


class Codebook(Protocol):
    """Interface of a codebook: the codeword of a class, from its number of arrival or its label.

    Examples
    --------
    >>> from onlinehash.codebooks import LadderCodebook
    >>> codebook: Codebook = LadderCodebook(8)
    >>> int(codebook.codeword(0) @ codebook.codeword(1))
    0
    """

    n_bits: int

    def codeword(self, index: int, label: Hashable = None) -> Signs:
        """Return -1 and +1, shape (n_bits,)."""
        ...


class ExplicitCodebook:
    """Look codewords up in a mapping from label to -1 and +1.

    Examples
    --------
    >>> codebook = ExplicitCodebook({"cat": [1, 1], "dog": [1, -1]}, n_bits=2)
    >>> codebook.codeword(0, "dog").tolist()
    [1, -1]
    """

    def __init__(self, mapping: Mapping[int | str, ArrayLike], n_bits: int) -> None:
        self.n_bits = check_n_bits(n_bits)
        self._words: dict[Hashable, Signs] = {
            plain_label(label, "codebook"): _check_word(label, word, self.n_bits) for label, word in mapping.items()
        }
        if not self._words:
            raise InvalidInputError("codebook is an empty mapping; give every class a codeword.")

    def codeword(self, index: int, label: Hashable = None) -> Signs:
        """Return the codeword of ``label``."""
        if label not in self._words:
            known = ", ".join(repr(name) for name in list(self._words)[:10]) + ", ..." * (len(self._words) > 10)
            raise InvalidLabelsError(
                f"The codebook has no codeword for label {label!r}; it holds {len(self._words)} classes: {known}. "
                "Add it to the mapping, or use codebook='hadamard', which grows."
            )
        return self._words[label]


def _check_word(label: Hashable, word: ArrayLike, n_bits: int) -> Signs:
    signs = np.asarray(word)
    if signs.shape != (n_bits,):
        raise InvalidInputError(
            f"The codeword of {label!r} has shape {signs.shape}; n_bits={n_bits} needs ({n_bits},)."
        )
    if not np.isin(signs, (-1, 1)).all():
        raise InvalidInputError(f"The codeword of {label!r} holds values other than -1 and +1.")
    return signs.astype(np.int8)


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
