"""Images in the idx format of MNIST and Fashion-MNIST."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from onlinehash.datasets._origin import Content, Origin, checked_content
from onlinehash.datasets.files import download, read_published
from onlinehash.types import Progress

_IMAGES = ("train-images-idx3-ubyte", "t10k-images-idx3-ubyte")
_LABELS = ("train-labels-idx1-ubyte", "t10k-labels-idx1-ubyte")


@dataclass(frozen=True)
class IdxFiles(Origin):
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
