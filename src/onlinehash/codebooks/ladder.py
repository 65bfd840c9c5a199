"""The ladder: ever larger codes of one length, each inside the next, for an unbounded number of classes."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import cache, reduce
from operator import xor

import numpy as np
from numpy.typing import NDArray

from onlinehash._internal.validation import check_n_bits
from onlinehash._internal.walsh import walsh_hadamard
from onlinehash.codebooks.hadamard import hadamard_rows
from onlinehash.types import Signs

_SIEVED_BELOW = 16  # bits: all 2 ** n_bits words are examined
_SCORED_COSETS = 8
_PUNCTURINGS = 64


class LadderCodebook:
    """Give the i-th class that arrives the i-th word of a chain of nested codes, the sparsest first.

    With n the smallest power of two that is at least ``n_bits``, the rungs are

    1. the n rows of the Hadamard matrix, each as it is or complemented, the constant row last: distance n / 2;
    2. the other member of each pair: the 2 n words of the first-order Reed-Muller code, distance n / 2;
    3. the cosets of that code in the extended BCH codes of length n, in the order that keeps the distance largest:
       1024 words at distance 28 for n = 64, then 65536 at 24; 2048 at 12 for n = 32; 32768 at 56 for n = 128. For
       n = 16 the first 256 words are the Nordstrom-Robinson code, at distance 6.

    The last rung holds all words. Classes beyond 2 ** n share words with the first ones, which nothing can avoid.

    The first rows are independent, so that the first log2(n) + 1 classes distinguish all n bits from each other and
    from each other's complements, and from log2(n) + 2 classes on no bit is constant. The seed draws the order of the
    other rows, which of them are complemented, and the order and the signs of the bits; none of it changes a distance.

    Other lengths are punctured: ``n_bits`` of the n bits are kept, the best of 64 draws for the distance of the first
    2 n words, then of the first 16 n. Distances shrink by at most n - ``n_bits``, mostly in proportion, and words far
    up the ladder may coincide. Below 16 bits a class takes instead the first word of the ladder that keeps a distance
    from all earlier ones, and that distance falls, from half the bits, only when no word is left: all 2 ** ``n_bits``
    words are used before one repeats.

    Codeword ``i`` depends on ``(n_bits, seed, i)`` alone. One costs O(n log i); memory is O(n log i) bits.

    Parameters
    ----------
    n_bits : int
        Length r of the codewords.
    seed : int, default=0

    References
    ----------
    A. W. Nordstrom and J. P. Robinson, "An optimum nonlinear code", Information and Control 11, 1967.
    F. J. MacWilliams and N. J. A. Sloane, "The Theory of Error-Correcting Codes", North-Holland, 1977, chapters 9,
    13 and 15.

    Examples
    --------
    >>> codebook = LadderCodebook(8, seed=0)
    >>> words = np.array([codebook.codeword(i) for i in range(10)])
    >>> distances = (words[:, None] != words).sum(axis=2)
    >>> int(distances[np.triu_indices(10, 1)].min())
    4
    """

    def __init__(self, n_bits: int, *, seed: int = 0) -> None:
        self.n_bits = check_n_bits(n_bits)
        self.seed = seed
        self._length = 1 << max(1, (self.n_bits - 1).bit_length())
        self._chain = _Chain(self._length)
        rng = np.random.default_rng([seed, self.n_bits, 3])
        self._rows, self._complemented = _draw_rows(self._length, rng)
        self._kept = _draw_bits(self._chain, self.n_bits, rng)
        self._mask = rng.choice(np.array([-1, 1], np.int8), self.n_bits)
        self._sieve: _Sieve | None = None

    def codeword(self, index: int, label: Hashable = None) -> Signs:
        """Return the codeword of the class that arrived as number ``index``, counted from 0."""
        return self._word(self._sieved(index) if self.n_bits < _SIEVED_BELOW else index)

    def _word(self, number: int) -> Signs:
        """Return word ``number`` of the ladder."""
        n = self._length
        coset, place = divmod(int(number) % (1 << n), 2 * n)
        row = hadamard_rows(int(self._rows[place % n]), n)
        word: Signs = (row * self._chain.leader(coset))[self._kept] * self._mask
        return -word if self._complemented[place % n] ^ (place >= n) else word

    def _sieved(self, index: int) -> int:
        if self._sieve is None:
            first = _numbered([self._word(i) for i in range(2 * self._length)])
            n_cosets = (1 << self._length) // (2 * self._length)
            leaders = _numbered([self._chain.leader(i)[self._kept] for i in range(n_cosets)])
            # Half the bits, rounded so that ten classes fare best: most words survive where few bits were dropped.
            distance = (self.n_bits + (4 * self.n_bits >= 3 * self._length)) // 2
            self._sieve = _Sieve(np.ravel(leaders[:, None] ^ first).astype(np.uint16), max(1, distance))
        return self._sieve.number(int(index) % (1 << self.n_bits))


class _Chain:
    """The leaders of the cosets of the first-order Reed-Muller code of length n, in the order of the ladder.

    The words of a rung are the polynomials over GF(n) with values 0 and 1 whose exponents do not exceed some e,
    written down at all n points. Two of them agree in at most e points, so that their distance is at least n - e; the
    exponents come in cyclotomic cosets (e, 2 e, 4 e, ... modulo n - 1), and the chain takes the cosets by their largest
    member. The bits of x ** e span what a coset adds; leaders are sums of such bits, by the binary digits of their
    number.
    """

    def __init__(self, length: int) -> None:
        self.length = length
        self._sums: list[int] = []
        self._exponent = length // 2  # the last one examined

    def leader(self, number: int) -> Signs:
        """Return the leader of a coset as signs; only the functions it needs are made."""
        if self.length == 16:
            number += _nordstrom_robinson()[number % 64] - number % 64
        return self.linear_leader(number)

    def linear_leader(self, number: int) -> Signs:
        """Return the sum of the functions that the binary digits of ``number`` choose."""
        while len(self._sums) < number.bit_length():
            self._add_coset()
        chosen = (function for digit, function in enumerate(self._sums) if number >> digit & 1)
        return _signs(reduce(xor, chosen, 0), self.length)

    def _add_coset(self) -> None:
        """Add the functions of the next cyclotomic coset, if the next exponent is the largest of its own."""
        n = self.length
        m = n.bit_length() - 1
        self._exponent = exponent = self._exponent + 1
        if exponent < max(exponent << i & (n - 1) | exponent >> (m - i) for i in range(m)):
            return
        powers, logs = _field(m)
        values = powers[logs * exponent % (n - 1)]
        values[0] = 0
        reduced: list[int] = []
        for bit in range(m):  # a short coset has fewer independent bits than m
            function = rest = _packed(values >> bit & 1)
            for other in reduced:
                rest = min(rest, rest ^ other)
            if rest:
                reduced.append(rest)
                self._sums.append(function)


class _Sieve:
    """Numbers of the words, taken one after the other so that the distance between them falls as late as possible."""

    def __init__(self, words: NDArray[np.uint16], distance: int) -> None:
        self._numbers = np.sort(np.unique(words, return_index=True)[1])
        self._words = words[self._numbers]
        self._apart = np.full(len(self._words), distance, np.uint8)
        self._distance = distance
        self._taken: list[int] = []

    def number(self, index: int) -> int:
        """Return the number of the word taken as number ``index``."""
        while len(self._taken) <= index:
            self._distance = min(self._distance, int(self._apart.max()))
            place = int(np.argmax(self._apart >= self._distance))
            self._taken.append(int(self._numbers[place]))
            np.minimum(self._apart, np.bitwise_count(self._words ^ self._words[place]), out=self._apart)
        return self._taken[index]


def _draw_rows(n: int, rng: np.random.Generator) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the order of the Hadamard rows and which are complemented.

    A basis comes first, which makes the bits differ, then the sum of an even number of its rows, which no two
    complementary bits survive; of these rows bit 0 alone is constant, until the next row is complemented. That the
    basis is always the same does not matter, because the order of the bits is drawn.
    """
    m = n.bit_length() - 1
    head = [1 << i for i in range(m)] + [n - 1 - m % 2] * (m > 1)
    tail = rng.permutation(np.setdiff1d(np.arange(1, n), head))
    complemented = rng.integers(0, 2, n).astype(np.bool_)
    complemented[: m + 1] = False
    complemented[m + 1 : m + 2] = True
    return np.concatenate([np.array(head), tail, [0]]), complemented


