"""Jobs: long work on a collection in a thread, one at a time, with progress that can be asked for."""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import Lock, Thread
from typing import Any

from onlinehash.exceptions import OnlineHashError
from onlinehash.service.care_schemas import JobAnswer, JobName
from onlinehash.service.problems import Problem, stopping
from onlinehash.types import Progress

_log = logging.getLogger("onlinehash.service")

Work = Callable[[Progress], dict[str, Any] | None]
"""Takes a function to report progress to, and returns the result."""


class Jobs:
    """The job that runs, or else the last one."""

    def __init__(self) -> None:
        self._lock, self._thread, self._stopping = Lock(), Thread(), False
        self.last = JobAnswer(0, None, "none")

    def start(self, name: JobName, work: Work) -> JobAnswer:
        """Start a job; refuse it while another runs."""
        with self._lock:
            if self._stopping:
                raise stopping()
            if self.last.state == "running":
                raise Problem(
                    409,
                    "job",
                    f"{self.last.job} is running as job {self.last.number} ({self.last.progress:.0%}), and only one "
                    "job runs at a time; wait until GET /job says that it is done. If you started it and the answer "
                    "was lost, GET /job also has its result.",
                )
            self.last = job = JobAnswer(self.last.number + 1, name, "running")
            self._thread = Thread(target=self._run, args=(job, work), name=f"onlinehash {name}")
            self._thread.start()
            return job

    def _run(self, job: JobAnswer, work: Work) -> None:
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

    def _reason(self, job: JobAnswer, error: Exception) -> str:
        if self._stopping:
            return "The service was stopped meanwhile."
        if isinstance(error, OnlineHashError):
            return Problem.of_error(error).detail
        if isinstance(error, MemoryError):
            return "The service does not have the memory for this; give it more, and start the job again."
        _log.error("%s failed", job.job, exc_info=error)
        return "The service failed to do this; its log has the reason."

    def close(self) -> None:
        """End the job that runs, as soon as it next reports its progress."""
        with self._lock:
            self._stopping = True
        if self._thread.ident is not None:
            self._thread.join()
