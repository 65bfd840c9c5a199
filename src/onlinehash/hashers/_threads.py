"""Small matrix products on one thread."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from threadpoolctl import ThreadpoolController

_FEW_ROWS = 32
_blas = ThreadpoolController()


@contextmanager
def single_threaded_products(n_rows: int) -> Iterator[None]:
    """Keep matrix products on this thread: they are too small to share, and waiting costs more.

    Measured up to ten times slower with two threads on a busy machine. For a few rows the switch itself, some
    tens of microseconds, would cost more than it saves.
    """
    if n_rows < _FEW_ROWS:
        yield
    else:
        with _blas.limit(limits=1, user_api="blas"):
            yield
