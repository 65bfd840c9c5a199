"""Shared by everything stored in Milvus: the client, its filters, and the search of codes.

A result of Milvus has at most 16384 rows, and which items at its last distance it holds is arbitrary: ties are queried
again. Pages of a query come in the order of the primary key. Filters are strings.
"""

from __future__ import annotations

import os
import re
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from onlinehash.codes import code_width
from onlinehash.exceptions import (
    FileFormatError,
    InvalidInputError,
    MissingExtraError,
    StorageError,
)
from onlinehash.indexes.engines.milvus_filters import above, at_most, both
from onlinehash.indexes.engines.milvus_lite import LITE_FILES
from onlinehash.indexes.flat import FlatIndex
from onlinehash.types import Codes, QueryValues, SearchResult

try:
    import grpc  # type: ignore[import-untyped]
    from pymilvus import DataType, MilvusClient, MilvusException
except ImportError as error:
    raise MissingExtraError.of("pymilvus", "milvus") from error

Fields = Mapping[str, Mapping[str, Any]]
"""The fields of a collection, the primary key first: what ``add_field`` of pymilvus takes."""

INTEGER: Mapping[str, Any] = {"datatype": DataType.INT64}

Hit = tuple[Any, Any]
"""Distance and id of an item."""

Answer = tuple[list[Any], list[Any]]
"""Ids and distances of what was found for a query."""

MOST = 16384  # rows per result, a limit of Milvus
_FILE_NAME = re.compile(r"[A-Za-z0-9._-]{1,33}\.db", re.ASCII)  # a limit of Milvus Lite
_SCHEMES = ("http", "https", "tcp", "grpc", "unix")
_PATIENCE = 60  # seconds per call
_CONNECT = 10  # seconds to connect
_LOADING = 600  # seconds for a server to load a collection
_HITS = 200_000  # per result of several queries
_AT_A_TIME = 5000  # rows per write
_MESSAGE = 8 << 20  # bytes per write
_SPARE = 100  # extra rows to request, usually enough for all ties
_TICK = 0.002  # seconds: Milvus's clock counts milliseconds, and a read in that of a change may not see it


def code(n_bits: int) -> Mapping[str, Any]:
    """Return the field of a code, in whole bytes."""
    return {"datatype": DataType.BINARY_VECTOR, "dim": 8 * code_width(n_bits)}


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
        except BaseException:
            self._closed = True
            if self.file is not None:
                LITE_FILES.leave(self.file)
            raise

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

    def names(self) -> list[str]:
        """Return the names of all collections."""
        return list(self._ask("list_collections"))

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


# ---------------------------------------------------------------------- searching


class CodeScan:
    """Search a collection with fields ``id`` and ``code``: exactly, ties by id, if its index is exact.

    Parameters
    ----------
    milvus : Milvus
    name : str
    n_bits : int
    filters : sequence of str
        Items that match any of them are searched.
    params : mapping
        Search parameters of an approximate index.
    """

    def __init__(
        self,
        milvus: Milvus,
        name: str,
        n_bits: int,
        filters: Sequence[str] = ("",),
        params: Mapping[str, Any] | None = None,
    ) -> None:
        self._milvus, self._name, self._n_bits = milvus, name, n_bits
        self._filters, self._params = filters, dict(params or {})

    def search(self, queries: Codes, k: int) -> list[Answer]:
        """Return the k nearest of every query."""
        return self._merged(lambda where: self._nearest(queries, k, where), len(queries), k)

    def range_search(self, queries: Codes, radius: int) -> list[Answer]:
        """Return all items at most ``radius`` away from every query."""
        radius = min(radius, self._n_bits)
        return self._merged(lambda where: self._near(queries, radius, where), len(queries), None)

    def search_asymmetric(self, queries: QueryValues, k: int) -> list[Answer]:
        """Return the k nearest of every query by asymmetric distance."""
        return self._merged(
            lambda where: self._read(where, lambda index: index.search(queries, k, asymmetric=True)), len(queries), k
        )

    def __len__(self) -> int:
        return sum(self._milvus.count(self._name, where) for where in self._filters)

    def _merged(self, search: Callable[[str], list[list[Hit]]], n_queries: int, most: int | None) -> list[Answer]:
        """Search with each filter, and keep the nearest of all."""
        found: list[list[Hit]] = [[] for _ in range(n_queries)]
        if n_queries:
            for where in self._filters:
                found = [sorted({*one, *other})[:most] for one, other in zip(found, search(where), strict=True)]
        return [([id for _, id in hits], [distance for distance, _ in hits]) for hits in found]

    def _nearest(self, queries: Codes, k: int, where: str) -> list[list[Hit]]:
        if k > MOST // 2:
            return self._read(where, lambda index: index.search(queries, k))
        asked = min(MOST, 2 * k + _SPARE)
        blobs = [query.tobytes() for query in queries]
        found = self._milvus.search(self._name, blobs, asked, where, self._params)
        return [
            self._with_ties(query, hits, k, where) if len(hits) == asked and hits[-1][0] == hits[k - 1][0] else hits[:k]
            for query, hits in zip(blobs, found, strict=True)
        ]

    def _with_ties(self, query: bytes, hits: list[Hit], k: int, where: str) -> list[Hit]:
        """Return the k nearest; at the last distance, those with the smallest ids."""
        last = hits[-1][0]
        nearer = [hit for hit in hits if hit[0] < last]
        wanted = k - len(nearer)
        params = {**self._params, "radius": last + 1, "range_filter": last}
        smaller, asked = "", min(MOST, 4 * wanted + _SPARE)
        while True:
            ties = self._milvus.search(self._name, [query], asked, both(where, smaller), params)[0]
            if len(ties) < asked:
                return nearer + ties[:wanted]
            smaller = at_most("id", ties[wanted - 1][1])  # there are enough up to here

    def _near(self, queries: Codes, radius: int, where: str) -> list[list[Hit]]:
        blobs = [query.tobytes() for query in queries]
        params = {**self._params, "radius": radius + 1}
        found = self._milvus.search(self._name, blobs, MOST, where, params)
        if any(len(hits) == MOST for hits in found):
            return self._read(where, lambda index: index.range_search(queries, radius))
        return found

    def _read(self, where: str, search: Callable[[FlatIndex], Iterable[SearchResult]]) -> list[list[Hit]]:
        """Read all codes and search them locally, for results that exceed the limits of Milvus."""
        ids, codes = self.read(where)
        index = FlatIndex(self._n_bits)
        if ids:
            index.upsert(codes)
        return [
            list(zip(found.distances.tolist(), [ids[row] for row in found.ids], strict=True)) for found in search(index)
        ]

    def read(self, where: str = "") -> tuple[list[Any], Codes]:
        """Return ids, in order, and their codes."""
        ids: list[Any] = []
        blobs: list[bytes] = []
        for rows in self._milvus.pages(self._name, where, ["id", "code"]):
            ids += [row["id"] for row in rows]
            blobs += [row["code"][0] for row in rows]
        return ids, np.frombuffer(b"".join(blobs), np.uint8).reshape(len(ids), code_width(self._n_bits))
