"""MilvusIndex: codes in a collection of Milvus, which searches them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from typing import Any, Self

import numpy as np

from onlinehash._validation import check_choice, check_positive_int
from onlinehash.codes import code_width
from onlinehash.exceptions import InvalidInputError, UnknownIdError
from onlinehash.indexes.engines.milvus_client import INTEGER, Answer, CodeScan, Milvus, code
from onlinehash.indexes.engines.milvus_filters import LEAST, one_of
from onlinehash.indexes.index import Index
from onlinehash.types import Codes, Distances, Ids, QueryValues, SearchResult

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}", re.ASCII)


class MilvusIndex(Index):
    """Search packed codes in a collection of Milvus: by default exactly, ties by id.

    The collection has a ``id`` and a ``code``; it is created if it does not exist, and persists. Results of more than
    8192 items (16383 for a radius) are computed by reading all codes. Several processes may use one collection of a
    server; a file of Milvus Lite is for one process.

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
        if not isinstance(id, (int, np.integer)) or not LEAST <= int(id) < -LEAST:
            return False
        return bool(self._found([int(id)]))

    @property
    def ids(self) -> Ids:
        """Ids of all items, sorted."""
        pages = self._milvus.pages(self._name, "", ["id"])
        return np.array([row["id"] for rows in pages for row in rows], np.int64)

    @property
    def codes(self) -> Codes:
        """Codes of all items, in the order of `ids`, read-only."""
        return CodeScan(self._milvus, self._name, self.n_bits).read()[1]

    def _get(self, ids: Ids) -> Codes:
        wanted = ids.tolist()
        found = self._found(set(wanted), "code")
        self._demand(wanted, found)
        content = b"".join(found[id][0] for id in wanted)
        return np.frombuffer(content, np.uint8).reshape(len(wanted), code_width(self.n_bits)).copy()

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
        scan = self._scan(among)
        return self._result(scan, scan.search(queries, k), k, np.int32)

    def _search_asymmetric(self, queries: QueryValues, k: int, among: Ids | None) -> SearchResult:
        scan = self._scan(among)
        return self._result(scan, scan.search_asymmetric(queries, k), k, np.float32)

    @staticmethod
    def _result(scan: CodeScan, answers: list[Answer], k: int, dtype: type) -> SearchResult:
        width = min(len(ids) for ids, _ in answers) if answers else min(k, len(scan))
        return SearchResult(
            np.array([ids[:width] for ids, _ in answers], np.int64).reshape(len(answers), width),
            np.array([distances[:width] for _, distances in answers], dtype).reshape(len(answers), width),
        )

    def _range_search(self, queries: Codes, radius: int, among: Ids | None) -> list[tuple[Ids, Distances]]:
        answers = self._scan(among).range_search(queries, radius)
        return [(np.array(ids, np.int64), np.array(distances, np.int32)) for ids, distances in answers]

    # ------------------------------------------------------------------ storage

    def _scan(self, among: Ids | None) -> CodeScan:
        filters = [""] if among is None else one_of("id", among.tolist())
        return CodeScan(self._milvus, self._name, self.n_bits, filters, self._params)

    def _found(self, ids: Iterable[int], field: str = "id") -> dict[int, Any]:
        """Return a field of the items that exist, by id."""
        rows = self._milvus.find(self._name, one_of("id", ids), ["id", field])
        return {row["id"]: row[field] for row in rows}

    def _demand(self, ids: list[int], found: Mapping[int, Any]) -> None:
        unknown = next((id for id in ids if id not in found), None)
        if unknown is not None:
            raise UnknownIdError(f"There is no item with id {unknown} in this index of {len(self)}.")

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
