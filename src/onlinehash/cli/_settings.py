"""``--set NAME=VALUE``: any parameter of a method."""

from __future__ import annotations

import json
from typing import Any

import typer


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
