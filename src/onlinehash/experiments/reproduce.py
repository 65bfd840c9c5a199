"""Answer a plan: do the runs that have no result yet, spread over the cores."""

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

from onlinehash.exceptions import InvalidInputError, OnlineHashError
from onlinehash.experiments.bounds import BOUNDS
from onlinehash.experiments.own_data import n_features
from onlinehash.experiments.plan import Run, is_custom
from onlinehash.experiments.results import Result, find_result, write_result
from onlinehash.hashers import HASHERS
from onlinehash.types import Progress


def open_runs(runs: Iterable[Run], folder: Path) -> list[Run]:
    """Return the runs that no result file answers, those of one split together.

    Examples
    --------
    >>> len(open_runs([Run("HCOH", "hcoh", "digits", "online", n_bits=16, seed=0)], Path("no-such-folder")))
    1
    """
    missing = [run for run in runs if find_result(folder, run) is None]
    return sorted(missing, key=lambda run: (run.dataset, run.protocol, run.seed))


def reproduce(
    runs: Iterable[Run], folder: Path, *, n_workers: int | None = None, progress: Progress | None = None
) -> None:
    """Do the open runs and write their results; an interrupted reproduction goes on where it stopped.

    Parameters of hashers are checked before the first run. The first error, or Ctrl-C, ends all workers at once;
    results that are written by then stay.

    Parameters
    ----------
    runs : iterable of Run
    folder : path
        Where result files are.
    n_workers : int, optional
        Processes to run in; each computes on one thread. By default all runs are done in this process, which notices
        Ctrl-C only between two steps of a method.
    progress : callable, optional
        Called as ``progress(done, total)`` after every run.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> run = Run("LSH", "lsh", "digits", "online", n_bits=8, seed=0)
    >>> with TemporaryDirectory() as folder:
    ...     reproduce([run], Path(folder))
    ...     len(open_runs([run], Path(folder)))
    0
    """
    missing = open_runs(runs, folder)
    check_parameters(missing)
    with closing(_answers(missing, n_workers)) as answers:
        for done, (run, result) in enumerate(answers, start=1):
            write_result(folder, run, result)
            if progress is not None:
                progress(done, len(missing))


def check_parameters(runs: Iterable[Run]) -> None:
    """Raise if a method of ours does not take the parameters of a run: each starts, on two rows of zeros.

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
        rows, labels = np.zeros((2, n_features(run.dataset, run.labels)), np.float32), np.array([0, 1])
        place = f"Method {run.method!r}, {run.n_bits} bits"
        try:
            if run.hasher in BOUNDS:
                BOUNDS[run.hasher](**params).partial_fit(rows, labels)
            else:
                HASHERS[run.hasher](n_bits=run.n_bits, random_state=run.seed, **params).partial_fit(rows, labels)
        except OnlineHashError as error:
            raise type(error)(f"{place}: {error}") from error
        except (TypeError, ValueError) as error:  # the rows are fine, so it is a parameter
            given = ", ".join(f"{key}={value!r}" for key, value in params.items())
            raise InvalidInputError(
                f"{place}: {run.hasher} does not take {given} ({error}). See the parameters of the method."
            ) from error


def _answers(runs: Sequence[Run], n_workers: int | None) -> Generator[tuple[Run, Result]]:
    """Do runs, and give their results as they come."""
    if n_workers is None:
        yield from ((run, _answer(run)) for run in runs)
        return
    # A fresh interpreter per worker: a fork would inherit the threads of numerical libraries.
    pool = ProcessPoolExecutor(n_workers, mp_context=get_context("spawn"), initializer=_end_with_parent)
    try:
        with _interrupts_for_this_process():
            futures = {pool.submit(_answer, run): run for run in runs}
        for future in as_completed(futures):
            yield futures[future], future.result()
    except BrokenProcessPool as error:
        raise OnlineHashError(
            "A worker process ended before its run was done, perhaps for want of memory. Use fewer workers; finished "
            "runs are kept."
        ) from error
    except BaseException:
        for worker in list(pool._processes.values()):  # there is no public way before Python 3.14
            worker.kill()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def _interrupts_for_this_process() -> Iterator[None]:
    """Let processes started here not see Ctrl-C, which a terminal sends to all: this process ends them."""
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
    """Let a worker end when the process that started it does, also when that was killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = parent_process()
    assert parent is not None

    def wait() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def _answer(run: Run) -> Result:
    from threadpoolctl import threadpool_limits

    from onlinehash.experiments.run import execute

    with threadpool_limits(1):
        try:
            return execute(run)
        except OnlineHashError as error:
            raise type(error)(f"Method {run.method!r}, {run.n_bits} bits, seed {run.seed}: {error}") from error
