"""What runs requests: thread pools with bounded queues, deadlines, searches that share scans, and jobs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import accumulate, pairwise
from threading import Lock, Thread
from time import monotonic
from typing import Annotated, Any, Literal, TypeVar

import msgspec
import numpy as np
from starlette.requests import ClientDisconnect
from starlette.types import Receive

from onlinehash.collection import Collection
from onlinehash.exceptions import LargeResultError, OnlineHashError, TooManyResultsError
from onlinehash.service.limits import Limits
from onlinehash.service.problems import LATER, LESS_PAYLOAD, Problem, about, check_limit, stopping
from onlinehash.types import Progress, SearchResult

_log = logging.getLogger("onlinehash.service")
QUERIES_PER_SCAN = 64
HITS_PER_SCAN = 2000  # a scan may look up every hit, and nothing ends it
_COLUMNS = ("ids", "distances", "cursor", "labels", "payload", "vectors")

T = TypeVar("T")


class Deadline:
    """The time until which a request may run, and whether its client has left."""

    def __init__(self, seconds: float, receive: Receive) -> None:
        self._seconds, self._end, self._receive = seconds, monotonic() + seconds, receive
        self.begun = False  # whether a part of the work is done

    async def wait(self, future: asyncio.Future[T]) -> T:
        """Return the result of work; give it up when the client leaves or the time is up."""
        left = asyncio.ensure_future(self._client_leaves())
        both: set[asyncio.Future[Any]] = {future, left}
        try:
            await asyncio.wait(both, timeout=self._end - monotonic(), return_when=asyncio.FIRST_COMPLETED)
            if future.done():
                return future.result()
            if left.done():
                raise ClientDisconnect
            if self.begun:
                rule = f"timeout: the search took more than {self._seconds} seconds, the limit of this service; send "
                raise Problem(422, "over-limit", f"{rule}fewer queries at a time.", field="timeout")
            raise Problem(503, "busy", f"No answer within {self._seconds} seconds; try again later.", headers=LATER)
        finally:
            left.cancel()
            future.cancel()  # if it is not done
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
        """Refuse a request if the queue is full."""
        if self.n_waiting >= self.max_requests:
            rule = f"{self.n_waiting} requests for {self.name} wait already, the limit of this service; wait a moment "
            raise Problem(429, "busy", f"{rule}and try again, or send fewer at a time.", headers=LATER)

    def submit(self, call: Callable[[], T]) -> asyncio.Future[T]:
        """Return the future result of a call in a thread."""
        self.check()
        future = self.start(call)
        self.n_waiting += 1
        future.add_done_callback(self._leave)
        return future

    def start(self, call: Callable[[], T]) -> asyncio.Future[T]:
        """Return the future result of a call that is not a request of its own."""
        if self._closed:
            raise stopping()
        return asyncio.get_running_loop().run_in_executor(self._pool, call)

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


class Searches:
    """The searches of a collection, some queries at a time.

    A request is searched at once if no other with its options is at work; those that wait meanwhile share the next
    scan, which costs far less than one per request. A request of many queries takes part in one scan after the other,
    so that none waits long for it.
    """

    def __init__(self, collection: Collection, executor: Executor, limits: Limits) -> None:
        self._collection, self._executor, self._limits = collection, executor, limits
        self._waiting: dict[Any, list[tuple[Any, asyncio.Future[SearchResult]]]] = {}

    async def run(self, queries: Any, options: dict[str, Any], max_hits: int, deadline: Deadline) -> SearchResult:
        """Return the neighbours of all queries, by one version of the encoder.

        The queries are an array or a list of documents; the options are arguments of :meth:`Collection.search`, or of
        :meth:`Collection.range_search` if there is a radius among them.
        """
        n_hits = options.get("k", 10) * (10 if "rescore" in options else 1)
        size = max(1, min(QUERIES_PER_SCAN, HITS_PER_SCAN // n_hits))
        parts: list[SearchResult] = []
        self._executor.check()
        self._executor.n_waiting += 1
        try:
            for start in range(0, len(queries), size):
                some = queries[start : start + size]
                parts.append(await deadline.wait(self._join(some, options, max_hits, size)))
                deadline.begun = True
                if start:
                    self._check_size(parts, max_hits)
                if parts[-1].version != parts[0].version:  # refreshed meanwhile
                    parts = [await deadline.wait(self._join(queries, options, max_hits, size))]
                    break
        finally:
            self._executor.n_waiting -= 1
        if len(parts) == 1:
            return parts[0]
        columns: dict[str, Any] = {
            name: [row for part in parts for row in getattr(part, name)]
            for name in _COLUMNS
            if getattr(parts[0], name) is not None
        }
        return replace(parts[0], **columns)

    def _check_size(self, parts: list[SearchResult], max_hits: int) -> None:
        n_bytes = sum(len(payload) for part in parts for row in part.payload or () for payload in row)
        _check_hits(sum(len(ids) for part in parts for ids in part.ids), max_hits)
        check_limit("payload", n_bytes, self._limits.max_payload_bytes, LESS_PAYLOAD)

    def _join(self, queries: Any, options: dict[str, Any], max_hits: int, size: int) -> asyncio.Future[SearchResult]:
        """Return the future result of queries: at once if no scan of their kind runs, else of the next one."""
        shape = (queries.dtype, queries.shape[1]) if isinstance(queries, np.ndarray) else ()
        # Real values of several queries differ in their last bit from those of one: each has its own scan.
        alone = id(queries) if "asymmetric" in options else None
        key = (msgspec.json.encode(options), max_hits, shape, alone)
        search = partial(self._found, options=options, max_hits=max_hits)
        if key not in self._waiting:
            scan = self._executor.start(partial(search, queries))
            self._waiting[key] = []
            scan.add_done_callback(lambda _: self._scan_next(key, search, size))
            return scan
        future: asyncio.Future[SearchResult] = asyncio.get_running_loop().create_future()
        self._waiting[key].append((queries, future))
        return future

    def _scan_next(self, key: Any, search: Callable[[Any], SearchResult], size: int) -> None:
        """Scan for those who wait, ``size`` queries or one request at a time, until nobody does."""
        waiting = [one for one in self._waiting.pop(key) if not one[1].done()]  # the others have left
        if not waiting:
            return
        n_taken = max(1, sum(total <= size for total in accumulate(len(queries) for queries, _ in waiting)))
        taken, self._waiting[key] = waiting[:n_taken], waiting[n_taken:]

        def end(scan: asyncio.Future[list[SearchResult | Exception]]) -> None:
            for (_, future), outcome in zip(taken, scan.result(), strict=True):
                if future.done():
                    continue
                if isinstance(outcome, Exception):
                    future.set_exception(outcome)
                else:
                    future.set_result(outcome)
            self._scan_next(key, search, size)

        try:
            self._executor.start(lambda: _outcomes([queries for queries, _ in taken], search)).add_done_callback(end)
        except Problem as error:  # the executor is closed
            for _, future in waiting:
                future.set_exception(error)

    def _found(self, queries: Any, *, options: dict[str, Any], max_hits: int) -> SearchResult:
        """Search; payloads are returned as JSON, which the event loop need not write."""
        most = self._limits.max_payload_bytes
        try:
            if "radius" in options:
                found = self._collection.range_search(queries, **options, max_results=max_hits, max_payload_bytes=most)
            else:
                found = self._collection.search(queries, **options, max_payload_bytes=most)
        except LargeResultError:
            check_limit("payload", most + 1, most, LESS_PAYLOAD)
            raise
        except TooManyResultsError:
            _check_hits(max_hits + 1, max_hits)
            raise
        if found.payload is None:
            return found
        encode = msgspec.json.encode
        return replace(found, payload=[[msgspec.Raw(encode(payload)) for payload in row] for row in found.payload])


def _outcomes(batches: list[Any], search: Callable[[Any], SearchResult]) -> list[SearchResult | Exception]:
    """Search for several batches of queries in one scan; an error of one must not be that of others."""
    try:
        is_array = isinstance(batches[0], np.ndarray)
        found = search(np.concatenate(batches) if is_array else [one for batch in batches for one in batch])
    except Exception as error:
        return [error] if len(batches) == 1 else [_outcomes([one], search)[0] for one in batches]
    columns = {name: getattr(found, name) for name in _COLUMNS if getattr(found, name) is not None}
    ends = list(accumulate(map(len, batches)))
    parts = [slice(start, end) for start, end in pairwise([0, *ends])]
    return [replace(found, **{name: column[some] for name, column in columns.items()}) for some in parts]


def _check_hits(n_hits: int, most: int) -> None:
    check_limit("hits within radius", n_hits, most, "use a smaller radius, or fewer queries")


JobName = Literal["backup", "check", "compact", "change_hasher", "migrate"]
_RESULTS = (
    "backup: n_bytes, sha256. check: problems, n_items, n_codes, n_encoded. compact: n_bytes given back. migrate: "
    "complete, n_done, n_items."
)
Work = Callable[[Progress], Any]
"""Takes a function to report progress to, and returns the result."""


class Job(msgspec.Struct):
    """State of a job."""

    number: Annotated[int, about("Of the jobs of this service, from 1 on; 0 if there was none.")]
    job: JobName | None
    state: Literal["none", "running", "done", "failed"]
    progress: Annotated[float, about("From 0 to 1.")] = 0.0
    result: Annotated[Any, about(_RESULTS)] = None
    error: Annotated[str | None, about("Why it failed.")] = None


class Jobs:
    """Long work on a collection in a thread, one at a time: the job that runs, or else the last one."""

    def __init__(self) -> None:
        self._lock, self._thread, self._stopping = Lock(), Thread(), False
        self.last = Job(0, None, "none")

    def start(self, name: JobName, work: Work) -> Job:
        """Start a job; refuse it while another runs."""
        with self._lock:
            if self._stopping:
                raise stopping()
            if self.last.state == "running":
                rule = (
                    f"{self.last.job} is running as job {self.last.number} ({self.last.progress:.0%}), and only one "
                    "job runs at a time; wait until GET /job says that it is done. If you started it and the answer "
                    "was lost, GET /job also has its result."
                )
                raise Problem(409, "job", rule)
            self.last = job = Job(self.last.number + 1, name, "running")
            self._thread = Thread(target=self._run, args=(job, work), name=f"onlinehash {name}")
            self._thread.start()
            return job

    def _run(self, job: Job, work: Work) -> None:
        def progress(done: int, total: int) -> None:
            if self._stopping:
                raise stopping()  # ends the job
            job.progress = min(1.0, done / total) if total else 0.0

        try:
            job.result = work(progress)
            job.progress, job.state = 1.0, "done"
        except Exception as error:
            job.error = self._reason(job, error)
            job.state = "failed"

    def _reason(self, job: Job, error: Exception) -> str:
        if self._stopping:
            return "The service was stopped meanwhile."
        if isinstance(error, MemoryError):
            return "The service does not have the memory for this; give it more, and start the job again."
        if not isinstance(error, OnlineHashError):
            _log.error("%s failed", job.job, exc_info=error)
        return Problem.of_error(error).detail

    def close(self) -> None:
        """End the job that runs, as soon as it next reports its progress."""
        with self._lock:
            self._stopping = True
        if self._thread.ident is not None:
            self._thread.join()
