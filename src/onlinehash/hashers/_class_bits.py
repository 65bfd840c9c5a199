"""How classes become the bits of HROH: which codeword each gets, how sharp scores are, and bits for other classes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from onlinehash._internal.validation import check_positive
from onlinehash.codebooks import ClassTable, Codebook, swap_for_learnability
from onlinehash.encoders.shortlist import MOST_SCORED_CLASSES, N_LISTED
from onlinehash.exceptions import InvalidInputError
from onlinehash.hashers._base import Signs
from onlinehash.hashers._principal import random_rotation
from onlinehash.hashers._ridge import Matrix, RidgeStatistics
from onlinehash.hashers.itq import fit_rotation

ROWS_TO_SETTLE = 20  # after which a class keeps its codeword permanently
MAX_ASSIGNED_CLASSES = 2048  # above this, codewords stay in order of arrival
COMPARING_PENALTY = 0.01  # with which classes are compared, for rows of unit length

LEAST_CHOSEN, MOST_CHOSEN = 0.25, 20.0  # a smaller sharpness is as good as none, a larger one gives the best class only
LEAST_WITH_CONFIDENCE = 2.0
MAX_SHARPNESS = 80.0  # exp of more leaves single precision

WITHIN_CLASS_PENALTY = 0.1  # of the mean within-class variance of a feature, added to each
N_SIMULATED_ROWS = 4096
N_ROTATION_STEPS = 50
GENERAL_BIT_SIZE = 0.5  # root mean square of the values, next to 1 of the class bits
TINY = 1e-12


class SettlingClasses(ClassTable):
    """A table of classes in which similar classes get similar codewords.

    The codeword of a class that has not settled is provisional: :meth:`assigned` computes it as a deterministic
    function of the statistics and of the codewords of settled classes, whose places in the codebook are ``settled``.
    The assignment makes the first ``n_compared`` bits easy to learn; 0 keeps codewords in order of arrival.
    """

    def __init__(self, codebook: Codebook, *, n_compared: int) -> None:
        super().__init__(codebook)
        self.settled: dict[int, int] = {}
        self._n_compared = n_compared

    def restore_settled(self) -> None:
        """Give the classes of a saved table that have settled their codewords again."""
        if self.settled:
            self.move_to(self._free_places(np.arange(len(self))))

    @property
    def provisional(self) -> bool:
        """Whether a class has not settled on a codeword yet."""
        return self._n_compared > 0 and len(self.settled) < len(self)

    def settle(self, statistics: RidgeStatistics) -> None:
        """Fix the current codewords of classes with enough rows."""
        places, counts = self._assigned_places(statistics), statistics.counts
        self.move_to(places)
        self.settled |= {n: int(place) for n, place in enumerate(places[: len(counts)]) if counts[n] >= ROWS_TO_SETTLE}

    def assigned(self, statistics: RidgeStatistics) -> Signs:
        """Return the codewords of all classes: the settled ones, and provisional ones from the statistics."""
        return self.codewords_at(self._assigned_places(statistics)) if self.provisional else self.codewords

    def _assigned_places(self, statistics: RidgeStatistics) -> NDArray[np.intp]:
        """Return the places of all classes in the codebook."""
        seen = statistics.seen
        places = self._free_places(seen)
        if len(seen) > MAX_ASSIGNED_CLASSES:
            return places
        words = self.codewords_at(places)[seen, : self._n_compared]
        overlaps = words.astype(np.float64) @ words.T
        if not np.any(overlaps - np.diag(np.diag(overlaps))):
            return places  # all orders of orthogonal words are equally good
        sums = statistics.class_sums(seen)
        explained = sums @ statistics.factored(COMPARING_PENALTY * statistics.trace() / statistics.total).solve(sums.T)
        movable = np.flatnonzero([int(number) not in self.settled for number in seen])
        swapped = swap_for_learnability(0.5 * (explained + explained.T), words, movable)
        places[seen] = places[seen][swapped]
        return places

    def _free_places(self, seen: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return the places in the codebook before any swap: settled classes keep theirs, then come those seen."""
        places = np.full(len(self), -1)
        places[list(self.settled)] = list(self.settled.values())
        free = np.setdiff1d(np.arange(len(self)), places)
        movable = np.flatnonzero(places < 0)
        places[np.concatenate([np.intersect1d(movable, seen), np.setdiff1d(movable, seen)])] = free
        return places


def check_sharpness(name: str, value: Any) -> None:
    """Raise if a value is not "auto", None, or a number from 0 to 80."""
    if value is None or (isinstance(value, str) and value == "auto"):
        return
    if isinstance(value, str):
        raise InvalidInputError(f"{name}={value!r} is neither 'auto', None nor a number from 0 to {MAX_SHARPNESS:g}.")
    if value != 0 and check_positive(name, value) > MAX_SHARPNESS:
        raise InvalidInputError(
            f"{name}={value} is more than {MAX_SHARPNESS:g}, which is as sharp as single precision allows."
        )


