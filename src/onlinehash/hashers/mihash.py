"""MIHash: online hashing with mutual information (Cakir, He, Bargal, Sclaroff, ICCV 2017)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from onlinehash._internal.kernels import kernel
from onlinehash._internal.threads import single_threaded_products
from onlinehash._internal.validation import check_choice, check_positive, check_positive_int
from onlinehash.codes import pack_signs
from onlinehash.codes.distances import as_words, distance_dtype
from onlinehash.codes.kernels import distances
from onlinehash.hashers._base import Changeable, Encoder, Features, LabelSets, OnlineHasher, Targets, Weights
from onlinehash.hashers._block import apply_tanh, products, subtract_earlier
from onlinehash.hashers._mixins import LinearHasher, Reservoir, WithNumberedClasses

NO_LABEL = -1
ROWS_PER_BLOCK = 100
KEYS_PER_PAGE = 1024  # random keys drawn at a time
DECISIONS_PER_REFRESH = 8  # the projections of the reservoir are recomputed, so that rounding does not add up


@dataclass(eq=False, repr=False, kw_only=True)
class MIHash(WithNumberedClasses, LinearHasher):
    """Maximise the mutual information of the Hamming distance and being a neighbour.

    Every instance is compared with a reservoir, a uniform sample of the stream. With soft bits
    phi(x) = 1 / (1 + exp(-A x W)), distances D to the reservoir are put into soft histograms of all items, of
    neighbours (same label) and of others, and W takes a gradient step on the mutual information of D and being a
    neighbour. Every ``trigger_interval`` instances, the new hash functions replace those *in use* if the mutual
    information of the reservoir's codes has grown by more than ``trigger_threshold``.

    Costs O(R n_features + R n_bits) per instance, not O(R n_features n_bits): the projections of the reservoir are kept
    and updated with every rank-one step, since ``r_i W`` changes by ``(r_i x) g^T``.

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
        Gain in mutual information, in bits, required to replace the hash functions in use ("theta").
    trigger_interval : int, default=100
        Instances between two decisions.
    gradient : {"released", "exact"}, default="released"
        The published code, and so the published results, take -phi/2 where the derivative of a distance is
        -(2 phi - 1); it is no worse.
    preprocess, init, random_state, output
        As in :class:`HCOH`.

    Attributes
    ----------
    weights_ : ndarray of shape (n_features, n_bits)
        Hash functions as learned so far; :meth:`snapshot` returns those in use.
    n_updates_ : int
        How often the hash functions in use were replaced.

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
    multi_label: ClassVar[bool] = True
    changeable: ClassVar[Changeable] = {**OnlineHasher.changeable, "learning_rate": check_positive}

    _saved = (
        "_weights", "_in_use", "_numbers", "_reservoir.keys", "_reservoir.size", "_items", "_item_labels",
        "_item_codes", "_halves", "_n_learned", "n_updates_",
    )  # fmt: skip

    reservoir_size: int = 1000
    slope: float = 10.0
    n_bins: int = 16
    learning_rate: float = 1.0
    decay: float = 0.0
    trigger_threshold: float = 0.0
    trigger_interval: int = 100
    gradient: str = "released"

    # ------------------------------------------------------------------ state

    def _start(self, n_features: int) -> None:
        for name in ("reservoir_size", "n_bins", "trigger_interval"):
            check_positive_int(name, getattr(self, name))
        check_positive("slope", self.slope)
        check_choice("gradient", self.gradient, ("released", "exact"))
        size, dtype = self.reservoir_size, self._dtype
        self._start_weights(n_features)
        self._in_use: NDArray[Any] = self._weights.copy()
        self._numbers = {}
        self._reservoir = Reservoir(size)
        self._items = np.zeros((size, n_features), dtype)  # rows of the reservoir
        self._item_labels = np.full((size, 1), NO_LABEL)  # numbers of their labels, padded with NO_LABEL
        self._item_codes = np.zeros((size, -(-self.n_bits // 8)), np.uint8)  # by the hash functions in use
        self._halves = np.zeros((size, self.n_bits), dtype)  # their projections times slope / 2, for tanh
        self._n_learned = self.n_updates_ = 0

    def _head_size(self) -> int:
        return -(-self.reservoir_size // 10)

    def _open(self, head: Features, targets: Targets) -> None:
        labels = self._numbered(targets)
        self._reservoir.offer(self._uniforms(0, len(head)))
        self._items[: len(head)], self._item_labels[: len(head)] = head, labels
        self._halves[: len(head)] = self.slope / 2 * (head @ self._weights)
        self._item_codes[: len(head)] = pack_signs(head @ self._in_use)

    def _numbered(self, targets: Targets) -> NDArray[np.int64]:
        """Return the numbers of the labels of every row, padded to the largest label set so far."""
        assert targets is not None
        sets = targets if isinstance(targets, LabelSets) else targets[:, None].tolist()
        sizes = np.array([len(labels) for labels in sets], int)
        wider = sizes.max(initial=0) - self._item_labels.shape[1]
        if wider > 0:
            self._item_labels = np.pad(self._item_labels, ((0, 0), (0, wider)), constant_values=NO_LABEL)
        rows = np.full((len(sets), self._item_labels.shape[1]), NO_LABEL)
        rows[np.arange(rows.shape[1]) < sizes[:, None]] = self._number(label for labels in sets for label in labels)
        return rows

    def _uniforms(self, first: int, n: int) -> NDArray[np.float64]:
        """Return the random keys of rows ``first`` to ``first + n``: a function of the seed and their numbers."""
        if not n:
            return np.empty(0)
        pages = range(first // KEYS_PER_PAGE, (first + n - 1) // KEYS_PER_PAGE + 1)
        keys = np.concatenate([_page_of_keys(self.seed_, page) for page in pages])
        return keys[first - pages[0] * KEYS_PER_PAGE :][:n]

    # ------------------------------------------------------------------ learning

    def _learn(self, X: Features, targets: Targets, weights: Weights) -> None:
        labels = self._numbered(targets)
        rows = self._preprocessed(X)
        start = 0
        while start < len(rows):
            until_trigger = self.trigger_interval - self._n_learned % self.trigger_interval
            stop = min(len(rows), start + min(ROWS_PER_BLOCK, until_trigger))
            self._learn_block(rows[start:stop], labels[start:stop])
            self._n_learned += stop - start
            if self._n_learned % self.trigger_interval == 0:
                with single_threaded_products():
                    self._decide()
            start = stop

    def _learn_block(self, rows: Features, labels: NDArray[np.int64]) -> None:
        """Learn from a few rows in stream order; the weights themselves change once, at the end."""
        n_rows, n_features = rows.shape
        n_items = self._reservoir.size
        width = min(self.reservoir_size, n_items + n_rows)
        gradients, gram = rows @ self._weights, np.empty((n_rows, n_rows), self._dtype)
        products(rows, rows, n_rows, n_rows, n_features, True, gram)
        # Products with the items; those of new items are in the block's Gram matrix.
        cross = np.empty((n_rows, width), self._dtype)
        products(rows, self._items, n_rows, width, n_features, False, cross)
        neighbours = share_a_label(labels, self._item_labels[:width])  # those of new items are replaced
        places = self._offer(n_rows)
        rates = self.learning_rate / (1 + self.decay * (self._n_learned + np.arange(n_rows)))
        _replay(
            gradients,
            gram,
            share_a_label(labels, labels),
            self._halves,
            cross,
            neighbours,
            n_items,
            places,
            rates,
            self.slope,
            self.n_bins,
            self.gradient == "exact",
        )
        stay = np.flatnonzero(places >= 0)
        if len(stay):
            taken = places[stay]  # one that is taken twice has the last row
            self._items[taken], self._item_labels[taken] = rows[stay], labels[stay]
            self._item_codes[taken] = pack_signs(rows[stay] @ self._in_use)
        self._weights -= rows.T @ gradients

    def _offer(self, n_rows: int) -> NDArray[np.int64]:
        """Return the places of the next rows in the reservoir, -1 for none; the head of the stream is in it already."""
        there = min(max(self._head_size() - self._n_learned, 0), n_rows)
        keys = self._uniforms(self._n_learned + there, n_rows - there)
        return np.concatenate([np.full(there, -1), self._reservoir.offer(keys)])

    def _decide(self) -> None:
        """Replace the hash functions in use if the learned ones separate neighbours from others better."""
        n_items = self._reservoir.size
        items = self._items[:n_items]
        if self._n_learned // self.trigger_interval % DECISIONS_PER_REFRESH == 0:
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

    def _encoder(self) -> Encoder:
        return Encoder(self._in_use.copy(), None, self._features.freeze(), self.version_, self.name)


@lru_cache(maxsize=16)
def _page_of_keys(seed: int, page: int) -> NDArray[np.float64]:
    return np.random.default_rng([seed, page, 3]).random(KEYS_PER_PAGE)


# ---------------------------------------------------------------------- mutual information and its gradient


def share_a_label(left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return for every pair of rows whether they have a number in common; -1 pads rows that have fewer."""
    shared = np.zeros((len(left), len(right)), bool)
    for mine in left.T[..., np.newaxis]:
        for theirs in np.where(right == NO_LABEL, NO_LABEL - 1, right).T:
            shared |= mine == theirs
    return shared


def mutual_information(codes: NDArray[np.uint8], neighbours: NDArray[np.bool_], n_bits: int) -> float:
    """Return the mutual information of Hamming distance and being a neighbour, in bits, averaged over the items.

    Every item is compared with all items, itself included; the two largest distances share a bin, as published.
    """
    table = np.arange(len(codes) + 1, dtype=np.float64)
    table[1:] *= np.log2(table[1:])
    buffer = np.empty(len(codes), distance_dtype(codes.shape[1]))
    return float(_mutual_information(as_words(codes), neighbours.view(np.uint8), n_bits, table, buffer))


@kernel()
def _mutual_information(words: Any, neighbours: Any, n_bits: int, n_log_n: Any, buffer: Any) -> Any:
    n_items = words.shape[0]
    counts = np.empty(2 * n_bits + 2, np.int32)  # of far items at an even place per distance, of near ones at the next
    total = 0.0
    for j in range(n_items):
        distances(words[j], words, buffer)
        is_near = neighbours[j]
        counts[:] = 0
        for i in range(n_items):
            counts[2 * np.int64(buffer[i]) + is_near[i]] += 1
        counts[2 * n_bits - 2] += counts[2 * n_bits]  # the two largest distances
        counts[2 * n_bits - 1] += counts[2 * n_bits + 1]
        # n H = n log n - sum of c log c: entropies of counts, from a table of n log n.
        gain = n_log_n[n_items]
        n_near = 0
        for d in range(n_bits):
            far, near = counts[2 * d], counts[2 * d + 1]
            n_near += near
            gain += n_log_n[near] + n_log_n[far] - n_log_n[near + far]
        gain -= n_log_n[n_near] + n_log_n[n_items - n_near]
        total += max(0.0, gain / n_items)
    return total / n_items


@kernel(fastmath={"contract"})
def _replay(
    projections: Any,
    gram: Any,
    in_block: Any,
    halves: Any,
    cross: Any,
    neighbours: Any,
    n_items: int,
    places: Any,
    rates: Any,
    slope: float,
    n_bins: int,
    exact: bool,
) -> None:
    """Turn the projections of a block into gradients, in place and in stream order; the reservoir follows.

    ``halves`` are the projections of the reservoir times slope / 2, ``cross`` the products of the block with its items
    and ``neighbours`` their relation; ``gram`` and ``in_block`` are the same within the block, for the rows whose
    ``places`` in the reservoir are not -1.
    """
    n_rows, n_bits = projections.shape
    half = halves.dtype.type(slope / 2)
    soft = halves.copy()
    before = np.empty_like(projections[0])
    for i in range(n_rows):
        row, place = projections[i], places[i]
        subtract_earlier(projections, gram, i, i)
        before[:] = row
        apply_tanh(soft[:n_items].reshape(-1))  # 2 phi - 1
        _ascend(row, soft[:n_items], neighbours[i], slope, n_bins, rates[i], exact)
        for s in range(n_items):  # r W changes by -(r x) g^T
            step = half * cross[i, s]
            for b in range(n_bits):
                halves[s, b] -= step * row[b]
                soft[s, b] = halves[s, b]
        if place >= 0:
            for b in range(n_bits):
                halves[place, b] = half * (before[b] - gram[i, i] * row[b])
                soft[place, b] = halves[place, b]
            for later in range(i + 1, n_rows):
                cross[later, place] = gram[later, i]
                neighbours[later, place] = in_block[later, i]
            n_items = max(n_items, place + 1)


@kernel(fastmath={"contract", "reassoc", "nsz"}, inner=True)
def _ascend(row: Any, soft: Any, neighbours: Any, slope: float, n_bins: int, rate: float, exact: bool) -> None:
    """Turn the projection of one instance into its gradient, in place, by the soft distances to the reservoir."""
    n_items, n_bits = soft.shape
    mine = np.empty_like(row)
    for b in range(n_bits):
        mine[b] = row[b] * slope / 2
    apply_tanh(mine)
    # Soft histogram: a distance between two centres is shared by them. Place 0 stands for a centre below the first.
    width = n_bits / n_bins
    upper = np.empty(n_items, np.int32)
    below = np.empty(n_items)  # share of the lower centre
    for s in range(n_items):
        product = row.dtype.type(0)
        for b in range(n_bits):
            product += mine[b] * soft[s, b]
        below[s] = (n_bits - np.float64(product)) / 2 / width
    for s in range(n_items):
        position = below[s]
        place = np.ceil(position)
        place = place if place > 0.0 else 0.0
        place = place if place < n_bins else float(n_bins)
        upper[s] = np.int32(place)
        below[s] = place - position
    counts = np.zeros((2, n_bins + 2))
    n_near = 0
    for s in range(n_items):
        near, u = np.int64(neighbours[s]), upper[s]
        n_near += int(near)
        counts[near, u + 1] += 1 - below[s]
        counts[near, u] += below[s]
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


@kernel(inner=True)
def _one_plus_log2(share: float) -> float:
    return 1.0 + np.log2(share) if share > 0 else 1.0
