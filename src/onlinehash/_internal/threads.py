"""Matrix products on one thread."""

from __future__ import annotations

from collections.abc import Iterator
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
    global _n_inside, _before  # noqa: PLW0603 (the number of threads is one for all of them, too)
    if n_rows < MIN_ROWS:
        yield
        return
    with _lock:
        if not _n_inside:
            _before = []
            for library in _libraries():
                _before.append(library.get_num_threads())
                library.set_num_threads(1)
        _n_inside += 1
    try:
        yield
    finally:
        with _lock:
            _n_inside -= 1
            if not _n_inside:
                for library, number in zip(_libraries(), _before, strict=True):
                    library.set_num_threads(number)


@cache
def _libraries() -> list[Any]:
    """Return the BLAS libraries, looked up at first use: that of SciPy is loaded by then."""
    return list(ThreadpoolController().select(user_api="blas").lib_controllers)
