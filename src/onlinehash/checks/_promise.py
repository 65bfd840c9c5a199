"""Helpers of the checks: promises, refusals, and the loop over all checks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from onlinehash.exceptions import OnlineHashError


def promise(kept: bool, otherwise: str) -> None:
    """Raise ``AssertionError`` with a message unless the promise was kept."""
    if not kept:
        raise AssertionError(otherwise)


def refusal(call: Callable[[], Any], accepted: str) -> OnlineHashError:
    """Return the error that a call raises; raise ``AssertionError`` with a message if it is accepted."""
    try:
        call()
    except OnlineHashError as error:
        return error
    raise AssertionError(accepted)


def check_all(checks: Iterable[Callable[[Any], None]], subject: Any, fresh: Callable[[Any], Any]) -> None:
    """Run all checks, each on a fresh copy of the subject; name the first that fails."""
    for check in checks:
        try:
            check(fresh(subject))
        except AssertionError as error:
            raise AssertionError(f"{subject!r} breaks {check.__name__}: {error}") from error
