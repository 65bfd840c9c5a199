"""Plug-ins: what installed packages, ours included, offer under the name of a group of entry points."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points


def plugins(group: str, ours: Mapping[str, str] | None = None) -> dict[str, EntryPoint]:
    """Return the plug-ins of a group by name; those of this package are found where it is not installed, too.

    Parameters
    ----------
    group : str
        Such as ``"onlinehash.streams"``.
    ours : mapping from str to str, optional
        ``"module:attribute"`` by name, as in ``pyproject.toml``. They cannot be replaced by another package.

    Examples
    --------
    >>> plugins("onlinehash.examples", {"square_root": "math:sqrt"})["square_root"].load()(9)
    3.0
    """
    found = {plugin.name: plugin for plugin in entry_points(group=group)}
    return found | {name: EntryPoint(name, value, group) for name, value in (ours or {}).items()}


def plugin(group: str, name: str, ours: Mapping[str, str]) -> EntryPoint | None:
    """Return one plug-in of a group; for ours, no installed package is looked at, which takes a while."""
    return EntryPoint(name, ours[name], group) if name in ours else plugins(group).get(name)
