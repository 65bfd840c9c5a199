"""Filters of Milvus, which are strings."""

from __future__ import annotations

from collections.abc import Iterable

LEAST = -(1 << 63)  # a number that filters of Milvus Lite misread
_AT_A_TIME = 5000  # ids per filter
_FILTER = 200_000  # characters per filter


def above(field: str, value: int) -> str:
    """Return the filter for values above one."""
    return f"{field} >= {LEAST + 1}" if value == LEAST else f"{field} > {value}"


def at_most(field: str, value: int) -> str:
    """Return the filter for values up to one."""
    return f"{field} < {LEAST + 1}" if value == LEAST else f"{field} <= {value}"


def one_of(field: str, values: Iterable[int]) -> list[str]:
    """Return filters of limited length that together match the given values.

    Examples
    --------
    >>> one_of("id", [3, 7]), one_of("id", [])
    (['id in [3, 7]'], [])
    """
    filters, texts, length = [], [], 0
    for value in values:
        if value == LEAST:
            filters.append(at_most(field, value))
            continue
        texts.append(str(value))
        length += len(texts[-1])
        if len(texts) == _AT_A_TIME or length > _FILTER:
            filters.append(f"{field} in [{', '.join(texts)}]")
            texts, length = [], 0
    return filters + [f"{field} in [{', '.join(texts)}]"] * bool(texts)


def both(*filters: str) -> str:
    """Return the conjunction of filters; an empty filter matches everything."""
    return " and ".join(f"({each})" for each in filters if each)
