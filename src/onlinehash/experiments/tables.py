"""Tables of results: means over seeds, and the values printed in the paper."""

from __future__ import annotations

import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, reduce
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from onlinehash.experiments.references import takes_bits
from onlinehash.experiments.results import Result
from onlinehash.experiments.streams import STREAM_DEFAULTS

MEASURES = {
    "mean_average_precision": "mAP",
    "new_items.mean_average_precision": "mAP among items never learned from",
    "precision": "precision",
}
"""Measures that tables show, and their titles."""

UNSEEN = {
    "seen_at_seen": "mAP of queries of seen classes, among items of seen classes",
    "unseen_at_unseen": "mAP of queries of unseen classes, among items of unseen classes",
    "unseen_at_all": "mAP of queries of unseen classes, among all items",
}
"""Measures of runs in which some classes are never learned, and their titles."""

_AS_PUBLISHED = STREAM_DEFAULTS | {"validation": None, "n_queries": None, "denominator": "found"}
_LENGTHS = (8, 16, 32, 64, 128)
_TIMED_LENGTH = 32
_RELEASED = " (as released)"

Cells = dict[str, dict[int, float]]
"""Method, then number of bits, then value."""

Spread = dict[str, dict[int, list[float]]]
"""Method, then number of bits, then the values of all seeds."""

Curves = dict[str, dict[int, tuple[list[int], list[float]]]]
"""Method, then number of bits, then instances and values."""


@dataclass(frozen=True)
class Printed:
    """Values printed in the paper for a data set, and what they are printed for."""

    cells: Cells
    label: str = "printed in the paper"
    comparable: bool = True  # whether they are for the same data, so that differences are meaningful


@dataclass(frozen=True)
class Table:
    """A table as text: the title, what is in brackets, and rows of cells, the header first."""

    title: str
    brackets: str
    rows: list[list[str]]


@dataclass(frozen=True)
class Study:
    """A measure against one parameter: per line, the values by parameter."""

    parameter: str
    lines: dict[str, dict[float, float]]


def form_value(value: float) -> str:
    """Return a value with three decimals and without the leading zero."""
    return f"{value:.3f}".removeprefix("0")


@cache
def _paper() -> dict[str, Any]:
    return tomllib.loads((Path(__file__).parent / "printed.toml").read_text())


def printed(dataset: str, measure: str) -> Cells:
    """Return the values printed in the paper; empty for data that it does not use.

    Examples
    --------
    >>> printed("mnist", "mean_average_precision")["HCOH"][32]
    0.756
    """
    rows = _paper().get(dataset, {}).get(measure, {})
    return {method: dict(zip(_LENGTHS, values, strict=False)) for method, values in rows.items()}


def printed_for(dataset: str, measure: str) -> Printed:
    """Return the values printed for a data set or, for orientation, for the one that it stands in for."""
    stands_in = _paper()["stands_in"].get(dataset)
    if stands_in is None:
        return Printed(printed(dataset, measure))
    return Printed(printed(stands_in["for"], measure), stands_in["label"], comparable=False)


def printed_beside(results: Sequence[Result], measure: str) -> Printed:
    """Return the values printed for results of one data set; none if their streams are not like those of the paper."""
    return printed_for(results[0]["config"]["dataset"], measure) if as_in_the_paper(results) else Printed({})


def printed_seconds(dataset: str) -> Printed:
    """Return the printed training times of CIFAR-10 at 32 bits; not comparable, because of another machine."""
    if dataset not in {"cifar10", "cifar10_vgg16"}:
        return Printed({}, comparable=False)
    cells = {method: {_TIMED_LENGTH: seconds} for method, seconds in _paper()["training_seconds"].items()}
    return Printed(cells, "printed for VGG-16 features, on another machine", comparable=False)


def explanations(results: Sequence[Result]) -> dict[str, str]:
    """Return why rows differ from the printed ones, by method; empty for data that the paper does not use."""
    known = printed(results[0]["config"]["dataset"], "precision") if as_in_the_paper(results) else {}
    methods = dict.fromkeys(base_name(result["config"]["method"]) for result in results)
    notes = _paper()["notes"]
    return {method: notes[method] for method in methods if method in known and method in notes}


def base_name(method: str) -> str:
    """Return the name of a method without its suffix in brackets.

    Examples
    --------
    >>> base_name("OSH (hinge)")
    'OSH'
    """
    return method.split(" (", maxsplit=1)[0]


def row_name(method: str, settings: Iterable[str] | None = None) -> str:
    """Return the name of a method without the settings that a grid adds: all, or those named."""
    known = None if settings is None else set(settings)
    parts = (part.partition("=") for part in method.split(", "))
    return ", ".join("".join(part) for part in parts if not part[1] or (known is not None and part[0] not in known))


