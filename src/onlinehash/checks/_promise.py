"""How promises are checked, and what is said when one is broken."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any


def promise(kept: bool, otherwise: str) -> None:
    """Raise ``AssertionError`` with what is true instead, unless the promise was kept."""
    if not kept:
        raise AssertionError(otherwise)


def check_all(checks: Iterable[Callable[[Any], None]], subject: Any, fresh: Callable[[Any], Any]) -> None:
    """Do all checks, each on a fresh copy of the subject; name the first that it breaks."""
    for check in checks:
        try:
            check(fresh(subject))
        except AssertionError as error:
            raise AssertionError(f"{subject!r} breaks {check.__name__}: {error}") from error
