"""CollectionReader: the half of a collection that reads and searches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from copy import deepcopy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinehash._containers import as_array
from onlinehash._validation import (
    check_choice,
    check_features,
    check_non_negative_int,
    check_positive_int,
)
from onlinehash.collection import _validation as check
from onlinehash.collection.ids import check_item_ids
from onlinehash.collection.learner import Learner
from onlinehash.collection.listing import Listing
from onlinehash.collection.paging import Cursor
from onlinehash.collection.results import check_include, including, rescored
from onlinehash.collection.stores.protocol import Among, OutOfStep
from onlinehash.collection.types import Id, Stats
from onlinehash.embedders import is_document
from onlinehash.encoders import Encoder
from onlinehash.exceptions import InvalidInputError
from onlinehash.hashers import OnlineHasher, load_hasher
from onlinehash.types import Codes, SearchResult

_TRIES = 3


class CollectionReader(Listing):
    """Read the items of a store and search their codes.

    Where another process writes, what it has committed is applied first.
    """

    # ------------------------------------------------------------------ reading

    @property
    def n_features(self) -> int | None:
        """Width of the vectors; None before the first."""
        width: int | None = self._store.setting("n_features")
        return width

    @property
    def readonly(self) -> bool:
        """Whether changes are refused."""
        return self._store.readonly

    @property
    def hasher(self) -> OnlineHasher:
        """A copy of the hasher, with all it has learned."""
        with self._exclusive():
            if self._learner.hasher is not None:
                return load_hasher(self._learner.hasher.to_bytes())
            with self._store.reading():
                return Learner(self._store).read()

    @property
    def embedder(self) -> str | None:
        """Name of the embedder of documents; None if the collection has none."""
        return self._documents.name

    def embed(self, documents: Sequence[Any]) -> NDArray[np.float32]:
        """Return the vectors of documents, of shape (n_documents, n_features).

        Parameters
        ----------
        documents : several documents
        """
        return self._documents.vectors(documents)

    def checkpoint(self, name: str) -> Any:
        """Return what :meth:`upsert` or :meth:`delete` last stored under a name; None if nothing.

        Parameters
        ----------
        name : str
        """
        return deepcopy(self._store.setting(f"{check.CHECKPOINT}{name}"))

    def codes(self, ids: Any = None) -> tuple[list[Id], Codes]:
        """Return the ids that have a code, in order of arrival, and their packed codes.

        Parameters
        ----------
        ids : int or str, or several, optional
            Only these, in their order; those that are unknown or have no code yet are left out.
        """
        found, codes, _ = self.codes_and_encoder(ids)
        return found, codes

    def codes_and_encoder(self, ids: Any = None) -> tuple[list[Id], Codes, Encoder | None]:
        """Return what :meth:`codes` does, and the encoder that made the codes; None before the first."""
        self._catch_up()
        return self._index.codes(None if ids is None else check_item_ids(ids, self.id_type))

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

    # ------------------------------------------------------------------ searching

    def search(
        self,
        vectors: Any,
        k: int = 10,
        *,
        labels: Any = None,
        ids: Iterable[Id] | None = None,
        where: Any = None,
        rescore: str | None = None,
        asymmetric: bool = False,
        include: Iterable[str] | None = None,
        after: SearchResult | str | None = None,
        wait: bool = True,
        max_payload_bytes: int | None = None,
    ) -> SearchResult:
        """Find the k nearest items of every query, nearest first, ties in order of arrival.

        Queries are encoded by the encoder that made the codes. Items that have no code yet are not found.

        Parameters
        ----------
        vectors : array-like of shape (n_queries, n_features), or (n_features,) for one query
            Or one document or a list of them, text, paths or images, if the collection has an embedder.
        k : int, default=10
        labels : label or several, optional
            Search among items that have any of them.
        ids : several ids, optional
            Search among these; unknown ones are ignored.
        where : mapping, optional
            Search among items whose payload passes: ``{"price": {"$lt": 20}, "brand": "acme"}``. Operators are ``$eq
            $ne $gt $gte $lt $lte $in $nin $exists $not``, and ``$and $or $not`` around filters; paths have dots. The
            database answers it; see :meth:`create_index`.
        rescore : "cosine" or "l2", optional
            Order the best ``max(10 k, 100)`` items by the distance of their stored vectors instead.
        asymmetric : bool, default=False
            Compare the real values of the query with the bits of the codes, instead of bits with bits.
        include : several of "labels", "payload", "vectors", optional
            Return these of the items found, too.
        after : SearchResult or str, optional
            Return the page that follows: pass the result of one query, or its cursor. What was there all the time comes
            once, even if other items change between pages. New codes, after a refresh, end it with an error.
        wait : bool, default=True
            See the last change of the writer, and wait for a refresh if the codes are far behind what was learned, as
            the policy :class:`WhenIdle` says.
        max_payload_bytes : int, optional
            Raise :class:`~onlinehash.exceptions.LargeResultError` if the payloads included have more.

        Returns
        -------
        result : SearchResult
            Lists of ids and distances, fewer than k where there are fewer items; the version of the encoder that made
            the codes; the sequence number of the last change that the search has seen. Distances are those of the
            codes, or of the vectors if rescored. A cursor, if more may follow.
        """
        k = check_positive_int("k", k)
        if rescore is not None:
            check_choice("rescore", rescore, ("cosine", "l2"))
        parts, cursor = check_include(include), None if after is None else Cursor.parse(after)
        among = self._ready_to_search(wait, labels, ids, where)

        def search() -> tuple[SearchResult, bool]:
            queries, single = self._queries(vectors)
            if cursor is not None and (rescore is not None or len(queries) != 1):
                raise InvalidInputError(
                    "after continues the search of one query without rescore; leave the others out."
                )
            wanted = k if rescore is None else max(10 * k, 100)
            found = self._index.search(queries, wanted, among, asymmetric=asymmetric, after=cursor)
            return found if rescore is None else rescored(found, queries, self._store, rescore, k), single

        uses_store = rescore is not None or is_document(_first(vectors))
        return self._found(search, parts, max_payload_bytes, uses_store=uses_store)

    def range_search(
        self,
        vectors: Any,
        radius: int,
        *,
        labels: Any = None,
        ids: Iterable[Id] | None = None,
        where: Any = None,
        include: Iterable[str] | None = None,
        wait: bool = True,
        max_results: int | None = None,
        max_payload_bytes: int | None = None,
    ) -> SearchResult:
        """Find all items whose codes differ from a query's in at most ``radius`` bits.

        Parameters
        ----------
        vectors, labels, ids, where, include, wait, max_payload_bytes
            As for :meth:`search`.
        radius : int
        max_results : int, optional
            Raise :class:`~onlinehash.exceptions.TooManyResultsError` as soon as all queries together find more.
        """
        radius, parts = check_non_negative_int("radius", radius), check_include(include)
        among = self._ready_to_search(wait, labels, ids, where)

        def search() -> tuple[SearchResult, bool]:
            queries, single = self._queries(vectors)
            return self._index.range_search(queries, radius, among, max_results), single

        return self._found(search, parts, max_payload_bytes, uses_store=is_document(_first(vectors)))

    def _found(
        self,
        search: Callable[[], tuple[SearchResult, bool]],
        parts: tuple[str, ...],
        most: int | None,
        *,
        uses_store: bool,
    ) -> SearchResult:
        """Search, with parts of the items found; if need be again, and at last with changes kept out meanwhile."""

        def complete() -> SearchResult:
            bare, single = search()
            found = including(bare, self._store, parts, most) if parts else bare
            return found[0] if single else found

        uses_store = uses_store or "vectors" in parts
        for _ in range(_TRIES):
            with suppress(OutOfStep):
                return self._in_one_space(complete, uses_store=uses_store)
            self._catch_up()
        with self._exclusive(), self._store.reading():
            self._catch_up()
            return self._in_one_space(complete, uses_store=uses_store)

    def _ready_to_search(self, wait: bool, labels: Any, ids: Iterable[Id] | None, where: Any) -> Among:
        """Bring the index up to date, and return the filters."""
        self._check_open()
        if wait or self._index.current is None or self._index.is_behind:
            self._catch_up()
            self._reencoder.wait_for_codes(self._position)
        self._reencoder.before_search()
        return self._among(labels, ids, where)

    def _queries(self, vectors: Any) -> tuple[NDArray[Any], bool]:
        vectors = self._documents.queries(vectors)
        check.check_names(vectors, self._store)
        rows = as_array(vectors)
        single = rows.ndim == 1
        if single:
            rows = rows[np.newaxis]
        current = self._index.current
        width = self.n_features if current is None else current.encoder.n_features
        return check_features(rows, n_features=width, owner="this collection"), single


def _first(queries: Any) -> Any:
    return queries[0] if isinstance(queries, (list, tuple)) and queries else queries