def groups(results: Iterable[Result]) -> dict[str, list[Result]]:
    """Group results by data set and stream options, under names such as ``"mnist, order sorted"``.

    The settings in the name of a group are removed from the names of its methods.
    """
    together: defaultdict[str, list[Result]] = defaultdict(list)
    for result in results:
        config = result["config"]
        words = [config["dataset"], *(f"{key.replace('_', ' ')} {config[key]}" for key in _beyond_the_paper(config))]
        method = row_name(config["method"], ["dataset", *STREAM_DEFAULTS])
        together[", ".join(words)].append({**result, "config": {**config, "method": method}})
    return dict(together)


def separate_references(results: Iterable[Result]) -> tuple[list[Result], list[Result]]:
    """Return the results of methods by number of bits, and those of references that have a size of their own."""
    results = list(results)
    learned = [result for result in results if takes_bits(result["config"]["hasher"])]
    return learned, [result for result in results if not takes_bits(result["config"]["hasher"])]


def as_in_the_paper(results: Iterable[Result]) -> bool:
    """Return whether all streams are like those of the paper, so that its values can be shown too."""
    return not any(_beyond_the_paper(result["config"]) for result in results)


def _beyond_the_paper(config: dict[str, Any]) -> list[str]:
    return [key for key, usual in _AS_PUBLISHED.items() if config.get(key, usual) != usual]


def measured(results: Iterable[Result], measure: str) -> Cells:
    """Return the mean over seeds of a measure; ``"new_items.precision"`` is that among items never learned from.

    Examples
    --------
    >>> result = {"config": {"method": "HCOH", "n_bits": 16}, "metrics": {"new_items": {"precision": 0.5}}}
    >>> measured([result], "new_items.precision"), measured([result], "recall")
    ({'HCOH': {16: 0.5}}, {})
    """
    return _means(spread(results, measure))


def learning_seconds(results: Iterable[Result]) -> Cells:
    """Return the mean over seeds of the CPU seconds of learning the stream."""
    return _means(_collected(results, lambda result: result["seconds"]["learning"]))


def areas(results: Iterable[Result]) -> Cells:
    """Return the mean over seeds of AUC as the paper defines it, the mean over checkpoints, for runs with a curve."""
    drawn = (result for result in results if result["curve"])
    return _means(_collected(drawn, lambda result: mean(_points(result)[1])))


def common_length(cells: Cells) -> int:
    """Return the length at which streams are compared: 32 bits if all have it, otherwise the longest that most have."""
    lengths = [n_bits for row in cells.values() for n_bits in row]
    return max(set(lengths), key=lambda n_bits: (lengths.count(n_bits), n_bits == 32, n_bits))


def spread(results: Iterable[Result], measure: str) -> Spread:
    """Return the values of all seeds, in ascending order; results without the measure are left out."""
    path = measure.split(".")

    def value_of(result: Result) -> Any:
        return reduce(lambda at, name: at.get(name, {}), path, result["metrics"])

    having = (result for result in results if value_of(result) not in ({}, None))
    return {
        method: {n_bits: sorted(values) for n_bits, values in row.items()}
        for method, row in _collected(having, value_of).items()
    }


def curves(results: Iterable[Result]) -> Curves:
    """Return the learning curves: the mean over seeds at every checkpoint."""
    collected = _collected((result for result in results if result["curve"]), _points)
    return {
        method: {
            n_bits: (seeds[0][0], [mean(at) for at in zip(*(values for _, values in seeds), strict=True)])
            for n_bits, seeds in row.items()
        }
        for method, row in collected.items()
    }


def _points(result: Result) -> tuple[list[int], list[float]]:
    """Return the instances and values of a curve.

    If the stream is searched for, the first block is left out: it was searched among a single item, where the average
    precision of every query that has one is 1, whatever the method.
    """
    first = 1 if result["config"].get("queries") == "stream" else 0
    return result["curve"]["instances"][first:], result["curve"]["values"][first:]


