"""A client of the service for use in an event loop."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Any, Self

from numpy.typing import ArrayLike

from onlinehash import _calls as calls
from onlinehash import _care_calls as care
from onlinehash._transport import AsyncTransport
from onlinehash._validation import check_positive_int
from onlinehash.collection.check import CheckReport
from onlinehash.collection.history import History
from onlinehash.collection.insight import Codewords, ItemMap
from onlinehash.collection.types import Id, Item, ItemPage, Label, Stats
from onlinehash.hashers import OnlineHasher
from onlinehash.types import Codes, Progress, SearchResult


class AsyncClient:
    """Use a collection that is served over HTTP, from an event loop.

    The parameters and methods are those of :class:`onlinehash.Client`; ``options`` are those of ``httpx.AsyncClient``.

    Examples
    --------
    >>> import asyncio
    >>> from tempfile import TemporaryDirectory
    >>> import onlinehash as oh
    >>> from onlinehash.client import AsyncClient
    >>> from onlinehash.service import serve_in_thread
    >>> async def use(url):
    ...     async with AsyncClient(url) as client:
    ...         await client.upsert([1, 2], [[0.0, 1.0], [1.0, 0.0]], labels=["a", "b"])
    ...         found = await asyncio.gather(client.search([0.0, 2.0], 1), client.search([2.0, 0.0], 1))
    ...         return [one.ids for one in found]
    >>> folder = TemporaryDirectory()
    >>> things = oh.Collection.open(f"{folder.name}/things.oh", oh.HCOH(random_state=0))
    >>> with things, serve_in_thread(things) as url:
    ...     asyncio.run(use(url))
    [[1], [2]]
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
        self._http = AsyncTransport(url, key, timeout, retries, collection, options)

    async def close(self) -> None:
        """Close all connections."""
        await self._http.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    # ------------------------------------------------------------------ changing

    async def upsert(
        self,
        ids: Any,
        vectors: ArrayLike | None = None,
        labels: Any = None,
        payload: Any = None,
        *,
        documents: Any = None,
        checkpoint: Mapping[str, Any] | None = None,
    ) -> None:
        """Insert items or replace existing ones, as :meth:`Collection.upsert`."""
        await self._http.run(calls.upsert(ids, vectors, labels, payload, documents, checkpoint))

    async def update(
        self,
        ids: Any,
        vectors: ArrayLike | None = None,
        labels: Any = ...,
        payload: Any = ...,
        *,
        documents: Any = None,
        checkpoint: Mapping[str, Any] | None = None,
    ) -> None:
        """Change existing items and keep what is not given, as :meth:`Collection.update`."""
        await self._http.run(calls.update(ids, vectors, labels, payload, documents, checkpoint))

    async def delete(
        self,
        ids: Any = None,
        *,
        where: Any = None,
        missing: str = "raise",
        unlearn: bool = False,
        checkpoint: Mapping[str, Any] | None = None,
    ) -> int:
        """Delete items, and return their number."""
        return await self._http.run(calls.delete(ids, where, missing, unlearn, checkpoint))

    async def create_index(self, path: str) -> None:
        """Make filters by a path in the payload fast, as :meth:`Collection.create_index`."""
        await self._http.run(calls.create_index(path))

    async def drop_index(self, path: str) -> None:
        """Drop the index of a path in the payload."""
        await self._http.run(calls.drop_index(path))

    # ------------------------------------------------------------------ reading

    async def get(self, ids: Any) -> list[Item]:
        """Return items in the order of their ids."""
        return await self._http.run(calls.get(ids))

    async def items(
        self,
        *,
        labels: Any = None,
        where: Any = None,
        order: str = "id",
        descending: bool = False,
        after: Id | None = None,
        limit: int | None = None,
        chunk: int = 1000,
    ) -> AsyncIterator[Item]:
        """Yield items in order, as :meth:`Collection.items`, one request per chunk."""
        left, cursor = limit, None
        while left is None or left > 0:
            size = chunk if left is None else min(chunk, left)
            page = await self._http.run(calls.page(labels, where, order, descending, after, cursor, size))
            for item in page.items:
                yield item
            after, cursor, left = None, page.cursor, None if left is None else left - len(page.items)
            if cursor is None:
                return

    async def page(
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
        """Return some items and a cursor for those that follow, as :meth:`Collection.page`."""
        return await self._http.run(calls.page(labels, where, order, descending, after, cursor, limit))

    async def count(self, where: Any = None, *, labels: Any = None) -> int:
        """Return the number of items, or of those with a label or a payload that passes a filter."""
        return await self._http.run(calls.count(where, labels))

    async def indexes(self) -> list[str]:
        """Return the paths in the payload that have an index."""
        return await self._http.run(calls.indexes())

    async def search(
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
        """Find the k nearest items of every query, as :meth:`Collection.search`."""
        options = {"k": check_positive_int("k", k), "rescore": rescore, "asymmetric": asymmetric}
        return await self._http.run(calls.search(vectors, options, labels, ids, where, include, after))

    async def range_search(
        self,
        vectors: Any,
        radius: int,
        *,
        labels: Any = None,
        ids: Sequence[Id] | None = None,
        where: Any = None,
        include: Sequence[str] = (),
    ) -> SearchResult:
        """Find all items at most ``radius`` bits away from every query, as :meth:`Collection.range_search`."""
        return await self._http.run(calls.search(vectors, {"radius": radius}, labels, ids, where, include))

    async def search_by_id(
        self, ids: Any, k: int = 10, *, labels: Any = None, rescore: str | None = None
    ) -> SearchResult:
        """Find the k nearest items of stored items, which do not find themselves."""
        return await self._http.run(calls.search_by_id(ids, k, labels, rescore))

    async def encode(self, vectors: ArrayLike) -> Codes:
        """Return the packed codes of vectors, made by the encoder in use."""
        return await self._http.run(calls.encode(vectors))

    async def label_counts(self, where: Any = None) -> dict[Label, int]:
        """Return the number of items of each label, or of those whose payload passes a filter."""
        return await self._http.run(calls.label_counts(where))

    async def stats(self) -> Stats:
        """Return statistics of the collection."""
        return await self._http.run(calls.stats())

    async def map(self, limit: int = 2000) -> ItemMap:
        """Return a random sample of the items in the plane, as :meth:`Collection.map`."""
        return await self._http.run(calls.item_map(limit))

    async def codewords(self) -> Codewords:
        """Return the bits of the largest classes, as :meth:`Collection.codewords`."""
        return await self._http.run(calls.codewords())

    async def history(self) -> History:
        """Return the encoders used so far, and the quality along the stream, as :meth:`Collection.history`."""
        return await self._http.run(calls.history())

    async def refresh(self, *, wait: bool = True) -> None:
        """Encode all items again with the current hasher."""
        await self._http.run(calls.refresh(wait))

    # ------------------------------------------------------------------ care

    async def checkpoint(self, name: str) -> Any:
        """Return what a change last stored under a name; None if nothing."""
        return await self._http.run(care.checkpoint(name))

    async def backup(self, path: str | os.PathLike[str], *, progress: Progress = care.silent) -> None:
        """Write a copy of the collection to a file, as :meth:`Collection.backup`."""
        await self._http.run(care.backup(path, progress))

    async def check(self, *, sample: int = 1000, progress: Progress = care.silent) -> CheckReport:
        """Verify everything that is stored, and return what is wrong, as :meth:`Collection.check`."""
        return await self._http.run(care.check(sample, progress))

    async def compact(self, *, progress: Progress = care.silent) -> int:
        """Give unused space back to the disk, and return the number of bytes, as :meth:`Collection.compact`."""
        return await self._http.run(care.compact(progress))

    async def change_hasher(self, hasher: OnlineHasher | str | int, *, progress: Progress = care.silent) -> None:
        """Learn with another hasher, and encode all items again, as :meth:`Collection.change_hasher`."""
        await self._http.run(care.change_hasher(hasher, progress))

    async def migrate(
        self,
        *,
        embed: str | None = None,
        vectors: Iterable[tuple[Id, ArrayLike]] | None = None,
        hasher: OnlineHasher | str | None = None,
        progress: Progress = care.silent,
    ) -> None:
        """Move to another embedding model, of any width, as :meth:`Collection.migrate`."""
        await self._http.run(care.migrate(embed, vectors, hasher, progress))

    async def abandon_migration(self) -> None:
        """Drop the new vectors of a migration that is not complete; the collection stays as it is."""
        await self._http.run(care.abandon_migration())