def _draw_bits(chain: _Chain, n_bits: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return the bits to keep, in random order: of several draws, the one that keeps the first words furthest apart."""
    n = chain.length
    if n_bits == n:
        return rng.permutation(n)
    draws = [rng.permutation(n)[:n_bits] for _ in range(_PUNCTURINGS)]
    n_cosets = min(_SCORED_COSETS, (1 << n) // (2 * n))
    leaders = np.array([chain.leader(i) for i in range(n_cosets)], np.float64).T
    return max(draws, key=lambda kept: _distances(leaders, kept))


def _distances(leaders: NDArray[np.float64], kept: NDArray[np.int64]) -> tuple[float, float]:
    """Return the least weights, on the bits kept, of the Reed-Muller code and of all the cosets given."""
    punctured = np.zeros_like(leaders)
    punctured[kept] = leaders[kept]
    bias = np.abs(walsh_hadamard(punctured))
    bias[0, 0] = 0  # the word 0 itself
    return -float(bias[:, 0].max()), -float(bias.max())


@cache
def _nordstrom_robinson() -> list[int]:
    """Return the numbers of the 64 cosets in RM(2, 4), those of the Nordstrom-Robinson code first.

    The code is the union of 8 cosets whose differences are all bent, that is, at distance 6 from the first-order code.
    No three leaders may sum to 0: such a plane {0, a, b, a + b} has only bent differences too but cannot be extended.
    """
    chain = _Chain(16)
    leaders = np.array([chain.linear_leader(i) for i in range(64)], np.float64)
    bent = np.abs(walsh_hadamard(leaders.T)).max(axis=0) == 4
    chosen = [0]
    for i in range(64):
        if all(bent[i ^ a] for a in chosen) and i not in {a ^ b for a in chosen for b in chosen}:
            chosen.append(i)
    return chosen + [i for i in range(64) if i not in chosen]


@cache
def _field(m: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the powers of x modulo the first primitive polynomial over GF(2) of degree m, and the logs of all."""
    n = 1 << m
    powers: list[int] = []
    for polynomial in range(n + 1, 2 * n, 2):
        powers = [1]
        while (power := min(powers[-1] << 1, powers[-1] << 1 ^ polynomial)) != 1:
            powers.append(power)
        if len(powers) == n - 1:
            break
    logs = np.zeros(n, np.int64)
    logs[powers] = np.arange(n - 1)
    return np.array(powers), logs


def _packed(bits: NDArray[np.int64]) -> int:
    return int.from_bytes(np.packbits(bits.astype(np.uint8), bitorder="little").tobytes(), "little")


def _signs(word: int, n: int) -> Signs:
    packed = np.frombuffer(word.to_bytes((n + 7) // 8, "little"), np.uint8)
    return 1 - 2 * np.unpackbits(packed, count=n, bitorder="little").astype(np.int8)


def _numbered(words: Sequence[Signs]) -> NDArray[np.int64]:
    bits = np.asarray(words) < 0
    return bits @ (1 << np.arange(bits.shape[1]))
