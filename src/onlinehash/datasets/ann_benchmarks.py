"""Hamming sets of ann-benchmarks: bits of a database, of queries, and the true neighbours, in one HDF5 file."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onlinehash._internal.validation import check_positive_int
from onlinehash.codes import pack_bits
from onlinehash.exceptions import DataNotFoundError, FileFormatError, InvalidInputError, needs_extra
from onlinehash.types import Codes

_ROWS = 1 << 16  # rows read at a time
_NEEDED = ("train", "test", "neighbors")


@dataclass(frozen=True, eq=False)
class HammingSet:
    """Codes to index, codes to search for, and the true nearest neighbours.

    Parameters
    ----------
    codes : ndarray of uint8, shape (n_items, n_bytes)
        Packed codes of the database; the id of an item is its row.
    queries : ndarray of uint8, shape (n_queries, n_bytes)
    neighbours : ndarray of int64, shape (n_queries, n_neighbours)
        Rows of the true nearest items, nearest first.
    n_bits : int

    Examples
    --------
    >>> codes = np.array([[0], [1], [3]], np.uint8)
    >>> few = HammingSet(codes, codes[:1], np.array([[0, 1]]), n_bits=8)
    >>> few.recall([[0, 2]], k=2)
    0.5
    """

    codes: Codes
    queries: Codes
    neighbours: NDArray[np.int64]
    n_bits: int

    def recall(self, distances: ArrayLike, k: int = 10) -> float:
        """Return the share of the k items found that are as near as the k-th true neighbour.

        Ties count as found, as in ann-benchmarks.

        Parameters
        ----------
        distances : array-like of shape (n_queries, at least k)
            Hamming distances of the items found.
        k : int, default=10
        """
        check_positive_int("k", k)
        found = np.asarray(distances)
        if k > self.neighbours.shape[1]:
            raise InvalidInputError(f"k={k}, but the file has {self.neighbours.shape[1]} neighbours per query.")
        if found.ndim != 2 or len(found) != len(self.queries) or found.shape[1] < k:
            raise InvalidInputError(
                f"distances has shape {found.shape}; {len(self.queries)} queries and k={k} need at least "
                f"({len(self.queries)}, {k})."
            )
        differing = self.queries ^ self.codes[self.neighbours[:, k - 1]]
        farthest = np.bitwise_count(differing).sum(axis=1, dtype=np.int64)
        return float((found[:, :k] <= farthest[:, np.newaxis]).mean())


def load_hamming_set(path: str | os.PathLike[str]) -> HammingSet:
    """Read a Hamming set of ann-benchmarks, such as ``sift-256-hamming.hdf5``.

    The file has arrays ``train`` and ``test`` of bits, one row per code, and ``neighbors``. It is read in parts: memory
    is that of the packed codes. Needs the extra ``mat`` (h5py).

    Parameters
    ----------
    path : path

    Returns
    -------
    HammingSet

    Examples
    --------
    >>> load_hamming_set("no-such-file.hdf5")
    Traceback (most recent call last):
        ...
    onlinehash.exceptions.DataNotFoundError: There is no file no-such-file.hdf5.
    """
    with needs_extra("h5py", "mat"):
        import h5py
    if not Path(path).is_file():
        raise DataNotFoundError(f"There is no file {os.fspath(path)}.")
    try:
        with h5py.File(path, "r") as file:
            return _read(file, os.fspath(path))
    except OSError as error:
        raise FileFormatError(f"{os.fspath(path)} is not an HDF5 file, or it is damaged: {error}.") from error


def _read(file: Any, path: str) -> HammingSet:
    if missing := [name for name in _NEEDED if name not in file]:
        raise FileFormatError(f"{path} has no {missing[0]!r}; a set of ann-benchmarks has train, test and neighbors.")
    metric = file.attrs.get("distance", "hamming")
    metric = metric.decode() if isinstance(metric, bytes) else metric
    if metric != "hamming":
        raise FileFormatError(f"{path} is a set for the distance {metric!r}; take one whose name ends in -hamming.")
    train, test, neighbours = (file[name] for name in _NEEDED)
    if train.ndim != 2 or test.ndim != 2 or train.shape[1] != test.shape[1]:
        raise FileFormatError(
            f"{path}: train has shape {train.shape} and test {test.shape}; both need one row per code."
        )
    if neighbours.ndim != 2 or len(neighbours) != len(test):
        raise FileFormatError(f"{path}: neighbors has shape {neighbours.shape}; it needs one row per query.")
    rows = neighbours[:].astype(np.int64)
    if rows.size and (rows.min() < 0 or rows.max() >= len(train)):
        raise FileFormatError(f"{path}: neighbors names rows outside of train, which has {len(train)}.")
    return HammingSet(_packed(train, path), _packed(test, path), rows, int(train.shape[1]))


def _packed(bits: Any, path: str) -> Codes:
    """Return packed codes of a table of bits, read in parts."""
    parts = []
    for start in range(0, len(bits), _ROWS):
        part = np.asarray(bits[start : start + _ROWS])
        if part.dtype != bool:
            if not np.isin(part, (0, 1)).all():
                raise FileFormatError(f"{path}: {bits.name.strip('/')} has values other than 0 and 1.")
            part = part.astype(bool)
        parts.append(pack_bits(part))
    if not parts:
        raise FileFormatError(f"{path}: {bits.name.strip('/')} has no rows.")
    return np.concatenate(parts)
