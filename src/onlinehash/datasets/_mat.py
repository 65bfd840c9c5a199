"""The features that the paper used, in MATLAB files: version 5 through SciPy, version 7.3 (HDF5) through h5py."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import numpy as np

from onlinehash.datasets._origin import Content, NpzFile, checked_content
from onlinehash.exceptions import FileFormatError, needs_extra

_LAYOUTS = (
    (("trainCNN", "trainLabels"), ("testCNN", "testLabels")),
    (("trainCNN", "traininglabels"), ("testCNN", "testlabels")),
    (("pca_feats", "labels"),),
)
"""Names of features and labels in the published files, train rows before test rows."""


@dataclass(frozen=True)
class MatFile(NpzFile):
    """Read features and labels from a MATLAB file by their published names."""

    @property
    def wanted(self) -> str:
        return f"{self.name}, as its authors published it"

    def read(self, path: Path) -> Content:
        with path.open("rb") as file:
            is_hdf5 = file.read(128).startswith(b"MATLAB 7.3")
        with needs_extra("h5py", "research"):
            reader = import_module("h5py" if is_hdf5 else "scipy.io")
        try:
            if is_hdf5:
                with reader.File(path, "r") as file:
                    # MATLAB stores by column and h5py reads by row, so every array shows up transposed.
                    arrays = {name: item[()].T for name, item in file.items() if isinstance(item, reader.Dataset)}
            else:
                arrays = {name: value for name, value in reader.loadmat(path).items() if not name.startswith("__")}
        except Exception as error:
            raise FileFormatError(f"{path} is damaged or not a MATLAB file: {error}") from error
        for layout in _LAYOUTS:
            if all(name in arrays for pair in layout for name in pair):
                X = np.concatenate([np.asarray(arrays[features], np.float32) for features, _ in layout])
                y = np.concatenate([np.ravel(arrays[labels]) for _, labels in layout])
                return checked_content(X, y, (), path, f"{path.name}, not verified: no digest of it is published")
        raise FileFormatError(
            f"{path} holds {', '.join(sorted(arrays)) or 'no arrays'}, not the features and labels of its authors; "
            f"save yours with numpy.savez('{path.stem}.npz', X=features, y=labels)."
        )
