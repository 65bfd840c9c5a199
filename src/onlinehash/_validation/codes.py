"""Checks of packed codes and of the queries of an asymmetric search."""

from __future__ import annotations

from typing import Any

import numpy as np

from onlinehash._arrays import is_on_device, way_to_host
from onlinehash.exceptions import InvalidCodesError
from onlinehash.types import Codes, QueryValues


def check_codes(codes: Any, n_bits: int | None = None) -> Codes:
    """Return packed codes without a cast; with ``n_bits``, the width and the padding are checked too."""
    _refuse_device(codes, "codes")
    packed: Codes = np.asarray(codes)
    if packed.dtype != np.uint8:
        raise InvalidCodesError(
            f"codes has dtype {packed.dtype}; packed codes are uint8. Use pack_signs or pack_bits first."
        )
    if packed.ndim != 2 or packed.shape[1] == 0:
        raise InvalidCodesError(f"codes has shape {packed.shape}; pass one row per code, (n_samples, n_bytes).")
    if n_bits is not None:
        width = (n_bits + 7) // 8
        if packed.shape[1] != width:
            raise InvalidCodesError(f"codes has {packed.shape[1]} bytes per row, but {n_bits} bits take {width}.")
        if n_bits % 8 and (packed[:, -1] >> (n_bits % 8)).any():
            raise InvalidCodesError(f"codes has bits set beyond bit {n_bits}; those padding bits must be zero.")
    return packed


def check_query_values(queries: Any, n_bits: int | None = None) -> QueryValues:
    """Return the queries of an asymmetric search in single precision; with ``n_bits`` the width is checked too."""
    _refuse_device(queries, "queries")
    values = np.asarray(queries)
    if values.dtype.kind not in "fi":
        raise InvalidCodesError(
            f"The queries have dtype {values.dtype}; pass real values from -1 to 1, as encode_asymmetric returns."
        )
    if values.ndim != 2 or values.shape[1] == 0:
        raise InvalidCodesError(f"The queries have shape {values.shape}; pass one row per query, (n_queries, n_bits).")
    if n_bits is not None and values.shape[1] != n_bits:
        raise InvalidCodesError(
            f"The queries have {values.shape[1]} values per row, but codes have {n_bits} bits; pass one value per bit."
        )
    wrong = ~((values >= -1) & (values <= 1))  # NaN is on neither side
    if wrong.any():
        row, bit = np.argwhere(wrong)[0]
        raise InvalidCodesError(
            f"The queries hold {values[row, bit]} at row {row}, bit {bit}; values go from -1 to 1. Use "
            "encode_asymmetric, or np.tanh of projections."
        )
    return np.ascontiguousarray(values, np.float32)


def check_same_width(queries: Codes, codes: Codes) -> None:
    """Raise if two sets of codes have different widths."""
    if queries.shape[1] != codes.shape[1]:
        raise InvalidCodesError(
            f"queries have {queries.shape[1]} bytes per row, codes have {codes.shape[1]}; encode both alike."
        )


def _refuse_device(codes: Any, name: str) -> None:
    if is_on_device(codes):
        raise InvalidCodesError(
            f"{name} are on {codes.device}, which only GpuIndex takes; pass {way_to_host(codes, name)}."
        )
