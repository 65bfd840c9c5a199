"""What every check says when it fails."""

from __future__ import annotations


def promise(kept: bool, otherwise: str) -> None:
    """Raise ``AssertionError`` with what is true instead, unless the promise was kept."""
    if not kept:
        raise AssertionError(otherwise)
