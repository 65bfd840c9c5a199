"""The exact k nearest by a scan: a block of queries at a time, on several threads."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np
from numba import config
from numpy.typing import NDArray

from onlinehash.types import Ids, SearchResult

Found = tuple[Ids, NDArray[Any]]

_QUERIES = 16  # queries for which a tile of codes is read once
_FEW_QUERIES = 8  # of the smallest block, if there are several threads
_NOTHING = np.empty((0, 0), np.int64)
_WORTH_A_THREAD = 2_000_000  # distances; for fewer, starting a thread takes longer than it saves


def search_blocks(search: Callable[[slice], Found], n_queries: int, n_rows: int) -> SearchResult:
    """Join what ``search`` finds for blocks of queries, on up to NUMBA_NUM_THREADS threads if they pay.

    This thread searches too. It never waits for another that has not started, which may take long on a busy machine.
    """
    allowed: int = vars(config)["NUMBA_NUM_THREADS"]
    n_threads = max(1, min(allowed, n_queries * n_rows // _WORTH_A_THREAD))
    if n_threads == 1 and n_queries <= _QUERIES:
        return SearchResult(*search(slice(0, n_queries)))
    blocks = _blocks(n_queries, n_threads)
    found: list[Found] = [(_NOTHING, _NOTHING)] * len(blocks)
    todo = iter(range(len(blocks)))

    def work() -> None:
        for i in todo:
            found[i] = search(blocks[i])

    n_others = min(n_threads, len(blocks)) - 1
    others = [_pool(os.getpid(), allowed - 1).submit(work) for _ in range(n_others)]
    try:
        work()
    finally:
        for _ in todo:  # after an error
            pass
        for other in others:
            if not other.cancel():
                other.result()
    ids, distances = (np.concatenate(parts) if len(parts) > 1 else parts[0] for parts in zip(*found, strict=True))
    return SearchResult(ids, distances)


def _blocks(n_queries: int, n_threads: int) -> list[slice]:
    """Cut queries into blocks; small ones come last, so that all threads end together."""
    blocks: list[slice] = []
    start = 0
    while start < n_queries:
        left = n_queries - start
        size = min(_QUERIES, left if n_threads == 1 else max(_FEW_QUERIES, left // (2 * n_threads)))
        blocks.append(slice(start, start + size))
        start += size
    return blocks


@cache
def _pool(process: int, n_threads: int) -> ThreadPoolExecutor:
    """Return the threads of a process, which outlast a search: starting one takes as long as a small search."""
    return ThreadPoolExecutor(n_threads, thread_name_prefix="onlinehash search")
