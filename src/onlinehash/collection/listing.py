"""Listing: the half of a collection's reading that enumerates and counts items."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator
from typing import Any

from onlinehash._validation import check_non_negative_int, check_positive_int
from onlinehash.collection import _validation as check
from onlinehash.collection.filters import Filter, parse_where
from onlinehash.collection.stores.protocol import Rows, Store
from onlinehash.collection.types import Id, Item, Label


class Listing(ABC):
    """Enumerate and count the items of a store, all or those whose payload passes a filter."""

    _store: Store

    @property
    @abstractmethod
    def id_type(self) -> str | None:
        """Type of the ids, "int" or "str"; None before the first."""

    @abstractmethod
    def get(self, ids: Any) -> list[Item]:
        """Return items by id, in that order."""

    @abstractmethod
    def _items(self, rows: Rows) -> list[Item]: ...

    def __getitem__(self, id: Id) -> Item:
        if not check.is_single(id):
            raise TypeError(f"{id!r} is not one id; use get for several.")
        return self.get(id)[0]

    def items(
        self, *, where: Any = None, after: Id | None = None, limit: int | None = None, chunk: int = 1000
    ) -> Iterator[Item]:
        """Yield items in order of id, read in chunks.

        Parameters
        ----------
        where : mapping, optional
            Only items whose payload passes, as for :meth:`search`.
        after : int or str, optional
            Only ids above this one, which need not exist: the last of one page is where the next begins.
        limit : int, optional
            At most this many.
        chunk : int, default=1000
            Items read at a time.

        Examples
        --------
        >>> from tempfile import TemporaryDirectory
        >>> from onlinehash import Collection
        >>> with TemporaryDirectory() as folder, Collection.open(f"{folder}/shop.oh", "hcoh") as shop:
        ...     payload = [{"price": price} for price in (5, 15, 25)]
        ...     shop.upsert(["pen", "cup", "hat"], [[1.0, 0.5], [-1.0, 0.5], [0.1, 0.2]], [0, 1, 0], payload)
        ...     [item.id for item in shop.items(where={"price": {"$lt": 20}})]
        ['cup', 'pen']
        """
        check_positive_int("chunk", chunk)
        left = None if limit is None else check_non_negative_int("limit", limit)
        passes = _parsed(where)
        last = None if after is None else check.check_item_ids(after, self.id_type)[0]
        return self._listed(passes, last, left, chunk)

    def _listed(self, where: Filter | None, last: Id | None, left: int | None, chunk: int) -> Iterator[Item]:
        while left is None or left > 0:
            size = chunk if left is None else min(chunk, left)
            rows = self._store.rows_after(last, size, where)
            if len(rows):
                yield from self._items(rows)
                last = rows.ids[-1]
            if len(rows) < size:
                return
            left = None if left is None else left - size

    def _passing_ids(self, where: Any) -> list[Any]:
        return list(self._store.ids(parse_where(where)))

    def count(self, where: Any = None) -> int:
        """Return the number of items.

        Parameters
        ----------
        where : mapping, optional
            Only items whose payload passes, as for :meth:`search`.
        """
        return self._store.count(_parsed(where))

    def label_counts(self, where: Any = None) -> dict[Label | None, int]:
        """Return the number of items that have each label, in order of the labels; None for items without any.

        Parameters
        ----------
        where : mapping, optional
            Only items whose payload passes, as for :meth:`search`.

        Examples
        --------
        >>> from tempfile import TemporaryDirectory
        >>> from onlinehash import Collection
        >>> with TemporaryDirectory() as folder, Collection.open(f"{folder}/pets.oh", "hcoh") as pets:
        ...     pets.upsert([1, 2, 3], [[1.0, 0.5], [-1.0, 0.5], [0.1, 0.2]], [["dog", "pet"], ["cat", "pet"], None])
        ...     pets.label_counts()
        {'cat': 1, 'dog': 1, 'pet': 2, None: 1}
        """
        counts: Counter[Any] = Counter()
        for text, n_items in self._store.label_counts(_parsed(where)).items():
            labels = check.labels_of(text)
            for label in labels if isinstance(labels, tuple) else (labels,):
                counts[label] += n_items
        return {label: counts[label] for label in sorted(counts, key=lambda label: (label is None, label))}

    def indexes(self) -> list[str]:
        """Return the paths in the payload that have an index, in order."""
        paths: list[str] = self._store.setting("indexes", [])
        return sorted(paths)


def _parsed(where: Any) -> Filter | None:
    return None if where is None else parse_where(where)
