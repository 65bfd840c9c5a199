"""Which class gets which codeword, so that the bits are easy to learn."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinehash._kernel import kernel
from onlinehash.exceptions import InvalidInputError
from onlinehash.types import Signs

_SWEEPS = 50


def swap_for_learnability(explained: NDArray[np.float64], words: Signs, movable: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return which word each class should take, so that similar classes get similar words.

    With M the matrix of what the features explain of the classes, t^T M t is the variance of a bit t that they explain.
    Its sum over the bits rises with every swap of two words, until no swap helps. If all words are
    orthogonal, it does not depend on the order.

    Parameters
    ----------
    explained : ndarray of shape (n_classes, n_classes)
        M, symmetric.
    words : ndarray of int8, shape (n_classes, n_bits)
        The word of each class so far.
    movable : ndarray of int
        Numbers of the classes that may change theirs.

    Returns
    -------
    places : ndarray of int, shape (n_classes,)
        Class ``i`` takes ``words[places[i]]``.

    Examples
    --------
    Classes 0 and 2 are alike, and 1 and 3; they get the words that differ in one bit only:

    >>> explained = np.array([[4.0, 0, 3, 0], [0, 4, 0, 3], [3, 0, 4, 0], [0, 3, 0, 4]])
    >>> words = np.array([[1, 1, 1], [1, 1, -1], [-1, -1, 1], [-1, -1, -1]], np.int8)
    >>> words[swap_for_learnability(explained, words, np.arange(4))][:, 0]
    array([-1,  1, -1,  1], dtype=int8)
    """
    n_classes = len(words)
    if explained.shape != (n_classes, n_classes) or not np.isin(movable, np.arange(n_classes)).all():
        raise InvalidInputError(
            f"explained has shape {explained.shape} and movable {len(movable)} classes; there are words for "
            f"{n_classes} classes."
        )
    places = np.arange(len(words))
    _swap(np.ascontiguousarray(explained), words.astype(np.float64), movable, places)
    return places


@kernel()
def _swap(explained: Any, words: Any, movable: Any, places: Any) -> None:
    n_classes, n_bits = words.shape
    slopes = explained @ words
    least = 1e-9 * np.trace(explained)
    for _ in range(_SWEEPS):
        moved = False
        for i in range(len(movable)):
            for j in range(i + 1, len(movable)):
                a, b = movable[i], movable[j]
                curve = explained[a, a] + explained[b, b] - 2.0 * explained[a, b]
                gain = 0.0
                for k in range(n_bits):
                    step = words[b, k] - words[a, k]
                    gain += step * (2.0 * (slopes[a, k] - slopes[b, k]) + step * curve)
                if gain > least:
                    for k in range(n_bits):
                        step = words[b, k] - words[a, k]
                        if step != 0.0:
                            words[a, k] += step
                            words[b, k] -= step
                            for c in range(n_classes):
                                slopes[c, k] += step * (explained[c, a] - explained[c, b])
                    places[a], places[b] = places[b], places[a]
                    moved = True
        if not moved:
            return
