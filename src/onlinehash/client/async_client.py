"""The client of the service for an event loop: the methods of :class:`onlinehash.Client`, as coroutines."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Self

from onlinehash.client.client import Client
from onlinehash.client.transport import AsyncTransport, T
from onlinehash.collection import Item

P = ParamSpec("P")


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
        after: int | str | None = None,
        limit: int | None = None,
        chunk: int = 1000,
    ) -> AsyncIterator[Item]:
        """Yield items in order, as :meth:`Collection.items`, one request per chunk."""
        given: dict[str, Any] = {"labels": labels, "where": where, "order": order, "descending": descending}
        left, cursor = limit, None
        while left is None or left > 0:
            size = chunk if left is None else min(chunk, left)
            page = await self.page(**given, after=after, cursor=cursor, limit=size)
            for item in page.items:
                yield item
            after, cursor, left = None, page.cursor, None if left is None else left - len(page.items)
            if cursor is None:
                return

    upsert = _awaited(Client.upsert)
    update = _awaited(Client.update)
    delete = _awaited(Client.delete)
    create_index = _awaited(Client.create_index)
    drop_index = _awaited(Client.drop_index)
    get = _awaited(Client.get)
    page = _awaited(Client.page)
    count = _awaited(Client.count)
    indexes = _awaited(Client.indexes)
    search = _awaited(Client.search)
    range_search = _awaited(Client.range_search)
    search_by_id = _awaited(Client.search_by_id)
    encode = _awaited(Client.encode)
    label_counts = _awaited(Client.label_counts)
    stats = _awaited(Client.stats)
    map = _awaited(Client.map)
    codewords = _awaited(Client.codewords)
    history = _awaited(Client.history)
    refresh = _awaited(Client.refresh)
    checkpoint = _awaited(Client.checkpoint)
    backup = _awaited(Client.backup)
    check = _awaited(Client.check)
    compact = _awaited(Client.compact)
    change_hasher = _awaited(Client.change_hasher)
    migrate = _awaited(Client.migrate)
    abandon_migration = _awaited(Client.abandon_migration)
