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
            _before = [library.get_num_threads() for library in _libraries()]
            _set_num_threads([1] * len(_before))
        _n_inside += 1
    try:
        yield
    finally:
        with _lock:
            _n_inside -= 1
            if not _n_inside:
                _set_num_threads(_before)


def _set_num_threads(numbers: list[int]) -> None:
    """Set the number of threads of each library, from whichever thread this is.

    Threadpoolctl (3.8) ignores all threads but the first that sets OpenBLAS, until that thread gives it up or ends.
    """
    for library, number in zip(_libraries(), numbers, strict=True):
        give_up = getattr(library, "clear_controlling_thread", lambda *, force: None)
        give_up(force=True)
        library.set_num_threads(number)
        give_up(force=True)  # other users of threadpoolctl may set it again


@cache
def _libraries() -> list[Any]:
    """Return the BLAS libraries, looked up at first use: that of SciPy is loaded by then."""
    return list(ThreadpoolController().select(user_api="blas").lib_controllers)
