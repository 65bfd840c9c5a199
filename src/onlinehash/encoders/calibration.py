"""Calibration: what the class scores of an encoder are worth, judged by rows scored as if they had not been learned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from onlinehash.types import Features

CLASSES_PER_LIST = 5
"""Classes in the class list of an item; more change no ranking."""

MAX_LISTED_CLASSES = 1 << 16  # a class of a list has 16 bits
RANKING_SHARPNESS = 4.0  # of scores that are compared
_TEMPERATURES = np.geomspace(0.005, 1.0, 54)
_KNOWN_QUANTILE, _FAR_QUANTILE = 0.05, 0.01
_LEARNED_WEIGHT, _GATE_WIDTH = 0.9, 0.3
_SAME_VECTOR = 1e-6
_MAX_COMPARED = 2048
_ROUNDING = 1e-12  # of sums of shares

ClassLists = NDArray[np.uint32]
"""The most probable classes of rows, shape (n_rows, 5): number, probability and sharpened score, 16 + 8 + 8 bits."""


@dataclass(frozen=True, eq=False)
class Calibration:
    """How far class scores can be trusted.

    All of it follows from leave-one-out scores of learned rows; see :meth:`HROH.leave_one_out`.

    Parameters
    ----------
    temperature : float, default=0.05
        "T": the probabilities of classes are softmax(s / T).
    known_score : float, default=0.3
        "t": 5 % of the learned rows have a largest score below it. A row below is unlike everything learned.
    spread : float, default=0.2
        "d": standard deviation of the largest scores.
    probabilities : ndarray of shape (n_rows,), optional
        Probability of the most probable class of every row.
    correct : ndarray of bool, shape (n_rows,), optional
        Whether that is a label of the row.
    near_cosine : float, default=-1.0
        1 % of the learned rows have no other row within this cosine. A row farther from all is unlike them, too.

    Examples
    --------
    >>> scores = np.array([[0.9, 0.1], [0.2, 0.7], [0.6, 0.5]])
    >>> calibration = Calibration.fit(scores, [[0], [1], [1]])
    >>> calibration.correct.tolist(), bool(calibration.known_score < 0.7)
    ([True, True, False], True)
    >>> bool(calibration.threshold(0.1) > calibration.probabilities[2])
    True
    """

    temperature: float = 0.05
    known_score: float = 0.3
    spread: float = 0.2
    probabilities: NDArray[np.float32] = field(default_factory=lambda: np.empty(0, np.float32))
    correct: NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, bool))
    near_cosine: float = -1.0

    @classmethod
    def fit(cls, scores: Features, own: Sequence[Sequence[int]], vectors: Features | None = None) -> Self:
        """Calibrate by the leave-one-out scores of rows, the numbers of their classes, and the rows themselves."""
        if not len(scores):
            return cls()
        owner = np.repeat(np.arange(len(own)), [len(numbers) for numbers in own])
        number = np.concatenate([np.asarray(numbers, np.intp) for numbers in own])
        largest = scores.max(axis=1)
        shifted = scores.astype(np.float64) - largest[:, None]

        def loss(temperature: float) -> float:
            total = np.log(np.exp(shifted / temperature).sum(axis=1))
            return float((total[owner] - shifted[owner, number] / temperature).mean())

        temperature = float(min(_TEMPERATURES, key=loss))
        correct = np.bincount(owner, scores.argmax(axis=1)[owner] == number, len(scores)) > 0
        probabilities = softmax(scores, temperature).max(axis=1).astype(np.float32)
        known_score, spread = float(np.quantile(largest, _KNOWN_QUANTILE)), float(largest.std())
        near_cosine = -1.0 if vectors is None else float(np.quantile(_nearest_cosines(vectors), _FAR_QUANTILE))
        return cls(temperature, known_score, max(spread, 1e-6), probabilities, correct, near_cosine)

    def threshold(self, max_error: float, unknown: NDArray[Any] | None = None, unknown_share: float = 0.0) -> float:
        """Return the least probability from which on at most a share ``max_error`` of the classes named is wrong.

        Infinite if there is none. One row more than found is taken to be wrong: of few rows, few errors may be chance.
        ``unknown`` are the probabilities of rows of classes that were not learned, of which
        a share of ``unknown_share`` is expected: all that are accepted are wrong.
        """
        n_known, unknown = len(self.probabilities), np.empty(0, np.float32) if unknown is None else unknown
        values = np.concatenate([self.probabilities, unknown])
        one = (1.0 - unknown_share) / n_known if n_known else 0.0  # of the rows of known classes
        weights = np.append(np.full(n_known, one), np.full(len(unknown), unknown_share / max(1, len(unknown))))
        wrong = weights * ~np.append(self.correct, np.zeros(len(unknown), bool))
        order = np.argsort(-values, kind="stable")
        values = values[order]
        named, errors = np.cumsum(weights[order]), np.cumsum(wrong[order])
        last_of_equal = np.append(values[1:] < values[:-1], True)[: len(values)]
        good = np.flatnonzero((errors + one <= max_error * (named + one) + _ROUNDING) & last_of_equal)
        return float(values[good[-1]]) if len(good) else float("inf")

    def is_known(self, scores: Features, cosines: Features | None = None) -> NDArray[np.bool_]:
        """Return whether rows resemble what was learned, by their scores, and by the cosines of the nearest items."""
        known = scores.max(axis=1) >= self.known_score
        return np.asarray(known if cosines is None else known & (cosines >= self.near_cosine))

    # ------------------------------------------------------------------ ranking

    def class_lists(self, scores: Features) -> ClassLists:
        """Return the most probable classes of rows, most probable first."""
        n_listed = min(CLASSES_PER_LIST, scores.shape[1])
        best = np.argpartition(scores, -n_listed, axis=1)[:, -n_listed:]
        best = np.take_along_axis(best, np.argsort(-np.take_along_axis(scores, best, axis=1), axis=1), axis=1)
        lists = np.zeros((len(scores), CLASSES_PER_LIST), np.uint32)
        lists[:, :n_listed] = best << 16
        for part, shift in ((softmax(scores, self.temperature), 8), (np.maximum(sharpened(scores), 0.0), 0)):
            listed = np.rint(255.0 * np.take_along_axis(part, best, axis=1)).astype(np.uint32)
            lists[:, :n_listed] |= listed << shift
        return lists

    def distances(self, scores: NDArray[Any], lists: ClassLists, cosines: NDArray[Any]) -> NDArray[np.float64]:
        """Return the learned distances of items from a query, by its scores, their class lists and their cosines.

        ::

            1 - g (p_q . p_x + cos(f(s_q), f(s_x))) / 2 - (1 - g) cos(q, x),   g = .9 sigmoid((max s_q - t) / (.3 d))

        p are probabilities of classes, so that their product is the probability of the same label; f are sharpened
        scores. A query unlike everything learned is compared by its vector. An item with the same vector has 0.
        """
        query = scores[None, :].astype(np.float64)
        p, f = softmax(query, self.temperature)[0], sharpened(query)[0]
        numbers, chances, sharp = lists >> 16, (lists >> 8 & 255) / 255.0, (lists & 255) / 255.0
        lengths = np.maximum(np.sqrt((sharp**2).sum(axis=1) * (f @ f)), 1e-12)
        agreement = ((p[numbers] * chances).sum(axis=1) + (f[numbers] * sharp).sum(axis=1) / lengths) / 2.0
        gate = self.gate(query)[0]
        distances = 1.0 - gate * agreement - (1.0 - gate) * cosines
        return np.where(cosines >= 1.0 - _SAME_VECTOR, 0.0, np.maximum(distances, _SAME_VECTOR))

    def gate(self, scores: Features) -> NDArray[np.float64]:
        """Return the weight of what was learned in the distances from queries: "g" of :meth:`distances`."""
        far = (self.known_score - scores.max(axis=1).astype(np.float64)) / (_GATE_WIDTH * self.spread)
        return np.asarray(_LEARNED_WEIGHT / (1.0 + np.exp(np.clip(far, -50.0, 50.0))))


def _nearest_cosines(vectors: Features) -> NDArray[Any]:
    """Return the cosine of every row with the nearest other row, of at most 2048 rows."""
    rows = vectors[:_MAX_COMPARED]
    unit = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    cosines = unit @ unit.T
    np.fill_diagonal(cosines, -1.0)
    return np.asarray(cosines.max(axis=1))


def softmax(scores: Features, temperature: float) -> NDArray[Any]:
    """Return the probabilities of classes from their scores.

    Examples
    --------
    >>> softmax(np.array([[0.1, 0.1]]), 0.05)
    array([[0.5, 0.5]])
    """
    exponents = np.exp((scores - scores.max(axis=1, keepdims=True)) / temperature)
    return np.asarray(exponents / exponents.sum(axis=1, keepdims=True))


def sharpened(scores: Features, sharpness: float = RANKING_SHARPNESS) -> NDArray[Any]:
    """Return scores of which the largest becomes 1, and lower ones much less.

    Examples
    --------
    >>> sharpened(np.array([[0.4, 0.2, 0.0]])).round(2)
    array([[1.  , 0.12, 0.  ]])
    """
    largest = np.abs(scores).max(axis=1, keepdims=True)
    return np.asarray(np.expm1(sharpness * scores / np.where(largest == 0.0, 1.0, largest)) / np.expm1(sharpness))
