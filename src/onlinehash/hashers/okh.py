"""OKH: online kernel hashing (Huang, Yang, Zheng, IJCAI 2013 and TNNLS 2018)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from onlinehash._internal.validation import check_choice, check_positive, check_positive_int
from onlinehash.exceptions import InvalidInputError
from onlinehash.features import Anchors
from onlinehash.hashers._base import Changeable, Features, Labels, OnlineHasher, Targets
from onlinehash.hashers._mixins import BatchHasher, LinearHasher, WithAnchors, mean_squared_distance


@dataclass(eq=False, repr=False, kw_only=True)
class OKH(WithAnchors, LinearHasher, BatchHasher):
    """Learn from consecutive pairs by passive-aggressive steps on kernel features.

    Features are Gaussian similarities to anchors, the first rows of the stream, and a constant. The codes of a pair of
    the same class should be at most ``similar_radius`` apart, those of different classes at least ``dissimilar_share``
    of the bits. If so, nothing changes (passive). Otherwise the nearest codes g without a loss are found by flipping
    the least certain of the wrong bits, and the weights take the smallest step that produces them, bounded by C
    (aggressive)::

        V = x_i (g_i - h_i)^T + x_j (g_j - h_j)^T
        W <- W + min(C, l / |V|^2) V,     l = (h_i - g_i)^T W^T x_i + (h_j - g_j)^T W^T x_j + sqrt(loss)

    Costs O(n_anchors (n_features + n_bits)) per instance. The authors published their update only as an unreadable
    binary; this is derived from their papers, and tested by its invariants, not against their numbers.

    Parameters
    ----------
    n_bits : int, default=32
        Length of the codes.
    aggressiveness : float, default=0.001
        Largest step ("C").
    similar_radius : float, default=0.0
        Largest distance in bits without a loss for a pair of the same class ("alpha").
    dissimilar_share : float, default=0.3
        Smallest distance without a loss for a pair of different classes, as a fraction of the bits ("beta").
    n_anchors : int, default=300
        Number of anchors: the first rows of the stream. Learning starts when they are complete.
    variant : {"as_described", "as_released"}, default="as_described"
        The squared bandwidth of the similarities is the mean squared distance of the anchors. The published code, and
        ``"as_released"``, square it once more, which makes all similarities nearly equal.
    preprocess, init, random_state, output
        As in :class:`HCOH`; starting weights have shape (n_anchors + 1, n_bits).

    References
    ----------
    L.-K. Huang, Q. Yang, W.-S. Zheng. Online Hashing. IJCAI 2013; IEEE TNNLS 29(6), 2018.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from onlinehash import OKH
    >>> X, y = load_digits(return_X_y=True)
    >>> OKH(n_bits=16, n_anchors=50, random_state=0).partial_fit(X, y).transform(X).shape
    (1797, 2)
    """

    name: ClassVar[str] = "okh"
    changeable: ClassVar[Changeable] = {**OnlineHasher.changeable, "aggressiveness": check_positive}

    has_constant = True
    whole_batches = True  # nothing can be learned from half a pair
    batch_size = 2
    _saved = ("_weights",)

    aggressiveness: float = 0.001
    similar_radius: float = 0.0
    dissimilar_share: float = 0.3
    n_anchors: int = 300
    variant: str = "as_described"

    def _start(self, n_features: int) -> None:
        check_choice("variant", self.variant, ("as_described", "as_released"))
        if self.similar_radius < 0:
            raise InvalidInputError(f"similar_radius={self.similar_radius} is negative; use 0 or more bits.")
        if not 0 <= self.dissimilar_share <= 1:
            raise InvalidInputError(f"dissimilar_share={self.dissimilar_share} is not between 0 and 1.")
        self._anchors = None

    def _head_size(self) -> int:
        return check_positive_int("n_anchors", self.n_anchors)

    def _open(self, head: Features, targets: Targets) -> None:
        variance = mean_squared_distance(head)
        width = 2 * (variance if self.variant == "as_described" else variance**2)
        self._anchors = Anchors(head, width, constant=True)
        self._start_weights(self._anchors.n_outputs)

    def _learn_batch(self, rows: Features, labels: Labels) -> None:
        assert self._anchors is not None
        inputs = self._anchors.map(rows)
        change = self._step(inputs, bool(labels[0] == labels[1]))
        if change is not None:
            self._weights += change

    def _step(self, inputs: Features, similar: bool) -> NDArray[Any] | None:
        """Return the change of the weights by a pair, or None if it has no loss."""
        projections = inputs @ self._weights
        signs = np.where(projections >= 0, 1, -1)
        differ = signs[0] != signs[1]
        distance = int(differ.sum())
        loss = distance - self.similar_radius if similar else self.dissimilar_share * self.n_bits - distance
        if loss <= 0:
            return None
        wrong = np.flatnonzero(differ if similar else ~differ)
        certainty = np.abs(projections[:, wrong])
        flipped = wrong[np.argsort(certainty.min(axis=0), kind="stable")[: int(np.ceil(loss))]]
        side = np.abs(projections[:, flipped]).argmin(axis=0)
        goal = signs.copy()
        goal[side, flipped] *= -1
        moved = (goal - signs).astype(self._dtype)
        direction = inputs.T @ moved
        length = float((direction * direction).sum())
        suffered = float(-(moved * projections).sum() + np.sqrt(loss))
        return np.asarray(self._dtype.type(min(self.aggressiveness, suffered / length)) * direction)
