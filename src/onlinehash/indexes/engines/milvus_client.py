"""Shared by everything stored in Milvus: the client and its filters, which are strings."""

from __future__ import annotations

import os
import re
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from onlinehash.codes import code_width
from onlinehash.exceptions import FileFormatError, InvalidInputError, StorageError, needs_extra
from onlinehash.indexes.engines.milvus_lite import LITE_FILES

with needs_extra("pymilvus", "milvus"):
    import grpc  # type: ignore[import-untyped]
    from pymilvus import DataType, MilvusClient, MilvusException

Fields = Mapping[str, Mapping[str, Any]]
"""The fields of a collection, the primary key first: what ``add_field`` of pymilvus takes."""

INTEGER: Mapping[str, Any] = {"datatype": DataType.INT64}

Hit = tuple[Any, Any]
"""Distance and id of an item."""

MOST = 16384  # rows per result, a limit of Milvus
LEAST = -(1 << 63)  # a number that filters of Milvus Lite misread
_FILE_NAME = re.compile(r"[A-Za-z0-9._-]{1,33}\.db", re.ASCII)  # a limit of Milvus Lite
_SCHEMES = ("http", "https", "tcp", "grpc", "unix")
_PATIENCE = 60  # seconds per call
_CONNECT = 10  # seconds to connect
_LOADING = 600  # seconds for a server to load a collection
_HITS = 200_000  # per result of several queries
_AT_A_TIME = 5000  # rows per write
_MESSAGE = 8 << 20  # bytes per write
_IDS = 5000  # per filter
_FILTER = 200_000  # characters per filter
_TICK = 0.002  # seconds: Milvus's clock counts milliseconds, and a read in that of a change may not see it


def code(n_bits: int) -> Mapping[str, Any]:
    """Return the field of a code, in whole bytes."""
    return {"datatype": DataType.BINARY_VECTOR, "dim": 8 * code_width(n_bits)}


# ---------------------------------------------------------------------- filters


def above(field: str, value: int) -> str:
    """Return the filter for values above one."""
    return f"{field} >= {LEAST + 1}" if value == LEAST else f"{field} > {value}"


def at_most(field: str, value: int) -> str:
    """Return the filter for values up to one."""
    return f"{field} < {LEAST + 1}" if value == LEAST else f"{field} <= {value}"


def one_of(field: str, values: Iterable[int]) -> list[str]:
    """Return filters of limited length that together match the given values.

    Examples
    --------
    >>> one_of("id", [3, 7]), one_of("id", [])
    (['id in [3, 7]'], [])
    """
    filters, texts, length = [], [], 0
    for value in values:
        if value == LEAST:
            filters.append(at_most(field, value))
            continue
        texts.append(str(value))
        length += len(texts[-1])
        if len(texts) == _IDS or length > _FILTER:
            filters.append(f"{field} in [{', '.join(texts)}]")
            texts, length = [], 0
    return filters + [f"{field} in [{', '.join(texts)}]"] * bool(texts)


def both(*filters: str) -> str:
    """Return the conjunction of filters; an empty filter matches everything."""
    return " and ".join(f"({each})" for each in filters if each)


# ---------------------------------------------------------------------- connections


