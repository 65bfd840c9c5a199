"""MIHash: online hashing with mutual information (Cakir, He, Bargal, Sclaroff, ICCV 2017)."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from onlinehash._files import Arrays
from onlinehash._validation import check_choice, check_codes, check_positive, check_positive_int
from onlinehash.codes import pack_signs
from onlinehash.codes._kernels import distances
from onlinehash.codes.hamming import as_words, distance_dtype
from onlinehash.encoders import Encoder
from onlinehash.exceptions import InvalidInputError
from onlinehash.hashers._anchors import head_rows
from onlinehash.hashers._base import Changeable, OnlineHasher, Traits, Weights
from onlinehash.hashers._block import block_rows, lower_gram, subtract_earlier
from onlinehash.hashers._linear import LinearHasher
from onlinehash.hashers._numbering import Numbering
from onlinehash.hashers._reservoir import Reservoir
from onlinehash.hashers._threads import single_threaded_products
from onlinehash.types import Features, Labels, LabelSets, Targets

_BLOCK = 100
_KEYS = 1024  # random keys drawn at a time
_DECISIONS = 8  # between two fresh projections of the reservoir
_NONE = -1


class MIHash(LinearHasher):
    """Make the Hamming distance tell neighbours from others: ascend their mutual information with the label.

    Every instance is compared with a reservoir, a uniform sample of what was seen. With soft bits
    phi(x) = 1 / (1 + exp(-A x W)), distances D to the reservoir are put into a soft histogram, once for all items and
    once each for neighbours (same label) and others, and W takes a gradient step on the mutual information between D
    and being a neighbour. Every ``trigger_interval`` instances, the new hash functions take the place of the old ones
    *in use* if the mutual information of the reservoir's codes has grown by more than ``trigger_threshold``.

    Costs O(R n_features + R n_bits) an instance, not O(R n_features n_bits): the projections of the reservoir are kept
    and follow every rank-one step, since ``r_i W`` changes by ``(r_i x) g^T``.

    Parameters
    ----------
    n_bits : int, default=32
        Length of the codes ("r").
    reservoir_size : int, default=1000
        Number of items in the sample ("R"). Published: 1000 for MNIST and CIFAR-10, 5000 for Places. A tenth of it
        is filled from the head of the stream before learning starts.
    slope : float, default=10.0
        Steepness of the soft bits ("A").
    n_bins : int, default=16
        Number of bins of the soft histogram ("K").
    learning_rate : float, default=1.0
        Step size.
    decay : float, default=0.0
        The step at instance t is ``learning_rate / (1 + decay t)``.
    trigger_threshold : float, default=0.0
        Gain in mutual information, in bits, that a change of the hash functions in use must bring ("theta").
    trigger_interval : int, default=100
        Instances between two decisions.
    gradient : {"released", "exact"}, default="released"
        The published code takes -phi/2 where the derivative of a distance is -(2 phi - 1); published results rest on
        it, and it is no worse.
    preprocess, init, random_state, output
        As in :class:`HCOH`.

    Attributes
    ----------
    weights_ : ndarray of shape (n_features, n_bits)
        Hash functions as learned so far; those in use are in :meth:`snapshot`.
    n_updates_ : int
        How often the hash functions in use were changed.

    References
    ----------
    F. Cakir, K. He, S. A. Bargal, S. Sclaroff. MIHash: Online Hashing with Mutual Information. ICCV 2017.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from onlinehash import MIHash
    >>> X, y = load_digits(return_X_y=True)
    >>> hasher = MIHash(n_bits=16, reservoir_size=200, random_state=0).partial_fit(X, y)
    >>> hasher.n_updates_ > 0
    True
    """

    name: ClassVar[str] = "mihash"
    traits: ClassVar[Traits] = Traits(
        takes="single rows and a reservoir",
        cost="O(reservoir (d + r))",
        memory="O(reservoir d)",
        shines="8 and 16 bits, and time to spare",
    )
    multi_label: ClassVar[bool] = True
    changeable: ClassVar[Changeable] = {**OnlineHasher.changeable, "learning_rate": check_positive}

    def __init__(
        self,
        n_bits: int = 32,
        *,
        reservoir_size: int = 1000,
        slope: float = 10.0,
        n_bins: int = 16,
        learning_rate: float = 1.0,
        decay: float = 0.0,
        trigger_threshold: float = 0.0,
        trigger_interval: int = 100,
        gradient: str = "released",
        preprocess: str | ArrayLike = "running",
        init: str | ArrayLike = "random",
        random_state: Any = None,
        output: str = "codes",
    ) -> None:
        self.n_bits = n_bits
        self.reservoir_size = reservoir_size
        self.slope = slope
        self.n_bins = n_bins
        self.learning_rate = learning_rate
        self.decay = decay
        self.trigger_threshold = trigger_threshold
        self.trigger_interval = trigger_interval
        self.gradient = gradient
        self.preprocess = preprocess
        self.init = init
        self.random_state = random_state
        self.output = output

    # ------------------------------------------------------------------ state

    def _start(self, n_features: int) -> None:
        for name in ("reservoir_size", "n_bins", "trigger_interval"):
            check_positive_int(name, getattr(self, name))
        check_positive("slope", self.slope)
        check_choice("gradient", self.gradient, ("released", "exact"))
        size, dtype = self.reservoir_size, self._dtype
        self._start_weights(n_features)
        self._in_use: NDArray[Any] = self._weights.copy()
        self._numbering = Numbering()
        self._reservoir = Reservoir(size)
        self._items = np.zeros((size, n_features), dtype)  # rows of the reservoir
        self._item_labels = np.full((size, 1), _NONE)  # numbers of their labels, filled up with _NONE
        self._item_codes = np.zeros((size, -(-self.n_bits // 8)), np.uint8)  # by the hash functions in use
        self._halves = np.zeros((size, self.n_bits), dtype)  # their projections times slope / 2, the argument of tanh
        self._n_learned = self._n_keys = self._n_unoffered = 0
        self.n_updates_ = 0
        self._make_scratch(n_features)

    def _make_scratch(self, n_features: int) -> None:
        self._soft = np.empty_like(self._halves)
        self._block = block_rows(_BLOCK, n_features, self._dtype)
        self._gram = np.zeros((len(self._block),) * 2, self._dtype)

    def _head_size(self) -> int:
        return -(-self.reservoir_size // 10)

    def _open(self, head: Features, targets: Targets) -> None:
        rows = head_rows(self._features, head)
        labels = self._numbered(targets)
        for i, key in enumerate(self._uniforms(0, len(head))):
            self._place(self._reservoir.offer(key), rows[i], labels[i])
        self._n_keys = self._n_unoffered = len(head)
        self._halves[: len(head)] = self.slope / 2 * (rows @ self._weights)
        self._item_codes[: len(head)] = pack_signs(rows @ self._in_use)

    def _place(self, place: int | None, row: Features, labels: NDArray[np.int64]) -> None:
        if place is not None:
            self._items[place] = row
            self._item_labels[place] = labels

    def _numbered(self, targets: Targets) -> NDArray[np.int64]:
        """Return the numbers of the labels of every row, as wide as the widest label set so far."""
        assert targets is not None
        if not isinstance(targets, LabelSets):
            rows = np.full((len(targets), self._item_labels.shape[1]), _NONE)
            rows[:, 0] = self._numbering.numbers(targets)
            return rows
        width = max([self._item_labels.shape[1], *(len(labels) for labels in targets)])
        if width > self._item_labels.shape[1]:
            wider = np.full((len(self._item_labels), width), _NONE)
            wider[:, : self._item_labels.shape[1]] = self._item_labels
            self._item_labels = wider
        rows = np.full((len(targets), width), _NONE)
        for row, labels in zip(rows, targets, strict=True):
            row[: len(labels)] = self._numbering.number(labels)
        return rows

    def _uniforms(self, first: int, n: int) -> NDArray[np.float64]:
        """Return the random keys of rows ``first`` to ``first + n``: a function of the seed and their numbers."""
        if not n:
            return np.empty(0)
        pages = range(first // _KEYS, (first + n - 1) // _KEYS + 1)
        keys = np.concatenate([np.random.default_rng([self.seed_, page, 3]).random(_KEYS) for page in pages])
        return keys[first - pages[0] * _KEYS :][:n]

    # ------------------------------------------------------------------ learning

    def _learn(self, X: Features, targets: Targets, weights: Weights) -> None:
        labels = self._numbered(targets)
        rows = self._preprocessed(X)
        start = 0
        with single_threaded_products(len(X)):
            while start < len(rows):
                until_trigger = self.trigger_interval - self._n_learned % self.trigger_interval
                stop = min(len(rows), start + min(_BLOCK, until_trigger))
                self._learn_block(rows[start:stop], labels[start:stop])
                self._n_learned += stop - start
                if self._n_learned % self.trigger_interval == 0:
                    self._decide()
                start = stop

    def _learn_block(self, rows: Features, labels: NDArray[np.int64]) -> None:
        """Learn from a few rows in stream order; the weights themselves change once, at the end."""
        n_rows, n_features = rows.shape
        n_items = self._reservoir.size
        shapes = {len(self._items), len(self._halves), len(self._soft), len(self._item_labels), self.reservoir_size}
        n_bits = self._weights.shape[1]
        if len(shapes) > 1 or self._halves.shape[1] != n_bits or self._soft.shape[1] != n_bits:
            raise InvalidInputError(
                f"A reservoir of {self.reservoir_size} items and weights of {n_bits} bits do not fit the state: "
                f"{self._items.shape} items, {self._halves.shape} projections."
            )
        width = min(self.reservoir_size, n_items + n_rows)
        block = self._block[:n_rows, :n_features]
        block[:] = rows
        gradients = block @ self._weights
        lower_gram(self._block, n_rows, n_features, self._gram)
        # Products with the items; those of a new item follow from the block's own. Tall times flat is the faster way.
        cross = np.ascontiguousarray((self._items[:width] @ block.T).T)
        neighbours = np.zeros((n_rows, width), bool)
        neighbours[:, :n_items] = share_a_label(labels, self._item_labels[:n_items])
        in_block = share_a_label(labels, labels)
        codes = pack_signs(block @ self._in_use)
        exact = self.gradient == "exact"
        halves, soft = self._halves[:n_items], self._soft[:n_items]
        for i, place in enumerate(self._offer(n_rows)):
            row = gradients[i]
            subtract_earlier(gradients, self._gram, i, i)
            projection = None if place is None else row.copy()
            np.tanh(halves, out=soft)  # 2 phi - 1
            rate = self.learning_rate / (1 + self.decay * (self._n_learned + i))
            _ascend(row, soft, neighbours[i], self.slope, self.n_bins, rate, exact)
            _follow(halves, cross[i], row, self.slope)
            if place is not None:
                self._halves[place] = self.slope / 2 * (projection - self._gram[i, i] * row)
                self._item_codes[place] = codes[i]
                self._place(place, block[i], labels[i])
                cross[i + 1 :, place] = self._gram[i + 1 : n_rows, i]
                neighbours[i + 1 :, place] = in_block[i + 1 :, i]
                if place == n_items:
                    n_items += 1
                    halves, soft = self._halves[:n_items], self._soft[:n_items]
        self._weights -= block.T @ gradients

    def _offer(self, n_rows: int) -> list[int | None]:
        """Return the places that the next rows take in the reservoir; the head of the stream is there already."""
        there = min(self._n_unoffered, n_rows)
        self._n_unoffered -= there
        keys = self._uniforms(self._n_keys, n_rows - there)
        self._n_keys += len(keys)
        return [None] * there + [self._reservoir.offer(key) for key in keys]

    def _decide(self) -> None:
        """Put the learned hash functions into use if they tell neighbours from others better than those in use."""
        n_items = self._reservoir.size
        items = self._items[:n_items]
        if self._n_learned // self.trigger_interval % _DECISIONS == 0:  # afresh: rounding does not add up
            self._halves[:n_items] = self.slope / 2 * (items @ self._weights)
        if np.abs(self._weights - self._in_use).sum() < 1e-6:
            return
        codes = pack_signs(self._halves[:n_items])
        neighbours = share_a_label(self._item_labels[:n_items], self._item_labels[:n_items])
        old, new = (mutual_information(c, neighbours, self.n_bits) for c in (self._item_codes[:n_items], codes))
        if new - old > self.trigger_threshold:
            self._in_use = self._weights.copy()
            self._item_codes[:n_items] = codes
            self.n_updates_ += 1

    # ------------------------------------------------------------------ hashing and saving

    @property
    def classes_(self) -> Labels:
        """Labels in order of first sight."""
        self._demand_learned()
        return self._numbering.labels

    def _encoder(self) -> Encoder:
        return Encoder(self._in_use.copy(), None, self._features.freeze(), self.version_, self.name)

    def _state(self) -> tuple[dict[str, Any], Arrays]:
        n_items = self._reservoir.size
        state = {
            "labels": self._numbering.labels.tolist(),
            "n_learned": self._n_learned,
            "n_unoffered": self._n_unoffered,
            "n_keys": self._n_keys,
            "n_updates": self.n_updates_,
        }
        arrays = {
            "weights": self._weights,
            "in_use": self._in_use,
            "keys": self._reservoir.keys[:n_items],
            "items": self._items[:n_items],
            "item_labels": self._item_labels[:n_items],
            "item_codes": self._item_codes[:n_items],
            "halves": self._halves[:n_items],
        }
        return state, arrays

    def _restore(self, state: dict[str, Any], arrays: Arrays) -> None:
        n_items = len(arrays["keys"])
        self._weights, self._in_use = arrays["weights"], arrays["in_use"]
        self._numbering = Numbering(state["labels"])
        self._reservoir.keys[:n_items], self._reservoir.size = arrays["keys"], n_items
        self._items[:n_items], self._item_codes[:n_items] = arrays["items"], arrays["item_codes"]
        self._halves[:n_items] = arrays["halves"]
        self._item_labels = np.full((self.reservoir_size, arrays["item_labels"].shape[1]), _NONE)
        self._item_labels[:n_items] = arrays["item_labels"]
        self._n_learned, self._n_unoffered = state["n_learned"], state["n_unoffered"]
        self._n_keys, self.n_updates_ = state["n_keys"], state["n_updates"]


def share_a_label(left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Tell for every pair of rows whether they have a number in common; -1 fills rows up that have fewer.

    Examples
    --------
    >>> share_a_label(np.array([[0, -1], [1, 2]]), np.array([[2, -1], [0, 1]]))
    array([[False,  True],
           [ True,  True]])
    """
    if left.shape[1] == right.shape[1] == 1:
        return np.asarray(left == right.T)
    shared = np.zeros((len(left), len(right)), bool)
    for mine in left.T[..., np.newaxis]:
        for theirs in np.where(right == _NONE, _NONE - 1, right).T:
            shared |= mine == theirs
    return shared


