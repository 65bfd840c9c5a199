"""MilvusIndex: codes in a collection of Milvus, which searches them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Self

import numpy as np

from onlinehash._validation import check_choice, check_positive_int
from onlinehash.codes import code_width
from onlinehash.exceptions import InvalidInputError
from onlinehash.indexes._ids import is_id, unknown_id
from onlinehash.indexes.engines.milvus_client import INTEGER, LEAST, MOST, Hit, Milvus, at_most, both, code, one_of
from onlinehash.indexes.flat import FlatIndex
from onlinehash.indexes.index import Index
from onlinehash.types import Codes, Distances, Ids, QueryValues, SearchResult

Search = Callable[[str], list[list[Hit]]]
"""What is found with a filter for every query."""

_SPARE = 100  # extra rows to request, usually enough for all ties
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}", re.ASCII)


class MilvusIndex(Index):
    """Search packed codes in a collection of Milvus: by default exactly, ties by id.

    The collection has the fields ``id`` and ``code``; it is created if it does not exist, and persists. Results of more
    than 8192 items (16383 for a radius) are computed by reading all codes. Several processes may use one collection of
    a server; a file of Milvus Lite is for one process.

    Parameters
    ----------
    n_bits : int
        Length of the codes.
    uri : str
        ``"http://user:password@host:19530"``, or the path of a file that ends in ``.db``, for Milvus Lite.
    name : str, default="codes"
        Of the collection: letters, digits and ``_``.
    index_type : str, default="BIN_FLAT"
        A server also has ``"BIN_IVF_FLAT"``, which is faster and may miss some of the nearest.
    nlist, nprobe : int
        Of ``"BIN_IVF_FLAT"``: number of lists, and of lists searched. Used when the collection is created.

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

    def __init__(
        self,
        n_bits: int,
        uri: str | os.PathLike[str],
        *,
        name: str = "codes",
        index_type: str = "BIN_FLAT",
        nlist: int = 1024,
        nprobe: int = 32,
    ) -> None:
        super().__init__(n_bits)
        check_choice("index_type", index_type, ("BIN_FLAT", "BIN_IVF_FLAT"))
        if not _NAME.fullmatch(str(name)):
            raise InvalidInputError(
                f"name={name!r} is no name; use letters, digits and _, no digit first, at most 200."
            )
        lists, probes = check_positive_int("nlist", nlist), check_positive_int("nprobe", nprobe)
        exact = index_type == "BIN_FLAT"
        self._name = str(name)
        self._params = {} if exact else {"nprobe": probes}
        self._milvus = Milvus(uri)
        try:
            if not exact and self._milvus.file is not None:
                raise InvalidInputError(
                    f"index_type={index_type!r} is not in Milvus Lite; leave it out, or use a server."
                )
            self._open({"index_type": index_type, "params": {} if exact else {"nlist": lists}})
        except BaseException:
            self._milvus.close()
            raise

    def _open(self, index: Mapping[str, Any]) -> None:
        ours = f"onlinehash: codes of {self.n_bits} bits"
        if self._milvus.has(self._name):
            found = self._milvus.describe(self._name)["description"]
            if found != ours:
                raise InvalidInputError(
                    f"The collection {self._name!r} in {self._milvus.place} has {found or 'something else'!r}, not "
                    f"{ours!r}; name another."
                )
        self._milvus.create(self._name, {"id": INTEGER, "code": code(self.n_bits)}, ours, index)

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
        return is_id(id) and bool(self._found([int(id)]))

    @property
    def ids(self) -> Ids:
        """Ids of all items, sorted."""
        pages = self._milvus.pages(self._name, "", ["id"])
        return np.array([row["id"] for rows in pages for row in rows], np.int64)

    @property
    def codes(self) -> Codes:
        """Codes of all items, in the order of `ids`, read-only."""
        return self._items()[1]

    def _get(self, ids: Ids) -> Codes:
        wanted = ids.tolist()
        found = self._found(set(wanted), "code")
        self._demand(wanted, found)
        return self._codes([found[id] for id in wanted]).copy()

    # ------------------------------------------------------------------ changing

    def _put(self, codes: Codes, ids: Ids) -> None:
        rows = ({"id": id, "code": code.tobytes()} for id, code in zip(ids.tolist(), codes, strict=True))
        self._milvus.put(self._name, rows)

    def _drop(self, ids: Ids) -> None:
        doomed = ids.tolist()
        self._demand(doomed, self._found(doomed))
        self._milvus.delete(self._name, one_of("id", doomed))

    # ------------------------------------------------------------------ searching

    def _search(self, queries: Codes, k: int, among: Ids | None) -> SearchResult:
        return self._k_nearest(lambda where: self._nearest(queries, k, where), len(queries), k, among, np.int32)

    def _search_asymmetric(self, queries: QueryValues, k: int, among: Ids | None) -> SearchResult:
        def search(where: str) -> list[list[Hit]]:
            return self._read(where, lambda index: index.search(queries, k, asymmetric=True))

        return self._k_nearest(search, len(queries), k, among, np.float32)

    def _range_search(self, queries: Codes, radius: int, among: Ids | None) -> list[tuple[Ids, Distances]]:
        found = _merged(lambda where: self._near(queries, radius, where), len(queries), _filters(among))
        return [
            (np.array([id for _, id in hits], np.int64), np.array([distance for distance, _ in hits], np.int32))
            for hits in found
        ]

    def _k_nearest(self, search: Search, n_queries: int, k: int, among: Ids | None, dtype: type) -> SearchResult:
        filters = _filters(among)
        found = _merged(search, n_queries, filters, k)
        if not found:
            k = min(k, sum(self._milvus.count(self._name, where) for where in filters))
        shape = len(found), min([k, *map(len, found)])
        hits = [hit for some in found for hit in some[: shape[1]]]
        return SearchResult(
            np.array([id for _, id in hits], np.int64).reshape(shape),
            np.array([distance for distance, _ in hits], dtype).reshape(shape),
        )

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
        """Return the k nearest; at the last distance, those with the smallest ids, which Milvus need not have given."""
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
        found = self._milvus.search(self._name, blobs, MOST, where, {**self._params, "radius": radius + 1})
        if any(len(hits) == MOST for hits in found):
            return self._read(where, lambda index: index.range_search(queries, radius))
        return found

    def _read(self, where: str, search: Callable[[FlatIndex], Iterable[SearchResult]]) -> list[list[Hit]]:
        """Read all codes and search them locally, for results that exceed the limits of Milvus."""
        ids, codes = self._items(where)
        index = FlatIndex(self.n_bits)
        if ids:
            index.upsert(codes)
        return [
            list(zip(found.distances.tolist(), [ids[row] for row in found.ids], strict=True)) for found in search(index)
        ]

    # ------------------------------------------------------------------ storage

    def _items(self, where: str = "") -> tuple[list[Any], Codes]:
        """Return the ids that pass a filter, in order, and their codes."""
        rows = [row for page in self._milvus.pages(self._name, where, ["id", "code"]) for row in page]
        return [row["id"] for row in rows], self._codes([row["code"] for row in rows])

    def _codes(self, found: list[Any]) -> Codes:
        """Return codes as Milvus gives them, each a list of bytes."""
        content = b"".join(blob for (blob,) in found)
        return np.frombuffer(content, np.uint8).reshape(len(found), code_width(self.n_bits))

    def _found(self, ids: Iterable[int], field: str = "id") -> dict[int, Any]:
        """Return a field of the items that exist, by id."""
        rows = self._milvus.find(self._name, one_of("id", ids), ["id", field])
        return {row["id"]: row[field] for row in rows}

    def _demand(self, ids: list[int], found: Mapping[int, Any]) -> None:
        unknown = next((id for id in ids if id not in found), None)
        if unknown is not None:
            raise unknown_id(unknown, len(self))

    def _next_id(self) -> int:
        """Return the id after the largest, in one query per bit: Milvus returns the first page only."""
        first = self._milvus.page(self._name, "", ["id"], 1)
        if not first:
            return 0
        largest, end = int(first[0]["id"]), -LEAST
        while largest + 1 < end:
            middle = (largest + end) // 2
            found = self._milvus.page(self._name, f"id >= {middle}", ["id"], 1)
            largest, end = (int(found[0]["id"]), end) if found else (largest, middle)
        return largest + 1


def _filters(among: Ids | None) -> list[str]:
    return [""] if among is None else one_of("id", among.tolist())


def _merged(search: Search, n_queries: int, filters: Iterable[str], most: int | None = None) -> list[list[Hit]]:
    """Search with each filter; return the nearest of all for every query, in order of distance and id."""
    found: list[list[Hit]] = [[] for _ in range(n_queries)]
    if n_queries:
        for where in filters:
            found = [sorted({*one, *other})[:most] for one, other in zip(found, search(where), strict=True)]
    return found
