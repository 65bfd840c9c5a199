"""The client of the service for an event loop: the methods of :class:`onlinehash.Client`, as coroutines."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from functools import partial, wraps
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from onlinehash.client.client import Client
from onlinehash.collection import Item

P = ParamSpec("P")
T = TypeVar("T")

MAX_REQUESTS = 32  # at a time, each in a thread


def _awaited(method: Callable[Concatenate[Any, P], T]) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    """Return a method of the client as a coroutine, which runs it in a thread."""

    @wraps(method)
    async def run(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        call = partial(method, self._client, *args, **kwargs)
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)

    return run


class AsyncClient:
    """Use a collection that is served over HTTP, from an event loop.

    The parameters and methods are those of :class:`onlinehash.Client`. Every call runs in a thread, up to 32 at a time;
    one that is cancelled is still completed there.

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

    def __init__(self, url: str, key: str | None = None, **options: Any) -> None:
        self._client = Client(url, key, **options)
        self._threads = ThreadPoolExecutor(MAX_REQUESTS, thread_name_prefix="onlinehash client")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections, when all calls have ended."""
        await asyncio.to_thread(self._threads.shutdown)
        self._client.close()

    @wraps(Client.items)
    async def items(self, **options: Any) -> AsyncIterator[Item]:
        """Yield items in order, as :meth:`Collection.items`, one request per chunk."""
        pages = self._client._pages(**options)
        next_page = partial(next, pages, None)
        while (page := await asyncio.get_running_loop().run_in_executor(self._threads, next_page)) is not None:
            for item in page.items:
                yield item

    upsert = _awaited(Client.upsert)
    update = _awaited(Client.update)
    delete = _awaited(Client.delete)
    link = _awaited(Client.link)
    unlink = _awaited(Client.unlink)
    merge_labels = _awaited(Client.merge_labels)
    rename_label = _awaited(Client.rename_label)
    create_index = _awaited(Client.create_index)
    drop_index = _awaited(Client.drop_index)
    get = _awaited(Client.get)
    page = _awaited(Client.page)
    count = _awaited(Client.count)
    indexes = _awaited(Client.indexes)
    search = _awaited(Client.search)
    range_search = _awaited(Client.range_search)
    search_by_id = _awaited(Client.search_by_id)
    classify = _awaited(Client.classify)
    suspects = _awaited(Client.suspects)
    review = _awaited(Client.review)
    encode = _awaited(Client.encode)
    label_counts = _awaited(Client.label_counts)
    stats = _awaited(Client.stats)
    map = _awaited(Client.map)
    history = _awaited(Client.history)
    refresh = _awaited(Client.refresh)
    checkpoint = _awaited(Client.checkpoint)
    backup = _awaited(Client.backup)
    check = _awaited(Client.check)
    compact = _awaited(Client.compact)
    change_hasher = _awaited(Client.change_hasher)
