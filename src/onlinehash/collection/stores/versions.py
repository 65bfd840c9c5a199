"""Whether this version can use what a place holds."""

from __future__ import annotations

from onlinehash.exceptions import FileFormatError


def check_version(place: object, version: int, newest: int, *, readonly: bool) -> None:
    """Refuse a schema from a later version, and where nothing may be changed, one that is to be brought up to date.

    Examples
    --------
    >>> check_version("items.oh", 1, 1, readonly=False)
    >>> check_version("items.oh", 2, 1, readonly=False)
    Traceback (most recent call last):
    onlinehash.exceptions.FileFormatError: items.oh has schema 2; this version reads up to 1. Upgrade onlinehash.
    """
    if version > newest:
        raise FileFormatError(f"{place} has schema {version}; this version reads up to {newest}. Upgrade onlinehash.")
    if readonly and version < newest:
        raise FileFormatError(f"{place} has schema {version}, this version writes {newest}. Open it once for writing.")
