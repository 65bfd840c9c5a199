"""Products and factors of symmetric matrices, computed while other threads run.

The functions of :mod:`scipy.linalg.blas` and :mod:`scipy.linalg.lapack` hold the interpreter, so that searches would
wait until a large matrix is factored. These call the same routines, and release it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cython_blas, cython_lapack

_name, _pointer = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
_name.restype, _name.argtypes = ctypes.c_char_p, [ctypes.py_object]
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


def add_gram(alpha: float, rows: NDArray[np.float64], beta: float, gram: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ``beta * gram + alpha * rows.T @ rows`` in the lower triangle of ``gram`` or of a copy."""
    rows, gram = np.ascontiguousarray(rows, np.float64), _writable(gram)
    size, n_rows = len(gram), len(rows)
    if n_rows:
        _dsyrk(b"L", b"N", size, n_rows, alpha, rows, size, beta, gram, size)
    elif beta != 1.0:
        gram *= beta
    return gram


def factor(system: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """Return the Cholesky factor in the lower triangle of ``system`` or of a copy, if there is one."""
    lower, status = _writable(system), ctypes.c_int64(0)
    _dpotrf(b"L", len(lower), lower, len(lower), status)
    return None if status.value else lower


def solve(lower: NDArray[np.float64], columns: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the solution of a system from its Cholesky factor."""
    solved = np.array(columns, np.float64, order="F")
    lower = np.asfortranarray(lower, np.float64)
    if solved.size:
        _dpotrs(b"L", len(lower), solved.shape[1], lower, len(lower), solved, len(lower), ctypes.c_int64(0))
    return solved


def _writable(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a square matrix in Fortran order that can be written to: the same, or a copy."""
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"A matrix of shape {matrix.shape} is not square.")
    return np.require(matrix, np.float64, ["F", "W", "A"])


def _routine(module: Any, name: str) -> Callable[..., None]:
    """Return a Fortran routine in double precision, which takes everything by reference."""
    capsule = module.__pyx_capi__[name]
    signature = _name(capsule)
    integer = ctypes.c_int if b" int *" in signature else ctypes.c_int64
    call = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * signature.count(b"*"))(_pointer(capsule, signature))
    kinds = {bytes: ctypes.c_char, int: integer, float: ctypes.c_double}

    def routine(*values: Any) -> None:
        held = [kinds[type(value)](value) if type(value) in kinds else value for value in values]
        call(*(x.ctypes.data if isinstance(x, np.ndarray) else ctypes.addressof(x) for x in held))

    return routine


_dsyrk = _routine(cython_blas, "dsyrk")
_dpotrf, _dpotrs = _routine(cython_lapack, "dpotrf"), _routine(cython_lapack, "dpotrs")
