"""Ray: started here or joined, and its tasks."""

from __future__ import annotations

import logging
import os
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import Any

from threadpoolctl import threadpool_limits

from onlinehash._internal.validation import check_positive_int
from onlinehash.exceptions import needs_extra

_RETRIES = 3  # of a task whose process or machine died


class Cluster:
    """Processes that run tasks, by default one per CPU; a task whose process dies is run again by another."""

    def __init__(self, ray: Any, n_workers: int | None) -> None:
        self._ray = ray
        self._n_workers = n_workers or max(1, int(ray.cluster_resources().get("CPU", 1)))

    def put(self, value: Any) -> Any:
        """Return a reference to a value for many tasks: it is sent to each machine once."""
        return self._ray.put(value)

    def call(self, task: Callable[..., Any], *args: Any) -> Any:
        """Start a task, and return a reference to its result; arguments may be references."""
        remote = self._ray.remote(num_cpus=1, max_retries=_RETRIES)(_on_one_thread)
        return remote.remote(task, *args)

    def get(self, reference: Any) -> Any:
        """Wait for a task, and return its result or raise its error."""
        try:
            return self._ray.get(reference)
        except self._ray.exceptions.RayTaskError as error:
            raise error.cause from None  # without the tracebacks of the other process in its text

    def results(self, references: Iterator[Any]) -> Iterator[Any]:
        """Yield the results of tasks, in order.

        Each step of ``references`` starts a task. As many go on as there are workers, so that results do not pile up.
        """
        going: deque[Any] = deque()
        try:
            for reference in references:
                going.append(reference)
                if len(going) >= self._n_workers:
                    yield self.get(going.popleft())
            while going:
                yield self.get(going.popleft())
        finally:
            for reference in going:  # there are some only after an error
                self._ray.cancel(reference)


def _on_one_thread(task: Callable[..., Any], *args: Any) -> Any:
    """Run a task, with its matrix products limited to one core; the others run other tasks."""
    with threadpool_limits(1):
        return task(*args)


@contextmanager
def cluster(address: str | None = None, n_workers: int | None = None) -> Iterator[Cluster]:
    """Keep Ray for several calls: the one that runs already, the one at an address, or one started here.

    It is left, or stopped, at the end. A Ray started here keeps its files in a temporary folder and sends no usage
    reports. :mod:`onlinehash.scale` has an example.

    Parameters
    ----------
    address : str, optional
        Of a Ray cluster, as ``ray.init`` takes it; by default that of the variable ``RAY_ADDRESS``, or none.
    n_workers : int, optional
        Number of tasks at a time, by default one per CPU.
    """
    with needs_extra("ray", "ray"):
        import ray
    if n_workers is not None:
        check_positive_int("n_workers", n_workers)
    if ray.is_initialized():
        yield Cluster(ray, n_workers)
        return
    with TemporaryDirectory(prefix="onlinehash-", ignore_cleanup_errors=True) as folder:
        settings: dict[str, Any] = {"address": address or os.environ.get("RAY_ADDRESS") or "local"}
        if settings["address"] == "local":
            settings |= {"num_cpus": n_workers, "include_dashboard": False, "_temp_dir": folder}
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        os.environ.setdefault("RAY_worker_niceness", "0")  # workers have the priority of the process that waits
        ray.init(**settings, log_to_driver=False, logging_level=logging.ERROR)
        try:
            yield Cluster(ray, n_workers)
        finally:
            ray.shutdown()
