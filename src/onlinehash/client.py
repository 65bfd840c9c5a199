"""Clients of the service: the methods of a collection, over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from onlinehash._client_methods import ClientMethods
from onlinehash._transport import AsyncTransport, Transport
from onlinehash.collection.ids import demand_single, is_single
from onlinehash.collection.types import Id, Item
from onlinehash.exceptions import InvalidInputError, ServiceError, UnknownIdError

__all__ = ["AsyncClient", "Client", "ServiceError"]

P = ParamSpec("P")
T = TypeVar("T")


class Client(ClientMethods):
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

    def __getitem__(self, id: Id) -> Item:
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
            page = self.page(
                labels=labels, where=where, order=order, descending=descending, after=after, cursor=cursor, limit=size
            )
            yield from page.items
            after, cursor, left = None, page.cursor, None if left is None else left - len(page.items)
            if cursor is None:
                return


def _awaited(method: Callable[Concatenate[Any, P], T]) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    """Return a method of the clients as a coroutine, which waits for its transport."""

    @wraps(method)
    async def run(client: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        sent: Any = method(client, *args, **kwargs)
        result: T = await sent
        return result

    return run


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
            page = await self.page(
                labels=labels, where=where, order=order, descending=descending, after=after, cursor=cursor, limit=size
            )
            for item in page.items:
                yield item
            after, cursor, left = None, page.cursor, None if left is None else left - len(page.items)
            if cursor is None:
                return

    upsert = _awaited(ClientMethods.upsert)
    update = _awaited(ClientMethods.update)
    delete = _awaited(ClientMethods.delete)
    create_index = _awaited(ClientMethods.create_index)
    drop_index = _awaited(ClientMethods.drop_index)
    get = _awaited(ClientMethods.get)
    page = _awaited(ClientMethods.page)
    count = _awaited(ClientMethods.count)
    indexes = _awaited(ClientMethods.indexes)
    search = _awaited(ClientMethods.search)
    range_search = _awaited(ClientMethods.range_search)
    search_by_id = _awaited(ClientMethods.search_by_id)
    encode = _awaited(ClientMethods.encode)
    label_counts = _awaited(ClientMethods.label_counts)
    stats = _awaited(ClientMethods.stats)
    map = _awaited(ClientMethods.map)
    codewords = _awaited(ClientMethods.codewords)
    history = _awaited(ClientMethods.history)
    refresh = _awaited(ClientMethods.refresh)
    checkpoint = _awaited(ClientMethods.checkpoint)
    backup = _awaited(ClientMethods.backup)
    check = _awaited(ClientMethods.check)
    compact = _awaited(ClientMethods.compact)
    change_hasher = _awaited(ClientMethods.change_hasher)
    migrate = _awaited(ClientMethods.migrate)
    abandon_migration = _awaited(ClientMethods.abandon_migration)
