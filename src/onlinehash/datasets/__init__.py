"""Labelled data sets and the protocols that experiments run on them.

A new data set is a new entry of `catalogue.toml`.
"""

from __future__ import annotations

import os

from onlinehash.datasets._entry import DatasetInfo, entries
from onlinehash.datasets.dataset import PROTOCOLS, Dataset, ProtocolSizes, Split
from onlinehash.exceptions import UnknownNameError
from onlinehash.types import Progress

__all__ = [
    "PROTOCOLS",
    "Dataset",
    "DatasetInfo",
    "ProtocolSizes",
    "Split",
    "dataset_names",
    "describe",
    "load_dataset",
]


def dataset_names() -> tuple[str, ...]:
    """Return the names that `load_dataset` knows.

    Examples
    --------
    >>> "mnist" in dataset_names()
    True
    """
    return tuple(entries())


def describe(*, data_dir: str | os.PathLike[str] | None = None) -> tuple[DatasetInfo, ...]:
    """Describe every data set and whether it is on this machine, without loading or downloading any.

    Parameters
    ----------
    data_dir : path, optional
        As in `load_dataset`.

    Examples
    --------
    >>> digits = describe()[0]
    >>> digits.name, digits.n_samples, digits.n_features, digits.n_classes, digits.available
    ('digits', 1797, 64, 10, True)
    """
    return tuple(entry.info(data_dir) for entry in entries().values())


def load_dataset(
    name: str,
    *,
    data_dir: str | os.PathLike[str] | None = None,
    download: bool = True,
    progress: Progress | None = None,
) -> Dataset:
    """Load a data set by name, from this machine if it is here.

    Files are looked for in ``data_dir/name`` and then in `data_dir`; downloads go to the former. Features
    (npz) may be your own: ``Dataset.source`` says whether they are the reference. The idx files must be the
    published ones.

    Parameters
    ----------
    name : str
        One of `dataset_names`.
    data_dir : path, optional
        Folder of the files. By default the one that the environment variable ``ONLINEHASH_DATA`` names,
        else the user's cache folder.
    download : bool, default=True
        Whether MNIST and Fashion-MNIST may be fetched when they are not here. Nothing else is ever fetched.
    progress : callable, optional
        Called as ``progress(bytes_done, bytes_total)`` for each file that is downloaded.

    Returns
    -------
    Dataset

    Examples
    --------
    >>> digits = load_dataset("digits")
    >>> digits.X.shape, digits.X.dtype, digits.source
    ((1797, 64), dtype('float32'), 'scikit-learn')
    """
    if name not in entries():
        raise UnknownNameError.among("data set", name, entries())
    return entries()[name].load(data_dir, download, progress)
