"""Small matrix products on one thread."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from threadpoolctl import ThreadpoolController

_FEW_ROWS = 32
_libraries = ThreadpoolController().select(user_api="blas").lib_controllers


@contextmanager
def single_threaded_products(n_rows: int) -> Iterator[None]:
    """Run matrix products on one thread, because threads are slower for small ones.

    With two threads they were up to ten times slower on a busy machine. For a few rows nothing is done, because the
    switch itself takes some microseconds.
    """
    if n_rows < _FEW_ROWS:
        yield
    else:
        before = [library.get_num_threads() for library in _libraries]
        for library in _libraries:
            library.set_num_threads(1)
        try:
            yield
        finally:
            for library, n_threads in zip(_libraries, before, strict=True):
                library.set_num_threads(n_threads)
