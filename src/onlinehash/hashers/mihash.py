"""MIHash: online hashing with mutual information (Cakir, He, Bargal, Sclaroff, ICCV 2017)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from onlinehash._internal.threads import single_threaded_products
from onlinehash._internal.validation import check_choice, check_positive, check_positive_int
from onlinehash.codes import pack_signs
from onlinehash.hashers._base import Arrays, Changeable, Encoder, Features, LabelSets, OnlineHasher, Targets, Weights
from onlinehash.hashers._block import products
from onlinehash.hashers._mixins import LinearHasher, Reservoir, WithNumberedClasses, head_rows
from onlinehash.hashers.mihash_kernels import NO_LABEL, mutual_information, replay, share_a_label

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
        self._n_learned = self._n_keys = self._n_unoffered = 0
        self.n_updates_ = 0

    def _head_size(self) -> int:
        return -(-self.reservoir_size // 10)

    def _open(self, head: Features, targets: Targets) -> None:
        rows = head_rows(self._features, head)
        labels = self._numbered(targets)
        self._reservoir.offer(self._uniforms(0, len(head)))
        self._items[: len(head)], self._item_labels[: len(head)] = rows, labels
        self._n_keys = self._n_unoffered = len(head)
        self._halves[: len(head)] = self.slope / 2 * (rows @ self._weights)
        self._item_codes[: len(head)] = pack_signs(rows @ self._in_use)

    def _numbered(self, targets: Targets) -> NDArray[np.int64]:
        """Return the numbers of the labels of every row, padded to the largest label set so far."""
        assert targets is not None
        if not isinstance(targets, LabelSets):
            rows = np.full((len(targets), self._item_labels.shape[1]), NO_LABEL)
            rows[:, 0] = self._number(targets.tolist())
            return rows
        width = max([self._item_labels.shape[1], *(len(labels) for labels in targets)])
        if width > self._item_labels.shape[1]:
            wider = np.full((len(self._item_labels), width), NO_LABEL)
            wider[:, : self._item_labels.shape[1]] = self._item_labels
            self._item_labels = wider
        rows = np.full((len(targets), width), NO_LABEL)
        for row, labels in zip(rows, targets, strict=True):
            row[: len(labels)] = self._number(labels)
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
        replay(
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
        there = min(self._n_unoffered, n_rows)
        self._n_unoffered -= there
        keys = self._uniforms(self._n_keys, n_rows - there)
        self._n_keys += len(keys)
        return np.concatenate([np.full(there, -1), self._reservoir.offer(keys)])

    def _decide(self) -> None:
        """Replace the hash functions in use if the learned ones separate neighbours from others better."""
        n_items = self._reservoir.size
        items = self._items[:n_items]
        if (
            self._n_learned // self.trigger_interval % DECISIONS_PER_REFRESH == 0
        ):  # recomputed, so that rounding does not add up
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

    def _state(self) -> tuple[dict[str, Any], Arrays]:
        n_items = self._reservoir.size
        state = {
            "labels": list(self._numbers),
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
        self._numbers = {label: number for number, label in enumerate(state["labels"])}
        self._reservoir.keys[:n_items], self._reservoir.size = arrays["keys"], n_items
        self._items[:n_items], self._item_codes[:n_items] = arrays["items"], arrays["item_codes"]
        self._halves[:n_items] = arrays["halves"]
        self._item_labels = np.full((self.reservoir_size, arrays["item_labels"].shape[1]), NO_LABEL)
        self._item_labels[:n_items] = arrays["item_labels"]
        self._n_learned, self._n_unoffered = state["n_learned"], state["n_unoffered"]
        self._n_keys, self.n_updates_ = state["n_keys"], state["n_updates"]


@lru_cache(maxsize=16)
def _page_of_keys(seed: int, page: int) -> NDArray[np.float64]:
    return np.random.default_rng([seed, page, 3]).random(KEYS_PER_PAGE)
