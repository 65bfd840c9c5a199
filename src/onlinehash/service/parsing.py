"""Bodies of requests: read within limits, and parsed into arrays without trusting their content."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from fastapi import Request
from numpy.typing import NDArray
from pydantic import BaseModel, ValidationError

from onlinehash.exceptions import FileFormatError, MissingExtraError
from onlinehash.service.limits import Limits
from onlinehash.service.problems import Problem, over_limit
from onlinehash.service.schemas import ALL_IDS, ALL_LABELS
from onlinehash.tables import arrow
from onlinehash.tables.npy import parse_array

JSON, NPY, ARROW = "application/json", "application/x-npy", "application/vnd.apache.arrow.stream"

M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True, eq=False)
class Items:
    """Columns of items to add."""

    ids: list[Any]
    vectors: NDArray[Any] | None
    labels: list[Any] | None = None
    payload: list[Any] | None = None
    documents: list[str] | None = None


class BodyReader:
    """Reader of bodies, within limits on the size and time of each and on the size of all that are held."""

    def __init__(self, limits: Limits) -> None:
        self._limits, self.n_bytes = limits, 0

    async def read(self, request: Request) -> bytes:
        """Return the body; the caller gives it back with :meth:`release`."""
        announced = request.headers.get("content-length", "0")
        if announced.isdecimal():
            self._check_size(int(announced))
        parts: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(self._limits.body_timeout):
                async for part in request.stream():
                    size += len(part)
                    self.n_bytes += len(part)
                    parts.append(part)
                    self._check_size(size)
        except BaseException as error:
            self.n_bytes -= size
            if not isinstance(error, TimeoutError):
                raise
            late = f"The body did not arrive within {self._limits.body_timeout} seconds; send it faster, or less of it."
            raise Problem(408, "too-slow", late, headers={"Connection": "close"}) from None
        return b"".join(parts)

    def _check_size(self, size: int) -> None:
        if size > self._limits.max_body_bytes:
            raise over_limit("body", size, self._limits.max_body_bytes, "send smaller batches", status=413)
        if self.n_bytes > self._limits.max_memory_bytes:
            busy = (
                f"The bodies of all requests hold {self.n_bytes} bytes, more than the limit of "
                f"{self._limits.max_memory_bytes}; wait a moment and ask again."
            )
            raise Problem(503, "busy", busy, headers={"Retry-After": "1"})

    def release(self, body: bytes) -> None:
        """Give a body back."""
        self.n_bytes -= len(body)


def media_type(request: Request, *accepted: str) -> str:
    """Return the media type of the body."""
    given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if given not in accepted:
        rule = f"Content-Type is {given[:80]!r}; send {' or '.join(accepted)}."
        raise Problem(415, "media-type", rule, field="Content-Type", value=given)
    return given


def read_json(body: bytes, model: type[M]) -> M:
    """Return the request that JSON describes."""
    try:
        return model.model_validate_json(body, strict=True)
    except ValidationError as error:
        raise Problem.of_validation(error) from None


def read_npy(body: bytes) -> NDArray[Any]:
    """Return the array of an .npy file: numbers, or records of them and of text, never objects."""
    try:
        return parse_array(body)
    except FileFormatError as error:
        raise _unreadable(f"cannot be read as .npy ({str(error)[:200]}); write it with numpy.save") from None


def vectors_of(array: NDArray[Any]) -> NDArray[Any]:
    """Return rows of real numbers in the byte order of this machine."""
    if array.ndim != 2 or array.dtype.kind not in "fiu" or array.dtype.itemsize > 8:
        raise _unreadable(
            f"holds an array of shape {array.shape} and dtype {array.dtype}; send one row of real numbers per vector",
            "vectors",
        )
    return np.ascontiguousarray(array, array.dtype.newbyteorder("="))


def items_of_npy(body: bytes) -> Items:
    """Return items from an array of records with the fields id, vectors and, optionally, label."""
    records = read_npy(body)
    names = records.dtype.names or ()
    if records.ndim != 1 or not {"id", "vectors"} <= set(names) <= {"id", "vectors", "label"}:
        raise _unreadable(
            f"holds an array of shape {records.shape} and dtype {str(records.dtype)[:200]}; send records with the "
            "fields id, vectors and label (optional), such as np.dtype([('id', 'i8'), ('vectors', 'f4', 128)])"
        )
    return Items(
        _column(records, "id"),
        vectors_of(records["vectors"]),
        _column(records, "label") if "label" in names else None,
    )


def _column(records: NDArray[Any], name: str) -> list[Any]:
    column = records[name]
    if column.ndim != 1 or column.dtype.kind not in "iuU":
        raise _unreadable(f"has the field {name} of dtype {column.dtype}; send integers or text, one per record", name)
    try:
        return list(column.tolist())
    except ValueError:  # a character beyond Unicode
        raise _unreadable(f"has a field {name} that is no text", name) from None


def items_of_arrow(body: bytes) -> Items:
    """Return items from an Arrow stream with the columns id, vectors and, optionally, label and payload (JSON text)."""
    try:
        columns = arrow.parse_stream(body, "vectors")
        if not {"id", "vectors"} <= columns.keys() <= {"id", "vectors", "label", "payload"}:
            raise FileFormatError(
                f"has the columns {', '.join(columns)[:200]}; send id, vectors and, optionally, label and payload"
            )
        if not columns["id"]:
            raise FileFormatError("has no rows; send at least one")
    except MissingExtraError as error:
        raise Problem(415, "media-type", str(error), field="Content-Type") from None
    except FileFormatError as error:
        raise _unreadable(str(error)) from None
    lists, payload = columns["vectors"], columns.get("payload")
    try:
        if not arrow.is_list(lists.type) or lists.flatten().null_count:
            raise FileFormatError("no lists, or gaps in them")
        vectors = vectors_of(arrow.vectors_of(lists, "vectors"))
    except arrow.LengthError:
        raise _unreadable("has vectors of different lengths; send one width", "vectors") from None
    except FileFormatError:
        raise _unreadable(
            "has a column vectors that is no list of numbers in every row, or has gaps", "vectors"
        ) from None
    try:
        read = None if payload is None else [None if text is None else json.loads(text) for text in payload]
    except (TypeError, ValueError, RecursionError):
        raise _unreadable("has a payload that is no JSON text", "payload") from None
    return Items(columns["id"], vectors, columns.get("label"), read)


def checked(items: Items, limits: Limits) -> Items:
    """Return items whose ids and labels are what JSON would have to hold, within limits."""
    check_size(len(items.ids), items.vectors, limits)
    for name, rule, values in (("ids", ALL_IDS, items.ids), ("labels", ALL_LABELS, items.labels or [])):
        try:
            rule.validate_python(values, strict=True)
        except ValidationError as error:
            raise Problem.of_validation(error, name) from None
    return items


def rows_of(vectors: list[list[float]]) -> NDArray[Any]:
    """Return vectors of one width as an array."""
    width = len(vectors[0])
    for i, vector in enumerate(vectors):
        if len(vector) != width:
            rule = f"vectors.{i} has {len(vector)} numbers, the first has {width}; send vectors of one width."
            raise Problem(422, "invalid-input", rule, field=f"vectors.{i}", value=vector)
    return np.array(vectors)


def check_size(n_rows: int, vectors: NDArray[Any] | None, limits: Limits) -> None:
    """Refuse more rows or wider ones than the service takes."""
    if n_rows > limits.max_batch_size:
        raise over_limit("batch", n_rows, limits.max_batch_size, "send several smaller requests")
    if vectors is not None and vectors.shape[1] > limits.max_dimensions:
        raise over_limit(
            "width", vectors.shape[1], limits.max_dimensions, "start the service with a larger --max-width"
        )


def _unreadable(what: str, field: str = "body") -> Problem:
    return Problem(422, "invalid-input", f"The body {what}.", field=field)
