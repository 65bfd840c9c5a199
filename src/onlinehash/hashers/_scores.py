"""How much class scores are sharpened before codewords combine them."""

from __future__ import annotations

from typing import Any

import numpy as np

from onlinehash._validation import check_positive
from onlinehash.exceptions import InvalidInputError

MOST_CLASSES = 1024
"""Classes up to which "auto" sharpens; beyond, the scores would cost several times the linear code."""

_LEAST, _MOST = 0.25, 20.0  # a smaller sharpness is as good as none, a larger one gives the class of the highest score
_LIMIT = 80.0  # exp of more leaves single precision


def check_sharpness(name: str, value: Any) -> None:
    """Raise if a value is not "auto", None, or a number from 0 to 80."""
    if value is None or (isinstance(value, str) and value == "auto"):
        return
    if isinstance(value, str):
        raise InvalidInputError(f"{name}={value!r} is neither 'auto', None nor a number from 0 to {_LIMIT:g}.")
    if value != 0 and check_positive(name, value) > _LIMIT:
        raise InvalidInputError(
            f"{name}={value} is more than {_LIMIT:g}, which is as sharp as single precision allows."
        )


def choose_sharpness(n_classes: int, n_bits: int) -> float:
    """Return the sharpness for a number of classes and of bits: 2/3 ln(C / 8) + 2 C / r^2; 0 where it is below 1/4.

    Every score is noisy, and a bit sums all of them: more classes are more noise, and fewer bits repeat less. Found on
    rows held out of the streams of five data sets; see the method's page.

    Examples
    --------
    >>> [round(choose_sharpness(150, n_bits), 2) for n_bits in (8, 16, 32, 64)]
    [6.64, 3.13, 2.25, 2.03]
    >>> choose_sharpness(10, 32), choose_sharpness(5000, 32)
    (0.0, 0.0)
    """
    if not 0 < n_classes <= MOST_CLASSES:
        return 0.0
    sharpness = 2.0 / 3.0 * np.log(n_classes / 8.0) + 2.0 * n_classes / n_bits**2
    return 0.0 if sharpness < _LEAST else float(min(sharpness, _MOST))
