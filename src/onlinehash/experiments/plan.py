"""Plans: experiments described as data.

A plan is a TOML file: a data set, a protocol, numbers of bits, seeds, stream options, and methods; ``notes`` is text
that explains its tables. It expands into runs. Settings of a method override those of the plan.

A method is a hasher, a reference (``hasher = "reference:float"``), or a class of your own (``hasher =
"module:Class"``). ``grid.learning_rate = [0.1, 0.2]`` gives one row per value, named ``HCOH, learning_rate=0.1``; any
setting can be in a grid, and several settings give one row per combination. A data set is a built-in one or a file of
your own, see :mod:`onlinehash.experiments.own_data`.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, fields
from itertools import product
from pathlib import Path
from typing import Any

from onlinehash._internal.validation import check_choice, check_positive_int
from onlinehash.datasets import PROTOCOLS, dataset_names
from onlinehash.exceptions import FileFormatError, InvalidInputError, OnlineHashError, UnknownNameError
from onlinehash.experiments.custom import check_settings, class_digest, load_class
from onlinehash.experiments.own_data import data_digest, data_size, find_dataset, is_file_name
from onlinehash.experiments.references import REFERENCES, STORED_BITS, takes_bits
from onlinehash.experiments.streams import STREAM_DEFAULTS, StreamOptions
from onlinehash.hashers import HASHERS

_CHOICES = {  # the first is the default
    "protocol": tuple(PROTOCOLS),
    "ranking": ("hamming", "asymmetric"),
    "database_codes": ("function", "labels", "candidates", "centred"),
    "queries": ("held out", "stream"),
    "inputs": ("given", "hroh"),
    "denominator": ("found", "possible"),
}
_COUNTS = ("precision_at", "n_queries", "validation", "sharpened")
SHARED = ("dataset", "labels", "checkpoints", *_COUNTS, *_CHOICES, *STREAM_DEFAULTS)
"""Settings of a plan that a method may override; other settings of a method are parameters of its hasher."""

KEY = ("dataset", "method", "n_bits", "seed")
"""What identifies a run among the results of a plan."""

_NEEDED = {
    "dataset": 'dataset = "digits"',
    "bits": "bits = [16, 32]",
    "seeds": "seeds = [0, 1, 2]",
    "methods": "[methods.HCOH]",
}


@dataclass(frozen=True)
class Run(StreamOptions):
    """One method that learns from one stream and is evaluated.

    Parameters
    ----------
    method : str
        Name of the row in tables.
    hasher : str
        Registered name of a hasher or of a reference, or ``module:Class``.
    params : dict
        Parameters of the hasher. ``codebook = "published"`` is the paper's codebook for all classes of the data set.
    dataset, protocol : str
        The data set is a name, or a file of your own.
    n_bits, seed : int
        The seed determines the split, the stream options and the hasher. ``n_bits`` of a reference is what it stores.
    checkpoints : int
        Number of points of the learning curve; 0 for no curve.
    queries : {"held out", "stream"}
        Queries of the learning curve: those of the split, or the items of the stream themselves, each before it is
        learned from; see :func:`~onlinehash.experiments.run.prequential_curve`.
    labels : str, optional
        Column or file of the labels of a file of your own; see :func:`~onlinehash.experiments.own_data.load_own`.
    precision_at : int, optional
        Length of the ranking for precision and recall; by default that of the data set.
    n_queries : int, optional
        Queries drawn from all rows, instead of as many from every class; for data with rare classes.
    validation : int, optional
        So many rows at the end of the stream are the queries, and what is left of the stream is learned and searched:
        for the choice of parameters.
    denominator : {"found", "possible"}
        What mAP@k is divided by: the relevant items found, as published, or those that k places can hold.
    ranking : {"hamming", "asymmetric"}
        How codes are ranked; "asymmetric" keeps the real values of the queries.
    database_codes : {"function", "labels", "candidates", "centred"}
        "labels" gives the items of the database the codewords of their own labels, as many published evaluations do;
        only the queries are hashed. For methods with ``codewords_``. "candidates" hashes them too, but searches only
        the neighbours of a pool of sampled points, as that of FOH does. "centred" centres queries and database, each by
        its own mean, before bits are taken, as those of SDOH-HC and others do.
    inputs : {"given", "hroh"}
        "hroh" gives the method the features that HROH learns from, see
        :class:`~onlinehash.experiments.run.WithHROHFeatures`.
    sharpened : int, optional
        Bits that the method learns; codes of ``n_bits`` are then made as HROH makes them, from sharpened scores of the
        classes. For methods with ``codewords_``.
    order, groups, drift, drift_angle, label_noise, missing_labels, unseen
        See :class:`~onlinehash.experiments.streams.StreamOptions`.

    Examples
    --------
    >>> Run("HCOH", "hcoh", "digits", "online", n_bits=16, seed=0).key
    ('digits', 'HCOH', 16, 0)
    """

    method: str
    hasher: str
    dataset: str
    protocol: str
    n_bits: int
    seed: int
    checkpoints: int = 0
    labels: str | None = None
    precision_at: int | None = None
    n_queries: int | None = None
    validation: int | None = None
    denominator: str = "found"
    ranking: str = "hamming"
    database_codes: str = "function"
    inputs: str = "given"
    sharpened: int | None = None
    queries: str = "held out"
    params: dict[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> tuple[Any, ...]:
        """What identifies the run among the results of a plan."""
        return tuple(getattr(self, name) for name in KEY)

    def config(self) -> dict[str, Any]:
        """Return the configuration that determines the result, as JSON.

        Options at their default are left out: results from before an option existed stay valid.
        """
        options = (option for option in fields(self) if option.name not in {"order", "checkpoints"})
        idle = {option.name for option in options if getattr(self, option.name) == option.default}
        config = {name: value for name, value in asdict(self).items() if name not in idle}
        if is_custom(self.hasher):
            config["source"] = class_digest(self.hasher)
        if is_file_name(self.dataset):
            config["data"] = data_digest(self.dataset, self.labels)
        return config


@dataclass(frozen=True)
class Plan:
    """A named set of runs.

    Examples
    --------
    >>> plan = parse_plan("demo", {"title": "Two methods", "dataset": "digits", "bits": [8, 16], "seeds": [0],
    ...                            "methods": {"HCOH": {"hasher": "hcoh"}, "LSH": {"hasher": "lsh"}}})
    >>> [(run.method, run.n_bits) for run in plan.runs]
    [('HCOH', 8), ('HCOH', 16), ('LSH', 8), ('LSH', 16)]
    """

    name: str
    title: str
    runs: tuple[Run, ...]
    notes: str = ""


def load_plan(path: Path) -> Plan:
    """Read a plan from a TOML file.

    Examples
    --------
    >>> from onlinehash.experiments.report import QUICK_PLAN
    >>> load_plan(QUICK_PLAN).runs[0].dataset
    'digits'
    """
    try:
        return parse_plan(path.stem, tomllib.loads(path.read_text(encoding="utf-8")))
    except UnicodeDecodeError as error:
        raise FileFormatError(f"{path} is not a plan: it is not UTF-8 text. Save it as UTF-8.") from error
    except tomllib.TOMLDecodeError as error:
        raise FileFormatError(f"{path} is not a plan: {error}. A plan is a TOML file.") from error
    except OnlineHashError as error:
        raise type(error)(f"{path}: {error}") from error


def parse_plan(name: str, content: dict[str, Any]) -> Plan:
    """Expand a plan into its runs.

    Names and types are checked here, and errors name the method. Values of parameters are checked by the
    hashers, before the first run: see :func:`~onlinehash.experiments.reproduce.reproduce`.

    Examples
    --------
    >>> content = {"dataset": "digits", "bits": [8, 16], "seeds": [0, 1], "methods": {"HCOH": {}}}
    >>> len(parse_plan("small", content).runs)
    4
    """
    known = ("title", "notes", "bits", "seeds", "methods", *SHARED)
    for setting in content:
        if setting not in known:
            raise FileFormatError(str(UnknownNameError.among("setting of a plan", setting, known)))
    for setting, example in _NEEDED.items():
        if setting not in content:
            raise FileFormatError(f"The plan has no {setting}; write {example}.")
    title, notes = _text("title", content.get("title", name)), _text("notes", content.get("notes", ""))
    methods = content["methods"]
    if not isinstance(methods, dict) or not methods:
        raise FileFormatError(f"methods={methods!r} is not a table of methods; write [methods.HCOH].")
    _check_dataset(content)
    runs: list[Run] = []
    for method, settings in methods.items():
        try:
            runs += (run for row, chosen in _rows(method, settings) for run in _expand(row, chosen, content))
        except OnlineHashError as error:
            raise type(error)(f"Method {method!r}: {error}") from error
    (_, method, n_bits, seed), count = Counter(run.key for run in runs).most_common(1)[0]
    if count > 1:
        raise FileFormatError(
            f"Method {method!r}, {n_bits} bits, seed {seed} is there {count} times; leave out repeated bits and seeds, "
            "or rename a method."
        )
    return Plan(name, title, tuple(runs), notes)


def is_custom(hasher: str) -> bool:
    """Return whether a hasher is a user's own class.

    Examples
    --------
    >>> is_custom("my_module:MyHasher"), is_custom("reference:float"), is_custom("hcoh")
    (True, False, False)
    """
    return ":" in hasher and not hasher.startswith("reference:")


def _rows(method: str, settings: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the rows of a method and their settings: one per combination of the values of its grid."""
    if not isinstance(settings, dict):
        raise FileFormatError(f"{settings!r} is not a table of settings; write [methods.{method}].")
    plain = {"hasher": method.lower(), **settings}
    grid = plain.pop("grid", {})
    if not isinstance(grid, dict) or not all(isinstance(values, list) and values for values in grid.values()):
        raise FileFormatError(f"grid={grid!r} does not list values; write grid.learning_rate = [0.1, 0.2].")
    for values in product(*grid.values()):
        chosen = dict(zip(grid, values, strict=True))
        yield ", ".join([method, *(f"{key}={value}" for key, value in chosen.items())]), plain | chosen


