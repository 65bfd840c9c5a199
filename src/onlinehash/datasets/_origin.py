"""Origins of a data set, by kind of file: where it is found, how it is read, and where it is downloaded from.

NumPy archives, what packages carry, the idx files of MNIST and Fashion-MNIST, and the MATLAB files with the features
that the paper used: version 5 through SciPy, version 7.3 (HDF5) through h5py.
"""

from __future__ import annotations

import json
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onlinehash.datasets.files import download, file_sha256, read_published
from onlinehash.exceptions import FileFormatError, needs_extra
from onlinehash.types import Progress

_DAMAGED = (OSError, ValueError, TypeError, EOFError, KeyError, zipfile.BadZipFile, zlib.error)
_IMAGES = ("train-images-idx3-ubyte", "t10k-images-idx3-ubyte")
_LABELS = ("train-labels-idx1-ubyte", "t10k-labels-idx1-ubyte")
_MATLAB_NAMES = (
    (("trainCNN", "trainLabels"), ("testCNN", "testLabels")),
    (("trainCNN", "traininglabels"), ("testCNN", "testlabels")),
    (("pca_feats", "labels"),),
)
"""Names of features and labels in the published files, train rows before test rows."""


class Content(NamedTuple):
    """Features, labels as positions in the class names, and a description of the source."""

    X: NDArray[np.float32]
    y: NDArray[np.int64]
    class_names: tuple[str, ...]
    source: str


def checked_content(X: NDArray[Any], y: NDArray[Any], class_names: Sequence[str], path: Path, source: str) -> Content:
    """Return float32 features and labels as positions in the class names; raise if the file is invalid.

    Without class names, the sorted distinct labels are the names: they may count from 0 or 1, or be strings.
    """
    y = y.ravel() if y.size == max(y.shape, default=0) else y
    if X.ndim != 2 or 0 in X.shape or y.shape != X.shape[:1]:
        raise FileFormatError(
            f"{path} holds features of shape {X.shape} and labels of shape {y.shape}; "
            "(n_samples, n_features) and (n_samples,) are needed."
        )
    if X.dtype.kind not in "biuf":
        raise FileFormatError(f"{path} holds features of dtype {X.dtype}; real numbers are needed.")
    with np.errstate(over="ignore"):
        X = np.ascontiguousarray(X, dtype=np.float32)
    if not (np.isfinite(X.min()) and np.isfinite(X.max())):
        raise FileFormatError(f"{path} holds NaN or infinite features; remove those rows.")
    if y.dtype.kind == "f" and np.isfinite(y).all() and (y == np.rint(y)).all():
        y = y.astype(np.int64)
    if y.dtype.kind not in "biuU":
        raise FileFormatError(f"{path} holds labels of dtype {y.dtype}; whole numbers or strings are needed.")
    if not class_names:
        values, y = np.unique(y, return_inverse=True)
        class_names = [str(value) for value in values]
    elif y.dtype.kind == "U" or y.min() < 0 or y.max() >= len(class_names):
        raise FileFormatError(
            f"{path} names {len(class_names)} classes, but its labels are not whole numbers "
            f"from 0 to {len(class_names) - 1}."
        )
    return Content(X, y.astype(np.int64), tuple(class_names), source)


def _package_folder(name: str) -> Path | None:
    """Return the folder of an installed package, which is not imported."""
    module = find_spec(name)
    return Path(module.origin).parent if module and module.origin else None


class ScikitLearnDigits:
    """Read the digits that scikit-learn carries; pixels / 16."""

    @property
    def wanted(self) -> str:
        return "scikit-learn"

    def find(self, folders: Sequence[Path]) -> Path | None:
        return _package_folder("sklearn")

    def read(self, path: Path) -> Content:
        X, y = import_module("sklearn.datasets").load_digits(return_X_y=True)
        return checked_content(X / np.float32(16), y, (), path, "scikit-learn")


@dataclass(frozen=True)
class PackageFiles:
    """Read what an installed package carries: vectors in an .npy file, and records in a JSON file, one per vector.

    The labels are the field ``label`` of the records. The package is not imported.
    """

    package: str
    module: str
    vectors: str
    records: str
    label: str

    @property
    def wanted(self) -> str:
        return f"the package {self.package}"

    def find(self, folders: Sequence[Path]) -> Path | None:
        folder = _package_folder(self.module)
        return folder if folder and (folder / self.vectors).is_file() else None

    def read(self, path: Path) -> Content:
        try:
            X = np.load(path / self.vectors, allow_pickle=False)
            labels = [record[self.label] for record in json.loads((path / self.records).read_text("utf-8"))]
        except _DAMAGED as error:
            raise FileFormatError(f"{path} does not hold the files of {self.package}: {error}") from error
        return checked_content(X, np.array(labels), (), path / self.vectors, self.wanted)


