"""Features in MATLAB files: version 5 through SciPy, version 7.3 (HDF5) through h5py."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinehash.datasets._origin import Content, NamedFile, checked_content
from onlinehash.exceptions import FileFormatError, needs_extra

_HDF5_SIGNATURE = b"\x89HDF\r\n\x1a\n"
_HDF5_OFFSETS = (0, 512)
_DAMAGED = (OSError, ValueError, TypeError, KeyError, EOFError, NotImplementedError, zlib.error, struct.error)

_LAYOUTS = (
    (("trainCNN", "trainLabels"), ("testCNN", "testLabels")),
    (("trainCNN", "traininglabels"), ("testCNN", "testlabels")),
    (("Xtrain", "Ytrain"), ("Xtest", "Ytest")),
    (("pca_feats", "labels"),),
)
"""Names of features and labels in the published files, train rows before test rows."""


@dataclass(frozen=True)
class MatFile(NamedFile):
    """Read features and labels from a MATLAB file by their published names, else by their shapes.

    By shape: a matrix and the only vector with as many entries as it has rows (or columns: then it is transposed). Of
    two such pairs, the one with ``test`` in its name comes last. With ``pixels``, features beyond 1 are divided by 255.
    """

    pixels: bool = False

    def read(self, path: Path) -> Content:
        arrays = _read_hdf5(path) if _is_hdf5(path) else _read_version_5(path)
        pairs = _pairs_by_name(arrays) or _pairs_by_shape(arrays)
        if not pairs or len({X.shape[1] for X, _ in pairs}) > 1:
            found = ", ".join(f"{name} {array.shape}" for name, array in sorted(arrays.items()))
            raise FileFormatError(
                f"Cannot tell features from labels in {path}, which holds {found or 'no arrays'}; "
                "it needs a feature matrix and one label vector of the same length."
            )
        X = np.concatenate([X.astype(np.float32) for X, _ in pairs])
        y = np.concatenate([y for _, y in pairs])
        if self.pixels and X.max() > 1:
            X *= np.float32(1 / 255)
        return checked_content(X, y, (), path, f"{path.name}, not verified: no digest of it is published")


def _is_hdf5(path: Path) -> bool:
    with path.open("rb") as file:
        head = file.read(_HDF5_OFFSETS[-1] + len(_HDF5_SIGNATURE))
    return any(head.startswith(_HDF5_SIGNATURE, offset) for offset in _HDF5_OFFSETS)


def _read_version_5(path: Path) -> dict[str, NDArray[Any]]:
    scipy_io = import_module("scipy.io")
    try:
        variables = scipy_io.loadmat(path)
    except (*_DAMAGED, scipy_io.matlab.MatReadError) as error:
        raise FileFormatError(f"{path} is damaged or not a MATLAB file: {error}") from error
    return {name: value for name, value in variables.items() if _is_matrix(value)}


def _read_hdf5(path: Path) -> dict[str, NDArray[Any]]:
    with needs_extra("h5py", "mat"):
        h5py = import_module("h5py")
    try:
        with h5py.File(path, "r") as file:
            # MATLAB stores by column and h5py reads by row, so every array shows up transposed.
            return {name: item[()].T for name, item in file.items() if _is_matrix(item)}
    except _DAMAGED as error:
        raise FileFormatError(f"{path} is damaged or not a MATLAB 7.3 file: {error}") from error


def _is_matrix(value: Any) -> bool:
    return len(getattr(value, "shape", ())) == 2 and value.dtype.kind in "biuf"


def _pairs_by_name(arrays: Mapping[str, NDArray[Any]]) -> list[tuple[NDArray[Any], NDArray[Any]]]:
    for layout in _LAYOUTS:
        if all(name in arrays for pair in layout for name in pair):
            return [(arrays[features], arrays[labels].ravel()) for features, labels in layout]
    return []


def _pairs_by_shape(arrays: Mapping[str, NDArray[Any]]) -> list[tuple[NDArray[Any], NDArray[Any]]]:
    vectors = [array.ravel() for array in arrays.values() if 1 in array.shape]
    matrices = [name for name, array in arrays.items() if min(array.shape) > 1]
    pairs = []
    for name in sorted(matrices, key=lambda name: ("test" in name.lower(), name)):
        for X in (arrays[name], arrays[name].T):
            matching = [vector for vector in vectors if len(vector) == len(X)]
            if len(matching) == 1:
                pairs.append((X, matching[0]))
                break
        else:
            return []
    return pairs
