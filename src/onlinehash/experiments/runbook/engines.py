"""What a runbook runs on: a collection, and others that hold labelled vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from onlinehash.collection import Collection
from onlinehash.exceptions import needs_extra
from onlinehash.hashers import OnlineHasher
from onlinehash.types import Features

Ids = NDArray[np.int64]


class Engine(Protocol):
    """The interface of what a runbook runs on."""

    def insert(self, ids: Ids, X: Features, y: Ids) -> None:
        """Store new items."""

    def delete(self, ids: Ids) -> None:
        """Delete stored items."""

    def relabel(self, ids: Ids, y: Ids) -> None:
        """Change the labels of stored items, if it has labels."""
        return

    def train(self) -> None:
        """Train from what is stored, if it has to be."""
        return

    def search(self, x: Features, k: int) -> Sequence[int]:
        """Return the ids of the k nearest items of one query."""

    def bytes_per_item(self) -> float:
        """Return what is kept in memory for searching, per item."""

    def close(self) -> None:
        """Release everything."""
        return


class CollectionEngine(Engine):
    """A collection in a temporary file; it learns from labels, and refreshes its codes by its own policy.

    Examples
    --------
    >>> from onlinehash import HROH
    >>> engine = CollectionEngine(HROH(16, random_state=0))
    >>> engine.insert(np.arange(2), np.eye(2, dtype=np.float32), np.array([0, 1]))
    >>> engine.train()
    >>> engine.search(np.array([1.0, 0.1], np.float32), 1), engine.bytes_per_item()
    ([0], 2.0)
    >>> engine.close()
    """

    def __init__(self, hasher: OnlineHasher | str) -> None:
        self._folder = TemporaryDirectory()
        self._collection = Collection.open(Path(self._folder.name) / "runbook.oh", hasher)

    def insert(self, ids: Ids, X: Features, y: Ids) -> None:
        """Store new items and learn from them."""
        self._collection.upsert(ids.tolist(), X, y)

    def delete(self, ids: Ids) -> None:
        """Delete stored items."""
        self._collection.delete(ids.tolist())

    def relabel(self, ids: Ids, y: Ids) -> None:
        """Change the labels of stored items and learn from them again."""
        self._collection.update(ids.tolist(), labels=y)

    def train(self) -> None:
        """Refresh the codes."""
        self._collection.refresh()

    def search(self, x: Features, k: int) -> Sequence[int]:
        """Return the ids of the k nearest codes."""
        found: list[int] = self._collection.search(x, k=k).ids
        return found

    def bytes_per_item(self) -> float:
        """Return the bytes of a code."""
        return float(-(-self._collection.stats().n_bits // 8))

    def close(self) -> None:
        """Close the collection and delete its file."""
        self._collection.close(refresh=False)
        self._folder.cleanup()


class FaissEngine(Engine):
    """Vectors at unit length in faiss, ranked by cosine: all of them, or in cells that are trained.

    Parameters
    ----------
    cells : bool
        Whether to search a sixteenth of about 4 sqrt(n) cells. Before the first training, all vectors are searched.
        Training again moves all vectors to new cells.
    """

    def __init__(self, *, cells: bool) -> None:
        with needs_extra("faiss", "faiss"):
            self._faiss: Any = import_module("faiss")
        self._faiss.omp_set_num_threads(1)  # for single queries, threads only wait for each other
        self._cells = cells
        self._index: Any = None
        self._rows: dict[int, NDArray[np.float32]] = {}

    def insert(self, ids: Ids, X: Features, y: Ids) -> None:
        """Add vectors."""
        rows = _unit(X)
        if self._index is None:
            self._index = self._faiss.IndexIDMap2(self._faiss.IndexFlatIP(X.shape[1]))
        self._index.add_with_ids(rows, ids)
        if self._cells:
            self._rows.update(zip(ids.tolist(), rows, strict=True))

    def delete(self, ids: Ids) -> None:
        """Remove vectors."""
        self._index.remove_ids(ids)
        for id in ids.tolist():
            self._rows.pop(id, None)

    def train(self) -> None:
        """Train new cells on the vectors stored and move all of them there."""
        if not self._rows:
            return
        ids, rows = np.array(list(self._rows)), np.array(list(self._rows.values()))
        n_cells = max(1, min(len(ids) // 39, round(4 * np.sqrt(len(ids)))))  # at least 39 vectors per cell, as it asks
        index = self._faiss.index_factory(rows.shape[1], f"IVF{n_cells},Flat", self._faiss.METRIC_INNER_PRODUCT)
        index.train(rows)
        index.add_with_ids(rows, ids)
        index.nprobe = max(1, n_cells // 16)
        self._index = index

    def search(self, x: Features, k: int) -> Sequence[int]:
        """Return the ids of the k nearest vectors."""
        _, ids = self._index.search(_unit(x[np.newaxis]), k)
        return [int(id) for id in ids[0] if id >= 0]

    def bytes_per_item(self) -> float:
        """Return the bytes of a vector."""
        return 4.0 * int(self._index.d)


class RiverEngine(Engine):
    """River's exact nearest neighbours over a window that never fills, one vector at a time, ranked by cosine.

    It cannot delete. Deleted items are skipped among what it finds, for which it is asked for twice as many.
    """

    def __init__(self) -> None:
        with needs_extra("river", "river"):
            neighbors: Any = import_module("river.neighbors")
        self._search = neighbors.LazySearch(1 << 30, dist_func=lambda a, b: -float(a[0] @ b[0]))
        self._deleted: set[int] = set()
        self._width = 0

    def insert(self, ids: Ids, X: Features, y: Ids) -> None:
        """Add vectors."""
        self._width = X.shape[1]
        for id, row in zip(ids.tolist(), _unit(X), strict=True):
            self._search.append((row, id))

    def delete(self, ids: Ids) -> None:
        """Remember what not to find."""
        self._deleted |= set(ids.tolist())

    def search(self, x: Features, k: int) -> Sequence[int]:
        """Return the ids of the k nearest vectors."""
        wanted = k if not self._deleted else 2 * k
        items, _ = self._search.search((_unit(x[np.newaxis])[0], -1), wanted)
        return [id for _, id in items if id not in self._deleted][:k]

    def bytes_per_item(self) -> float:
        """Return the bytes of a vector, without those of Python objects."""
        return 4.0 * self._width


ENGINES: dict[str, Callable[[], Engine]] = {
    "faiss-flat": lambda: FaissEngine(cells=False),
    "faiss-ivf": lambda: FaissEngine(cells=True),
    "river": RiverEngine,
}
"""Engines by name, besides the collection."""


def _unit(X: Features) -> NDArray[np.float32]:
    """Return rows scaled to unit length."""
    lengths = np.linalg.norm(X, axis=1, keepdims=True)
    return np.ascontiguousarray(X / np.where(lengths > 0, lengths, 1), np.float32)
