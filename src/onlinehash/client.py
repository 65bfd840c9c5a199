"""A client of the service: the methods of a collection, over HTTP."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self

from numpy.typing import ArrayLike

from onlinehash import _calls as calls
from onlinehash._care_client import CareMethods
from onlinehash._transport import Transport
from onlinehash._validation import check_positive_int
from onlinehash.async_client import AsyncClient
from onlinehash.collection.history import History
from onlinehash.collection.insight import Codewords, ItemMap
from onlinehash.collection.types import Id, Item, ItemPage, Label, Stats
from onlinehash.exceptions import InvalidInputError, ServiceError, UnknownIdError
from onlinehash.types import Codes, SearchResult

__all__ = ["AsyncClient", "Client", "ServiceError"]


class Client(CareMethods):
    """Use a collection that is served over HTTP.

    A request that gets no answer, or the answer to come back later, is sent again. That is safe: every change has a
    key, by which the service knows one that it has applied already although its answer was lost.

    Items and queries are sent in batches of at most 1000, and asked for in smaller ones where the service gives no more
    at a time. Each batch of a change is applied as a whole or not at all.

    Parameters
    ----------
    url : str
        Address of the service, such as ``"http://127.0.0.1:8000"``.
    key : str, optional
        API key, if the service requires one.
    collection : str, optional
        Name of the collection, if the service has several.
    timeout : float, default=30
        Seconds to wait for an answer.
    retries : int, default=5
        Number of times a request is sent again, after pauses that double.
    **options
        Options of ``httpx.Client``, such as ``verify``, ``proxy``, ``headers`` or ``limits``.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> import onlinehash as oh
    >>> from onlinehash.service import serve_in_thread
    >>> vectors, y = oh.load_dataset("digits").split().stream
    >>> folder = TemporaryDirectory()
    >>> digits = oh.Collection.open(f"{folder.name}/digits.oh", oh.HCOH(random_state=0))
    >>> with digits, serve_in_thread(digits) as url:
    ...     with Client(url) as client:
    ...         client.upsert(range(1000), vectors[:1000], y[:1000])
    ...         hits = client.search(vectors[1000], k=3, labels=7)
    ...         {item.labels for item in client.get(hits.ids)}
    {7}
    >>> folder.cleanup()
    """

    def __init__(
        self,
        url: str,
        key: str | None = None,
        *,
        collection: str | None = None,
        timeout: float = 30.0,
        retries: int = 5,
        **options: Any,
    ) -> None:
        self._http = Transport(url, key, timeout, retries, collection, options)

    def close(self) -> None:
        """Close all connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __len__(self) -> int:
        return self.stats().n_items

    def __getitem__(self, id: Id) -> Item:
        return self.get(id)[0]

    def __contains__(self, id: Id) -> bool:
        try:
            return bool(self.get(id))
        except (UnknownIdError, InvalidInputError):
            return False

    # ------------------------------------------------------------------ changing

    def upsert(
        self,
        ids: Any,
        vectors: ArrayLike | None = None,
        labels: Any = None,
        payload: Any = None,
        *,
        documents: Any = None,
        checkpoint: Mapping[str, Any] | None = None,
    ) -> None:
        """Insert items or replace existing ones, as :meth:`Collection.upsert`.

        Parameters
        ----------
        ids : int or str, or several
        vectors : array-like of shape (n_items, n_features), or (n_features,) for one id
        labels : optional
            One label, or list of labels, per item.
        payload : optional
            One JSON value per item.
        documents : optional
            Instead of vectors, one text per item, if the service has an embedder.
        checkpoint : mapping of str to JSON value, optional
            JSON committed in the same transaction as the items; with the last batch, if there are several.
        """
        self._http.run(calls.upsert(ids, vectors, labels, payload, documents, checkpoint))

    def update(
        self,
        ids: Any,
        vectors: ArrayLike | None = None,
        labels: Any = ...,
        payload: Any = ...,
        *,
        documents: Any = None,
        checkpoint: Mapping[str, Any] | None = None,
    ) -> None:
        """Change existing items and keep what is not given, as :meth:`Collection.update`.

        Parameters
        ----------
        ids, vectors, labels, payload, documents, checkpoint
            As for :meth:`upsert`.
        """
        self._http.run(calls.update(ids, vectors, labels, payload, documents, checkpoint))

    def delete(
        self,
        ids: Any = None,
        *,
        where: Any = None,
        missing: str = "raise",
        unlearn: bool = False,
        checkpoint: Mapping[str, Any] | None = None,
    ) -> int:
        """Delete items, and return their number.

        Parameters
        ----------
        ids : int or str, or several
        where : mapping
            Instead of ids: delete all items whose payload passes, as for :meth:`Collection.search`.
        missing : "raise" or "ignore", default="raise"
            With "raise", nothing of a batch is deleted if any of its ids is unknown.
        unlearn : bool, default=False
            Also remove the items from what the hasher has learned; supported by HROH.
        checkpoint : mapping of str to JSON value, optional
            As for :meth:`upsert`.
        """
        return self._http.run(calls.delete(ids, where, missing, unlearn, checkpoint))

    def create_index(self, path: str) -> None:
        """Make filters by a path in the payload fast, as :meth:`Collection.create_index`.

        Parameters
        ----------
        path : str
        """
        self._http.run(calls.create_index(path))

    def drop_index(self, path: str) -> None:
        """Drop the index of a path in the payload.

        Parameters
        ----------
        path : str
        """
        self._http.run(calls.drop_index(path))

    # ------------------------------------------------------------------ reading

    def get(self, ids: Any) -> list[Item]:
        """Return items in the order of their ids.

        Parameters
        ----------
        ids : int or str, or several
        """
        return self._http.run(calls.get(ids))

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
        """Yield items in order, as :meth:`Collection.items`, one request per chunk.

        Parameters
        ----------
        labels, where, order, descending, after, limit, chunk
        """
        left, cursor = limit, None
        while left is None or left > 0:
            size = chunk if left is None else min(chunk, left)
            page = self._http.run(calls.page(labels, where, order, descending, after, cursor, size))
            yield from page.items
            after, cursor, left = None, page.cursor, None if left is None else left - len(page.items)
            if cursor is None:
                return

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
        """Return some items and a cursor for those that follow, as :meth:`Collection.page`.

        Parameters
        ----------
        labels, where, order, descending, after, cursor, limit
        """
        return self._http.run(calls.page(labels, where, order, descending, after, cursor, limit))

    def count(self, where: Any = None, *, labels: Any = None) -> int:
        """Return the number of items, or of those with a label or a payload that passes a filter."""
        return self._http.run(calls.count(where, labels))

    def indexes(self) -> list[str]:
        """Return the paths in the payload that have an index."""
        return self._http.run(calls.indexes())

    def search(
        self,
        vectors: Any,
        k: int = 10,
        *,
        labels: Any = None,
        ids: Sequence[Id] | None = None,
        where: Any = None,
        rescore: str | None = None,
        asymmetric: bool = False,
        include: Sequence[str] = (),
        after: SearchResult | str | None = None,
    ) -> SearchResult:
        """Find the k nearest items of every query, as :meth:`Collection.search`.

        Parameters
        ----------
        vectors : array-like of shape (n_queries, n_features), or (n_features,) for one query
            Or one text or a list of them, or the bytes of one image, if the service has an embedder.
        k : int, default=10
        labels : label or several, optional
            Search only items that have any of these labels.
        ids : several ids, optional
            Search only these items.
        where, rescore, asymmetric, include, after
            As for :meth:`Collection.search`.
        """
        options = {"k": check_positive_int("k", k), "rescore": rescore, "asymmetric": asymmetric}
        return self._http.run(calls.search(vectors, options, labels, ids, where, include, after))

    def range_search(
        self,
        vectors: Any,
        radius: int,
        *,
        labels: Any = None,
        ids: Sequence[Id] | None = None,
        where: Any = None,
        include: Sequence[str] = (),
    ) -> SearchResult:
        """Find all items at most ``radius`` bits away from every query, as :meth:`Collection.range_search`.

        Parameters
        ----------
        vectors, labels, ids, where, include
            As for :meth:`search`.
        radius : int
        """
        return self._http.run(calls.search(vectors, {"radius": radius}, labels, ids, where, include))

    def search_by_id(self, ids: Any, k: int = 10, *, labels: Any = None, rescore: str | None = None) -> SearchResult:
        """Find the k nearest items of stored items, which do not find themselves.

        Parameters
        ----------
        ids : int or str, or several
        k, labels, rescore
            As for :meth:`search`.
        """
        return self._http.run(calls.search_by_id(ids, k, labels, rescore))

    def encode(self, vectors: ArrayLike) -> Codes:
        """Return the packed codes of vectors, made by the encoder in use.

        Parameters
        ----------
        vectors : array-like of shape (n_vectors, n_features), or (n_features,) for one
        """
        return self._http.run(calls.encode(vectors))

    def label_counts(self, where: Any = None) -> dict[Label, int]:
        """Return the number of items of each label, or of those whose payload passes a filter."""
        return self._http.run(calls.label_counts(where))

    def stats(self) -> Stats:
        """Return statistics of the collection."""
        return self._http.run(calls.stats())

    def map(self, limit: int = 2000) -> ItemMap:
        """Return a random sample of the items in the plane, as :meth:`Collection.map`.

        Parameters
        ----------
        limit : int, default=2000
        """
        return self._http.run(calls.item_map(limit))

    def codewords(self) -> Codewords:
        """Return the bits of the largest classes, as :meth:`Collection.codewords`."""
        return self._http.run(calls.codewords())

    def history(self) -> History:
        """Return the encoders used so far, and the quality along the stream, as :meth:`Collection.history`."""
        return self._http.run(calls.history())

    def refresh(self, *, wait: bool = True) -> None:
        """Encode all items again with the current hasher.

        Parameters
        ----------
        wait : bool, default=True
            Return when the new codes are in use; raise if the refresh fails.
        """
        self._http.run(calls.refresh(wait))
