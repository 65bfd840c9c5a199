"""Plans: what is to be run, as data.

A plan is a TOML file: a data set, a protocol, lengths, seeds and methods. It expands into runs, and every run is
answered by one result file. Method settings override those of the plan.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from onlinehash._validation import check_choice
from onlinehash.datasets import PROTOCOLS, dataset_names
from onlinehash.exceptions import FileFormatError, UnknownNameError
from onlinehash.hashers import HASHERS

ORDERS = ("shuffled", "sorted")
_SHARED = ("dataset", "protocol", "order", "checkpoints")


@dataclass(frozen=True)
class Run:
    """One hasher, learned from one stream and judged.

    Parameters
    ----------
    method : str
        Name of the row in tables.
    hasher : str
        Name in the registry.
    params : dict
        Parameters of the hasher. ``codebook = "published"`` stands for the paper's codebook of all classes of the
        data set.
    dataset, protocol : str
    n_bits, seed : int
        The seed decides the split and the hasher.
    order : {"shuffled", "sorted"}
        Order of the stream; "sorted" is class after class.
    checkpoints : int
        Points of the learning curve; 0 for none.
    """

    method: str
    hasher: str
    dataset: str
    protocol: str
    n_bits: int
    seed: int
    order: str = "shuffled"
    checkpoints: int = 0
    params: dict[str, Any] = field(default_factory=dict)

    @property
    def file_name(self) -> str:
        """Name of the result file, from what tells runs of a plan apart."""
        words = "".join(c if c.isalnum() else "_" for c in self.method.lower())
        order = "" if self.order == "shuffled" else f"-{self.order}"
        return f"{self.dataset}{order}-{'_'.join(filter(None, words.split('_')))}-{self.n_bits}-{self.seed}.json"

    def config(self) -> dict[str, Any]:
        """Return all that decides the result, as JSON can hold it."""
        return asdict(self)


@dataclass(frozen=True)
class Plan:
    """A named set of runs.

    Examples
    --------
    >>> plan = parse_plan("demo", {"title": "Two methods", "dataset": "digits", "bits": [8, 16], "seeds": [0],
    ...                            "methods": {"HCOH": {"hasher": "hcoh"}, "LSH": {"hasher": "lsh"}}})
    >>> [run.file_name for run in plan.runs]
    ['digits-hcoh-8-0.json', 'digits-hcoh-16-0.json', 'digits-lsh-8-0.json', 'digits-lsh-16-0.json']
    """

    name: str
    title: str
    runs: tuple[Run, ...]


def load_plan(path: Path) -> Plan:
    """Read a plan from a TOML file."""
    try:
        content = tomllib.loads(path.read_text())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise FileFormatError(f"{path} is not a plan: {error}.") from error
    return parse_plan(path.stem, content)


def parse_plan(name: str, content: dict[str, Any]) -> Plan:
    """Expand a plan into its runs."""
    unknown = set(content) - {"title", "bits", "seeds", "methods", *_SHARED}
    if unknown or not {"dataset", "bits", "seeds", "methods"} <= set(content):
        raise FileFormatError(
            f"Plan {name!r} needs dataset, bits, seeds and methods, and takes {', '.join(_SHARED)} and title; "
            f"it has {', '.join(content)}."
        )
    return Plan(name, content.get("title", name), tuple(_expand(content)))


def _expand(content: dict[str, Any]) -> Iterator[Run]:
    for method, settings in content["methods"].items():
        own = dict(settings)
        hasher = own.pop("hasher", method.lower())
        if hasher not in HASHERS:
            raise UnknownNameError.among("hasher", hasher, HASHERS)
        bits, seeds = own.pop("bits", content["bits"]), own.pop("seeds", content["seeds"])
        shared = {key: own.pop(key, content.get(key)) for key in _SHARED if key in content or key in own}
        shared.setdefault("protocol", "online")
        if shared["dataset"] not in dataset_names():
            raise UnknownNameError.among("data set", shared["dataset"], dataset_names())
        check_choice("order", shared.get("order", "shuffled"), ORDERS)
        check_choice("protocol", shared["protocol"], tuple(PROTOCOLS))
        for n_bits in bits:
            for seed in seeds:
                yield Run(method, hasher, n_bits=n_bits, seed=seed, params=own, **shared)
