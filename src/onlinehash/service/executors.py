"""Thread pools that run requests, each with a bounded queue."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from onlinehash.service.limits import Limits
from onlinehash.service.problems import Problem

T = TypeVar("T")

_LATER = {"Retry-After": "1"}


class Executor:
    """A thread pool with a limit on ``n_waiting``, the number of requests that run or wait."""

    def __init__(self, name: str, n_threads: int, max_requests: int) -> None:
        self.name, self.max_requests, self.n_waiting = name, max_requests, 0
        self._pool = ThreadPoolExecutor(n_threads, thread_name_prefix=f"onlinehash {name}")
        self._closed = False

    def check(self) -> None:
        """Refuse a request if the executor is closed or its queue is full."""
        if self._closed:
            raise Problem(503, "stopping", "The service is stopping; try again when it is back.", headers=_LATER)
        if self.n_waiting >= self.max_requests:
            raise Problem(
                429,
                "busy",
                f"{self.n_waiting} requests for {self.name} wait already, the limit of this service; "
                "wait a moment and try again, or send fewer at a time.",
                headers=_LATER,
            )

    async def run(self, call: Callable[[], T]) -> T:
        """Return the result of a call in a thread; it is completed even if the request is cancelled."""
        self.check()
        self.n_waiting += 1
        future = asyncio.get_running_loop().run_in_executor(self._pool, call)
        future.add_done_callback(self._leave)
        return await asyncio.shield(future)

    def _leave(self, future: asyncio.Future[T]) -> None:
        self.n_waiting -= 1
        if not future.cancelled():
            future.exception()  # retrieve it, so that asyncio does not log it after a cancellation

    def close(self) -> None:
        """Refuse further calls, and return when all running ones are complete."""
        self._closed = True
        self._pool.shutdown(wait=True)


class Executors:
    """The executors of a service: several threads that read, and one that writes, so that changes keep their order."""

    def __init__(self, limits: Limits) -> None:
        self.reading = Executor("reading", limits.n_threads, limits.max_searches)
        self.writing = Executor("writing", 1, limits.max_changes)
        self.stopping = False

    def close(self) -> None:
        """Complete the running calls of both."""
        self.stopping = True
        self.writing.close()
        self.reading.close()
