"""Small matrix products on one thread, and threads that give way to others."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import cache
from threading import Lock, get_native_id
from typing import Any

from threadpoolctl import ThreadpoolController

_FEW_ROWS = 32
_SMALL_ORDER = 512
_NICE = 5  # a third of the weight of others; much less, and those who wait for the interpreter would wait too long
_lock = Lock()
_inside: list[list[int]] = []  # for every block under way, how many threads there were before the first


def single_threaded_products(n_rows: int) -> AbstractContextManager[None]:
    """Run matrix products on one thread, because threads are slower for small ones.

    With two threads they were up to ten times slower on a busy machine. For a few rows nothing is done, because the
    switch itself takes some microseconds.
    """
    return nullcontext() if n_rows < _FEW_ROWS else _on_one_thread()


def single_threaded_factors(order: int) -> AbstractContextManager[None]:
    """Factor matrices of that order, on one thread if they are small: 50 times faster at 321 on a busy machine."""
    return nullcontext() if order > _SMALL_ORDER else _on_one_thread()


@contextmanager
def _on_one_thread() -> Iterator[None]:
    with _lock:
        _inside.append(_inside[0] if _inside else [library.get_num_threads() for library in _libraries()])
        _set_num_threads([1] * len(_libraries()))
    try:
        yield
    finally:
        with _lock:
            before = _inside.pop()
            if not _inside:
                _set_num_threads(before)


def give_way() -> None:
    """Lower the priority of this thread, where the operating system can do that for one thread."""
    if sys.platform == "linux":
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, get_native_id(), _NICE)


@cache
def _libraries() -> list[Any]:
    """Return the BLAS libraries, looked up at first use: that of SciPy is loaded by then."""
    return list(ThreadpoolController().select(user_api="blas").lib_controllers)


def _set_num_threads(numbers: list[int]) -> None:
    for library, number in zip(_libraries(), numbers, strict=True):
        library.set_num_threads(number)
