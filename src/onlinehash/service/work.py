"""Where requests are worked on: a few threads that search, one that writes, and a line before each that ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from onlinehash.service.limits import Limits
from onlinehash.service.problems import Problem

T = TypeVar("T")


class Line:
    """Threads, and a bounded number of requests that use them or wait for them.

    Parameters
    ----------
    name : str
        What they do.
    n_threads : int
    most : int
        Requests at work or waiting; one more is refused.

    Attributes
    ----------
    n_waiting : int
        Requests at work or waiting now.
    """

    def __init__(self, name: str, n_threads: int, most: int) -> None:
        self.name, self.most, self.n_waiting = name, most, 0
        self._pool = ThreadPoolExecutor(n_threads, thread_name_prefix=f"onlinehash {name}")
        self._closed = False

    def check(self) -> None:
        """Refuse one more request if there are too many."""
        if self._closed:
            raise Problem(503, "stopping", "The service is stopping; ask again when it is back.", headers=_LATER)
        if self.n_waiting >= self.most:
            raise Problem(
                429,
                "busy",
                f"{self.n_waiting} requests for {self.name} wait already, the limit of this service; "
                "wait a moment and ask again, or send fewer at a time.",
                headers=_LATER,
            )

    async def run(self, call: Callable[[], T]) -> T:
        """Return what the call returns, in turn; what has begun is finished even if nobody waits for it any more."""
        self.check()
        self.n_waiting += 1
        future = asyncio.get_running_loop().run_in_executor(self._pool, call)
        future.add_done_callback(self._leave)
        return await asyncio.shield(future)

    def _leave(self, future: asyncio.Future[T]) -> None:
        self.n_waiting -= 1
        if not future.cancelled():
            future.exception()  # looked at: whoever waited may have gone

    def close(self) -> None:
        """Take nothing more, and return when all is done."""
        self._closed = True
        self._pool.shutdown(wait=True)


class Work:
    """The two lines of a service: reading, in several threads, and writing, in one, so that changes keep their order.

    Parameters
    ----------
    limits : Limits

    Examples
    --------
    >>> work = Work(Limits())
    >>> asyncio.run(work.writing.run(lambda: 7))
    7
    >>> work.close()
    """

    def __init__(self, limits: Limits) -> None:
        self.reading = Line("reading", limits.n_threads, limits.max_searches)
        self.writing = Line("writing", 1, limits.max_changes)
        self.stopping = False

    def close(self) -> None:
        """Finish what has begun."""
        self.stopping = True
        self.writing.close()
        self.reading.close()


_LATER = {"Retry-After": "1"}
