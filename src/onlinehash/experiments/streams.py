"""Stream options: order, drift, wrong and missing labels, and classes left out.

The database and the queries of a split do not change. Every option has its own random generator, so that options do not
influence each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from math import isfinite
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinehash._internal.validation import check_choice
from onlinehash.datasets import Split
from onlinehash.exceptions import InvalidInputError
from onlinehash.types import Batch, Features, Labels

_ELEMENTS_PER_CHUNK = 1 << 20

_GROUPS, _ROTATION, _NOISE, _MISSING, _UNSEEN = range(1, 6)  # one random generator per option


@dataclass(frozen=True, kw_only=True)
class StreamOptions:
    """Differences of a stream from the plain shuffled one.

    They are applied in this order: classes left out, order, drift, wrong labels, missing labels.

    Parameters
    ----------
    order : {"shuffled", "sorted", "groups"}
        "sorted" is one class after another; "groups" is one group of classes after another, shuffled within a group.
    groups : int
        Number of groups for ``order="groups"``; see :func:`grouped_rows`.
    drift : {"none", "rotation"}
        "rotation" rotates the features along the stream; see :func:`turn_towards`.
    drift_angle : float
        Total rotation, in degrees.
    label_noise : float
        Fraction of the labels of the stream that are wrong; see :func:`with_wrong_labels`.
    missing_labels : float
        Fraction of the labels of the stream that are missing; see :func:`without_labels`.
    unseen : float
        Fraction of the classes that are not in the stream; see :func:`unseen_classes`. Their rows are removed from
        the stream.

    Examples
    --------
    >>> StreamOptions(order="groups", groups=5).groups
    5
    """

    order: str = "shuffled"
    groups: int = 0
    drift: str = "none"
    drift_angle: float = 0.0
    label_noise: float = 0.0
    missing_labels: float = 0.0
    unseen: float = 0.0

    def __post_init__(self) -> None:
        check_choice("order", self.order, ("shuffled", "sorted", "groups"))
        check_choice("drift", self.drift, ("none", "rotation"))
        for name in ("label_noise", "missing_labels", "unseen"):
            share = getattr(self, name)
            if not _is_number(share) or not 0 <= share < 1:
                raise InvalidInputError(f"{name}={share!r} is not a share; use a number from 0 to below 1.")
        if type(self.groups) is not int or self.groups < 0 or (self.order == "groups") != (self.groups != 0):
            raise InvalidInputError(
                f'order={self.order!r} and groups={self.groups!r} do not fit; write order = "groups" with groups = 5, '
                "and no groups with another order."
            )
        if not _is_number(self.drift_angle) or (self.drift == "none") != (self.drift_angle == 0):
            raise InvalidInputError(
                f'drift={self.drift!r} and drift_angle={self.drift_angle!r} do not fit; write drift = "rotation" '
                "with drift_angle = 90, and no angle without drift."
            )


STREAM_DEFAULTS = {option.name: option.default for option in fields(StreamOptions)}
"""Stream options and their defaults, which give a plain shuffled stream."""


def make_stream(split: Split, options: StreamOptions, seed: int) -> Split:
    """Return the split with the options applied to its stream; the database and the queries are shared.

    Copies the stream once if rows move or rotate, else not at all.

    Examples
    --------
    >>> from onlinehash import load_dataset
    >>> split = make_stream(load_dataset("digits").split(), StreamOptions(order="sorted", label_noise=0.1), seed=0)
    >>> int(split.stream.y[0]), int(split.stream.y[-1]), len(split.stream.y)
    (0, 9, 1500)
    """
    X, y = split.stream
    rows = np.arange(len(y))
    if options.unseen:
        rows = rows[~np.isin(y, unseen_classes(split.database.y, options.unseen, seed))]
    if options.order == "sorted":
        rows = rows[np.argsort(y[rows], kind="stable")]
    elif options.order == "groups":
        rows = rows[grouped_rows(y[rows], options.groups, seed)]
    if options.unseen or options.order != "shuffled" or options.drift != "none":
        X, y = X[rows], y[rows]
    if options.drift == "rotation":
        turn_towards(X, options.drift_angle, seed)
    if options.label_noise:
        y = with_wrong_labels(y, options.label_noise, seed)
    if options.missing_labels:
        y = without_labels(y, options.missing_labels, seed)
    return replace(split, stream=Batch(X, y))


def grouped_rows(y: Labels, groups: int, seed: int) -> NDArray[np.intp]:
    """Return row indices that order classes by group; rows keep their order within a group.

    The classes are shuffled by the seed and split into groups whose sizes differ by at most one.

    Examples
    --------
    >>> y = np.array([0, 1, 2, 3, 0, 1, 2, 3])
    >>> y[grouped_rows(y, 2, seed=0)]
    array([0, 3, 0, 3, 1, 2, 1, 2])
    """
    classes, numbers = np.unique(y, return_inverse=True)
    if groups > len(classes):
        raise InvalidInputError(f"groups={groups} is more than the {len(classes)} classes of the stream; use fewer.")
    group_of = np.empty(len(classes), np.intp)
    order = np.random.default_rng([seed, _GROUPS]).permutation(len(classes))
    for group, members in enumerate(np.array_split(order, groups)):
        group_of[members] = group
    return np.argsort(group_of[numbers], kind="stable")


def turn_towards(X: Features, degrees: float, seed: int) -> None:
    """Rotate the rows of a stream in place: the first by ``-degrees``, the last by 0, linearly in between.

    The features drift by ``degrees`` along the stream; the database and the queries match its end. The seed pairs the
    features at random; each pair spans a plane, and a row is rotated in all these planes by the same angle (if the
    number of features is odd, one does not change). At 90 degrees the two features of a pair are swapped, one of them
    with the opposite sign. Norms, and angles between rows rotated by the same angle, do not change. Costs
    O(n_features) per row.
    """
    angles = np.radians(np.linspace(-degrees, 0.0, len(X)) if len(X) > 1 else np.zeros(len(X)))[:, np.newaxis]
    n_features = X.shape[1]
    pairs = np.random.default_rng([seed, _ROTATION]).permutation(n_features)[: n_features // 2 * 2]
    first, second = pairs.reshape(2, -1)
    for rows in chunks(X):
        cos, sin = (part.astype(X.dtype) for part in (np.cos(angles[rows]), np.sin(angles[rows])))
        a, b = X[rows, first], X[rows, second]
        X[rows, first] = cos * a - sin * b
        X[rows, second] = sin * a + cos * b


def chunks(X: Features, size: int | None = None, width: int | None = None) -> Iterator[slice]:
    """Return slices of rows that have about ``size`` elements together, in ``width`` columns instead of their own."""
    step = max(1, (size or _ELEMENTS_PER_CHUNK) // (width or X.shape[1]))
    return (slice(start, start + step) for start in range(0, len(X), step))


def with_wrong_labels(y: Labels, share: float, seed: int) -> Labels:
    """Return labels of which a random fraction is replaced by a random other class of the stream.

    Examples
    --------
    >>> y = np.repeat([0, 1, 2], 10)
    >>> int((with_wrong_labels(y, 0.2, seed=0) != y).sum())
    6
    """
    rng = np.random.default_rng([seed, _NOISE])
    classes, numbers = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        raise InvalidInputError("The stream has one class only; a wrong label needs another one.")
    rows = _some_rows(rng, len(y), share)
    numbers[rows] = (numbers[rows] + rng.integers(1, len(classes), len(rows))) % len(classes)
    return np.asarray(classes[numbers])


def without_labels(y: Labels, share: float, seed: int) -> NDArray[np.float64]:
    """Return labels of which a random fraction is NaN: rows that supervised hashers skip.

    Examples
    --------
    >>> int(np.isnan(without_labels(np.arange(10), 0.5, seed=0)).sum())
    5
    """
    labels: NDArray[np.float64] = y.astype(np.float64)
    labels[_some_rows(np.random.default_rng([seed, _MISSING]), len(y), share)] = np.nan
    return labels


def labelled_rows(X: Features, y: Labels) -> Batch:
    """Return the rows that have a label, and their labels; NaN is a missing one."""
    if y.dtype.kind != "f":
        return Batch(X, y)
    labelled = ~np.isnan(y)
    return Batch(X[labelled], y[labelled].astype(np.int64))


def unseen_classes(y: Labels, share: float, seed: int) -> Labels:
    """Return the classes to leave out of a stream: a random fraction of those in y, at least one."""
    classes = np.unique(y)
    n_unseen = max(1, int(share * len(classes) + 0.5))  # rounds half up
    if n_unseen >= len(classes):
        raise InvalidInputError(
            f"unseen={share} of {len(classes)} classes leaves none to learn from; use a smaller one."
        )
    return np.sort(np.random.default_rng([seed, _UNSEEN]).choice(classes, n_unseen, replace=False))


def _some_rows(rng: np.random.Generator, n_rows: int, share: float) -> NDArray[np.intp]:
    return rng.permutation(n_rows)[: round(share * n_rows)]


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and isfinite(value)
