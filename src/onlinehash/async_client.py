"""A client of the service for use in an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Self

from numpy.typing import ArrayLike

from onlinehash import _calls as calls
from onlinehash._transport import AsyncTransport, pauses
from onlinehash._validation import check_positive_int
from onlinehash.collection.types import Id, Item, Label, Stats
from onlinehash.exceptions import ServiceError
from onlinehash.types import Codes, SearchResult


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

    async def upsert(self, ids: Any, vectors: ArrayLike, labels: Any = None, payload: Any = None) -> None:
        """Insert items or replace existing ones, as :meth:`Collection.upsert`."""
        await self._http.run(calls.upsert(ids, vectors, labels, payload))

    async def update(self, ids: Any, vectors: ArrayLike | None = None, labels: Any = ..., payload: Any = ...) -> None:
        """Change existing items and keep what is not given, as :meth:`Collection.update`."""
        await self._http.run(calls.update(ids, vectors, labels, payload))

    async def delete(self, ids: Any, *, missing: str = "raise", unlearn: bool = False) -> None:
        """Delete items."""
        await self._http.run(calls.delete(ids, missing, unlearn))

    # ------------------------------------------------------------------ reading

    async def get(self, ids: Any) -> list[Item]:
        """Return items in the order of their ids."""
        return await self._http.run(calls.get(ids))

    async def search(
        self,
        vectors: ArrayLike,
        k: int = 10,
        *,
        labels: Any = None,
        ids: Sequence[Id] | None = None,
        rescore: str | None = None,
        asymmetric: bool = False,
    ) -> SearchResult:
        """Find the k nearest items of every query, as :meth:`Collection.search`."""
        options = {"k": check_positive_int("k", k), "rescore": rescore, "asymmetric": asymmetric}
        return await self._http.run(calls.search(vectors, options, labels, ids))

    async def range_search(
        self, vectors: ArrayLike, radius: int, *, labels: Any = None, ids: Sequence[Id] | None = None
    ) -> SearchResult:
        """Find all items at most ``radius`` bits away from every query, as :meth:`Collection.range_search`."""
        return await self._http.run(calls.search(vectors, {"radius": radius}, labels, ids))

    async def search_by_id(
        self, ids: Any, k: int = 10, *, labels: Any = None, rescore: str | None = None
    ) -> SearchResult:
        """Find the k nearest items of stored items, which do not find themselves."""
        return await self._http.run(calls.search_by_id(ids, k, labels, rescore))

    async def encode(self, vectors: ArrayLike) -> Codes:
        """Return the packed codes of vectors, made by the encoder in use."""
        return await self._http.run(calls.encode(vectors))

    async def label_counts(self) -> dict[Label, int]:
        """Return the number of items of each label."""
        return await self._http.run(calls.label_counts())

    async def stats(self) -> Stats:
        """Return statistics of the collection."""
        return await self._http.run(calls.stats())

    async def refresh(self, *, wait: bool = True) -> None:
        """Encode all items again with the current hasher."""
        state = await self._http.run(calls.refresh())
        for pause in pauses():
            if not wait or not state["refreshing"]:
                break
            await asyncio.sleep(pause)
            state = await self._http.run(calls.versions())
        if wait and state["refresh_error"] is not None:
            raise ServiceError(f"The refresh failed: {state['refresh_error']}")
