"""The catalogue: for each data set, a description and the files it loads from."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, get_args

from onlinehash.datasets._origin import IdxFiles, Origin
from onlinehash.datasets.dataset import Dataset, ProtocolSizes
from onlinehash.datasets.files import ENVIRONMENT_VARIABLE, data_folder
from onlinehash.exceptions import DataNotFoundError
from onlinehash.types import Progress

_KINDS: dict[str, Any] = {kind.__name__: kind for kind in get_args(Origin)}


@dataclass(frozen=True)
class DatasetInfo:
    """Description of a data set, and whether it is on this machine.

    Parameters
    ----------
    name, description, licence : str
    n_samples, n_features, n_classes : int
        The size of the reference file; a file of your own may differ.
    available : bool
        Whether it loads without a download.
    where : str
        The path it loads from, or what is missing.

    Examples
    --------
    >>> from onlinehash.datasets import describe
    >>> [info.name for info in describe() if info.n_classes == 150]
    ['clinc150']
    """

    name: str
    description: str
    licence: str
    n_samples: int
    n_features: int
    n_classes: int
    available: bool
    where: str


@dataclass(frozen=True)
class Entry:
    """A data set of the catalogue.

    ``facts`` are those of `DatasetInfo`, ``origins`` are in the order of preference, ``obtain`` is a sentence on how to
    get the data, and ``class_names`` are for files that only number the classes from 0.
    """

    name: str
    sizes: ProtocolSizes
    origins: tuple[Origin, ...]
    obtain: str
    class_names: tuple[str, ...]
    facts: dict[str, Any]

    def load(self, data_dir: str | os.PathLike[str] | None, download: bool, progress: Progress | None) -> Dataset:
        """Read the data set from the first origin that is on this machine, after a download if necessary."""
        folders = self._folders(data_dir)
        found = self._find(folders)
        if found is None and download:
            try:
                for published in self._published:
                    published.fetch(folders[0], progress)
            except DataNotFoundError as error:
                raise DataNotFoundError(f"{self._missing(folders)} {error}") from error
            found = self._find(folders)
        if found is None:
            raise DataNotFoundError(self._missing(folders))
        origin, path = found
        content = origin.read(path)
        numbered = content.class_names == tuple(map(str, range(len(self.class_names))))
        return Dataset(
            name=self.name,
            X=content.X,
            y=content.y,
            class_names=self.class_names if numbered else content.class_names,
            description=self.facts["description"],
            source=content.source,
            licence=self.facts["licence"],
            sizes=self.sizes,
        )

    def info(self, data_dir: str | os.PathLike[str] | None) -> DatasetInfo:
        """Describe the data set and where it is on this machine."""
        found = self._find(self._folders(data_dir))
        elsewhere = f"download from {self._mirrors[0]}" if self._mirrors else f"needs {self.origins[0].wanted}"
        where = str(found[1]) if found else elsewhere
        return DatasetInfo(self.name, **self.facts, available=found is not None, where=where)

    @property
    def _published(self) -> list[IdxFiles]:
        return [origin for origin in self.origins if isinstance(origin, IdxFiles)]

    @property
    def _mirrors(self) -> list[str]:
        return [url for origin in self._published for url in origin.base_urls]

    def _folders(self, data_dir: str | os.PathLike[str] | None) -> tuple[Path, Path]:
        folder = data_folder(data_dir)
        return folder / self.name, folder

    def _find(self, folders: Sequence[Path]) -> tuple[Origin, Path] | None:
        found = ((origin, origin.find(folders)) for origin in self.origins)
        return next(((origin, path) for origin, path in found if path is not None), None)

    def _missing(self, folders: Sequence[Path]) -> str:
        wanted = "; or ".join(origin.wanted for origin in self.origins)
        published = f" Published at {' and '.join(self._mirrors)}." if self._mirrors else ""
        return (
            f"Data set {self.name!r} is not on this machine. Looked in {' and '.join(map(str, folders))} "
            f"for {wanted}. {self.obtain}{published} Put the file there, or set {ENVIRONMENT_VARIABLE} "
            "or data_dir to the folder that has it."
        )


@cache
def entries() -> dict[str, Entry]:
    """Return the data sets of ``catalogue.toml``, by name."""
    catalogue = tomllib.loads((files("onlinehash.datasets") / "catalogue.toml").read_text("utf-8"))
    found = {}
    for name, facts in catalogue.items():
        origins = tuple(_KINDS[origin.pop("kind")](**origin) for origin in facts.pop("origins"))
        sizes, class_names = ProtocolSizes(**facts.pop("sizes")), tuple(facts.pop("class_names", ()))
        found[name] = Entry(name, sizes, origins, facts.pop("obtain"), class_names, facts)
    return found
