"""Listing: the part of a collection that reads items: by id, in an order, and counted."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from onlinehash._validation import check_choice, check_non_negative_int, check_positive_int
from onlinehash.collection import _validation as check
from onlinehash.collection.filters import parse_where
from onlinehash.collection.follower import StoreFollower
from onlinehash.collection.ids import check_item_ids, demand_single, is_single
from onlinehash.collection.stores.protocol import Among, Place, Rows
from onlinehash.collection.types import Id, Item, ItemPage, Label
from onlinehash.exceptions import InvalidInputError, UnknownIdError

_ID_TYPES = {None: None, "INTEGER": "int", "TEXT": "str"}  # by the names in SQL


class Listing(StoreFollower):
    """Read and count the items of a store, all or those that pass a filter."""

    def __len__(self) -> int:
        return self._store.count()

    def __contains__(self, id: object) -> bool:
        try:
            return is_single(id) and self._store.seqs(check_item_ids(id, self.id_type))[0] is not None
        except InvalidInputError:
            return False

    def __iter__(self) -> Iterator[Id]:
        return self._store.ids()

    def __getitem__(self, id: Id) -> Item:
        demand_single(id)
        return self.get(id)[0]

    @property
    def id_type(self) -> str | None:
        """Type of the ids, "int" or "str"; None before the first."""
        return _ID_TYPES[self._store.setting("id_type")]

    @property
    def label_kind(self) -> str | None:
        """Type of the labels, "int" or "str"; None before the first."""
        kind: str | None = self._store.setting("label_kind")
        return kind

    def get(self, ids: Any) -> list[Item]:
        """Return items by id, in that order.

        Parameters
        ----------
        ids : int or str, or several
        """
        self._catch_up()
        listed = check_item_ids(ids, self.id_type)
        rows = self._store.rows(listed)
        if len(rows) < len(listed):
            self._demand_known(listed)
        return self._items(rows)

    def items(
        self,
        *,
        labels: Any = None,
        where: Any = None,
        order: str = "id",
        descending: bool = False,
        after: Id | None = None,
        limit: int | None = None,
        chunk: int = 1000,
    ) -> Iterator[Item]:
        """Yield items in order of id or of arrival, read in chunks.

        Parameters
        ----------
        labels : label or several, optional
            Only items that have any of them. ``create_index("$labels")`` makes this fast.
        where : mapping, optional
            Only items whose payload passes, as for :meth:`search`.
        order : "id" or "arrival", default="id"
            An item that is replaced, or whose vector or label is updated, arrives again.
        descending : bool, default=False
        after : int or str, optional
            Only items that follow this one in the order. In order of id it need not exist; in order of arrival it must,
            or use :meth:`page`.
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
        ...     [item.id for item in shop.items(labels=0, order="arrival", descending=True)]
        ['cup', 'pen']
        ['hat', 'pen']
        """
        check_positive_int("chunk", chunk)
        left = None if limit is None else check_non_negative_int("limit", limit)
        rows = self._listed(self._place(order, descending, after), self._among(labels, where=where), chunk, left)
        return (item for some in rows for item in self._items(some))

    def _listed(self, place: Place, among: Among, chunk: int, left: int | None = None) -> Iterator[Rows]:
        """Yield items as they are stored, in chunks."""
        while left is None or left > 0:
            size = chunk if left is None else min(chunk, left)
            rows = self._store.listed(place, size, among.labels, among.where)
            if len(rows):
                yield rows
                place = _following(place, rows)
            if len(rows) < size:
                return
            left = None if left is None else left - size

    def page(
        self,
        *,
        labels: Any = None,
        where: Any = None,
        order: str = "id",
        descending: bool = False,
        after: Id | None = None,
        cursor: str | None = None,
        limit: int = 100,
    ) -> ItemPage:
        """Return some items, and a cursor for those that follow.

        Parameters
        ----------
        labels, where, order, descending, after
            As for :meth:`items`.
        cursor : str, optional
            Instead of ``after``: that of the page before, which had the same order. It stays valid when items
            change or are deleted.
        limit : int, default=100
            At most this many.

        Examples
        --------
        >>> from tempfile import TemporaryDirectory
        >>> from onlinehash import Collection
        >>> with TemporaryDirectory() as folder, Collection.open(f"{folder}/things.oh", "hcoh") as things:
        ...     things.upsert([3, 1, 2], [[1.0, 0.5], [-1.0, 0.5], [0.1, 0.2]], [0, 1, 0])
        ...     first = things.page(order="arrival", limit=2)
        ...     second = things.page(order="arrival", limit=2, cursor=first.cursor)
        >>> [item.id for item in first.items], [item.id for item in second.items], second.cursor
        ([3, 1], [2], None)
        """
        place = self._place(order, descending, after)
        if cursor is not None:
            if after is not None:
                raise InvalidInputError("page takes after or cursor, one of the two.")
            place = _parse_cursor(cursor, place, self.id_type)
        limit = check_positive_int("limit", limit)
        among = self._among(labels, where=where)
        rows = self._store.listed(place, limit + 1, among.labels, among.where)
        found = self._items(rows[:limit])
        return ItemPage(found, _cursor(_following(place, rows[:limit])) if len(rows) > limit else None)

    def _place(self, order: str, descending: bool, after: Id | None) -> Place:
        """Return where to begin."""
        place = Place(check_choice("order", order, ("id", "arrival")), bool(descending))
        if after is None:
            return place
        (id,) = check_item_ids(after, self.id_type)
        if order == "id":
            return place._replace(after=id)
        (seq,) = self._store.seqs([id])
        if seq is None:
            raise UnknownIdError(
                f"after={after!r} is no item of this collection, so it has no place in the order of arrival; use page, "
                "whose cursor has one."
            )
        return place._replace(after=seq)

    def _items(self, rows: Rows) -> list[Item]:
        encoder = self.encoder
        version = None if encoder is None else encoder.version
        coded = self._index.are_searchable(rows.seqs)
        columns = zip(rows.ids, rows.vectors, rows.labels, rows.payloads, coded, strict=True)
        return [
            Item(id, vector, check.labels_of(labels), json.loads(payload or "null"), version if has_code else None)
            for id, vector, labels, payload, has_code in columns
        ]

    def _demand_known(self, ids: list[Any]) -> list[Any]:
        for id, seq in zip(ids, self._store.seqs(ids), strict=True):
            if seq is None:
                raise UnknownIdError(f"There is no item with id {id!r} in this collection of {len(self)}.")
        return ids

    def _among(self, labels: Any = None, ids: Iterable[Id] | None = None, where: Any = None) -> Among:
        """Return the filters, checked."""
        return Among(
            None if labels is None else list(dict.fromkeys(check.wanted_labels(labels, self.label_kind))),
            None if ids is None else check_item_ids(ids, self.id_type, repeated=True),
            None if where is None else parse_where(where),
        )

    def _passing_ids(self, where: Any) -> list[Any]:
        return list(self._store.ids(parse_where(where)))

    def count(self, where: Any = None, *, labels: Any = None) -> int:
        """Return the number of items.

        Parameters
        ----------
        where : mapping, optional
            Only items whose payload passes, as for :meth:`search`.
        labels : label or several, optional
            Only items that have any of them.
        """
        among = self._among(labels, where=where)
        return self._store.count(among.where, among.labels)

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
        for text, n_items in self._store.label_counts(self._among(where=where).where).items():
            labels = check.labels_of(text)
            for label in labels if isinstance(labels, tuple) else (labels,):
                counts[label] += n_items
        return {label: counts[label] for label in sorted(counts, key=lambda label: (label is None, label))}

    def indexes(self) -> list[str]:
        """Return the paths in the payload that have an index, in order."""
        paths: list[str] = self._store.setting("indexes", [])
        return sorted(paths)


def _following(place: Place, rows: Rows) -> Place:
    return place._replace(after=(rows.ids if place.order == "id" else rows.seqs)[-1])


def _cursor(place: Place) -> str:
    return f"{'-' if place.descending else ''}{place.order}:{json.dumps(place.after)}"


def _parse_cursor(cursor: Any, place: Place, id_type: str | None) -> Place:
    """Return where a page begins, which is in the order that is asked for."""
    begin = _cursor(place).removesuffix("null")
    try:
        after = json.loads(cursor[len(begin) :]) if isinstance(cursor, str) and cursor.startswith(begin) else None
    except (ValueError, RecursionError):
        after = None
    if type(after) not in (int, str) or (place.order == "arrival" and type(after) is not int):
        raise InvalidInputError(
            f"cursor={str(cursor)[:80]!r} is not of a page in this order; pass that of the page before, with the same "
            "order and descending."
        )
    (known,) = check_item_ids(after, id_type if place.order == "id" else "int")
    return place._replace(after=known)
