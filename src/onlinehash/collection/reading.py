"""The half of a collection that looks and searches."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from threading import RLock
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onlinehash._containers import as_array
from onlinehash._validation import (
    check_choice,
    check_features,
    check_non_negative_int,
    check_positive_int,
    check_process,
)
from onlinehash.collection import incoming
from onlinehash.collection.live import live_codes
from onlinehash.collection.rescoring import rescored
from onlinehash.collection.stores.protocol import Among, Answers, Position, Rows, Store
from onlinehash.collection.types import Id, Item, Label
from onlinehash.encoders import Encoder
from onlinehash.exceptions import InvalidInputError, StorageError, UnknownIdError
from onlinehash.types import Codes, SearchResult


class Reading:
    """Look at the items of a store and search their codes; nothing here changes them.

    Where another process writes, each look takes in first what it has committed.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._live = live_codes(store)
        self._changes = RLock()  # one change at a time
        self._position = Position(0, 0)  # up to where memory follows the store
        self._closed = False
        self._process = os.getpid()

    def __len__(self) -> int:
        return self._store.count()

    def __contains__(self, id: object) -> bool:
        try:
            return incoming.is_single(id) and self._store.seqs(incoming.check_item_ids(id, self.id_type))[0] is not None
        except InvalidInputError:
            return False

    def __iter__(self) -> Iterator[Id]:
        return self._store.ids()

    @property
    def n_features(self) -> int | None:
        """Width of the vectors; None before the first."""
        width: int | None = self._store.setting("n_features")
        return width

    @property
    def id_type(self) -> str | None:
        """What ids are, "int" or "str"; None before the first."""
        kind = self._store.setting("id_type")
        return None if kind is None else {"INTEGER": "int", "TEXT": "str"}[kind]

    @property
    def label_kind(self) -> str | None:
        """What labels are, "int" or "str"; None before the first."""
        kind: str | None = self._store.setting("label_kind")
        return kind

    @property
    def readonly(self) -> bool:
        """Whether changes are refused."""
        return self._store.readonly

    @property
    def encoder(self) -> Encoder | None:
        """The encoder of the generation in use; None before the first."""
        self._catch_up()
        return None if self._live.current is None else self._live.current.encoder

    def get(self, ids: Any) -> list[Item]:
        """Return items by id, in that order.

        Parameters
        ----------
        ids : int or str, or several
        """
        self._catch_up()
        listed = incoming.check_item_ids(ids, self.id_type)
        rows = self._store.rows(listed)
        if len(rows) < len(listed):
            self._demand_known(listed)
        return self._items(rows)

    def items(self, *, chunk: int = 1000) -> Iterator[Item]:
        """Yield all items in order of id, read in chunks."""
        check_positive_int("chunk", chunk)
        last: Id | None = None
        while len(rows := self._store.rows_after(last, chunk)):
            yield from self._items(rows)
            last = rows.ids[-1]

    def label_counts(self) -> dict[Label | None, int]:
        """Return the number of items that have each label, in order of the labels; None for items without any.

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
        for text, n_items in self._store.label_counts().items():
            labels = incoming.labels_of(text)
            for label in labels if isinstance(labels, tuple) else (labels,):
                counts[label] += n_items
        return {label: counts[label] for label in sorted(counts, key=lambda label: (label is None, label))}

    def codes(self) -> tuple[list[Id], Codes]:
        """Return the ids that have a code, in order, and their packed codes."""
        ids, codes, _ = self.codes_and_encoder()
        return ids, codes

    def codes_and_encoder(self) -> tuple[list[Id], Codes, Encoder | None]:
        """Return the ids that have a code, their packed codes and the encoder that made them; None before the first.

        Asked for one by one, a refresh might come between them.
        """
        self._catch_up()
        return self._live.codes()

    def _items(self, rows: Rows) -> list[Item]:
        encoder = self.encoder
        version = None if encoder is None else encoder.version
        columns = zip(rows.ids, rows.vectors, rows.labels, rows.payloads, self._live.searchable(rows.ids), strict=True)
        return [
            Item(id, vectors, incoming.labels_of(labels), json.loads(payload or "null"), version if coded else None)
            for id, vectors, labels, payload, coded in columns
        ]

    def _demand_known(self, ids: list[Any]) -> list[Any]:
        for id, seq in zip(ids, self._store.seqs(ids), strict=True):
            if seq is None:
                raise UnknownIdError(f"There is no item with id {id!r} in this collection of {len(self)}.")
        return ids

    # ------------------------------------------------------------------ searching

    def search(
        self,
        vectors: ArrayLike,
        k: int = 10,
        *,
        labels: Any = None,
        ids: Iterable[Id] | None = None,
        rescore: str | None = None,
        asymmetric: bool = False,
        wait: bool = True,
    ) -> SearchResult:
        """Find the k nearest items of every query: exactly, nearest first, ties by id.

        Queries are encoded by the encoder that made the codes. Items that have no code yet are not found.

        Parameters
        ----------
        vectors : array-like of shape (n_queries, n_features), or (n_features,) for one query
        k : int, default=10
        labels : label or several, optional
            Search among items that have any of them.
        ids : several ids, optional
            Search among these; unknown ones are passed over.
        rescore : "cosine" or "l2", optional
            Order the best ``max(10 k, 100)`` items by the distance of their stored vectors instead.
        asymmetric : bool, default=False
            Compare the real values of the query with the bits of the codes, instead of bits with bits.
        wait : bool, default=True
            Wait for a refresh if the codes are far behind what was learned, as the policy :class:`WhenIdle` says.

        Returns
        -------
        hits : SearchResult
            Fewer than k where there are fewer items. Distances are those of the codes, or of the vectors if rescored.
        """
        k = check_positive_int("k", k)
        if rescore is not None:
            check_choice("rescore", rescore, ("cosine", "l2"))
        queries, single = self._queries(vectors, wait)
        wanted = k if rescore is None else max(10 * k, 100)
        found = self._live.search(queries, wanted, self._among(labels, ids), asymmetric=asymmetric)
        if rescore is None:
            return self._result(found, single)
        ranked = [
            rescored(query, self._store.rows(some), rescore, k) for query, (some, _) in zip(queries, found, strict=True)
        ]
        return self._result(ranked, single)

    def range_search(
        self, vectors: ArrayLike, radius: int, *, labels: Any = None, ids: Iterable[Id] | None = None, wait: bool = True
    ) -> SearchResult:
        """Find all items whose codes differ from a query's in at most ``radius`` bits.

        Parameters
        ----------
        vectors, labels, ids, wait
            As for :meth:`search`.
        radius : int
        """
        radius = check_non_negative_int("radius", radius)
        queries, single = self._queries(vectors, wait)
        return self._result(self._live.range_search(queries, radius, self._among(labels, ids)), single)

    def _result(self, found: Answers, single: bool) -> SearchResult:
        encoder = self.encoder
        version = None if encoder is None else encoder.version
        result = SearchResult([ids for ids, _ in found], [distances for _, distances in found], version)
        return result[0] if single else result

    def _queries(self, vectors: ArrayLike, wait: bool) -> tuple[NDArray[Any], bool]:
        self._catch_up()
        if wait:
            self._await_codes()
        incoming.check_names(vectors, self._store)
        rows = as_array(vectors)
        single = rows.ndim == 1
        if single:
            rows = rows[np.newaxis]
        current = self._live.current
        width = self.n_features if current is None else current.encoder.n_features
        return check_features(rows, n_features=width, owner="this collection"), single

    def _among(self, labels: Any, ids: Iterable[Id] | None) -> Among:
        """Return the filters, checked."""
        wanted = None if labels is None else incoming.wanted_labels(labels, self.label_kind)
        if ids is None:
            return Among(wanted)
        return Among(wanted, incoming.check_item_ids(ids, self.id_type, repeated=True))

    def _await_codes(self) -> None:
        """Wait for better codes; only a writer can."""

    def _check_open(self) -> None:
        if self._closed:
            raise StorageError("This collection is closed; open it again.")
        check_process("This collection", self._process)

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        """Keep other changes out; in a forked process the lock may be held by a thread that is not there."""
        self._check_open()
        with self._changes:
            yield

    def _catch_up(self) -> None:
        """Take in what another process has committed since; a writer knows everything already."""
        self._check_open()
        if not self._store.readonly or self._store.position() == self._position:
            return
        with self._changes, self._store.reading():
            position = self._store.position()
            self._live.follow(self._position, position)
            self._position = position
