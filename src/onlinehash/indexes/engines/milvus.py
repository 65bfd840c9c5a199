"""MilvusIndex: codes in a collection of Milvus, which searches them; and the connection to Milvus."""

from __future__ import annotations

import os
import re
import time
import uuid
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from threading import Lock
from typing import Any, Self
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from onlinehash.codes import code_width
from onlinehash.exceptions import InvalidInputError, StorageError, needs_extra
from onlinehash.indexes.flat import FlatIndex
from onlinehash.indexes.index import Index, Ties, is_id, unknown_id
from onlinehash.types import Codes, Distances, Ids, QueryValues, SearchResult

with needs_extra("pymilvus", "milvus"):
    import grpc  # type: ignore[import-untyped]
    from pymilvus import DataType, MilvusClient, MilvusException

Hit = tuple[int, int]  # distance and id of an item

MAX_ROWS = 16384  # per result, a limit of Milvus
_MAX_HITS = 200_000  # per call, over its queries
_MAX_IDS = 5000  # per filter
_ROWS_PER_WRITE = 5000
_SPARE_ROWS = 100  # requested besides 2 k, usually enough for all ties
_SMALLEST_ID = -(1 << 63)  # filters of Milvus Lite misread it
_CALL_SECONDS = 60
_CONNECT_SECONDS = 10
_LOAD_SECONDS = 600
_TICK_SECONDS = 0.002  # Milvus's clock counts milliseconds, and a read in that of a change may not see it
_SCHEMES = ("http", "https", "tcp", "grpc", "unix")
_FILE_NAME = re.compile(r"[A-Za-z0-9._-]{1,33}\.db", re.ASCII)  # a limit of Milvus Lite
_FILE_ERROR = (
    " Milvus Lite serves one process at a time, readers too, until it ends: end the other, or run a Milvus server. If "
    "the file is damaged, delete it: a collection fills it again when it is opened."
)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}", re.ASCII)