def study(results: Iterable[Result], measure: str) -> Study | None:
    """Return a measure against the numeric setting in which the runs of every method differ, if there is exactly one.

    Examples
    --------
    >>> results = [{"config": {"method": f"HCOH, learning_rate={rate}", "n_bits": 16,
    ...             "params": {"learning_rate": rate}}, "metrics": {"precision": rate}} for rate in (0.1, 0.2, 0.4)]
    >>> study(results, "precision")
    Study(parameter='learning_rate', lines={'HCOH': {0.1: 0.1, 0.2: 0.2, 0.4: 0.4}})
    """
    lines: defaultdict[tuple[str, int], list[tuple[dict[str, Any], float]]] = defaultdict(list)
    for result in results:
        config = result["config"]
        settings = {key: config.get(key, usual) for key, usual in STREAM_DEFAULTS.items()} | config["params"]
        lines[row_name(config["method"]), config["n_bits"]].append((settings, result["metrics"][measure]))
    varied = {
        key
        for line in lines.values()
        for key in {key for settings, _ in line for key in settings}
        if len({repr(settings.get(key)) for settings, _ in line}) > 1
    }
    if len(varied) != 1:
        return None
    parameter = varied.pop()
    one_length = len({n_bits for _, n_bits in lines}) == 1
    drawn: dict[str, dict[float, float]] = {}
    for (method, n_bits), line in lines.items():
        values: defaultdict[float, list[float]] = defaultdict(list)
        for settings, value in line:
            if not isinstance(settings.get(parameter), int | float):
                return None
            values[settings[parameter]].append(value)
        name = method if one_length else f"{method}, {n_bits} bits"
        drawn[name] = {x: mean(seeds) for x, seeds in sorted(values.items())}
    return Study(parameter, drawn) if max(map(len, drawn.values())) > 2 else None


def beside(method: str, methods: Iterable[str], theirs: Cells) -> dict[int, float]:
    """Return the printed row of a method; it belongs to the released variant if there is one.

    Examples
    --------
    >>> theirs = printed("mnist", "precision")
    >>> beside("OSH", ["OSH", "OSH (as released)"], theirs)
    {}
    >>> beside("OSH (as released)", ["OSH", "OSH (as released)"], theirs)[16]
    0.171
    """
    return {} if f"{method}{_RELEASED}" in methods else theirs.get(method.removesuffix(_RELEASED), {})


def table_rows(
    ours: Cells,
    theirs: Cells,
    references: Cells | None = None,
    seeds: Spread | None = None,
    form: Callable[[float], str] = form_value,
) -> list[list[str]]:
    """Return the cells of a table, the header first, with printed values in brackets.

    Printed rows belong to the released variant. With the values of all ``seeds``, a cell also has their standard
    deviation. References do not depend on a number of bits and have the same value in every column.
    """

    def cell(method: str, n_bits: int, value: float | None, theirs: float | None = None) -> str:
        if value is None:
            return "-"
        values = (seeds or {}).get(method, {}).get(n_bits, [])
        deviation = f" ± {form(stdev(values))}" if len(values) > 1 else ""
        return f"{form(value)}{deviation}{'' if theirs is None else f' ({form(theirs)})'}"

    lengths = lengths_of(ours)
    rows = [["method", *(f"{n_bits} bits" for n_bits in lengths)]]
    for method, row in ours.items():
        row_printed = beside(method, ours, theirs)
        rows.append([method, *(cell(method, n, row.get(n), row_printed.get(n)) for n in lengths)])
    for method, row in (references or {}).items():
        rows.append([method, *[cell(method, *next(iter(row.items())))] * len(lengths)])
    return rows


def markdown(rows: Sequence[Sequence[str]]) -> str:
    """Return the rows of a table as Markdown."""
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]])


def map_label(results: Sequence[Result]) -> str:
    """Return the name of mAP in figures: with the length of the ranking, if that is cut."""
    map_at = results[0]["metrics"].get("map_at")
    return "mAP" if map_at is None else f"mAP@{map_at}"


def quality_tables(results: Sequence[Result]) -> Iterator[Table]:
    """Yield the tables of one group of results, one per measure that it has."""
    learned, references = separate_references(results)
    if not learned:  # nothing has a number of bits to show them at: each at its own size
        learned, references = references, []
    cuts = {"mAP": results[0]["metrics"].get("map_at"), "precision": results[0]["metrics"].get("precision_at")}
    for measure, title in (MEASURES | UNSEEN).items():
        if cells := measured(learned, measure):
            cut = f"@{cuts[title]}" if cuts.get(title) else ""
            paper = printed_beside(results, measure)
            rows = table_rows(cells, paper.cells, measured(references, measure), spread(results, measure))
            yield Table(title + cut, paper.label if paper.cells else "", rows)


def lengths_of(cells: Cells) -> list[int]:
    """Return all numbers of bits in a table."""
    return sorted({n_bits for row in cells.values() for n_bits in row})


def _collected(results: Iterable[Result], value_of: Callable[[Result], Any]) -> dict[str, dict[int, list[Any]]]:
    values: defaultdict[str, defaultdict[int, list[Any]]] = defaultdict(lambda: defaultdict(list))
    for result in results:
        config = result["config"]
        values[config["method"]][config["n_bits"]].append(value_of(result))
    return {method: dict(row) for method, row in values.items()}


def _means(values: Spread) -> Cells:
    return {method: {n_bits: mean(seeds) for n_bits, seeds in row.items()} for method, row in values.items()}
