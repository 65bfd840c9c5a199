"""Do the pending runs of a plan, in parallel."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager
from multiprocessing import get_context, parent_process, resource_tracker
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from onlinehash.exceptions import InvalidInputError, OnlineHashError
from onlinehash.experiments.own_data import data_size
from onlinehash.experiments.plan import Run, is_custom
from onlinehash.experiments.references import REFERENCES
from onlinehash.experiments.results import (
    EPOCH,
    Result,
    add_results,
    environment,
    is_stale,
    read_results,
    result_key,
)
from onlinehash.experiments.run import make_method
from onlinehash.experiments.run import run as do_run
from onlinehash.types import Progress


def pending_runs(runs: Iterable[Run], path: Path, *, stale: bool = False) -> list[Run]:
    """Return the runs without a result, and with ``stale`` those whose result is stale; runs of one split together.

    Examples
    --------
    >>> len(pending_runs([Run("HCOH", "hcoh", "digits", "online", n_bits=16, seed=0)], Path("no-such-file.jsonl")))
    1
    """
    runs = list(runs)
    done = {result_key(result) for result in read_results(path, runs) if not (stale and is_stale(result))}
    pending = [run for run in runs if run.key not in done]
    return sorted(pending, key=lambda run: (run.dataset, run.protocol, run.seed))


def reproduce(
    runs: Iterable[Run],
    path: Path,
    *,
    stale: bool = False,
    n_workers: int | None = None,
    progress: Progress | None = None,
) -> None:
    """Do the pending runs and add their results to a file; an interrupted reproduction continues where it stopped.

    Parameters of hashers are checked before the first run. The first error, or Ctrl-C, stops all workers at once. The
    file is replaced atomically after every run, so finished runs are kept, even if this process is killed.

    Parameters
    ----------
    runs : iterable of Run
    path : path
        The ``.jsonl`` file of results.
    stale : bool, default=False
        Whether to repeat runs whose result is stale: measured values may have changed since.
    n_workers : int, optional
        Number of processes; each uses one thread. By default, runs are done in this process, which notices Ctrl-C only
        between two steps of a method.
    progress : callable, optional
        Called as ``progress(done, total)`` after every run.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> run = Run("LSH", "lsh", "digits", "online", n_bits=8, seed=0)
    >>> with TemporaryDirectory() as folder:
    ...     reproduce([run], Path(folder) / "lsh.jsonl")
    ...     len(pending_runs([run], Path(folder) / "lsh.jsonl", stale=True))
    0
    """
    pending = pending_runs(runs, path, stale=stale)
    check_parameters(pending)
    with closing(_results(pending, n_workers)) as results:
        for done, result in enumerate(results, start=1):
            add_results(path, [result])
            if progress is not None:
                progress(done, len(pending))


def check_parameters(runs: Iterable[Run]) -> None:
    """Raise if a built-in method does not take the parameters of a run: each learns two rows of zeros.

    Examples
    --------
    >>> check_parameters([Run("HCOH", "hcoh", "digits", "online", n_bits=8, seed=0, params={"learning_rate": -1})])
    Traceback (most recent call last):
        ...
    onlinehash.exceptions.InvalidInputError: Method 'HCOH', 8 bits: learning_rate=-1 is not positive and finite.
    """
    seen = []
    for run in runs:
        setup = (run.hasher, run.n_bits, run.dataset, run.params)
        if is_custom(run.hasher) or setup in seen:
            continue
        seen.append(setup)
        params = {key: value for key, value in run.params.items() if (key, value) != ("codebook", "published")}
        rows, labels = np.zeros((2, data_size(run.dataset, run.labels, run.n_queries)[0]), np.float32), np.array([0, 1])
        place = f"Method {run.method!r}, {run.n_bits} bits"
        try:
            learner = make_method(run, params).partial_fit(rows, labels)
            if run.hasher in REFERENCES:  # which are fitted only then
                learner.snapshot()
        except OnlineHashError as error:
            raise type(error)(f"{place}: {error}") from error
        except (TypeError, ValueError) as error:  # the rows are fine, so it is a parameter
            given = ", ".join(f"{key}={value!r}" for key, value in params.items())
            raise InvalidInputError(
                f"{place}: {run.hasher} does not take {given} ({error}). See the parameters of the method."
            ) from error


def _results(runs: Sequence[Run], n_workers: int | None) -> Generator[Result]:
    """Do runs; yield their results as they are done."""
    if n_workers is None:
        yield from map(_result, runs)
        return
    # A new interpreter per worker: a fork would inherit the threads of numerical libraries.
    pool = ProcessPoolExecutor(n_workers, mp_context=get_context("spawn"), initializer=_end_with_parent)
    try:
        with _interrupts_for_this_process():
            futures = [pool.submit(_result, run) for run in runs]
        for future in as_completed(futures):
            yield future.result()
    except BrokenProcessPool as error:
        raise OnlineHashError(
            "A worker process ended before its run was done, possibly out of memory. Use fewer workers; finished runs "
            "are kept."
        ) from error
    except BaseException:
        for worker in list(pool._processes.values()):  # there is no public way before Python 3.14
            worker.kill()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def _interrupts_for_this_process() -> Iterator[None]:
    """Start processes that do not receive Ctrl-C, which a terminal sends to all: this process ends them."""
    if sys.platform == "win32":
        yield
        return
    resource_tracker.ensure_running()  # it would undo the mask
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)  # a Ctrl-C meanwhile arrives now


def _end_with_parent() -> None:
    """End a worker when its parent process ends, even if that was killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = parent_process()
    assert parent is not None

    def wait() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def _result(run: Run) -> Result:
    with threadpool_limits(1):
        try:
            measured = do_run(run)
        except OnlineHashError as error:
            raise type(error)(f"Method {run.method!r}, {run.n_bits} bits, seed {run.seed}: {error}") from error
    return {"config": run.config(), **measured, "environment": environment(), "epoch": EPOCH}