class MilvusIndex(Index):
    """Search packed codes exactly in a collection of Milvus.

    The collection has the fields ``id``, which is a hash of the id if that orders ties, and ``code``; it is created if
    it does not exist, and persists. Asymmetric
    searches, those among more than 5000 ids, and results of more than 8192 items (16383 for a radius) are computed here
    from the codes, which are read for each. Several processes may use one collection of a server; a file of Milvus Lite
    is for one process.

    Parameters
    ----------
    n_bits : int
        Length of the codes.
    uri : str
        ``"http://user:password@host:19530"``, or the path of a file that ends in ``.db``, for Milvus Lite.
    name : str, default="codes"
        Of the collection: letters, digits and ``_``.
    ties : {"id", "hash"}, default="id"
        Order of items at the same distance: by id, or by a hash of the id, which does not prefer old items.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> folder = TemporaryDirectory()
    >>> index = MilvusIndex(8, f"{folder.name}/items.db")
    >>> index.upsert(np.array([[0b0000], [0b0001], [0b0111]], np.uint8), ids=[10, 20, 30])
    >>> found = index.search(np.array([[0b0011]], np.uint8), k=2)
    >>> found.ids, found.distances
    (array([[20, 30]]), array([[1, 1]], dtype=int32))
    >>> index.delete([20])
    >>> len(index), 20 in index
    (2, False)
    >>> index.close()
    >>> folder.cleanup()
    """

    def __init__(self, n_bits: int, uri: str | os.PathLike[str], *, name: str = "codes", ties: Ties = "id") -> None:
        super().__init__(n_bits, ties)
        if not _NAME.fullmatch(str(name)):
            raise InvalidInputError(
                f"name={name!r} is not a name; use letters, digits and _, no digit first, at most 200."
            )
        self._name, self._milvus = str(name), MilvusConnection(uri)
        try:
            ours = f"onlinehash: codes of {self.n_bits} bits{', hashed ids' if self.ties == 'hash' else ''}"
            if (found := self._milvus.create(self._name, self.n_bits, ours)) != ours:
                raise InvalidInputError(
                    f"The collection {self._name!r} in {self._milvus.place} has {found or 'something else'!r}, not "
                    f"{ours!r}; name another."
                )
        except BaseException:
            self._milvus.close()
            raise

    def close(self) -> None:
        """Close the connection; the collection persists."""
        self._milvus.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __len__(self) -> int:
        return self._milvus.count(self._name)

    def __contains__(self, id: object) -> bool:
        return is_id(id) and bool(self._milvus.find(self._name, self._filters(np.array([id], np.int64)), ["id"]))

    @property
    def ids(self) -> Ids:
        """Ids of all items, in the order of `ties`."""
        return self._ids_of(self._milvus.rows(self._name, ["id"]))

    @property
    def codes(self) -> Codes:
        """Codes of all items, in the order of `ids`, read-only."""
        return self._codes(self._rows(None))

    def _get(self, ids: Ids) -> Codes:
        rows = list(self._rows(ids))
        found = dict(zip(self._ids_of(rows).tolist(), rows, strict=True))
        self._demand(ids, found)
        return self._codes(found[id] for id in ids.tolist()).copy()

    # ------------------------------------------------------------------ changing

    def _put(self, codes: Codes, ids: Ids) -> None:
        keys = self._tie_keys(ids).tolist()
        self._milvus.put(
            self._name, [{"id": key, "code": code.tobytes()} for key, code in zip(keys, codes, strict=True)]
        )

    def _drop(self, ids: Ids) -> None:
        filters = self._filters(ids)
        self._demand(ids, self._ids_of(self._milvus.find(self._name, filters, ["id"])).tolist())
        self._milvus.delete(self._name, filters)

    # ------------------------------------------------------------------ searching

    def _search(self, queries: Codes, k: int, among: Ids | None) -> SearchResult[NDArray[Any]]:
        filters = self._filters(among)
        if len(filters) != 1 or k > MAX_ROWS // 2:
            return self._local(among).search(queries, k)
        blobs, where = [query.tobytes() for query in queries], filters[0]
        n_asked = min(MAX_ROWS, 2 * k + _SPARE_ROWS)
        found = self._milvus.search(self._name, blobs, n_asked, where)
        for q, hits in enumerate(found):
            if len(hits) == n_asked and hits[-1][0] == hits[k - 1][0]:
                found[q] = self._with_ties(blobs[q], hits, k, where)
        n_found = min(map(len, found)) if found else self._milvus.count(self._name, where)
        pairs = np.array([hits[: min(k, n_found)] for hits in found], np.int64).reshape(len(found), min(k, n_found), 2)
        return SearchResult(self._ids_of_keys(pairs[:, :, 1]), pairs[:, :, 0].astype(np.int32))

    def _with_ties(self, query: bytes, hits: list[Hit], k: int, where: str) -> list[Hit]:
        """Return the k nearest; at the last distance, those that come first, which Milvus need not have given."""
        last = hits[-1][0]
        nearer = [hit for hit in hits if hit[0] < last]
        wanted = k - len(nearer)
        params = {"radius": last + 1, "range_filter": last}
        smaller, n_asked = where, min(MAX_ROWS, 4 * wanted + _SPARE_ROWS)
        while True:
            ties = self._milvus.search(self._name, [query], n_asked, smaller, params)[0]
            if len(ties) < n_asked:
                return nearer + ties[:wanted]
            enough = f"id < {ties[wanted - 1][1] + 1}"
            smaller = f"({where}) and ({enough})" if where else enough

    def _search_asymmetric(self, queries: QueryValues, k: int, among: Ids | None) -> SearchResult[NDArray[Any]]:
        return self._local(among).search(queries, k, asymmetric=True)

    def _range_search(self, queries: Codes, radius: int, among: Ids | None) -> list[tuple[Ids, Distances]]:
        filters = self._filters(among)
        if len(filters) == 1:
            blobs = [query.tobytes() for query in queries]
            found = self._milvus.search(self._name, blobs, MAX_ROWS, filters[0], {"radius": radius + 1})
            if all(len(hits) < MAX_ROWS for hits in found):
                pairs = [np.array(hits, np.int64).reshape(-1, 2) for hits in found]
                return [(self._ids_of_keys(each[:, 1]), each[:, 0].astype(np.int32)) for each in pairs]
        return [(found.ids, found.distances) for found in self._local(among).range_search(queries, radius)]

    def _local(self, among: Ids | None) -> FlatIndex:
        """Return an index in memory of all items or some, for what Milvus does not compute."""
        rows = list(self._rows(among))
        index = FlatIndex(self.n_bits, self.ties)
        index.upsert(self._codes(rows), self._ids_of(rows))
        return index

    def _rows(self, ids: Ids | None) -> Iterable[dict[str, Any]]:
        if ids is None:
            return self._milvus.rows(self._name, ["id", "code"])
        return self._milvus.find(self._name, self._filters(ids), ["id", "code"])

    def _filters(self, ids: Ids | None) -> list[str]:
        """Return filters of limited length that together match the given ids, or one that matches all items."""
        return [""] if ids is None else one_of(self._tie_keys(ids).tolist())

    def _ids_of(self, rows: Iterable[Mapping[str, Any]]) -> Ids:
        return self._ids_of_keys(np.array([row["id"] for row in rows], np.int64))

    def _codes(self, rows: Iterable[Mapping[str, Any]]) -> Codes:
        """Return the codes of rows, which Milvus gives as a list of one string of bytes."""
        content = b"".join(row["code"][0] for row in rows)
        return np.frombuffer(content, np.uint8).reshape(-1, code_width(self.n_bits))

    def _demand(self, ids: Ids, known: Iterable[int]) -> None:
        for id in set(ids.tolist()).difference(known):
            raise unknown_id(id, len(self))


