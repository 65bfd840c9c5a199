"""Bodies of requests: read within limits, and decoded into requests without trusting their content."""

from __future__ import annotations

import asyncio
from functools import cache
from typing import Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray
from starlette.requests import Request

from onlinehash.exceptions import FileFormatError, MissingExtraError
from onlinehash.service import care_schemas, schemas
from onlinehash.service.limits import Limits
from onlinehash.service.problems import LATER, Problem, invalid, over_limit
from onlinehash.tables import arrow
from onlinehash.tables.npy import parse_array

JSON, NPY, ARROW = "application/json", "application/x-npy", "application/vnd.apache.arrow.stream"
BINARY = "application/octet-stream"

T = TypeVar("T", bound=msgspec.Struct)


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
        most = min(self._limits.max_body_bytes, self._limits.max_memory_bytes)
        if size > most:
            raise over_limit("body", size, most, "send smaller batches", status=413)
        if self.n_bytes > self._limits.max_memory_bytes:
            busy = (
                f"The bodies of all requests hold {self.n_bytes} bytes, more than the limit of "
                f"{self._limits.max_memory_bytes}; wait a moment and ask again."
            )
            raise Problem(503, "busy", busy, headers=LATER)

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


def decode(kind: type[T], media: str, body: bytes, query: dict[str, str], limits: Limits) -> T:
    """Return the request in a body; its vectors are a list of lists from JSON, and an array from all else."""
    if media == JSON:
        if query:
            name = min(query)
            raise invalid(name, f"{name} is in the query, but the body is JSON; move it there.")
        return decode_json(kind, body, limits)
    if kind is schemas.UpsertRequest:
        return kind(*(_items_of_npy(body, limits) if media == NPY else _items_of_arrow(body, limits)))
    if kind is care_schemas.MigrateRequest:
        ids, vectors, _ = _items_of_npy(body, limits)
        return kind(ids=ids, vectors=vectors)
    options = convert(schemas.SearchOptions, query) if kind is schemas.SearchRequest else None
    given = {} if options is None else msgspec.structs.asdict(options)
    make: Any = kind
    is_image = media.startswith("image/")
    request: T = make(documents=[body], **given) if is_image else make(vectors=_vectors_of(_array(body)), **given)
    return request


def decode_json(kind: type[T], body: bytes, limits: Limits) -> T:
    """Return the request that JSON describes."""
    check_values(body.count(b","), limits)  # every value but the first of a list or an object follows one
    try:
        request: T = _decoder(kind).decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Problem.of_decoding(error, body) from None
    return request


@cache
def _decoder(kind: type[T]) -> msgspec.json.Decoder[T]:
    return msgspec.json.Decoder(kind)


def convert(kind: type[T], query: dict[str, str]) -> T:
    """Return what a query string describes."""
    try:
        return msgspec.convert(query, kind, strict=False)
    except msgspec.ValidationError as error:
        raise Problem.of_decoding(error, query) from None


def rows_of(vectors: list[list[float]] | NDArray[Any], limits: Limits) -> NDArray[Any]:
    """Return vectors of one width as an array."""
    if not isinstance(vectors, np.ndarray):
        width = len(vectors[0])
        for i, vector in enumerate(vectors):
            if len(vector) != width:
                rule = f"vectors.{i} has {len(vector)} numbers, the first has {width}; send vectors of one width."
                raise invalid(f"vectors.{i}", rule, vector)
        vectors = np.array(vectors)
    check_size(len(vectors), limits)
    if vectors.shape[1] > limits.max_dimensions:
        raise over_limit(
            "width", vectors.shape[1], limits.max_dimensions, "start the service with a larger --max-width"
        )
    return vectors


def check_size(n_rows: int, limits: Limits) -> None:
    """Refuse more items, ids, labels or queries than the service takes."""
    if n_rows > limits.max_batch_size:
        raise over_limit("batch", n_rows, limits.max_batch_size, "send several smaller requests")


def check_values(n_values: int, limits: Limits) -> None:
    """Refuse JSON of more values than the service takes, before any is made."""
    if n_values > limits.max_values:
        raise over_limit("values", n_values, limits.max_values, "use smaller batches, or arrays as .npy or Arrow")


# ---------------------------------------------------------------------- arrays


def _array(body: bytes) -> NDArray[Any]:
    """Return the array of an .npy file: numbers, or records of them and of text, never objects."""
    try:
        return parse_array(body)
    except FileFormatError as error:
        raise _unreadable(f"cannot be read as .npy ({str(error)[:200]}); write it with numpy.save") from None


def _vectors_of(array: NDArray[Any]) -> NDArray[Any]:
    """Return rows of real numbers in the byte order of this machine."""
    if array.ndim != 2 or array.dtype.kind not in "fiu" or array.dtype.itemsize > 8:
        raise _unreadable(
            f"holds an array of shape {array.shape} and dtype {array.dtype}; send one row of real numbers per vector",
            "vectors",
        )
    return np.ascontiguousarray(array, array.dtype.newbyteorder("="))


def _items_of_npy(body: bytes, limits: Limits) -> tuple[Any, ...]:
    """Return ids, vectors and labels from an array of records with the fields id, vectors and, optionally, label."""
    records = _array(body)
    names = records.dtype.names or ()
    if records.ndim != 1 or not {"id", "vectors"} <= set(names) <= {"id", "vectors", "label"}:
        raise _unreadable(
            f"holds an array of shape {records.shape} and dtype {str(records.dtype)[:200]}; send records with the "
            "fields id, vectors and label (optional), such as np.dtype([('id', 'i8'), ('vectors', 'f4', 128)])"
        )
    check_size(len(records), limits)
    ids, labels = (_column(records, name) if name in names else None for name in ("id", "label"))
    return ids, _vectors_of(records["vectors"]), labels


def _column(records: NDArray[Any], name: str) -> list[Any]:
    column = records[name]
    if column.ndim != 1 or column.dtype.kind not in "iuU":
        raise _unreadable(f"has the field {name} of dtype {column.dtype}; send integers or text, one per record", name)
    try:
        return list(column.tolist())
    except (ValueError, SystemError):  # a character beyond Unicode
        raise _unreadable(f"has a field {name} that is no text", name) from None


def _items_of_arrow(body: bytes, limits: Limits) -> tuple[Any, ...]:
    """Return ids, vectors, labels and payloads from the columns id, vectors and, optionally, label and payload."""
    try:
        columns = arrow.parse_stream(body, limits.max_batch_size, limits.max_values)
    except MissingExtraError as error:
        raise Problem(415, "media-type", str(error), field="Content-Type") from None
    except arrow.LengthError:
        raise _unreadable("has vectors of different lengths; send one width", "vectors") from None
    except FileFormatError as error:
        raise _unreadable(str(error)) from None
    check_size(len(columns["id"]), limits)
    payload = columns.get("payload")
    check_values(sum(text.count(",") for text in payload or () if text), limits)
    try:
        read = None if payload is None else [None if text is None else msgspec.json.decode(text) for text in payload]
    except (msgspec.DecodeError, RecursionError):
        raise _unreadable("has a payload that is no JSON text", "payload") from None
    return columns["id"], _vectors_of(columns["vectors"]), columns.get("label"), read


def _unreadable(what: str, field: str = "body") -> Problem:
    return Problem(422, "invalid-input", f"The body {what}.", field=field)
