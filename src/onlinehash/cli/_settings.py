"""``--method`` and ``--set NAME=VALUE``: any method, with any parameter."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from onlinehash.hashers import OnlineHasher


def parse_setting(setting: str) -> tuple[str, Any]:
    """Return name and value; the value is JSON where it can be, else text.

    Examples
    --------
    >>> parse_setting("slope=2.5"), parse_setting("gradient=exact")
    (('slope', 2.5), ('gradient', 'exact'))
    """
    name, equals, text = setting.partition("=")
    if not equals or not name:
        raise typer.BadParameter(f"{setting!r} is not NAME=VALUE.", param_hint="--set")
    try:
        return name, json.loads(text)
    except json.JSONDecodeError:
        return name, text


def registered(method: str) -> str:
    """Return the name of a hasher; ``module:Class`` is imported and registered under its own."""
    if ":" not in method:
        return method
    from onlinehash.experiments.custom import load_class
    from onlinehash.hashers import register_hasher

    own: type[OnlineHasher] = register_hasher(load_class(method))
    return own.name


def hasher_from_options(method: str, given: dict[str, Any], defaults: dict[str, Any]) -> OnlineHasher:
    """Return a hasher with the parameters given, which it must know, and those defaults that it knows.

    A method ``module:Class`` is imported and registered.
    """
    from onlinehash.exceptions import UnknownNameError
    from onlinehash.hashers import make_hasher

    method = registered(method)
    known = make_hasher(method).get_params(deep=False)
    for name in given:
        if name not in known:
            raise UnknownNameError.among(f"parameter of {method}", name, known)
    return make_hasher(method, **{name: value for name, value in defaults.items() if name in known} | given)
