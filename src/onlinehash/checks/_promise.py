"""Helpers of the checks: promises, refusals, and the loop over all checks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
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


def checks_of(namespace: dict[str, Any], runner: Callable[..., None]) -> Iterator[Callable[[Any], None]]:
    """Yield the functions of a module that are named ``check_...``, in order, except the one that runs them all."""
    for name, value in list(namespace.items()):
        if name.startswith("check_") and value.__module__ == namespace["__name__"] and value is not runner:
            yield value