def choose_sharpness(n_classes: int, n_bits: int, confidence_bits: int = 0) -> float:
    """Return the sharpness for a number of classes and of bits; 0 where it is below 1/4.

    ::

        2/3 ln(min(C, 1024) / 8) + 2 min(C, 256) / r^2

    With confidence bits, that times 1 + (16 / r)^2, and at least 2: what is not sure is said by inverted bits then.
    Every score is noisy, and a bit sums all of them: more classes are more noise, and fewer bits repeat less. Of more
    than 1024 classes 256 are summed. Found on rows held out of the streams of seven data sets; see the method's page.

    Examples
    --------
    >>> [round(choose_sharpness(150, n_bits), 2) for n_bits in (8, 16, 32, 64)]
    [6.64, 3.13, 2.25, 2.03]
    >>> [round(choose_sharpness(10, 32), 2), round(choose_sharpness(5000, 32), 2)]
    [0.0, 3.73]
    """
    if not n_classes:
        return 0.0
    noise = 2.0 / 3.0 * np.log(min(n_classes, MOST_SCORED_CLASSES) / 8.0)
    sharpness = noise + 2.0 * min(n_classes, N_LISTED) / n_bits**2
    if confidence_bits:
        sharpness = max(LEAST_WITH_CONFIDENCE, sharpness * (1.0 + (16.0 / n_bits) ** 2))
    return 0.0 if sharpness < LEAST_CHOSEN else float(min(sharpness, MOST_CHOSEN))


def general_directions(
    statistics: RidgeStatistics, classes: NDArray[np.intp], n_bits: int, seed: int
) -> tuple[Matrix, Matrix]:
    """Return the weights, shape (n_inputs, n_bits), and intercepts of general bits, from sums alone.

    The directions are the first generalised eigenvectors of the total scatter against the scatter within classes:
    those along which rows differ most, compared with how much rows of one class differ. They are rotated by ITQ, on
    rows simulated from the class means and the scatter within. More bits than inputs are further rotations of all
    directions, at random. ``classes`` are those that have rows, in an order that does not depend on the stream. Costs
    O(n_inputs^3).

    Examples
    --------
    >>> from onlinehash.hashers._ridge import Members
    >>> rows = np.array([[1.0, 0.2], [1.0, -0.2], [-1.0, 0.2], [-1.0, -0.2]])
    >>> statistics = RidgeStatistics(2)
    >>> statistics.add(rows, Members(np.arange(4), np.array([0, 0, 1, 1]), np.ones(4), np.ones(4)))
    >>> weights, intercept = general_directions(statistics, np.arange(2), n_bits=1, seed=0)
    >>> np.abs(rows @ weights + intercept).round(1).ravel()  # the first feature alone
    array([0.5, 0.5, 0.5, 0.5])
    """
    n_inputs = statistics.n_inputs
    counts, total = statistics.counts[classes], statistics.counts[classes].sum()
    if not total > 0.0:
        return np.zeros((n_inputs, n_bits)), np.zeros(n_bits)
    means = statistics.sums[classes] / counts[:, None]
    shares = counts / total
    mean = shares @ means
    within = statistics.gram / total - (means * shares[:, None]).T @ means
    scatter = statistics.gram / total - np.outer(mean, mean)
    soft = WITHIN_CLASS_PENALTY * np.trace(within) / n_inputs + TINY * (np.trace(statistics.gram) / total + TINY)
    n_directions = min(n_bits, n_inputs)
    first = [n_inputs - n_directions, n_inputs - 1]
    directions = eigh(scatter, within + soft * np.eye(n_inputs), subset_by_index=first)[1][:, ::-1]
    directions = directions @ random_rotation(directions, seed, 1)  # eigenvectors are unique but for their signs
    rng = np.random.default_rng([seed, 7])
    drawn = rng.choice(len(classes), N_SIMULATED_ROWS, p=shares)
    squares, vectors = np.linalg.eigh(directions.T @ within @ directions)
    root = (vectors * np.sqrt(np.maximum(squares, 0.0))) @ vectors.T
    noise = rng.standard_normal((N_SIMULATED_ROWS, n_directions)) @ root
    simulated = (means - mean)[drawn] @ directions + noise
    size = np.sqrt(np.square(simulated).mean())
    turned = [directions @ fit_rotation(simulated, np.eye(n_directions), N_ROTATION_STEPS)]
    turned += [directions @ random_rotation(directions, seed, i + 2) for i in range((n_bits - 1) // n_inputs)]
    weights = np.hstack(turned)[:, :n_bits] * (GENERAL_BIT_SIZE / size if size > 0.0 else 0.0)
    return weights, -(mean @ weights)
