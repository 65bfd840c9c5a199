"""Ray: started here or joined, and its tasks a few at a time."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from tempfile import TemporaryDirectory
from typing import Any, ParamSpec, TypeVar

from threadpoolctl import threadpool_limits

from onlinehash._validation import check_positive_int
from onlinehash.exceptions import MissingExtraError

P = ParamSpec("P")
R = TypeVar("R")

_RETRIES = 3  # of a task whose process was killed, or whose machine is gone
_ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",  # no reports to its makers
    "RAY_worker_niceness": "0",  # workers are no less urgent than the process that waits for them
}


def on_one_thread(task: Callable[P, R]) -> Callable[P, R]:
    """Keep the matrix products of a task on its own core; the other cores have tasks of their own."""

    @wraps(task)
    def limited(*args: P.args, **kwargs: P.kwargs) -> R:
        with threadpool_limits(1):
            return task(*args, **kwargs)

    return limited


class Cluster:
    """Processes that run tasks; a task whose process dies is run again by another.

    Parameters
    ----------
    ray : the module
    n_workers : int, optional
        How many tasks run at a time; by default as many as there are CPUs.
    """

    def __init__(self, ray: Any, n_workers: int | None) -> None:
        self._ray = ray
        self._n_workers = n_workers or max(1, int(ray.cluster_resources().get("CPU", 1)))

    def put(self, value: Any) -> Any:
        """Return a reference to a value that many tasks take: it is sent to each machine once."""
        return self._ray.put(value)

    def call(self, task: Callable[..., Any], *args: Any, n_results: int = 1) -> Any:
        """Start a task and return a reference to what it will return, or one to each of several things.

        Arguments may be references.
        """
        return self._ray.remote(num_cpus=1, max_retries=_RETRIES, num_returns=n_results)(task).remote(*args)

    def get(self, reference: Any) -> Any:
        """Wait for a task and return what it returns, or raise what it raised."""
        try:
            return self._ray.get(reference)
        except self._ray.exceptions.RayTaskError as error:
            raise error.cause from None  # without the tracebacks of the other process in its text

    def ended(self, references: Iterator[Any]) -> Iterator[Any]:
        """Yield what tasks return, in the order in which they end.

        Parameters
        ----------
        references : iterator
            Starts one task a step. Steps are taken only while there are workers for it, so that what tasks return
            does not pile up.
        """
        going: list[Any] = []
        try:
            for reference in references:
                going.append(reference)
                if len(going) >= self._n_workers:
                    yield self._next(going)
            while going:
                yield self._next(going)
        finally:
            for reference in going:  # there are some only after an error
                self._ray.cancel(reference)

    def _next(self, going: list[Any]) -> Any:
        (first, *_), _ = self._ray.wait(going, num_returns=1)
        going.remove(first)
        return self.get(first)


@contextmanager
def cluster(address: str | None = None, n_workers: int | None = None) -> Iterator[Cluster]:
    """Have Ray for several calls: the one that runs already, the one at an address, or one of our own here.

    What this starts or joins, it leaves again in the end. Our own Ray keeps its files in a temporary folder, which goes
    with it, and reports to nobody. :mod:`onlinehash.scale` has an example.

    Parameters
    ----------
    address : str, optional
        Of a Ray cluster, as ``ray.init`` takes it; by default what the variable ``RAY_ADDRESS`` says, or none.
    n_workers : int, optional
        How many tasks run at a time; by default as many as there are CPUs.
    """
    try:
        import ray
    except ImportError as error:
        raise MissingExtraError.of("ray", "ray") from error
    if n_workers is not None:
        check_positive_int("n_workers", n_workers)
    if ray.is_initialized():
        yield Cluster(ray, n_workers)
        return
    with TemporaryDirectory(prefix="onlinehash-", ignore_cleanup_errors=True) as folder:
        settings: dict[str, Any] = {"address": address or os.environ.get("RAY_ADDRESS") or "local"}
        if settings["address"] == "local":
            settings |= {"num_cpus": n_workers, "include_dashboard": False, "_temp_dir": folder}
        with _environment():
            ray.init(**settings, log_to_driver=False, logging_level=logging.ERROR)
        try:
            yield Cluster(ray, n_workers)
        finally:
            ray.shutdown()


@contextmanager
def _environment() -> Iterator[None]:
    """Set variables for a Ray that starts, those that the user has not set."""
    added = _ENVIRONMENT.keys() - os.environ.keys()
    os.environ.update({name: _ENVIRONMENT[name] for name in added})
    try:
        yield
    finally:
        for name in added:
            del os.environ[name]