class Milvus:
    """A connection to a server, or to a file of Milvus Lite, with errors translated to ours.

    Parameters
    ----------
    uri : str
        ``"http://user:password@host:19530"``, or the path of a file that ends in ``.db``, which only one process at a
        time can open.

    Attributes
    ----------
    file : Path or None
        None for a server.
    place : str
        For messages; without user and password.
    """

    def __init__(self, uri: str | os.PathLike[str]) -> None:
        self.file, self.place = _parts(uri)
        self._closed = False
        self._has_aliases = True
        if self.file is not None:
            LITE_FILES.take(self.file)
        try:
            with self._errors():
                self._client = _connect(str(uri if self.file is None else self.file), self.file is not None)
        except BaseException as error:
            self._closed = True
            if self.file is None:
                raise
            LITE_FILES.leave(self.file)
            if not isinstance(error, StorageError):
                raise
            raise StorageError(
                f"{error} If the file is damaged, delete it: a collection fills it again when it is opened. The codes "
                "of an index alone come from a backup."
            ) from error

    def close(self) -> None:
        """Close the connection."""
        if not self._closed:
            self._closed = True
            self._client.close()
            if self.file is not None:
                LITE_FILES.leave(self.file)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (MilvusException, grpc.RpcError, ValueError) as error:
            if self._closed:
                raise StorageError(f"{self.place} is closed.") from None
            said = " ".join(str(getattr(error, "message", error)).split()).rstrip(".")
            raise StorageError(f"Milvus at {self.place}: {said}.") from error

    def _ask(self, method: str, *values: Any, **named: Any) -> Any:
        with self._errors():
            return getattr(self._client, method)(*values, timeout=_PATIENCE, **named)

    # collections

    def has(self, name: str) -> bool:
        """Return whether a collection exists."""
        return bool(self._ask("has_collection", name))

    def describe(self, name: str) -> dict[str, Any]:
        """Return the description of a collection."""
        return dict(self._ask("describe_collection", name))

    def create(self, name: str, fields: Fields, description: str = "", index: Mapping[str, Any] | None = None) -> None:
        """Create a collection if it does not exist, and load it.

        Parameters
        ----------
        name : str
        fields : mapping
        description : str
        index : mapping, optional
            How the vectors are searched; exactly by default.
        """
        if not self.has(name):
            schema = self._client.create_schema(auto_id=False, enable_dynamic_field=False, description=description)
            for place, (field, kind) in enumerate(fields.items()):
                schema.add_field(field, is_primary=not place, **kind)
            self._ask("create_collection", name, schema=schema, consistency_level="Strong")
        params = self._client.prepare_index_params()
        for field, kind in fields.items():
            if kind["datatype"] == DataType.BINARY_VECTOR:
                params.add_index(field, **{"index_type": "BIN_FLAT", "metric_type": "HAMMING", **(index or {})})
        self._ask("create_index", name, params, sync=False)
        self.load(name)

    def load(self, name: str) -> None:
        """Load a collection."""
        with self._errors():
            self._client.load_collection(name, timeout=_LOADING)

    def drop(self, name: str) -> None:
        """Drop a collection if it exists."""
        self._ask("drop_collection", name)

    def point(self, alias: str, name: str) -> None:
        """Point an alias at a collection, where the server has aliases; Milvus Lite has none."""
        if self.file is not None or not self._has_aliases:
            return
        try:
            self._client.alter_alias(name, alias, timeout=_PATIENCE)
        except grpc.RpcError as error:
            if error.code() != grpc.StatusCode.UNIMPLEMENTED:
                raise StorageError(f"Milvus at {self.place}: {error.details()}.") from error
            self._has_aliases = False
        except MilvusException:  # there is none of that name yet
            self._ask("create_alias", name, alias)

    # rows

    def put(self, name: str, rows: Iterable[Mapping[str, Any]]) -> None:
        """Write rows, replacing those with the same primary key."""
        some: list[Mapping[str, Any]] = []
        size = 0
        for row in rows:
            some.append(row)
            size += sum(map(_size, row.values()))
            if size > _MESSAGE or len(some) == _AT_A_TIME:
                self._ask("upsert", name, some)
                some, size = [], 0
        if some:
            self._ask("upsert", name, some)
        time.sleep(_TICK)

    def delete(self, name: str, filters: Iterable[str]) -> None:
        """Delete the rows that pass any filter."""
        for each in filters:
            self._ask("delete", name, filter=each)
        time.sleep(_TICK)

    def count(self, name: str, where: str = "") -> int:
        """Return the number of rows that pass a filter."""
        return int(self._ask("query", name, filter=where, output_fields=["count(*)"])[0]["count(*)"])

    def find(self, name: str, filters: Iterable[str], fields: Sequence[str]) -> list[dict[str, Any]]:
        """Return the rows that match any filter; each must match few."""
        return [row for each in filters for row in self.page(name, each, fields)]

    def page(self, name: str, where: str, fields: Sequence[str], limit: int = MOST) -> list[dict[str, Any]]:
        """Return the first rows that pass a filter, in order of their primary key."""
        return list(self._ask("query", name, filter=where, output_fields=list(fields), limit=min(limit, MOST)))

    def pages(self, name: str, where: str, fields: Sequence[str]) -> Iterator[list[dict[str, Any]]]:
        """Yield all rows that pass a filter, in order of their primary key, the first of the fields."""
        rows = self.page(name, where, fields)
        while rows:
            yield rows
            last = rows[-1][fields[0]]
            rows = self.page(name, both(where, above(fields[0], last)), fields) if len(rows) == MOST else []

    def search(
        self, name: str, queries: Sequence[bytes], limit: int, where: str, params: Mapping[str, Any]
    ) -> list[list[Hit]]:
        """Return the nearest rows of every query, in order of distance and id."""
        found: list[list[Hit]] = []
        step = max(1, _HITS // limit)
        how = {"metric_type": "HAMMING", "params": dict(params)}
        for start in range(0, len(queries), step):
            some = list(queries[start : start + step])
            answers = self._ask("search", name, some, filter=where, limit=limit, anns_field="code", search_params=how)
            found += [sorted((int(hit["distance"]), hit["id"]) for hit in hits) for hits in answers]
        return found


def _connect(uri: str, lite: bool) -> MilvusClient:
    """Return a client; the server of a file whose process was killed takes a moment to release it."""
    deadline = time.monotonic() + (_CONNECT if lite else 0)
    while True:
        try:
            # A unique name: clients without one share a connection, which the first to close ends.
            return MilvusClient(uri, alias=uuid.uuid4().hex, timeout=_CONNECT)
        except MilvusException:
            if time.monotonic() >= deadline:
                raise
            time.sleep(0.2)


def _size(value: Any) -> int:
    if isinstance(value, list):
        return sum(map(_size, value))
    return len(value) if isinstance(value, (str, bytes)) else int(getattr(value, "nbytes", 8))


def _parts(uri: str | os.PathLike[str]) -> tuple[Path | None, str]:
    """Return the file of a uri, if it is one, and its name for messages."""
    parts = urlsplit(str(uri))
    if parts.scheme.lower() in _SCHEMES:
        place = parts.netloc.rpartition("@")[2] or parts.path
        if not place:
            raise InvalidInputError(f"uri={uri!r} names no host; use http://host:19530, or a file that ends in .db.")
        return None, place
    file = Path(str(uri)).absolute()
    if parts.scheme or not _FILE_NAME.fullmatch(file.name):
        raise InvalidInputError(
            f"uri={uri!r} is neither http://host:19530 nor a file of Milvus Lite: its name ends in .db and has "
            "letters, digits, '.', '_' and '-', at most 36 of them."
        )
    if not file.parent.is_dir():
        raise StorageError(f"There is no folder {file.parent}; make it first.")
    file = file.resolve()
    if file.is_dir() or (file.exists() and file.stat().st_size and file.read_bytes()[:15] != b"SQLite format 3"):
        raise FileFormatError(f"{file} is not a file that Milvus Lite wrote.")
    return file, str(file)
