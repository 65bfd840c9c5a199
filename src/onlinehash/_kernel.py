"""Compiled loops, and where they are kept once compiled."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit
from numba.core import caching
from numpy.typing import NDArray

_log = logging.getLogger(__name__)
_FunctionCache: Any = caching.FunctionCache
_CacheFile: Any = caching.IndexDataCacheFile
_Files: Any = caching.CompileResultCacheImpl
_Beside: Any = next(locator for locator in _Files._locator_classes if "InTree" in locator.__name__)


def kernel(*, inner: bool = False, **options: Any) -> Callable[[Any], Any]:
    """Return a decorator that compiles a function at its first call with each combination of types.

    It runs without the interpreter's lock and divides as NumPy does. What was compiled is kept in the folder
    ``NUMBA_CACHE_DIR``; by default beside the source or, where that cannot be written, in the user's cache folder.
    Kernels beside the source are read in any case: an administrator or the build of an image compiles for all users.
    An ``inner`` kernel is called by other kernels only: it is compiled into each of them, in less time.
    """
    settings: dict[str, Any] = {
        "nogil": True,
        "error_model": "numpy",
        "no_cfunc_wrapper": True,
        "no_cpython_wrapper": inner,
        **options,
    }

    def decorate(function: Any) -> Any:
        dispatcher: Any = njit(**settings)(function)
        dispatcher.compile = _garbage_collector_paused()(dispatcher.compile)
        if not inner:
            dispatcher._cache = _Cache(function)
        return dispatcher

    return decorate


@contextmanager
def _garbage_collector_paused() -> Iterator[None]:
    """Pause the garbage collector: the compiler makes many objects, and looking at them again and again costs 8 %."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """Return a contiguous, read-only array: kernels are then compiled for one type, whatever a caller passes."""
    flags = array.flags
    if type(array) is np.ndarray and flags.c_contiguous and not flags.writeable:
        return array
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view


class _ReadOnly(_Beside):  # type: ignore[misc]
    """The folder beside the source, whether it can be written or not."""

    def ensure_cache_path(self) -> None:
        """Write nothing."""


class _FilesAnywhere(_Files):  # type: ignore[misc]
    """Files in the first folder that can be written, or beside the source."""

    _locator_classes = (*_Files._locator_classes, _ReadOnly)


class _Cache(_FunctionCache):  # type: ignore[misc]
    """The kernels of a function that can be written, and those beside its source."""

    _impl_class = _FilesAnywhere
    announced = False

    def __init__(self, function: Any) -> None:
        super().__init__(function)
        beside = str(Path(function.__code__.co_filename).parent / "__pycache__")
        self._beside = None
        if beside != self.cache_path:
            self._beside = _CacheFile(beside, self._impl.filename_base, self._impl.locator.get_source_stamp())

    def _load_overload(self, signature: Any, context: Any) -> Any:
        found = super()._load_overload(signature, context)
        if found is None and self._beside is not None:
            data = self._beside.load(self._index_key(signature, context.codegen()))
            found = None if data is None else self._impl.rebuild(context, data)
        if found is None and not _Cache.announced:
            _Cache.announced = True
            _log.info("Compiling for this processor (once) ...")
        return found

    def _save_overload(self, signature: Any, compiled: Any) -> None:
        with suppress(OSError):  # no folder can be written: every process compiles for itself
            super()._save_overload(signature, compiled)