def mutual_information(codes: NDArray[np.uint8], neighbours: NDArray[np.bool_], n_bits: int) -> float:
    """Return what Hamming distances tell about being a neighbour, in bits, averaged over the items.

    For every item, the distances to all items (itself included) are counted; the two largest distances share a bin, as
    published.

    Examples
    --------
    >>> codes = np.array([[0], [0], [7], [7]], np.uint8)
    >>> same = np.array([[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 1], [0, 0, 1, 1]], bool)
    >>> mutual_information(codes, same, n_bits=3)
    1.0
    """
    check_codes(codes, n_bits)
    if neighbours.shape != (len(codes), len(codes)) or neighbours.dtype != np.bool_:
        raise InvalidInputError(
            f"neighbours is {neighbours.dtype} of shape {neighbours.shape}; {len(codes)} codes need one bool per pair."
        )
    table = np.arange(len(codes) + 1, dtype=np.float64)
    table[1:] *= np.log2(table[1:])
    buffer = np.empty(len(codes), distance_dtype(codes.shape[1]))
    return float(_mutual_information(as_words(codes), neighbours.view(np.uint8), n_bits, table, buffer))


@njit(cache=True, nogil=True, error_model="numpy")
def _mutual_information(words: Any, neighbours: Any, n_bits: int, n_log_n: Any, buffer: Any) -> Any:
    n_items = words.shape[0]
    counts = np.empty((4, 2 * n_bits + 2), np.int64)
    places = np.empty(n_items, np.uint16)  # of a distance among far, then among near items
    total = 0.0
    for j in range(n_items):
        distances(words[j], words, buffer)
        for i in range(n_items):
            places[i] = 2 * np.uint16(buffer[i]) + neighbours[j, i]
        counts[:] = 0
        for i in range(0, n_items - n_items % 4, 4):  # four tables: equal neighbours do not wait for each other
            counts[0, places[i]] += 1
            counts[1, places[i + 1]] += 1
            counts[2, places[i + 2]] += 1
            counts[3, places[i + 3]] += 1
        for i in range(n_items - n_items % 4, n_items):
            counts[0, places[i]] += 1
        # n H = n log n - sum of c log c: entropies of counts, from a table of n log n.
        gain = n_log_n[n_items]
        n_near = 0
        for d in range(n_bits):
            last = 2 if d == n_bits - 1 else 1
            far, near = 0, 0
            for t in range(4):
                for e in range(d, d + last):
                    far += counts[t, 2 * e]
                    near += counts[t, 2 * e + 1]
            n_near += near
            gain += n_log_n[near] + n_log_n[far] - n_log_n[near + far]
        gain -= n_log_n[n_near] + n_log_n[n_items - n_near]
        total += max(0.0, gain / n_items)
    return total / n_items


