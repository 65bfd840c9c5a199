"""Small matrix products on one thread."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from threadpoolctl import ThreadpoolController

_FEW_ROWS = 32
_libraries = ThreadpoolController().select(user_api="blas").lib_controllers
_lock = Lock()
_inside: list[list[int]] = []  # for every block under way, how many threads there were before the first


@contextmanager
def single_threaded_products(n_rows: int) -> Iterator[None]:
    """Run matrix products on one thread, because threads are slower for small ones.

    With two threads they were up to ten times slower on a busy machine. For a few rows nothing is done, because the
    switch itself takes some microseconds.
    """
    if n_rows < _FEW_ROWS:
        yield
        return
    with _lock:
        _inside.append(_inside[0] if _inside else [library.get_num_threads() for library in _libraries])
        _set_num_threads([1] * len(_libraries))
    try:
        yield
    finally:
        with _lock:
            before = _inside.pop()
            if not _inside:
                _set_num_threads(before)


def _set_num_threads(numbers: list[int]) -> None:
    for library, number in zip(_libraries, numbers, strict=True):
        library.set_num_threads(number)
