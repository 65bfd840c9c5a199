"""Checksums of rows, column by column, so that a row that changed on its way through a disk is noticed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from onlinehash.collection.stores.label_texts import LabelTexts

Column = NDArray[np.unsignedinteger[Any]]
"""One number per row."""

BYTES = 4  # of a checksum
_NONE = 0xC0DE  # instead of a CRC-32
_INT_FACTOR = 0xBF58476D1CE4E5B9  # odd: multiplication loses nothing
_FACTOR = np.uint64(_INT_FACTOR)
_ALL = (1 << 64) - 1


def row_checksums(kind: str, *columns: Column) -> NDArray[np.uint32]:
    """Return one checksum per row, of its place in every column.

    Whatever changes in one column changes 64 bits; half of them are kept.

    Parameters
    ----------
    kind : str
        What the rows are: those of one table never pass for those of another.
    *columns : Column

    Examples
    --------
    >>> row_checksums("pets", integers([1, 2]), texts(["cat", None])).tolist()
    [4129363194, 26426549]
    """
    mixed = np.full(len(columns[0]), crc32(kind.encode()), np.uint64)
    for column in columns:
        mixed ^= column
        mixed *= _FACTOR
        mixed ^= mixed >> np.uint64(29)
    return (mixed >> np.uint64(32)).astype("<u4")


def row_checksum(kind: str, *values: int) -> int:
    """Return the checksum of one row; NumPy would take most of the time of a single upsert.

    Examples
    --------
    >>> row_checksum("pets", number(1), number("cat"))
    4129363194
    """
    mixed = _seed(kind)
    for value in values:
        mixed = ((mixed ^ value) * _INT_FACTOR) & _ALL
        mixed ^= mixed >> 29
    return mixed >> 32


def number(value: int | str | None) -> int:
    """Return one value as it is in a column of :func:`integers` or :func:`texts`.

    Examples
    --------
    >>> number(1), number("a"), number(None)
    (1, 3904355907, 49374)
    """
    if isinstance(value, int):
        return value & _ALL
    return _NONE if value is None else crc32(value.encode())


label_number = lru_cache(maxsize=4096)(number)
"""The same for labels, which repeat."""


def integers(values: Sequence[int] | NDArray[Any]) -> Column:
    """Return integers as a column; anything else among them is a ValueError.

    Examples
    --------
    >>> integers([1, 2])
    array([1, 2], dtype=uint64)
    """
    found = np.asarray(values) if len(values) else np.empty(0, np.int64)
    if found.dtype.kind not in "iu":
        raise ValueError("not an integer")
    return found.astype(np.int64, copy=False).view(np.uint64)


def texts(values: Sequence[str | None]) -> Column:
    """Return the CRC-32 of texts, computed once for each different one.

    Examples
    --------
    >>> texts(["a", None])
    array([3904355907,      49374], dtype=uint64)
    """
    if isinstance(values, LabelTexts):
        column: Column = texts(values.texts)[values.numbers]
        return column
    known = {text: _NONE if text is None else crc32(text.encode()) for text in set(values)}
    if len(known) == 1:
        return np.full(len(values), known[values[0]], np.uint64)
    return np.fromiter(map(known.__getitem__, values), np.uint64, len(values))


def ids(values: Any) -> Column:
    """Return ids as a column: integers, or the CRC-32 of strings.

    Examples
    --------
    >>> ids([3, 1]), ids(["a"])
    (array([3, 1], dtype=uint64), array([3904355907], dtype=uint64))
    """
    if len(values) and isinstance(values[0], str):  # all different
        return np.fromiter(map(crc32, map(str.encode, values)), np.uint64, len(values))
    return integers(values)


def blobs(values: Sequence[bytes]) -> Column:
    """Return the CRC-32 of strings of bytes.

    Examples
    --------
    >>> blobs([b"a"])
    array([3904355907], dtype=uint64)
    """
    return np.fromiter(map(crc32, values), np.uint64, len(values))


def rows(vectors: NDArray[Any]) -> Column:
    """Return a number per row, from all its bytes.

    The sum of products of its words and fixed factors that look random: however many words change, the upper half of
    the sum stays the same with a probability of about 2 ** -32.

    Examples
    --------
    >>> rows(np.array([[1.0, 2.0], [2.0, 1.0]], np.float32))
    array([16895322181070749696, 15124477563428143104], dtype=uint64)
    """
    little = np.ascontiguousarray(vectors, vectors.dtype.newbyteorder("<"))
    if little.itemsize * little.shape[1] % 4:
        little = np.pad(little, ((0, 0), (0, 1)))
    sums: Column = np.einsum("ij,j->i", little.view("<u4"), _factors(little.itemsize * little.shape[1] // 4))
    return sums


def row(vector: NDArray[Any]) -> int:
    """Return the number of one row as :func:`rows` does, in half the time.

    Examples
    --------
    >>> row(np.array([1.0, 2.0], np.float32))
    16895322181070749696
    """
    if vector.itemsize != 4 or not vector.dtype.isnative or not vector.flags.c_contiguous:
        return int(rows(vector[np.newaxis])[0])
    words = vector.view(np.uint32)
    return int(words.dot(_factors(len(words))))


@cache
def _seed(kind: str) -> int:
    return crc32(kind.encode())


@cache
def _factors(n: int) -> NDArray[np.uint64]:
    """Return n odd factors, pseudorandom and always the same."""
    return mixed(np.arange(1, n + 1, dtype=np.uint64)) | np.uint64(1)


def mixed(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return, for each number n, the n-th output of the pseudorandom generator SplitMix64 with seed 0."""
    numbers = numbers * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        numbers = (numbers ^ (numbers >> np.uint64(shift))) * np.uint64(factor)
    return numbers ^ (numbers >> np.uint64(31))


def words(rows: NDArray[np.uint8]) -> list[Column]:
    """Return rows of bytes as columns of eight bytes each.

    Examples
    --------
    >>> words(np.array([[1, 1], [2, 0]], np.uint8))
    [array([257,   2], dtype=uint64)]
    """
    width = -(-rows.shape[1] // 8)
    padded = np.zeros((len(rows), 8 * width), np.uint8)
    padded[:, : rows.shape[1]] = rows
    return list(np.ascontiguousarray(padded.view("<u8").T).astype(np.uint64, copy=False))
