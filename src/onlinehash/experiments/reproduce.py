"""Answer a plan: do the runs that have no result yet, spread over the cores."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context, parent_process
from pathlib import Path

from onlinehash.experiments.plan import Run
from onlinehash.experiments.results import find_result, write_result
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


def reproduce(runs: Iterable[Run], folder: Path, *, n_workers: int = 1, progress: Progress | None = None) -> None:
    """Do the open runs and write their results; an interrupted reproduction goes on where it stopped.

    Parameters
    ----------
    runs : iterable of Run
    folder : path
        Where result files are.
    n_workers : int, default=1
        Processes; each computes on one thread.
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
    if n_workers == 1:
        for done, run in enumerate(missing, start=1):
            _answer(run, folder)
            if progress is not None:
                progress(done, len(missing))
        return
    # A fresh interpreter a worker: a fork would inherit the threads of numerical libraries.
    with ProcessPoolExecutor(n_workers, mp_context=get_context("spawn"), initializer=_end_with_parent) as pool:
        try:
            futures = [pool.submit(_answer, run, folder) for run in missing]
            for done, future in enumerate(as_completed(futures), start=1):
                future.result()
                if progress is not None:
                    progress(done, len(missing))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _end_with_parent() -> None:
    """Let a worker end when the process that started it does, also when that was killed."""
    parent = parent_process()
    assert parent is not None

    def wait() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def _answer(run: Run, folder: Path) -> None:
    from threadpoolctl import threadpool_limits

    from onlinehash.experiments.run import execute

    with threadpool_limits(1):
        write_result(folder, run, execute(run))