def _expand(method: str, settings: dict[str, Any], content: dict[str, Any]) -> Iterator[Run]:
    own = dict(settings)
    hasher = _text("hasher", own.pop("hasher"))
    seeds = _whole_numbers("seeds", own.pop("seeds", content["seeds"]), least=0)
    bits = _whole_numbers("bits", own.get("bits", content["bits"]), least=1)
    shared = {key: own.pop(key, content.get(key)) for key in SHARED if key in content or key in own}
    shared.setdefault("protocol", "online")
    _check_shared(shared)
    for setting, source in {"n_bits": "bits", "random_state": "seeds"}.items():
        if setting in own:
            raise InvalidInputError(f"{setting}={own[setting]!r} would replace what {source} says; set {source}.")
    if hasher in REFERENCES:
        chosen: Callable[..., Any] = REFERENCES[hasher]
        if not takes_bits(hasher):
            if "bits" in own:
                raise FileFormatError("a reference has no bits to choose; leave out bits.")
            size = data_size(shared["dataset"], shared.get("labels"), shared.get("n_queries"))
            bits = [STORED_BITS[hasher](*size)]
    else:
        hasher = _spelled(hasher)
        if not is_custom(hasher) and hasher not in HASHERS:
            raise UnknownNameError.among("hasher", hasher, (*HASHERS, *REFERENCES))
        chosen = load_class(hasher) if is_custom(hasher) else HASHERS[hasher]
    own.pop("bits", None)
    check_settings(hasher, chosen, own)
    for n_bits in bits:
        for seed in seeds:
            yield Run(method, hasher, n_bits=n_bits, seed=seed, params=own, **shared)


