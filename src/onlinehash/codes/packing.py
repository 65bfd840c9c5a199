"""Packed binary codes: the only place that knows the order of bits and the sign of zero.

Bit ``k`` of a code is bit ``k % 8`` of byte ``k // 8`` (little-endian, as faiss expects). A value of zero
counts as positive, as the paper defines. The unused high bits of the last byte are zero.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onlinehash._internal.arrays import Place, is_on_device
from onlinehash._internal.validation import check_codes, check_n_bits
from onlinehash.exceptions import InvalidCodesError
from onlinehash.types import Codes, Signs


def code_width(n_bits: int) -> int:
    """Return the number of bytes that hold ``n_bits`` bits.

    Examples
    --------
    >>> code_width(12)
    2
    """
    return (n_bits + 7) // 8


def pack_signs(values: ArrayLike) -> Codes:
    """Pack the signs of real values; zero counts as positive.

    Parameters
    ----------
    values : array-like of shape (n_samples, n_bits)
        Projections, or signs -1 and +1.

    Returns
    -------
    codes : ndarray of uint8, shape (n_samples, ceil(n_bits / 8))

    Examples
    --------
    >>> pack_signs([[1.5, -2.0, 0.0, -0.1]])
    array([[5]], dtype=uint8)
    """
    if type(values) is not np.ndarray or values.ndim != 2:
        values = _two_dimensional("values", values)
    return np.packbits(values >= 0, axis=1, bitorder="little")


def pack_bits(bits: ArrayLike) -> Codes:
    """Pack an array of 0 and 1.

    Examples
    --------
    >>> pack_bits([[1, 0, 1, 0]])
    array([[5]], dtype=uint8)
    """
    bits = _two_dimensional("bits", bits)
    if not np.isin(bits, (0, 1)).all():
        raise InvalidCodesError("bits holds values other than 0 and 1; use pack_signs for signs or projections.")
    return np.packbits(bits.astype(bool), axis=1, bitorder="little")


def unpack_bits(codes: ArrayLike, n_bits: int) -> NDArray[np.uint8]:
    """Unpack codes to 0 and 1, shape (n_samples, n_bits).

    Examples
    --------
    >>> unpack_bits(np.array([[5]], dtype=np.uint8), 4)
    array([[1, 0, 1, 0]], dtype=uint8)
    """
    if is_on_device(codes):
        return _unpacked_on_device(codes, check_n_bits(n_bits))  # type: ignore[no-any-return]
    packed = check_codes(codes, check_n_bits(n_bits))
    return np.unpackbits(packed, axis=1, count=n_bits, bitorder="little")


def unpack_signs(codes: ArrayLike, n_bits: int) -> Signs:
    """Unpack codes to -1 and +1, shape (n_samples, n_bits).

    Examples
    --------
    >>> unpack_signs(np.array([[5]], dtype=np.uint8), 4)
    array([[ 1, -1,  1, -1]], dtype=int8)
    """
    bits = unpack_bits(codes, n_bits)
    if is_on_device(bits):
        xp = Place.of(bits).xp
        return xp.astype(bits, xp.int8) * 2 - 1  # type: ignore[no-any-return]
    return bits.astype(np.int8) * np.int8(2) - np.int8(1)


def _unpacked_on_device(codes: Any, n_bits: int) -> Any:
    place = Place.of(codes)
    bits = (codes[:, :, None] >> place.put(np.arange(8), "uint8")[None, None, :]) & 1
    return place.xp.reshape(bits, (codes.shape[0], -1))[:, :n_bits]


def _two_dimensional(name: str, values: ArrayLike) -> NDArray[Any]:
    array = np.asarray(values)
    if array.ndim != 2 or array.shape[1] == 0:
        raise InvalidCodesError(f"{name} has shape {array.shape}; pass one row per code, (n_samples, n_bits).")
    return array
