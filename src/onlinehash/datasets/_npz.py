"""Features in a NumPy archive, ours or the user's."""

from __future__ import annotations

import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from onlinehash.datasets._origin import Content, NamedFile, checked_content
from onlinehash.datasets.files import file_sha256
from onlinehash.exceptions import FileFormatError

_DAMAGED = (OSError, ValueError, TypeError, EOFError, KeyError, zipfile.BadZipFile, zlib.error)


@dataclass(frozen=True)
class NpzFile(NamedFile):
    """Read an archive with `Xq`, `scale`, `power`, `y` and `classes`, or with plain `X` and `y`.

    In the first schema, the features are ``(Xq * scale) ** power`` in float32, with `Xq` of 8 bits; `scale` is one
    number, or one per feature. `classes` are names; without them, the labels are the names. ``sha256`` is the digest of
    the reference file; another file of that name is read too, and its source says so.
    """

    sha256: str = ""

    @property
    def wanted(self) -> str:
        return f"{self.name} (arrays Xq, scale, power, y, classes; or plain X, y)"

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
