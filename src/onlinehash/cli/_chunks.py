"""Long arrays in pieces: bounded memory, and something to show meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from numpy.typing import NDArray

from onlinehash.cli._arrays import check_vectors
from onlinehash.exceptions import InvalidFeaturesError
from onlinehash.types import Progress

Result = TypeVar("Result")

_ELEMENTS = 1 << 21


def by_chunks(
    X: NDArray[Any], work: Callable[[slice], Result], progress: Progress, source: Path | str = "X"
) -> list[Result]:
    """Return ``work(rows)`` for one run of rows of X after another; an error about X names its source."""
    check_vectors(X, source)
    step = max(1, _ELEMENTS // X.shape[1])
    results = []
    for start in range(0, len(X), step):
        try:
            results.append(work(slice(start, start + step)))
        except InvalidFeaturesError as error:
            where = f"{source}, counted from row {start}" if start else str(source)
            raise InvalidFeaturesError(f"{where}: {error}") from error
        progress(min(start + step, len(X)), len(X))
    return results
