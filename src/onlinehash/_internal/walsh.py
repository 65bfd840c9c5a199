"""The fast Walsh-Hadamard transform."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from onlinehash._internal.kernels import kernel
from onlinehash.exceptions import InvalidInputError


def walsh_hadamard(values: NDArray[Any]) -> NDArray[Any]:
    """Multiply by the Sylvester-Hadamard matrix along the first axis, in place, without the matrix.

    Costs O(n log n) additions a column for n rows, against O(n^2) for the product.

    Parameters
    ----------
    values : ndarray of float, shape (n,) or (n, n_columns)
        n is a power of two. Overwritten with the result.

    Examples
    --------
    >>> import numpy as np
    >>> walsh_hadamard(np.array([1.0, 0.0, 0.0, 2.0]))
    array([ 3., -1., -1.,  3.])
    """
    if values.ndim not in (1, 2) or values.dtype.kind != "f":
        raise InvalidInputError(
            f"The transform takes floats of one or two dimensions, not {values.dtype} of shape {values.shape}."
        )
    n = len(values)
    if n == 0 or n & (n - 1):
        raise InvalidInputError(f"The transform takes a power of two of rows, not {n}; pad with zeros.")
    transform_columns(values.reshape(n, -1))
    return values


@kernel()
def transform_columns(rows: Any) -> None:
    """Transform every column of a matrix of 2^m rows, in place; for compiled code."""
    n, n_columns = rows.shape
    step = 1
    while 4 * step <= n:  # two stages at once: half the traffic
        for start in range(0, n, 4 * step):
            for i in range(start, start + step):
                first, second, third, fourth = rows[i], rows[i + step], rows[i + 2 * step], rows[i + 3 * step]
                for c in range(n_columns):
                    a, b = first[c] + second[c], first[c] - second[c]
                    p, q = third[c] + fourth[c], third[c] - fourth[c]
                    first[c], second[c], third[c], fourth[c] = a + p, b + q, a - p, b - q
        step *= 4
    if step < n:
        for i in range(step):
            first, second = rows[i], rows[i + step]
            for c in range(n_columns):
                first[c], second[c] = first[c] + second[c], first[c] - second[c]
