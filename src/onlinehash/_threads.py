"""Small matrix products and factorisations on one thread."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from threadpoolctl import ThreadpoolController

_FEW_ROWS = 32
_SMALL_ORDER = 512


@cache
def _blas() -> ThreadpoolController:
    """Return the control of the BLAS libraries, made at first use: those of SciPy are loaded by then."""
    return ThreadpoolController()


@contextmanager
def single_threaded_products(n_rows: int) -> Iterator[None]:
    """Run matrix products on one thread, because threads are slower for small ones.

    With two threads they were up to ten times slower on a busy machine. For a few rows nothing is done, because the
    switch itself takes some tens of microseconds.
    """
    if n_rows < _FEW_ROWS:
        yield
    else:
        with _blas().limit(limits=1, user_api="blas"):
            yield


@contextmanager
def single_threaded_factors(order: int) -> Iterator[None]:
    """Factor matrices of that order, on one thread if they are small: 50 times faster at 321 on a busy machine."""
    if order > _SMALL_ORDER:
        yield
    else:
        with _blas().limit(limits=1, user_api="blas"):
            yield
