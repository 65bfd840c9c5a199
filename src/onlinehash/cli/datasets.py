"""``onlinehash datasets``: the data sets that commands know by name."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from onlinehash.cli._options import Json
from onlinehash.cli._screen import print_json, print_rows, progress_bar
from onlinehash.exceptions import UnknownNameError

if TYPE_CHECKING:
    from onlinehash.datasets import Split


def run(as_json: Json = False) -> None:
    """List the data sets: their sizes, whether they are on this machine, and their sources.

    Files are searched in the folder that ONLINEHASH_DATA names, else in the user's cache folder.
    """
    from onlinehash.datasets import describe

    if as_json:
        print_json([asdict(info) for info in describe()])
        return
    rows = [
        (d.name, d.n_samples, d.n_features, d.n_classes, "yes" if d.available else "no", d.where, d.licence)
        for d in describe()
    ]
    print_rows(("name", "rows", "features", "classes", "here", "where", "licence"), rows)


def check_split(name: str, protocol: str) -> None:
    """Raise, before anything is loaded, if there is no data set or no protocol of that name."""
    from onlinehash.datasets import PROTOCOLS, dataset_names

    if name not in dataset_names():
        raise UnknownNameError.among("data set", name, dataset_names())
    if protocol not in PROTOCOLS:
        raise UnknownNameError.among("protocol", protocol, PROTOCOLS)


def load_split(name: str, protocol: str, seed: int) -> Split:
    """Load a data set, with a progress bar while it is downloaded, and split it."""
    from onlinehash.datasets import load_dataset

    check_split(name, protocol)
    with progress_bar(f"Downloading {name}") as progress:
        return load_dataset(name, progress=progress).split(protocol, seed)