@njit(cache=True, nogil=True, fastmath={"contract", "reassoc", "nsz"}, error_model="numpy")
def _ascend(row: Any, soft: Any, neighbours: Any, slope: float, n_bins: int, rate: float, exact: bool) -> None:
    """Turn the projection of one instance into its gradient, in place, by the soft distances to the reservoir."""
    n_items, n_bits = soft.shape
    mine = np.empty_like(row)
    for b in range(n_bits):
        mine[b] = np.tanh(row[b] * slope / 2)
    # Soft histogram: a distance between two centres is shared by them. Place 0 stands for a centre below the first.
    width = n_bits / n_bins
    upper = np.empty(n_items, np.int64)
    counts = np.zeros((2, n_bins + 2))
    n_near = 0
    for s in range(n_items):
        product = row.dtype.type(0)
        for b in range(n_bits):
            product += mine[b] * soft[s, b]
        position = (n_bits - np.float64(product)) / 2 / width
        u: int = min(max(int(np.ceil(position)), 0), n_bins)
        near = np.int64(neighbours[s])
        n_near += int(near)
        counts[near, u + 1] += 1 - (u - position)
        counts[near, u] += u - position
        upper[s] = u
    # d(-MI)/dD of an item: the slope, between its two centres, of log p(D) - log p(D | near or far).
    surprise = np.zeros((2, n_bins + 2))
    for c in range(1, n_bins + 2):
        both = _one_plus_log2((counts[0, c] + counts[1, c]) / n_items)
        surprise[0, c] = both - _one_plus_log2(counts[0, c] / max(n_items - n_near, 1))
        surprise[1, c] = both - _one_plus_log2(counts[1, c] / max(n_near, 1))
    slopes = ((surprise[:, 1:] - surprise[:, :-1]) / (width * n_items)).astype(row.dtype)
    row[:] = 0
    total = row.dtype.type(0)
    for s in range(n_items):
        pull = slopes[np.int64(neighbours[s]), upper[s]]
        total += pull
        for b in range(n_bits):
            row[b] += pull * soft[s, b]
    for b in range(n_bits):
        # dD/dphi is -(2 phi_s - 1) = -soft; the published code takes -phi_s / 2 = -(soft + 1) / 4.
        inner = -row[b] if exact else -(row[b] + total) / 4
        row[b] = rate * slope * (1 - mine[b] * mine[b]) / 4 * inner


@njit(cache=True, nogil=True, error_model="numpy")
def _one_plus_log2(share: float) -> float:
    return 1.0 + np.log2(share) if share > 0 else 1.0


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def _follow(halves: Any, products: Any, gradient: Any, slope: float) -> None:
    """Move the projections r W of the reservoir with the weights, by -(r x) g^T; they are kept times slope / 2."""
    n_items, n_bits = halves.shape
    change = (gradient * (slope / 2)).astype(halves.dtype)
    for s in range(n_items):
        for b in range(n_bits):
            halves[s, b] -= products[s] * change[b]
