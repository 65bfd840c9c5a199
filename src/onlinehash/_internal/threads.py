"""Matrix products on one thread."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import Any

from threadpoolctl import ThreadpoolController

MIN_ROWS = 32
"""Rows from which on products are worth the few microseconds of the switch to one thread."""

_lock = Lock()
_n_inside = 0  # blocks under way, in all threads
_before: list[int] = []  # numbers of threads before the first of them


@contextmanager
def single_threaded_products(n_rows: int = MIN_ROWS) -> Iterator[None]:
    """Run the matrix products of NumPy and SciPy on one thread, unless there are only a few rows.

    Several threads of BLAS wait for each other by spinning: on a busy machine products were up to ten times slower.
    """
    global _n_inside, _before  # noqa: PLW0603 (of libraries that have one number for the process)
    if n_rows < MIN_ROWS:
        yield
        return
    shared, own = _libraries()
    before = _set_num_threads(own, [1] * len(own))
    with _lock:
        if not _n_inside:
            _before = _set_num_threads(shared, [1] * len(shared))
        _n_inside += 1
    try:
        yield
    finally:
        with _lock:
            _n_inside -= 1
            if not _n_inside:
                _set_num_threads(shared, _before)
        _set_num_threads(own, before)


def _set_num_threads(libraries: Sequence[Any], numbers: Sequence[int]) -> list[int]:
    """Set the number of threads of each library, from whichever thread this is; return the numbers before."""
    before = [library.get_num_threads() for library in libraries]
    for library, number in zip(libraries, numbers, strict=True):
        # Threadpoolctl ignores all threads but the first that sets OpenBLAS, until that one gives it up.
        give_up = getattr(library, "clear_controlling_thread", lambda *, force: None)
        give_up(force=True)
        library.set_num_threads(number)
        give_up(force=True)
    return before


@cache
def _libraries() -> tuple[list[Any], list[Any]]:
    """Return the BLAS libraries with one number of threads for the process, and those with one for each thread.

    They are looked up at first use: that of SciPy is loaded by then.
    """
    kinds: tuple[list[Any], list[Any]] = [], []
    for library in ThreadpoolController().select(user_api="blas").lib_controllers:
        is_own = library.internal_api == "mkl" or getattr(library, "threading_layer", None) == "openmp"
        kinds[is_own].append(library)
    return kinds
