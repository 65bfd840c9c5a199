"""MemoryIndex: what the indexes share that scan codes in memory."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from onlinehash._files import read_arrays, write_arrays
from onlinehash.codes import kernels
from onlinehash.codes.asymmetric import byte_tables
from onlinehash.codes.hamming import distance_dtype, same_words
from onlinehash.exceptions import FileFormatError
from onlinehash.indexes._search import Found, find_nearest, search_blocks
from onlinehash.indexes.index import Index
from onlinehash.indexes.tables import IdTable, Numbers
from onlinehash.types import Codes, Distances, Ids, QueryValues, SearchResult

_LAYOUT = 1


class View(NamedTuple):
    """Items to search: their codes, further arguments of the kernel, and the number of items."""

    codes: Codes
    arguments: tuple[Any, ...]
    n_items: int


class MemoryIndex(Index):
    """An index whose codes are in memory, with a table from ids to rows or buckets that is built when first needed."""

    supports_asymmetric = True
    _kind: ClassVar[str]
    _top_k: ClassVar[
        Callable[..., None]
    ]  # kernel: queries, words, arguments of the view, nearest, buffer, distances, ids

    def __init__(self, n_bits: int) -> None:
        super().__init__(n_bits)
        self._size = 0
        self._table: IdTable | None = None

    def __len__(self) -> int:
        return self._size

    def __contains__(self, id: object) -> bool:
        return id in self._numbers()

    def _numbers(self) -> IdTable:
        """Return the table from ids to rows or buckets."""
        if self._table is None:
            self._table = IdTable(*self._items())
        return self._table

    @abstractmethod
    def _items(self) -> tuple[Ids, Numbers]:
        """Return all ids, and the row or bucket of each."""

    @abstractmethod
    def _view(self, among: Ids | None) -> View:
        """Return all items, or those of some ids."""

    # ------------------------------------------------------------------ searching

    def _search(self, queries: Codes, k: int, among: Ids | None) -> SearchResult:
        view = self._view(among)
        query_words, words = same_words(queries, view.codes)
        return self._nearest(lambda rows: query_words[rows], words, view, k, len(queries))

    def _search_asymmetric(self, queries: QueryValues, k: int, among: Ids | None) -> SearchResult:
        view = self._view(among)
        return self._nearest(lambda rows: byte_tables(queries[rows]), view.codes, view, k, len(queries))

    def _nearest(
        self, queries: Callable[[slice], NDArray[Any]], words: NDArray[Any], view: View, k: int, n_queries: int
    ) -> SearchResult:
        """Return the k nearest of every query; ``queries`` gives a block of them as the kernel needs them."""

        def search(rows: slice) -> Found:
            return find_nearest(type(self)._top_k, queries(rows), words, view.arguments, min(k, view.n_items))

        return search_blocks(search, n_queries, len(words))

    def _range_search(self, queries: Codes, radius: int, among: Ids | None) -> list[tuple[Ids, Distances]]:
        view = self._view(among)
        query_words, words = same_words(queries, view.codes)
        distances = np.empty((1, len(words)), distance_dtype(queries.shape[1]))
        found = []
        for q in range(len(queries)):
            kernels.pairwise_distances(query_words[q : q + 1], words, distances)
            rows = np.flatnonzero(distances[0] <= radius)
            rows = rows[np.argsort(distances[0, rows], kind="stable")]
            ids, counts = self._ids_of(view, rows)
            near = np.repeat(distances[0, rows].astype(np.int32), counts)
            for ties in np.split(ids, np.flatnonzero(np.diff(near)) + 1):
                ties.sort()
            found.append((ids, near))
        return found

    @abstractmethod
    def _ids_of(self, view: View, rows: NDArray[np.int64]) -> tuple[Ids, Any]:
        """Return a new array of the ids in rows of a view, and the number of ids per row."""

    # ------------------------------------------------------------------ saving

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the index to one file (safetensors, no pickle)."""
        write_index(path, self._kind, self.n_bits, self._arrays())

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, mmap: bool = False) -> Self:
        """Read an index that :meth:`save` wrote; with ``mmap``, codes and ids stay on disk until the first change."""
        header, arrays = read_index(path, cls._kind, mmap=mmap)
        index = cls(header["n_bits"])
        index._restore(arrays)
        index._size = len(arrays["ids"])
        return index

    @abstractmethod
    def _arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays of a file, among them ``ids``."""

    @abstractmethod
    def _restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Take over the arrays of a file."""


def write_index(
    path: str | os.PathLike[str], kind: str, n_bits: int, arrays: dict[str, NDArray[Any]], **header: Any
) -> None:
    """Write the arrays of an index of a kind to a file."""
    write_arrays(path, "index", _LAYOUT, {"index": kind, "n_bits": n_bits, **header}, arrays)


def read_index(
    path: str | os.PathLike[str], kind: str, *, mmap: bool
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the header and the arrays of a file that :func:`write_index` wrote."""
    header, arrays = read_arrays(path, "index", _LAYOUT, mmap=mmap)
    if header["index"] != kind:
        raise FileFormatError(f"{path} holds an index of kind {header['index']!r}, not {kind!r}.")
    return header, arrays