@dataclass(frozen=True)
class NpzFile:
    """Read an archive with `Xq`, `scale`, `power`, `y` and `classes`, or with plain `X` and `y`.

    In the first schema, the features are ``(Xq * scale) ** power`` in float32, with `Xq` of 8 bits; `scale` is one
    number, or one per feature. `classes` are names; without them, the labels are the names. ``sha256`` is the digest of
    the reference file; another file of that name is read too, and its source says so.
    """

    name: str
    sha256: str = ""

    @property
    def wanted(self) -> str:
        return f"{self.name} (arrays Xq, scale, power, y, classes; or plain X, y)"

    def find(self, folders: Sequence[Path]) -> Path | None:
        return next((path for folder in folders if (path := folder / self.name).is_file()), None)

    def read(self, path: Path) -> Content:
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
                arrays = {name: archive[name] for name in archive.files}
        except _DAMAGED as error:
            raise FileFormatError(f"{path} is damaged or not a NumPy archive: {error}") from error
        if "y" not in arrays or not ("X" in arrays or {"Xq", "scale", "power"} <= arrays.keys()):
            raise FileFormatError(
                f"{path} holds {', '.join(sorted(arrays)) or 'no arrays'}; "
                "it needs Xq, scale, power, y and classes, or X and y."
            )
        X = arrays["X"] if "X" in arrays else _decoded(arrays["Xq"], arrays["scale"], arrays["power"], path)
        names = [str(name) for name in arrays.get("classes", np.empty(0)).ravel()]
        digest = file_sha256(path)
        source = "the reference file" if digest == self.sha256 else f"sha256 {digest}: not the reference file"
        return checked_content(X, arrays["y"], names, path, f"{path.name}, {source}")


def _decoded(
    Xq: NDArray[np.integer], scale: NDArray[np.floating], power: NDArray[np.floating], path: Path
) -> NDArray[np.float32]:
    try:
        X = Xq.astype(np.float32)
        X *= scale
        with np.errstate(all="ignore"):
            X **= power.item()
    except (TypeError, ValueError) as error:
        raise FileFormatError(
            f"{path} has Xq of shape {Xq.shape}, scale of shape {scale.shape} and power of shape "
            f"{power.shape}; scale is one number or one per feature, power is one number."
        ) from error
    return X


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
        for layout in _MATLAB_NAMES:
            if all(name in arrays for pair in layout for name in pair):
                X = np.concatenate([np.asarray(arrays[features], np.float32) for features, _ in layout])
                y = np.concatenate([np.ravel(arrays[labels]) for _, labels in layout])
                return checked_content(X, y, (), path, f"{path.name}, not verified: no digest of it is published")
        raise FileFormatError(
            f"{path} holds {', '.join(sorted(arrays)) or 'no arrays'}, not the features and labels of its authors; "
            f"save yours with numpy.savez('{path.stem}.npz', X=features, y=labels)."
        )


@dataclass(frozen=True)
class IdxFiles:
    """Read the four published idx files, plain or gzip, from one folder: pixels / 255, train then test rows.

    ``digests`` maps file names to the sha256 of their uncompressed content, ``base_urls`` are folders with the gzip
    files, and ``system_folders`` those where distributions install the files.
    """

    digests: Mapping[str, str]
    base_urls: Sequence[str]
    system_folders: Sequence[str] = ()

    @property
    def wanted(self) -> str:
        return " + ".join(f"{name}[.gz]" for name in self.digests)

    def find(self, folders: Sequence[Path]) -> Path | None:
        for folder in (*folders, *map(Path, self.system_folders)):
            if all(_plain_or_gzip(folder, name) for name in self.digests):
                return folder
        return None

    def read(self, path: Path) -> Content:
        images, labels = (np.concatenate([self._array(path, name) for name in names]) for names in (_IMAGES, _LABELS))
        X = images.reshape(len(images), -1).astype(np.float32)
        X *= np.float32(1 / 255)
        return checked_content(X, labels, (), path, "the published idx files, verified")

    def fetch(self, folder: Path, progress: Progress | None = None) -> None:
        for name, digest in self.digests.items():
            if _plain_or_gzip(folder, name) is None:
                urls = [f"{base}{name}.gz" for base in self.base_urls]
                download(urls, folder / f"{name}.gz", digest, progress)

    def _array(self, folder: Path, name: str) -> NDArray[np.uint8]:
        """Return an array of bytes: two zero bytes, their type, the number of dimensions, these, and the data."""
        path = _plain_or_gzip(folder, name)
        assert path is not None  # find() saw it
        content = read_published(path, self.digests[name])
        start = 4 + 4 * content[3]
        return np.frombuffer(content, np.uint8, offset=start).reshape(np.frombuffer(content[4:start], ">u4"))


def _plain_or_gzip(folder: Path, name: str) -> Path | None:
    return next((path for path in (folder / f"{name}.gz", folder / name) if path.is_file()), None)


Origin = ScikitLearnDigits | PackageFiles | NpzFile | MatFile | IdxFiles
"""One kind of file that a data set can be read from.

``wanted`` says which files to put into a folder, ``find`` returns the first path that holds the data without reading
it, and ``read`` returns its content.
"""
