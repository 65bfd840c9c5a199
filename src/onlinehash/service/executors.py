"""What runs requests: thread pools with bounded queues and deadlines, and jobs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Lock, Thread
from time import monotonic
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from starlette.requests import ClientDisconnect

from onlinehash.exceptions import OnlineHashError
from onlinehash.service.limits import Call, too_long
from onlinehash.service.problems import LATER, Problem, about, stopping
from onlinehash.types import Progress

_log = logging.getLogger("onlinehash.service")

SECONDS_UNWATCHED = 0.05  # in which a client may leave unnoticed: most answers take less

T = TypeVar("T")


class Executor:
    """A thread pool with a limit on ``n_waiting``, the number of requests that run or wait."""

    def __init__(self, name: str, n_threads: int, max_requests: int) -> None:
        self.name, self.max_requests, self.n_waiting = name, max_requests, 0
        self._pool = ThreadPoolExecutor(n_threads, thread_name_prefix=f"onlinehash {name}")
        self._closed = False

    async def run(self, work: Callable[[], T], call: Call | None = None) -> T:
        """Return the result of work in a thread; with a call, give it up when its time is up, or its client leaves."""
        if self.n_waiting >= self.max_requests:
            rule = f"{self.n_waiting} requests for {self.name} wait already, the limit of this service; wait a moment "
            raise Problem(429, "busy", f"{rule}and try again, or send fewer at a time.", headers=LATER)
        if self._closed:
            raise stopping()
        job = self._pool.submit(work)
        future, left = asyncio.wrap_future(job), None
        self.n_waiting += 1
        try:
            if call is not None:
                await asyncio.wait([future], timeout=SECONDS_UNWATCHED)
            if not future.done():
                waited: list[asyncio.Future[Any]] = [future]
                if call is not None and call.is_read:
                    left = asyncio.ensure_future(call.receive())  # after the body, there is nothing else to come
                    waited.append(left)
                seconds = None if call is None else call.end - monotonic()
                await asyncio.wait(waited, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
                del waited
            if future.done():
                return future.result()
            if left is not None and left.done():
                raise ClientDisconnect
            if call is not None and call.is_read and job.running():
                raise too_long()
            raise Problem(503, "busy", "No answer in time, since others were before; try again later.", headers=LATER)
        finally:
            self.n_waiting -= 1
            future.cancel()  # if it is not done
            if left is not None:
                left.cancel()
            if call is not None:
                call.end = 0.0  # nobody waits for the work any more
            # An error refers to this frame, and the future to the error: the cycle would keep the body of the request.
            del job, future

    def close(self) -> None:
        """Refuse further calls, and return when all running ones are complete."""
        self._closed = True
        self._pool.shutdown(wait=True)


JobName = Literal["backup", "check", "compact", "change_hasher"]
_RESULTS = "backup: n_bytes, sha256. check: problems, n_items, n_codes, n_encoded. compact: n_bytes given back."
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
            job.error = Problem.of_error(error).detail
            if self._stopping:
                job.error = "The service was stopped meanwhile."
            elif isinstance(error, MemoryError):
                job.error = "The service does not have the memory for this; give it more, and start the job again."
            elif not isinstance(error, OnlineHashError):
                _log.error("%s failed", job.job, exc_info=error)
            job.state = "failed"

    def close(self) -> None:
        """End the job that runs, as soon as it next reports its progress."""
        with self._lock:
            self._stopping = True
        if self._thread.ident is not None:
            self._thread.join()