def one_of(ids: Sequence[int]) -> list[str]:
    """Return filters of limited length that together match the given ids.

    Examples
    --------
    >>> one_of([3, 7]), one_of([])
    (['id in [3, 7]'], [])
    """
    plain = [id for id in ids if id != _SMALLEST_ID]
    filters = [f"id in {plain[start : start + _MAX_IDS]}" for start in range(0, len(plain), _MAX_IDS)]
    return filters + [f"id < {_SMALLEST_ID + 1}"] * (len(plain) < len(ids))


# Connections of this process by file; the server of Milvus Lite for a file ends with the last of them.
_guard = Lock()
_users: Counter[Path | None] = Counter()


class MilvusConnection:
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
        self.file, self.place = _parse(uri)
        self._closed = False
        self._client: Any = None
        # A unique name: clients without one share a connection, which the first to close ends.
        how = {"alias": uuid.uuid4().hex, "timeout": _CONNECT_SECONDS}
        with self._errors(), _guard, warnings.catch_warnings():
            warnings.filterwarnings("ignore", "pkg_resources is deprecated as an API", UserWarning)
            self._client = MilvusClient(str(self.file or uri), **how)
            _users[self.file] += 1

    def close(self) -> None:
        """Close the connection."""
        if not self._closed:
            self._closed = True
            self._client.close()
            with _guard:
                _users[self.file] -= 1
                if self.file is not None and not _users[self.file]:
                    import_module("milvus_lite.server_manager").server_manager_instance.release_server(str(self.file))

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (MilvusException, grpc.RpcError, ValueError) as error:
            if self._closed:
                raise StorageError(f"{self.place} is closed.") from None
            said = " ".join(str(getattr(error, "message", error)).split()).rstrip(".")
            way_out = "" if self.file is None or self._client is not None else _FILE_ERROR
            raise StorageError(f"Milvus at {self.place}: {said}.{way_out}") from error

    def _ask(self, method: str, *values: Any, **named: Any) -> Any:
        with self._errors():
            return getattr(self._client, method)(*values, **{"timeout": _CALL_SECONDS, **named})

    def has(self, name: str) -> bool:
        """Return whether a collection exists."""
        return bool(self._ask("has_collection", name))

    def create(self, name: str, n_bits: int, description: str) -> str:
        """Create a collection of ids and codes if it does not exist, load it, and return its description."""
        if self.has(name):
            description = str(self._ask("describe_collection", name)["description"])
        else:
            schema = self._client.create_schema(auto_id=False, enable_dynamic_field=False, description=description)
            schema.add_field("id", DataType.INT64, is_primary=True)
            schema.add_field("code", DataType.BINARY_VECTOR, dim=8 * code_width(n_bits))
            params = self._client.prepare_index_params()
            params.add_index("code", index_type="BIN_FLAT", metric_type="HAMMING")
            self._ask("create_collection", name, schema=schema, index_params=params, consistency_level="Strong")
        self._ask("load_collection", name, timeout=_LOAD_SECONDS)
        return description

    def drop(self, name: str) -> None:
        """Drop a collection if it exists."""
        self._ask("drop_collection", name)

    def put(self, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write rows, replacing those with the same primary key."""
        for start in range(0, len(rows), _ROWS_PER_WRITE):
            self._ask("upsert", name, rows[start : start + _ROWS_PER_WRITE])
        time.sleep(_TICK_SECONDS)

    def delete(self, name: str, filters: Iterable[str]) -> None:
        """Delete the rows that pass any filter."""
        for each in filters:
            self._ask("delete", name, filter=each)
        time.sleep(_TICK_SECONDS)

    def count(self, name: str, where: str = "") -> int:
        """Return the number of rows that pass a filter."""
        return int(self._ask("query", name, filter=where, output_fields=["count(*)"])[0]["count(*)"])

    def find(self, name: str, filters: Iterable[str], fields: list[str]) -> list[dict[str, Any]]:
        """Return the rows that pass any filter, of which each must match few, in order of their primary key."""
        asked = {"output_fields": fields, "limit": MAX_ROWS}
        return [row for each in filters for row in self._ask("query", name, filter=each, **asked)]

    def rows(self, name: str, fields: list[str]) -> Iterator[dict[str, Any]]:
        """Yield all rows, in order of their primary key ``id``."""
        rows = self.find(name, [""], fields)
        yield from rows
        while len(rows) == MAX_ROWS:
            rows = self.find(name, [f"id >= {rows[-1]['id'] + 1}"], fields)
            yield from rows

    def search(
        self, name: str, queries: Sequence[bytes], limit: int, where: str, params: Mapping[str, int] | None = None
    ) -> list[list[Hit]]:
        """Return the nearest rows of every query, in order of distance and id."""
        found: list[list[Hit]] = []
        step, how = max(1, _MAX_HITS // limit), {"metric_type": "HAMMING", "params": params or {}}
        for start in range(0, len(queries), step):
            some = list(queries[start : start + step])
            answers = self._ask("search", name, some, filter=where, limit=limit, anns_field="code", search_params=how)
            found += [sorted((int(hit["distance"]), hit["id"]) for hit in hits) for hits in answers]
        return found


def _parse(uri: str | os.PathLike[str]) -> tuple[Path | None, str]:
    """Return the file of a uri, if it is one, and its name for messages."""
    parts = urlsplit(str(uri))
    if parts.scheme.lower() in _SCHEMES:
        host = parts.netloc.rpartition("@")[2] or parts.path
        if not host:
            raise InvalidInputError(f"uri={uri!r} names no host; use http://host:19530, or a file that ends in .db.")
        return None, host
    file = Path(str(uri)).resolve()
    if parts.scheme or not _FILE_NAME.fullmatch(file.name):
        raise InvalidInputError(
            f"uri={uri!r} is neither http://host:19530 nor a file of Milvus Lite: its name ends in .db and has "
            "letters, digits, '.', '_' and '-', at most 36 of them."
        )
    if not file.parent.is_dir():
        raise StorageError(f"There is no folder {file.parent}; make it first.")
    return file, str(file)
