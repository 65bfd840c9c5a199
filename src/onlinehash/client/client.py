"""The client of the service: the methods of a collection, over HTTP."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Self
from urllib.parse import quote

from numpy.typing import ArrayLike

from onlinehash._internal.validation import check_positive_int
from onlinehash.client import calls
from onlinehash.client.calls import silent
from onlinehash.client.transport import Call, Transport
from onlinehash.collection import CheckReport, Codewords, History, Item, ItemMap, ItemPage, Stats
from onlinehash.collection.inputs import demand_single, is_single
from onlinehash.exceptions import InvalidInputError, UnknownIdError
from onlinehash.hashers import OnlineHasher
from onlinehash.types import Codes, Progress, SearchResult


class Client:
    """Use a collection that is served over HTTP.

    A request that gets no answer, or the answer to come back later, is sent again. That is safe: every change has a
    key, by which the service knows one that it has applied already although its answer was lost.

    Items and queries are sent in batches of at most 1000, or of fewer if the service takes or gives no more at a
    time. Each batch of a change is applied as a whole or not at all.

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

    def __getitem__(self, id: int | str) -> Item:
        demand_single(id)
        return self.get(id)[0]

    def __contains__(self, id: object) -> bool:
        try:
            return is_single(id) and bool(self.get(id))
        except (UnknownIdError, InvalidInputError):
            return False

    def items(
        self,
        *,
        labels: Any = None,
        where: Any = None,
        order: str = "id",
        descending: bool = False,
        after: int | str | None = None,
        limit: int | None = None,
        chunk: int = 1000,
    ) -> Iterator[Item]:
        """Yield items in order, as :meth:`Collection.items`, one request per chunk.

        Parameters
        ----------
        labels, where, order, descending, after, limit, chunk
        """
        given: dict[str, Any] = {"labels": labels, "where": where, "order": order, "descending": descending}
        left, cursor = limit, None
        while left is None or left > 0:
            size = chunk if left is None else min(chunk, left)
            page = self.page(**given, after=after, cursor=cursor, limit=size)
            yield from page.items
            after, cursor, left = None, page.cursor, None if left is None else left - len(page.items)
            if cursor is None:
                return

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
        given = {"labels": labels, "payload": payload, "documents": documents}
        columns = {name: column for name, column in given.items() if column is not None}
        return self._http.run(calls.write, "PUT", ids, vectors, columns, checkpoint)

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
        given = {"labels": labels, "payload": payload, "documents": ... if documents is None else documents}
        columns = {name: column for name, column in given.items() if column is not ...}
        return self._http.run(calls.write, "PATCH", ids, vectors, columns, checkpoint)

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
        return self._http.run(calls.delete, ids, where, missing, unlearn, checkpoint)

    def create_index(self, path: str) -> None:
        """Make filters by a path in the payload fast, as :meth:`Collection.create_index`.

        Parameters
        ----------
        path : str
        """
        return self._http.run(calls.one, calls.change("POST", "/indexes", {"path": path}), calls.nothing)

    def drop_index(self, path: str) -> None:
        """Drop the index of a path in the payload.

        Parameters
        ----------
        path : str
        """
        return self._http.run(calls.one, calls.change("DELETE", f"/indexes/{quote(path, safe='')}"), calls.nothing)

    # ------------------------------------------------------------------ reading

    def get(self, ids: Any) -> list[Item]:
        """Return items in the order of their ids.

        Parameters
        ----------
        ids : int or str, or several
        """
        return self._http.run(calls.get, ids)

    def page(
        self,
        *,
        labels: Any = None,
        where: Any = None,
        order: str = "id",
        descending: bool = False,
        after: int | str | None = None,
        cursor: str | None = None,
        limit: int = 100,
    ) -> ItemPage:
        """Return some items and a cursor for those that follow, as :meth:`Collection.page`.

        Parameters
        ----------
        labels, where, order, descending, after, cursor, limit
        """
        body = {"where": where, "order": order, "descending": descending, "after": after, "cursor": cursor}
        return self._http.run(calls.page, body | {"labels": calls.plain(labels)}, limit)

    def count(self, where: Any = None, *, labels: Any = None) -> int:
        """Return the number of items, or of those with a label or a payload that passes a filter."""
        call = Call("POST", "/items/count", {"where": where, "labels": calls.plain(labels)})
        return self._http.run(calls.one, call, lambda answer: int(answer["n_items"]))

    def indexes(self) -> list[str]:
        """Return the paths in the payload that have an index."""
        return self._http.run(calls.one, Call("GET", "/indexes"), lambda answer: list(answer["indexes"]))

    def search(
        self,
        vectors: Any,
        k: int = 10,
        *,
        labels: Any = None,
        ids: Sequence[int | str] | None = None,
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
        ranking = {"k": check_positive_int("k", k), "rescore": rescore, "asymmetric": asymmetric}
        options = calls.search_options(labels=labels, ids=ids, where=where, include=include, after=after, **ranking)
        return self._http.run(calls.search, vectors, options)

    def range_search(
        self,
        vectors: Any,
        radius: int,
        *,
        labels: Any = None,
        ids: Sequence[int | str] | None = None,
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
        options = calls.search_options(labels=labels, ids=ids, where=where, include=include, radius=radius)
        return self._http.run(calls.search, vectors, options)

    def search_by_id(self, ids: Any, k: int = 10, *, labels: Any = None, rescore: str | None = None) -> SearchResult:
        """Find the k nearest items of stored items, which do not find themselves.

        Parameters
        ----------
        ids : int or str, or several
        k, labels, rescore
            As for :meth:`search`.
        """
        options = calls.search_options(labels=labels, k=check_positive_int("k", k), rescore=rescore)
        return self._http.run(calls.search_by_id, ids, options)

    def encode(self, vectors: ArrayLike) -> Codes:
        """Return the packed codes of vectors, made by the encoder in use.

        Parameters
        ----------
        vectors : array-like of shape (n_vectors, n_features), or (n_features,) for one
        """
        return self._http.run(calls.encode, vectors)

    def label_counts(self, where: Any = None) -> dict[int | str | None, int]:
        """Return the number of items per label, None for items without, as :meth:`Collection.label_counts`.

        Parameters
        ----------
        where : mapping, optional
        """
        call = Call("GET", "/label_counts") if where is None else Call("POST", "/label_counts", {"where": where})
        return self._http.run(calls.one, call, calls.label_counts)

    def stats(self) -> Stats:
        """Return statistics of the collection."""
        return self._http.run(calls.one, Call("GET", "/stats"), calls.as_kind(Stats))

    def map(self, limit: int = 2000) -> ItemMap:
        """Return a random sample of the items in the plane, as :meth:`Collection.map`.

        Parameters
        ----------
        limit : int, default=2000
        """
        return self._http.run(calls.one, Call("POST", "/map", {"limit": limit}), calls.as_kind(ItemMap))

    def codewords(self) -> Codewords:
        """Return the bits of the largest classes, as :meth:`Collection.codewords`."""
        return self._http.run(calls.one, Call("GET", "/codewords"), calls.as_kind(Codewords))

    def history(self) -> History:
        """Return the encoders used so far, and the quality along the stream, as :meth:`Collection.history`."""
        return self._http.run(calls.one, Call("GET", "/history"), calls.as_kind(History))

    def refresh(self, *, wait: bool = True) -> None:
        """Encode all items again with the current hasher.

        Parameters
        ----------
        wait : bool, default=True
            Return when the new codes are in use; raise if the refresh fails.
        """
        return self._http.run(calls.refresh, wait)

    # ------------------------------------------------------------------ maintenance

    def checkpoint(self, name: str) -> Any:
        """Return what a change last stored under a name; None if nothing.

        Parameters
        ----------
        name : str
        """
        call = Call("GET", f"/checkpoints/{quote(name, safe='')}")
        return self._http.run(calls.one, call, lambda answer: answer["value"])

    def backup(self, path: str | os.PathLike[str], *, progress: Progress = silent) -> None:
        """Write a copy of the collection to a file, which is itself a collection.

        The service copies the collection as it is at one moment, and checks the copy. It takes its place here when all
        of it has come and its digest is right; an older backup stays until then. A read key is enough.

        Parameters
        ----------
        path : path
            A new file, or an older backup that is not open for writing. Any other file is refused.
        progress : callable, optional
            Called as ``progress(done, total)``.
        """
        return self._http.run(calls.backup, path, progress)

    def check(self, *, sample: int = 1000, progress: Progress = silent) -> CheckReport:
        """Verify everything that is stored, and return what is wrong, as :meth:`Collection.check`.

        Parameters
        ----------
        sample : int, default=1000
            Items whose codes are computed again, about.
        progress : callable, optional
            Called as ``progress(done, total)``.
        """
        start = Call("POST", "/check", {"sample": sample})
        return self._http.run(calls.job, start, progress, calls.as_kind(CheckReport))

    def compact(self, *, progress: Progress = silent) -> int:
        """Give unused space back to the disk, and return the number of bytes, as :meth:`Collection.compact`.

        Parameters
        ----------
        progress : callable, optional
            Called as ``progress(done, total)``.
        """
        return self._http.run(calls.job, Call("POST", "/compact"), progress, lambda found: int(found["n_bytes"]))

    def change_hasher(self, hasher: OnlineHasher | str | int, *, progress: Progress = silent) -> None:
        """Learn with another hasher, and encode all items again, as :meth:`Collection.change_hasher`.

        Parameters
        ----------
        hasher : hasher, name of one, or number of bits
            Of a hasher, the name and the parameters are sent, not what it has learned.
        progress : callable, optional
            Called as ``progress(done, total)``.
        """
        return self._http.run(calls.job, Call("POST", "/change_hasher", calls.recipe(hasher)), progress, calls.nothing)

    def migrate(
        self,
        *,
        embed: str | None = None,
        vectors: Iterable[tuple[int | str, ArrayLike]] | None = None,
        hasher: OnlineHasher | str | None = None,
        progress: Progress = silent,
    ) -> None:
        """Move to another embedding model, of any width, as :meth:`Collection.migrate`.

        Parameters
        ----------
        embed : str, optional
            Name of an embedder that needs no model to be loaded, such as ``"char_ngrams:512"``.
        vectors : iterable of (id, vector), optional
            New vectors of all items.
        hasher : hasher or name of one, optional
            By default one like the present one.
        progress : callable, optional
            Called as ``progress(done, total)``.
        """
        return self._http.run(calls.migrate, embed, vectors, hasher, progress)

    def abandon_migration(self) -> None:
        """Drop the new vectors of a migration that is not complete; the collection stays as it is."""
        return self._http.run(calls.one, Call("DELETE", "/migration"), calls.nothing)
