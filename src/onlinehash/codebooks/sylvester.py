"""Sylvester's Hadamard matrices, entry by entry in closed form.

Entry ``(i, j)`` is ``(-1) ** popcount(i & j)``, so that any row is computed from its number alone and no matrix
is ever stored.
"""

from __future__ import annotations

import numpy as np

from onlinehash.exceptions import InvalidInputError
from onlinehash.types import Signs


def hadamard_rows(rows: int | slice | list[int], order: int) -> Signs:
    """Return the given rows of the Sylvester-Hadamard matrix of an order that is a power of two.

    Differs from the paper's (-1) ** ((i - 1) * (j - 1)), because that matrix has rank 2.

    Examples
    --------
    >>> hadamard_rows([2, 3], 4)
    array([[ 1,  1, -1, -1],
           [ 1, -1, -1,  1]], dtype=int8)
    """
    if order < 1 or order & (order - 1):
        raise InvalidInputError(f"order={order} is not a power of two; use 1, 2, 4, 8, ...")
    columns = np.arange(order)
    parity = np.bitwise_count(columns[rows][..., None] & columns) & 1
    signs: Signs = np.int8(1) - np.int8(2) * parity.astype(np.int8)
    return signs


def hadamard_matrix(order: int) -> Signs:
    """Return the whole Sylvester-Hadamard matrix, shape (order, order).

    Examples
    --------
    >>> hadamard_matrix(2)
    array([[ 1,  1],
           [ 1, -1]], dtype=int8)
    """
    return hadamard_rows(slice(None), order)
