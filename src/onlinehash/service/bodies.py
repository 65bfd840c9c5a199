"""Bodies of requests: read within limits, and made into arrays without trusting a byte of them."""

from __future__ import annotations

import asyncio
import io
import json
import math
import struct
from dataclasses import dataclass
from tokenize import TokenError
from typing import Any, TypeVar

import numpy as np
from fastapi import Request
from numpy.lib import format as npy
from numpy.typing import NDArray
from pydantic import BaseModel, ValidationError

from onlinehash.exceptions import MissingExtraError
from onlinehash.service.limits import Limits
from onlinehash.service.problems import Problem, over_limit
from onlinehash.service.schemas import ALL_IDS, ALL_LABELS

JSON, NPY, ARROW = "application/json", "application/x-npy", "application/vnd.apache.arrow.stream"

M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True, eq=False)
class Items:
    """Columns of items to add."""

    ids: list[Any]
    vectors: NDArray[Any]
    labels: list[Any] | None = None
    payload: list[Any] | None = None


class BodyReader:
    """Take bodies in, up to a size and a time each, and a size of all that are held.

    Parameters
    ----------
    limits : Limits

    Attributes
    ----------
    n_bytes : int
        Bytes held now.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits, self.n_bytes = limits, 0

    async def read(self, request: Request) -> bytes:
        """Return the body; the caller gives it back with :meth:`release`."""
        announced = request.headers.get("content-length", "0")
        if announced.isdecimal() and int(announced) > self._limits.max_body_bytes:
            raise self._too_large(int(announced))
        parts: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(self._limits.body_timeout):
                async for part in request.stream():
                    size += len(part)
                    self.n_bytes += len(part)
                    parts.append(part)
                    if size > self._limits.max_body_bytes:
                        raise self._too_large(size)
                    if self.n_bytes > self._limits.max_memory_bytes:
                        raise Problem(
                            503,
                            "busy",
                            f"The bodies of all requests hold {self.n_bytes} bytes, more than the limit of "
                            f"{self._limits.max_memory_bytes}; wait a moment and ask again.",
                            headers={"Retry-After": "1"},
                        )
        except TimeoutError:
            self.n_bytes -= size
            raise Problem(
                408,
                "too-slow",
                f"The body did not arrive within {self._limits.body_timeout} seconds; send it faster, or less of it.",
                headers={"Connection": "close"},
            ) from None
        except BaseException:
            self.n_bytes -= size
            raise
        return b"".join(parts)

    def release(self, body: bytes) -> None:
        """Give a body back."""
        self.n_bytes -= len(body)

    def _too_large(self, size: int) -> Problem:
        return over_limit("body", size, self._limits.max_body_bytes, "send smaller batches", status=413)


def media_type(request: Request, *accepted: str) -> str:
    """Return what the body says it is."""
    given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if given not in accepted:
        raise Problem(
            415,
            "media-type",
            f"Content-Type is {given[:80]!r}; send {' or '.join(accepted)}.",
            field="Content-Type",
            value=given,
        )
    return given


def read_json(body: bytes, model: type[M]) -> M:
    """Return the request that JSON describes.

    Examples
    --------
    >>> from onlinehash.service.schemas import IdsRequest
    >>> read_json(b'{"ids": ["a", "b"]}', IdsRequest).ids
    ['a', 'b']
    """
    try:
        return model.model_validate_json(body, strict=True)
    except ValidationError as error:
        raise Problem.of_validation(error) from None


def read_npy(body: bytes) -> NDArray[Any]:
    """Return the array of a .npy file: numbers, or records of them and of text, never objects.

    Examples
    --------
    >>> file = io.BytesIO()
    >>> np.save(file, np.eye(2, dtype=np.float32))
    >>> read_npy(file.getvalue()).shape
    (2, 2)
    """
    file = io.BytesIO(body)
    try:
        major = npy.read_magic(file)[0]
        reader = {1: npy.read_array_header_1_0, 2: npy.read_array_header_2_0}[major]
        shape, fortran, dtype = reader(file)
        if dtype.hasobject:
            raise ValueError("it holds Python objects")
        n_bytes = len(body) - file.tell()
        if min(shape, default=1) < 1 or math.prod(shape) * dtype.itemsize != n_bytes:
            raise ValueError(f"shape {shape} of {dtype} does not fit {n_bytes} bytes")
        array = np.frombuffer(body, dtype, offset=file.tell()).reshape(shape, order="F" if fortran else "C")
    except (
        ValueError,
        TypeError,
        KeyError,
        IndexError,
        SyntaxError,
        TokenError,
        OverflowError,
        RecursionError,
    ) as error:
        raise _unreadable(f"cannot be read as .npy ({str(error)[:200]}); write it with numpy.save") from None
    return array


def vectors_of(array: NDArray[Any]) -> NDArray[Any]:
    """Return rows of real numbers in the byte order of this machine."""
    if array.ndim != 2 or array.dtype.kind not in "fiu" or array.dtype.itemsize > 8:
        raise _unreadable(
            f"holds an array of shape {array.shape} and dtype {array.dtype}; send one row of real numbers a vector",
            "vectors",
        )
    return np.ascontiguousarray(array, array.dtype.newbyteorder("="))


def items_of_npy(body: bytes) -> Items:
    """Return items from an array of records with the fields id, vector and, if they have one, label."""
    records = read_npy(body)
    names = records.dtype.names or ()
    if records.ndim != 1 or not {"id", "vectors"} <= set(names) <= {"id", "vectors", "label"}:
        raise _unreadable(
            f"holds an array of shape {records.shape} and dtype {str(records.dtype)[:200]}; send records with the "
            "fields id, vector and label (optional), such as np.dtype([('id', 'i8'), ('vectors', 'f4', 128)])"
        )
    return Items(
        _column(records, "id"),
        vectors_of(records["vectors"]),
        _column(records, "label") if "label" in names else None,
    )


def _column(records: NDArray[Any], name: str) -> list[Any]:
    column = records[name]
    if column.ndim != 1 or column.dtype.kind not in "iuU":
        raise _unreadable(f"has the field {name} of dtype {column.dtype}; send integers or text, one a record", name)
    try:
        return list(column.tolist())
    except ValueError:  # a character beyond Unicode
        raise _unreadable(f"has a field {name} that is no text", name) from None


def items_of_arrow(body: bytes) -> Items:
    """Return items from an Arrow stream with the columns id, vector and, optionally, label and payload (JSON text)."""
    try:
        import pyarrow as pa
    except ImportError:
        raise Problem(415, "media-type", str(MissingExtraError.of("pyarrow", "arrow")), field="Content-Type") from None
    try:
        for message in pa.ipc.MessageReader.open_stream(body):
            if message.type == "dictionary" or _is_compressed(message.metadata.to_pybytes(), message.type):
                raise _unreadable("has compressed buffers or dictionaries; send plain columns")
        table = pa.ipc.open_stream(body).read_all()
        table.validate(full=True)
        names = table.column_names
        if len(set(names)) < len(names) or not {"id", "vectors"} <= set(names) <= {"id", "vectors", "label", "payload"}:
            raise _unreadable(
                f"has the columns {', '.join(names)[:200]}; send id, vector and, if you like, label and payload"
            )
        if not len(table):
            raise _unreadable("has no rows; send at least one")
        columns: dict[str, Any] = {name: table[name].to_pylist() for name in names if name != "vectors"}
        vectors = _arrow_vectors(table["vectors"].combine_chunks())
    except (pa.ArrowException, ValueError, OSError, struct.error) as error:
        raise _unreadable(f"cannot be read as an Arrow stream: {str(error)[:200]}") from None
    payload = columns.get("payload")
    try:
        read = None if payload is None else [None if text is None else json.loads(text) for text in payload]
    except (TypeError, ValueError, RecursionError):
        raise _unreadable("has a payload that is no JSON text", "payload") from None
    return Items(columns["id"], vectors, columns.get("label"), read)


def _arrow_vectors(column: Any) -> NDArray[Any]:
    lists = hasattr(column.type, "value_type")
    values = column.flatten() if lists and not column.null_count else None
    if values is None or values.null_count or len(values) % len(column) or not len(values):
        raise _unreadable("has a column vector that is no list of numbers in every row, or has gaps", "vectors")
    width = len(values) // len(column)
    if any(length != width for length in column.value_lengths().to_pylist()):
        raise _unreadable("has vectors of different lengths; send one width", "vectors")
    return vectors_of(values.to_numpy(zero_copy_only=False).reshape(len(column), width))


def _is_compressed(metadata: bytes, kind: str) -> bool:
    """Tell whether a message is compressed, before a small one becomes a huge one: walk its flatbuffer to the field."""
    if kind != "record batch":
        return False
    message = struct.unpack_from("<I", metadata)[0]
    header = _table_field(metadata, message, 2)
    batch = header + struct.unpack_from("<I", metadata, header)[0]
    return bool(_table_field(metadata, batch, 3) != batch)


def _table_field(buffer: bytes, table: int, number: int) -> int:
    """Return where a field of a flatbuffer table is; the table itself if it has no such field."""
    fields = table - struct.unpack_from("<i", buffer, table)[0]
    if 4 + 2 * number >= struct.unpack_from("<H", buffer, fields)[0]:
        return table
    return int(table + struct.unpack_from("<H", buffer, fields + 4 + 2 * number)[0])


def checked(items: Items, limits: Limits) -> Items:
    """Return items whose ids and labels are what JSON would have to hold, within limits."""
    check_size(len(items.ids), items.vectors, limits)
    try:
        ALL_IDS.validate_python(items.ids, strict=True)
    except ValidationError as error:
        raise Problem.of_validation(error, "ids") from None
    try:
        ALL_LABELS.validate_python(items.labels or [], strict=True)
    except ValidationError as error:
        raise Problem.of_validation(error, "labels") from None
    return items


def rows_of(vectors: list[list[float]]) -> NDArray[Any]:
    """Return vectors of one width as an array.

    Examples
    --------
    >>> rows_of([[1.0, 2.0], [3.0, 4.0]]).shape
    (2, 2)
    """
    width = len(vectors[0])
    for i, vector in enumerate(vectors):
        if len(vector) != width:
            raise Problem(
                422,
                "invalid-input",
                f"vectors.{i} has {len(vector)} numbers, the first has {width}; send vectors of one width.",
                field=f"vectors.{i}",
                value=vector,
            )
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
