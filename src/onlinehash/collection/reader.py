"""CollectionReader: the half of a collection that reads and searches."""

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
from onlinehash.collection import _validation as check
from onlinehash.collection.code_index import CodeIndex
from onlinehash.collection.learner import Learner
from onlinehash.collection.reencoder import Reencoder
from onlinehash.collection.refresh import Policy
from onlinehash.collection.rescoring import rescored
from onlinehash.collection.store_index import StoreIndex
from onlinehash.collection.stores.protocol import Among, Position, Rows, Store
from onlinehash.collection.types import Id, Item, Label, Stats
from onlinehash.encoders import Encoder
from onlinehash.exceptions import InvalidInputError, StorageError, UnknownIdError
from onlinehash.hashers import OnlineHasher, load_hasher
from onlinehash.types import Codes, SearchResult


class CollectionReader:
    """Read the items of a store and search their codes.

    Where another process writes, what it has committed is applied first.

    Parameters
    ----------
    store : Store
    index : CodeIndex or StoreIndex
    policy : Policy
    """

    def __init__(self, store: Store, index: CodeIndex | StoreIndex, policy: Policy) -> None:
        self._store, self._index = store, index
        self._changes = RLock()  # one change at a time
        self._learner = Learner(store)
        self._reencoder = Reencoder(store, index, self._learner, self._changes, policy)
        self._position = Position(0, 0)  # up to which the index follows the store
        self._closed = False
        self._process = os.getpid()

    # ------------------------------------------------------------------ reading

    def __len__(self) -> int:
        return self._store.count()

    def __contains__(self, id: object) -> bool:
        try:
            return check.is_single(id) and self._store.seqs(check.check_item_ids(id, self.id_type))[0] is not None
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
        """Type of the ids, "int" or "str"; None before the first."""
        kind = self._store.setting("id_type")
        return None if kind is None else {"INTEGER": "int", "TEXT": "str"}[kind]

    @property
    def label_kind(self) -> str | None:
        """Type of the labels, "int" or "str"; None before the first."""
        kind: str | None = self._store.setting("label_kind")
        return kind

    @property
    def sequence(self) -> int:
        """Sequence number of the last change that was applied here."""
        self._catch_up()
        return self._position.seq

    @property
    def readonly(self) -> bool:
        """Whether changes are refused."""
        return self._store.readonly

    @property
    def encoder(self) -> Encoder | None:
        """The encoder of the generation in use; None before the first."""
        self._catch_up()
        return None if self._index.current is None else self._index.current.encoder

    @property
    def hasher(self) -> OnlineHasher:
        """A copy of the hasher, with all it has learned."""
        with self._exclusive():
            if self._learner.hasher is not None:
                return load_hasher(self._learner.hasher.to_bytes())
            with self._store.reading():
                reader = Learner(self._store)
                reader.read()
                assert reader.hasher is not None
                return reader.hasher

    def get(self, ids: Any) -> list[Item]:
        """Return items by id, in that order.

        Parameters
        ----------
        ids : int or str, or several
        """
        self._catch_up()
        listed = check.check_item_ids(ids, self.id_type)
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
            labels = check.labels_of(text)
            for label in labels if isinstance(labels, tuple) else (labels,):
                counts[label] += n_items
        return {label: counts[label] for label in sorted(counts, key=lambda label: (label is None, label))}

    def checkpoint(self, name: str) -> Any:
        """Return what :meth:`upsert` or :meth:`delete` last stored under a name; None if nothing.

        Parameters
        ----------
        name : str
        """
        return self._store.setting(f"{check.CHECKPOINT}{name}")

    def codes(self) -> tuple[list[Id], Codes]:
        """Return the ids that have a code, in order of arrival, and their packed codes."""
        ids, codes, _ = self.codes_and_encoder()
        return ids, codes

    def codes_and_encoder(self) -> tuple[list[Id], Codes, Encoder | None]:
        """Return the ids that have a code, their packed codes and the encoder that made them; None before the first."""
        self._catch_up()
        return self._index.codes()

    def stats(self) -> Stats:
        """Return the statistics of the collection."""
        self._catch_up()
        with self._store.reading():
            n_items, n_learned = len(self), self._store.setting("n_learned", 0)
            method, n_bits = self._store.setting("method"), self._store.setting("n_bits")
            bits_recomputed = self._store.setting("bits_recomputed", 0)
            building, n_built = self._building()
        current, error = self._index.current, self._reencoder.error
        version = None if current is None else current.encoder.version
        return Stats(
            n_items=n_items,
            n_searchable=self._index.n_searchable(),
            n_learned=n_learned,
            method=method,
            n_bits=n_bits if current is None else current.encoder.n_bits,
            generation=0 if current is None else current.number,
            version=version,
            staleness=n_learned - (version or 0),
            index=self._index.kind,
            refreshing=building,
            progress=min(1.0, n_built / max(1, n_items)) if building else 1.0,
            pending=building or self._reencoder.would_refresh(n_learned),
            bits_recomputed=bits_recomputed,
            refresh_error=None if error is None else str(error),
            n_bytes=self._store.size(),
        )

    def _building(self) -> tuple[bool, int]:
        """Return whether a generation is being built, here or by another process, and how many items it holds."""
        if not self._store.readonly:
            return self._index.building is not None, self._index.n_built()
        number = next((row.number for row in self._store.generations() if not row.current), None)
        return number is not None, 0 if number is None else self._store.n_coded(number)

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
        """Find the k nearest items of every query, nearest first, ties in order of arrival.

        Queries are encoded by the encoder that made the codes. Items that have no code yet are not found.

        Parameters
        ----------
        vectors : array-like of shape (n_queries, n_features), or (n_features,) for one query
        k : int, default=10
        labels : label or several, optional
            Search among items that have any of them.
        ids : several ids, optional
            Search among these; unknown ones are ignored.
        rescore : "cosine" or "l2", optional
            Order the best ``max(10 k, 100)`` items by the distance of their stored vectors instead.
        asymmetric : bool, default=False
            Compare the real values of the query with the bits of the codes, instead of bits with bits.
        wait : bool, default=True
            See the last change of the writer, and wait for a refresh if the codes are far behind what was learned, as
            the policy :class:`WhenIdle` says.

        Returns
        -------
        result : SearchResult
            Lists of ids and distances, fewer than k where there are fewer items; the version of the encoder that made
            the codes; the sequence number of the last change that the search has seen. Distances are those of the
            codes, or of the vectors if rescored.
        """
        k = check_positive_int("k", k)
        if rescore is not None:
            check_choice("rescore", rescore, ("cosine", "l2"))
        queries, single = self._queries(vectors, wait)
        wanted = k if rescore is None else max(10 * k, 100)
        found = self._index.search(queries, wanted, self._among(labels, ids), asymmetric=asymmetric)
        if rescore is not None:
            found = rescored(found, queries, self._store, rescore, k)
        return found[0] if single else found

    def range_search(
        self,
        vectors: ArrayLike,
        radius: int,
        *,
        labels: Any = None,
        ids: Iterable[Id] | None = None,
        wait: bool = True,
        max_results: int | None = None,
    ) -> SearchResult:
        """Find all items whose codes differ from a query's in at most ``radius`` bits.

        Parameters
        ----------
        vectors, labels, ids, wait
            As for :meth:`search`.
        radius : int
        max_results : int, optional
            Raise :class:`~onlinehash.exceptions.TooManyResultsError` as soon as all queries together find more.
        """
        radius = check_non_negative_int("radius", radius)
        queries, single = self._queries(vectors, wait)
        found = self._index.range_search(queries, radius, self._among(labels, ids), max_results)
        return found[0] if single else found

    def _queries(self, vectors: ArrayLike, wait: bool) -> tuple[NDArray[Any], bool]:
        self._check_open()
        if wait or self._index.current is None or self._index.is_behind:
            self._catch_up()
            self._reencoder.wait_for_codes(self._position)
        check.check_names(vectors, self._store)
        rows = as_array(vectors)
        single = rows.ndim == 1
        if single:
            rows = rows[np.newaxis]
        current = self._index.current
        width = self.n_features if current is None else current.encoder.n_features
        return check_features(rows, n_features=width, owner="this collection"), single

    def _among(self, labels: Any, ids: Iterable[Id] | None) -> Among:
        """Return the filters, checked."""
        wanted = None if labels is None else check.wanted_labels(labels, self.label_kind)
        if ids is None:
            return Among(wanted)
        return Among(wanted, check.check_item_ids(ids, self.id_type, repeated=True))

    # ------------------------------------------------------------------ in step with the store

    def _check_open(self) -> None:
        if self._closed:
            raise StorageError("This collection is closed; open it again.")
        check_process("This collection", self._process)

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        """Keep other changes out; in a forked process the lock may be held by a thread that is not there."""
        self._check_open()
        with self._changes:
            self._check_open()
            yield

    def _catch_up(self) -> None:
        """Apply what another process has committed since, or what the engine has failed to apply."""
        self._check_open()
        if not self._index.is_behind and (not self._store.readonly or self._store.position() == self._position):
            return
        with self._changes, self._store.reading():
            position = self._store.position()
            if self._index.is_behind:
                self._index.read(position)
            else:
                self._index.follow(self._position, position)
            self._position = position