def _spelled(hasher: str) -> str:
    """Return ``module:Class`` for a registered hasher that is not built in, so that every process can import it."""
    own = HASHERS.get(hasher)
    if own is None or own.__module__.startswith("onlinehash."):
        return hasher
    return f"{own.__module__}:{own.__qualname__}"


def _check_dataset(shared: dict[str, Any]) -> None:
    for setting in _COUNTS:
        if setting in shared:
            check_positive_int(setting, shared[setting])
    dataset, labels = _text("dataset", shared["dataset"]), shared.get("labels")
    if is_file_name(dataset):
        find_dataset(dataset, None if labels is None else _text("labels", labels), shared.get("n_queries"))
    elif labels is not None:
        raise InvalidInputError(
            f"labels={labels!r} is for a file of your own; the data set {dataset!r} has its labels."
        )
    elif dataset not in dataset_names():
        raise UnknownNameError(
            f"{UnknownNameError.among('data set', dataset, dataset_names())} A file of your own ends in .npy, .npz, "
            ".csv, .jsonl or .parquet."
        )


def _check_shared(shared: dict[str, Any]) -> None:
    """Check the shared settings, except stream options, which StreamOptions checks."""
    _check_dataset(shared)
    for setting, choices in _CHOICES.items():
        check_choice(setting, shared.get(setting, choices[0]), choices)
    points = shared.get("checkpoints", 0)
    if type(points) is not int or points < 0:
        raise InvalidInputError(f"checkpoints={points!r} is not a number of points; use an integer of at least 0.")


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise FileFormatError(f'{name}={value!r} is not text; write {name} = "...".')
    return value


def _whole_numbers(name: str, values: Any, *, least: int) -> list[int]:
    if isinstance(values, list) and values and all(type(value) is int and value >= least for value in values):
        return values
    raise FileFormatError(
        f"{name}={values!r} is not a list of integers of at least {least}; write for example {_NEEDED[name]}."
    )
