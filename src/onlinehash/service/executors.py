"""Thread pools that run requests, each with a bounded queue, and the deadlines of requests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect
from starlette.types import Receive

from onlinehash.service.limits import Limits
from onlinehash.service.problems import LATER, Problem, stopping

T = TypeVar("T")


class Deadline:
    """The time until which a request may run, and whether its client has left."""

    def __init__(self, seconds: float, receive: Receive) -> None:
        self._seconds, self._end, self._receive = seconds, monotonic() + seconds, receive
        self._is_abandoned = False

    def check(self) -> None:
        """Raise if the time is up or the client has left; long work calls this between its pieces."""
        if self._is_abandoned:
            raise ClientDisconnect
        if monotonic() > self._end:
            raise Problem(
                422,
                "over-limit",
                f"timeout: the search took more than {self._seconds} seconds, the limit of this service; send fewer "
                "queries at a time.",
                field="timeout",
                value=self._seconds,
            )

    async def wait(self, future: asyncio.Future[T]) -> T:
        """Return the result of work that checks this deadline; give it up when the client leaves or time is up."""
        left = asyncio.ensure_future(self._client_leaves())
        both: set[asyncio.Future[Any]] = {future, left}
        try:
            await asyncio.wait(both, timeout=self._end - monotonic(), return_when=asyncio.FIRST_COMPLETED)
            if future.done():
                return future.result()
            self._is_abandoned = True
            future.cancel()  # at once if it has not begun, else after the piece at work
            if left.done():
                raise ClientDisconnect
            raise Problem(503, "busy", f"No answer within {self._seconds} seconds; try again later.", headers=LATER)
        finally:
            left.cancel()
            # An error refers to this frame, and the future to the error: the cycle would keep the body of the request.
            del future, both

    async def _client_leaves(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass


class Executor:
    """A thread pool with a limit on ``n_waiting``, the number of requests that run or wait."""

    def __init__(self, name: str, n_threads: int, max_requests: int) -> None:
        self.name, self.max_requests, self.n_waiting = name, max_requests, 0
        self._pool = ThreadPoolExecutor(n_threads, thread_name_prefix=f"onlinehash {name}")
        self._closed = False

    def check(self) -> None:
        """Refuse a request if the executor is closed or its queue is full."""
        if self._closed:
            raise stopping()
        if self.n_waiting >= self.max_requests:
            raise Problem(
                429,
                "busy",
                f"{self.n_waiting} requests for {self.name} wait already, the limit of this service; "
                "wait a moment and try again, or send fewer at a time.",
                headers=LATER,
            )

    def submit(self, call: Callable[[], T]) -> asyncio.Future[T]:
        """Return the future result of a call in a thread."""
        self.check()
        self.n_waiting += 1
        future = asyncio.get_running_loop().run_in_executor(self._pool, call)
        future.add_done_callback(self._leave)
        return future

    async def run(self, call: Callable[[], T]) -> T:
        """Return the result of a call in a thread; it is completed even if the request is cancelled."""
        return await asyncio.shield(self.submit(call))

    def _leave(self, future: asyncio.Future[T]) -> None:
        self.n_waiting -= 1
        if not future.cancelled():
            future.exception()  # retrieve it, so that asyncio does not log it after a cancellation

    def close(self) -> None:
        """Refuse further calls, and return when all running ones are complete."""
        self._closed = True
        self._pool.shutdown(wait=True)


class Executors:
    """The executors of a collection.

    Several threads read; one writes, so that changes keep their order; one answers questions about the state, which
    need not wait for either.
    """

    def __init__(self, limits: Limits) -> None:
        self.reading = Executor("reading", limits.n_threads, limits.max_searches)
        self.writing = Executor("writing", 1, limits.max_changes)
        self.operations = Executor("operations", 1, limits.max_searches)
        self.stopping = False

    def close(self) -> None:
        """Complete the running calls of all."""
        for executor in (self.writing, self.reading, self.operations):
            executor.close()
