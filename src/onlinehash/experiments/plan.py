"""Plans: what is to be run, as data.

A plan is a TOML file: a data set, a protocol, lengths, seeds, options of the stream, and methods. It expands into runs,
and every run is answered by one result file. Method settings override those of the plan.

A method is a hasher, a bound (``hasher = "bound:float"``), or a class of your own (``hasher = "module:Class"``). With
``grid.learning_rate = [0.1, 0.2]`` it stands for a row for every value, named ``HCOH, learning_rate=0.1``; any setting
may be in a grid, and several make a row for every combination.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, fields
from itertools import product
from pathlib import Path
from typing import Any

from onlinehash._validation import check_choice
from onlinehash.datasets import PROTOCOLS, dataset_names, describe
from onlinehash.exceptions import FileFormatError, UnknownNameError
from onlinehash.experiments.bounds import BOUNDS
from onlinehash.experiments.custom import check_settings, source_digest
from onlinehash.experiments.streams import StreamOptions
from onlinehash.hashers import HASHERS

_STREAM = {option.name: option.default for option in fields(StreamOptions)}
_RANKINGS = ("hamming", "asymmetric")
SHARED = ("dataset", "protocol", "checkpoints", "ranking", *_STREAM)
"""Settings of a plan that a method may override; the others of a method are parameters of its hasher."""


@dataclass(frozen=True)
class Run(StreamOptions):
    """One method, learned from one stream and judged.

    Parameters
    ----------
    method : str
        Name of the row in tables.
    hasher : str
        Name in the registry of hashers or of bounds, or ``module:Class``.
    params : dict
        Parameters of the hasher. ``codebook = "published"`` stands for the paper's codebook of all classes of the
        data set.
    dataset, protocol : str
    n_bits, seed : int
        The seed decides the split, what happens to the stream, and the hasher. A bound has the bits that it stores.
    checkpoints : int
        Points of the learning curve; 0 for none.
    ranking : {"hamming", "asymmetric"}
        How codes are ranked; "asymmetric" is for queries that keep their real values.
    order, groups, drift, drift_angle, label_noise, missing_labels, unseen
        See :class:`~onlinehash.experiments.streams.StreamOptions`.

    Examples
    --------
    >>> Run("HCOH", "hcoh", "digits", "online", n_bits=16, seed=0).file_name
    'digits-hcoh-16-0.json'
    """

    method: str
    hasher: str
    dataset: str
    protocol: str
    n_bits: int
    seed: int
    checkpoints: int = 0
    ranking: str = "hamming"
    params: dict[str, Any] = field(default_factory=dict)

    @property
    def file_name(self) -> str:
        """Name of the result file, from what tells runs of a plan apart."""
        words = "".join(c if c.isalnum() else "_" for c in self.method.lower())
        order = "" if self.order == "shuffled" else f"-{self.order}"
        return f"{self.dataset}{order}-{'_'.join(filter(None, words.split('_')))}-{self.n_bits}-{self.seed}.json"

    def config(self) -> dict[str, Any]:
        """Return all that decides the result, as JSON can hold it.

        Options are left out where they do nothing: results from before an option existed stay valid.
        """
        optional = {name: default for name, default in _STREAM.items() if name != "order"} | {"ranking": "hamming"}
        idle = {name for name, default in optional.items() if getattr(self, name) == default}
        config = {name: value for name, value in asdict(self).items() if name not in idle}
        if is_custom(self.hasher):
            config["source"] = source_digest(self.hasher)
        return config


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
    """Read a plan from a TOML file.

    Examples
    --------
    >>> from onlinehash.experiments.report import QUICK_PLAN
    >>> load_plan(QUICK_PLAN).runs[0].dataset
    'digits'
    """
    try:
        content = tomllib.loads(path.read_text())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise FileFormatError(f"{path} is not a plan: {error}.") from error
    return parse_plan(path.stem, content)


def parse_plan(name: str, content: dict[str, Any]) -> Plan:
    """Expand a plan into its runs.

    Examples
    --------
    >>> content = {"dataset": "digits", "bits": [8, 16], "seeds": [0, 1], "methods": {"HCOH": {}}}
    >>> len(parse_plan("small", content).runs)
    4
    """
    unknown = set(content) - {"title", "bits", "seeds", "methods", *SHARED}
    if unknown or not {"dataset", "bits", "seeds", "methods"} <= set(content):
        raise FileFormatError(
            f"Plan {name!r} needs dataset, bits, seeds and methods, and takes {', '.join(SHARED)} and title; "
            f"it has {', '.join(content)}."
        )
    runs = tuple(run for method, settings in _rows(content["methods"]) for run in _expand(method, settings, content))
    file_name, count = Counter(run.file_name for run in runs).most_common(1)[0] if runs else ("", 0)
    if count > 1:
        raise FileFormatError(f"Plan {name!r} has {count} runs that share the file {file_name}; rename a method.")
    return Plan(name, content.get("title", name), runs)


def is_custom(hasher: str) -> bool:
    """Tell whether a hasher is a user's own class.

    Examples
    --------
    >>> is_custom("my_module:MyHasher"), is_custom("bound:float"), is_custom("hcoh")
    (True, False, False)
    """
    return ":" in hasher and not hasher.startswith("bound:")


def _rows(methods: dict[str, dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Give every row of the table, with its settings: a grid is a row for every combination of its values."""
    for method, settings in methods.items():
        plain = {"hasher": method.lower(), **settings}
        grid = plain.pop("grid", {})
        for values in product(*grid.values()):
            chosen = dict(zip(grid, values, strict=True))
            yield ", ".join([method, *(f"{key}={value}" for key, value in chosen.items())]), plain | chosen


def _expand(method: str, settings: dict[str, Any], content: dict[str, Any]) -> Iterator[Run]:
    own = dict(settings)
    hasher, seeds = own.pop("hasher"), own.pop("seeds", content["seeds"])
    shared = {key: own.pop(key, content.get(key)) for key in SHARED if key in content or key in own}
    shared.setdefault("protocol", "online")
    if shared["dataset"] not in dataset_names():
        raise UnknownNameError.among("data set", shared["dataset"], dataset_names())
    check_choice("protocol", shared["protocol"], tuple(PROTOCOLS))
    check_choice("ranking", shared.get("ranking", "hamming"), _RANKINGS)
    if hasher in BOUNDS:
        if "bits" in own:
            raise FileFormatError(f"Method {method!r} is a bound and has no choice of bits; leave them out.")
        bits = [_stored_bits(hasher, shared["dataset"])]
    else:
        bits = own.pop("bits", content["bits"])
    if is_custom(hasher):
        check_settings(hasher, own)
    elif hasher not in BOUNDS and hasher not in HASHERS:
        raise UnknownNameError.among("hasher", hasher, (*HASHERS, *BOUNDS))
    for n_bits in bits:
        for seed in seeds:
            yield Run(method, hasher, n_bits=n_bits, seed=seed, params=own, **shared)


def _stored_bits(bound: str, dataset: str) -> int:
    """Return the size of what a bound stores of an item of the reference file."""
    info = next(info for info in describe() if info.name == dataset)
    return BOUNDS[bound].stored_bits(info.n_features, info.n_classes)
