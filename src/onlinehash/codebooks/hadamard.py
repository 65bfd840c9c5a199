"""The interface of a codebook, the paper's codebook of Hadamard rows, and those that are given or random."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from functools import lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onlinehash._internal.validation import check_n_bits, check_positive_int, plain_label
from onlinehash._internal.walsh import walsh_hadamard
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


class HadamardCodebook:
    """Give the i-th class that arrives a random unused row of a Hadamard matrix.

    The order of the matrix is the paper's r*: the smallest power of two that is at least ``n_bits`` and
    the number of classes. Where it equals ``n_bits`` the row itself is the codeword; otherwise the row is
    multiplied by a Gaussian matrix and its signs are taken (Eq. 4). When class r* + 1 arrives, r* doubles, the new
    classes draw from the new rows, and no earlier codeword moves.

    Codeword ``i`` depends on ``(seed, i)`` alone. Memory is O(r* n_bits) when a reduction is needed.

    Parameters
    ----------
    n_bits : int
        Length r of the codewords.
    n_classes : int, default=1
        Number of classes known in advance ("|Y|"). The paper knows it; a stream need not know it.
    seed : int, default=0

    Examples
    --------
    >>> codebook = HadamardCodebook(4, seed=1)
    >>> words = [codebook.codeword(i) for i in range(4)]
    >>> [int(words[0] @ word) for word in words]
    [4, 0, 0, 0]
    """

    def __init__(self, n_bits: int, *, n_classes: int = 1, seed: int = 0) -> None:
        self.n_bits = check_n_bits(n_bits)
        self.n_classes = check_positive_int("n_classes", n_classes)
        self.seed = seed

    def codeword(self, index: int, label: Hashable = None) -> Signs:
        """Return the codeword of the class that arrived as number ``index``, counted from 0."""
        base = _power_of_two_from(max(2, self.n_bits, self.n_classes))
        order = max(base, _power_of_two_from(index + 1))
        first = 0 if order == base else order // 2
        row = int(_drawn_rows(self.seed, order, first)[index - first])
        if order == self.n_bits:
            return hadamard_rows(row, order)
        return np.where(_reduced_rows(self.seed, order, self.n_bits)[row] >= 0, np.int8(1), np.int8(-1))


def hadamard_codewords(labels: Iterable[int | str], n_bits: int, *, seed: int = 0) -> dict[int | str, Signs]:
    """Return the paper's codewords for classes that are all known in advance.

    Pass the result as ``codebook=`` to a hasher. A stream whose classes arrive over time does not need it;
    this is for the published protocol, where r* follows from the number of classes.

    Examples
    --------
    >>> words = hadamard_codewords(["cat", "dog", "owl"], n_bits=4, seed=0)
    >>> int(words["cat"] @ words["dog"])
    0
    """
    names = list(dict.fromkeys(labels))
    codebook = HadamardCodebook(n_bits, n_classes=max(1, len(names)), seed=seed)
    return {name: codebook.codeword(i) for i, name in enumerate(names)}


def hadamard_rows(rows: int | slice | list[int], order: int) -> Signs:
    """Return the given rows of the Sylvester-Hadamard matrix of an order that is a power of two.

    Entry ``(i, j)`` is ``(-1) ** popcount(i & j)``: a row follows from its number, and no matrix is ever stored.

    Differs from the paper's (-1) ** ((i - 1) * (j - 1)), because that matrix has rank 2.

    Examples
    --------
    >>> hadamard_rows([2, 3], 4)
    array([[ 1,  1, -1, -1],
           [ 1, -1, -1,  1]], dtype=int8)
    """
    if order < 1 or order & (order - 1):
        raise InvalidInputError(f"order={order} is not a power of two; use 1, 2, 4, 8, ...")
    columns = np.arange(order)
    parity = np.bitwise_count(columns[rows][..., None] & columns) & 1
    signs: Signs = np.int8(1) - np.int8(2) * parity.astype(np.int8)
    return signs


def hadamard_matrix(order: int) -> Signs:
    """Return the whole Sylvester-Hadamard matrix, shape (order, order).

    Examples
    --------
    >>> hadamard_matrix(2)
    array([[ 1,  1],
           [ 1, -1]], dtype=int8)
    """
    return hadamard_rows(slice(None), order)


def _power_of_two_from(n: int) -> int:
    return 1 << (n - 1).bit_length()


@lru_cache(maxsize=32)
def _drawn_rows(seed: int, order: int, first: int) -> NDArray[np.intp]:
    """Return the numbers of the rows from ``first`` on, in the order in which classes draw them."""
    return np.random.default_rng([seed, order, 0]).permutation(np.arange(first, order))


@lru_cache(maxsize=8)
def _reduced_rows(seed: int, order: int, n_bits: int) -> NDArray[np.float64]:
    """Return every row of the Hadamard matrix times the Gaussian matrix: one fast transform of the latter."""
    return walsh_hadamard(np.random.default_rng([seed, order, 1]).standard_normal((order, n_bits)))


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
