"""Arrays of other libraries on a device, such as a GPU: recognised, computed with, and copied to the host and back.

No library is imported for that: an array of one means that it is there. Where the libraries differ, array-api-compat
gives them one interface, by itself or as a part of scikit-learn.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinehash.exceptions import DeviceError, MissingExtraError

DeviceArray = Any
"""An array of PyTorch, CuPy or array-api-strict that is not in the memory of the host."""

_LIBRARIES = {"torch", "cupy", "array_api_strict"}
_HOST = "cpu"


def is_on_device(X: Any) -> bool:
    """Return whether X is an array of another library that is not in the memory of the host."""
    if isinstance(X, (np.ndarray, list, tuple)):
        return False
    library = _library_of(X)
    return library == "cupy" or (library is not None and _HOST not in str(X.device).lower())


def _library_of(X: Any) -> str | None:
    roots = (kind.__module__.partition(".")[0] for kind in type(X).__mro__)
    return next((root for root in roots if root in _LIBRARIES), None)


def namespace(X: DeviceArray) -> Any:
    """Return the functions of the array API for the library of X."""
    for name in ("array_api_compat", "sklearn.externals.array_api_compat"):
        try:
            return import_module(name).array_namespace(X)
        except ModuleNotFoundError:
            continue
    raise MissingExtraError.of("array-api-compat", "gpu")


def way_to_host(X: DeviceArray, name: str) -> str:
    """Return the expression that copies an array to the host."""
    return f"{name}.get()" if _library_of(X) == "cupy" else f"{name}.cpu()"


def to_host(X: DeviceArray) -> NDArray[Any]:
    """Return a copy in the memory of the host; bfloat16 as float32."""
    library = _library_of(X)
    if library == "cupy":
        return np.asarray(X.get())
    if library == "torch":
        return np.array(tensor_values(X.cpu()))
    return np.array(X.to_device(type(X.device)("CPU_DEVICE")))


def tensor_values(tensor: Any) -> NDArray[Any]:
    """Return the values of a tensor in the memory of the host, without a copy if NumPy has their type."""
    plain = tensor.detach()
    if dtype_name(plain).startswith(("bfloat16", "float8")):
        plain = plain.float()
    return np.asarray(plain.numpy())


def dtype_name(X: DeviceArray) -> str:
    """Return the name of the dtype, such as "float32"."""
    return str(X.dtype).rpartition(".")[2]


@dataclass(frozen=True)
class Place:
    """A library and one of its devices, where arrays can be put."""

    module: str
    name: str
    device: Any = field(compare=False)

    @classmethod
    def of(cls, X: DeviceArray) -> Place:
        """Return where an array is."""
        return cls(namespace(X).__name__, str(X.device), X.device)

    def __deepcopy__(self, memo: Any) -> Place:
        return self

    @property
    def xp(self) -> Any:
        """The functions of the array API."""
        return sys.modules.get(self.module) or import_module(self.module)

    def put(self, array: NDArray[Any], dtype: str | None = None) -> DeviceArray:
        """Return a copy of an array of the host."""
        plain = np.array(array, dtype, order="C")  # PyTorch warns of read-only arrays
        return self.xp.asarray(plain, device=self.device)

    def to(self, X: DeviceArray | NDArray[Any], dtype: str) -> DeviceArray:
        """Return an array of the host or of a device here, in a precision."""
        if not is_on_device(X):
            return self.put(X, dtype)
        if Place.of(X) != self:
            return self.put(to_host(X), dtype)
        plain = X.detach() if hasattr(X, "detach") else X
        return self.xp.astype(plain, getattr(self.xp, dtype), copy=False)


def cholesky(system: DeviceArray) -> DeviceArray | None:
    """Return the lower Cholesky factor, or None if the matrix is not positive definite."""
    xp = namespace(system)
    try:
        if _library_of(system) == "cupy":
            from cupyx import errstate

            with errstate(linalg="raise"):
                return xp.linalg.cholesky(system)
        return xp.linalg.cholesky(system)
    except Exception as error:
        if "LinAlgError" in type(error).__name__:
            return None
        raise


def cholesky_solve(lower: DeviceArray, columns: DeviceArray) -> DeviceArray:
    """Return the solution of (L L^T) x = columns."""
    library = _library_of(lower)
    if library == "torch":
        import torch

        return torch.cholesky_solve(columns, lower)
    if library == "cupy":
        from cupyx.scipy.linalg import solve_triangular

        half = solve_triangular(lower, columns, lower=True)
        return solve_triangular(lower, half, lower=True, trans=1)
    xp = namespace(lower)
    return xp.linalg.solve(lower.T, xp.linalg.solve(lower, columns))


@contextmanager
def device_memory(what: str) -> Iterator[None]:
    """Turn the libraries' own errors about too little memory into ours; ``what`` says what did not fit."""
    try:
        yield
    except Exception as error:
        if type(error).__name__ == "OutOfMemoryError":
            raise DeviceError(
                f"{what} does not fit into the memory of the GPU: {error}. Free some, or work in smaller parts."
            ) from error
        raise
