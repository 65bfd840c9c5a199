"""Compiled loops, and where they are kept once compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray


def kernel(*, inner: bool = False, **options: Any) -> Callable[[Any], Any]:
    """Return a decorator that compiles a function at its first call with each combination of types.

    It runs without the interpreter's lock and divides as NumPy does. Numba keeps what it compiled in the folder
    ``NUMBA_CACHE_DIR``; by default beside the source or, where that cannot be written, in the user's cache folder. An
    ``inner`` kernel is called by other kernels only: it is compiled into each of them, in less time.
    """
    settings = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True, "no_cpython_wrapper": inner, **options}

    def decorate(function: Any) -> Any:
        try:
            return njit(cache=not inner, **settings)(function)
        except RuntimeError:  # no folder can be written: every process compiles for itself
            return njit(**settings)(function)

    return decorate


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """Return a contiguous, read-only view: kernels are then compiled for one type, whatever a caller passes."""
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view
