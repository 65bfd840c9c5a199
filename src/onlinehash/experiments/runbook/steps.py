"""The steps of a runbook, read from a file."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

from onlinehash._validation import check_non_negative_int, check_positive_int
from onlinehash.exceptions import FileFormatError, InvalidInputError, OnlineHashError, UnknownNameError
from onlinehash.experiments.plan import check_text, parse_toml

SMALL_RUNBOOK = Path(__file__).parent / "small.toml"
"""A runbook of a few seconds."""

_SETTINGS = {
    "insert": {"n", "classes"},
    "delete": {"n", "classes"},
    "relabel": {"from", "to"},
    "drift": {"degrees"},
    "train": set(),
    "search": {"n"},
}
_NEEDED = {"insert": "n", "relabel": "from and to", "drift": "degrees", "search": "n"}


@dataclass(frozen=True)
class Step:
    """One step: what to do, and its settings; see :mod:`onlinehash.experiments.runbook`.

    Examples
    --------
    >>> Step("insert", n=400, classes=(0, 1)).text
    'insert 400 of classes 0, 1'
    """

    do: str
    n: int | None = None
    classes: tuple[int, ...] = ()
    old: int | None = None
    new: int | None = None
    degrees: float = 0.0

    @property
    def text(self) -> str:
        """The step in words."""
        if self.do == "relabel":
            return f"relabel {self.old} as {self.new}"
        if self.do == "drift":
            return f"drift by {self.degrees:g} degrees"
        listed = (
            f"classes {', '.join(map(str, self.classes))}" if len(self.classes) < 6 else f"{len(self.classes)} classes"
        )
        of = f" of {listed}" if self.classes else ""
        return f"{self.do}{'' if self.n is None else f' {self.n}'}{of}"


@dataclass(frozen=True)
class Runbook:
    """A data set and the steps that happen to it.

    Examples
    --------
    >>> load_runbook(SMALL_RUNBOOK).steps[0].do
    'insert'
    """

    title: str
    dataset: str
    steps: tuple[Step, ...]
    labels: str | None = None
    seed: int = 0
    k: int = 10


def load_runbook(path: Path) -> Runbook:
    """Read a runbook from a TOML file.

    Examples
    --------
    >>> load_runbook(SMALL_RUNBOOK).dataset
    'digits'
    """
    if not path.is_file():
        raise FileFormatError(f"There is no runbook {path}.")
    return parse_toml(path, "runbook", parse_runbook)


def parse_runbook(name: str, content: dict[str, Any]) -> Runbook:
    """Check the content of a runbook.

    Examples
    --------
    >>> content = {"dataset": "digits", "steps": [{"do": "insert", "n": 10}, {"do": "search", "n": 5}]}
    >>> [step.text for step in parse_runbook("tiny", content).steps]
    ['insert 10', 'search 5']
    """
    known = ("title", "dataset", "labels", "seed", "k", "steps")
    for setting in content:
        if setting not in known:
            raise FileFormatError(str(UnknownNameError.among("setting of a runbook", setting, known)))
    for setting, example in {"dataset": 'dataset = "digits"', "steps": '[[steps]] and do = "insert"'}.items():
        if not content.get(setting):
            raise FileFormatError(f"The runbook has no {setting}; write {example}.")
    steps = content["steps"]
    if not isinstance(steps, list) or not all(isinstance(step, dict) for step in steps):
        raise FileFormatError("steps is not a list of tables; write [[steps]] before each.")
    read = []
    for number, step in enumerate(steps, start=1):
        try:
            read.append(_step(step))
        except OnlineHashError as error:
            raise type(error)(f"Step {number}: {error}") from error
    for setting in ("title", "dataset", "labels"):
        check_text(setting, content.get(setting, ""))
    return Runbook(
        content.get("title", name),
        content["dataset"],
        tuple(read),
        content.get("labels"),
        check_non_negative_int("seed", content.get("seed", 0)),
        check_positive_int("k", content.get("k", 10)),
    )


def _step(given: dict[str, Any]) -> Step:
    do = given.get("do")
    if do not in _SETTINGS:
        raise FileFormatError(str(UnknownNameError.among("step", str(do), _SETTINGS)))
    for setting, value in given.items():
        if setting not in {"do", *_SETTINGS[do]}:
            allowed = ", ".join(sorted(_SETTINGS[do])) or "nothing"
            raise InvalidInputError(f"{do} does not take {setting}={value!r}; it takes {allowed}.")
    n, classes = given.get("n"), given.get("classes", [])
    if n is not None:
        check_positive_int("n", n)
    if not isinstance(classes, list) or not all(isinstance(one, int) for one in classes):
        raise InvalidInputError(f"classes={classes!r} is not a list of class numbers; write classes = [0, 1].")
    degrees = given.get("degrees", 0.0)
    if not isinstance(degrees, (int, float)) or isinstance(degrees, bool) or not isfinite(degrees):
        raise InvalidInputError(f"degrees={degrees!r} is not a number.")
    missing = {
        "insert": n is None,
        "delete": n is None and not classes,
        "relabel": not all(isinstance(given.get(side), int) for side in ("from", "to")),
        "drift": not degrees,
        "search": n is None,
    }
    if missing.get(do):
        raise InvalidInputError(f"{do} needs {_NEEDED.get(do, 'n or classes')}.")
    return Step(do, n, tuple(classes), given.get("from"), given.get("to"), float(degrees))
