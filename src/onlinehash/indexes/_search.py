"""The exact k nearest by a scan: a block of queries at a time, on several threads."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numba import config
from numpy.typing import NDArray

from onlinehash.codes.hamming import distance_dtype
from onlinehash.indexes._search_kernels import nearest_in_planes, nearest_in_tiles
from onlinehash.types import Ids, SearchResult

Found = tuple[Ids, NDArray[Any]]

_QUERIES = 16  # queries for which a tile of codes is read once
_WORTH_A_THREAD = 2_000_000  # distances; for fewer, starting a thread takes longer than it saves


def search_blocks(search: Callable[[slice], Found], n_queries: int, n_rows: int) -> SearchResult:
    """Join what ``search`` finds for blocks of queries, on up to NUMBA_NUM_THREADS threads if they pay.

    This thread takes blocks from the end until it meets the others: on a busy machine, it never waits for a thread that
    has not started.
    """
    allowed: int = vars(config)["NUMBA_NUM_THREADS"]
    n_threads = max(1, min(allowed, n_queries * n_rows // _WORTH_A_THREAD))
    n_blocks = 1 if n_threads == 1 else 2 * n_threads
    size = max(1, min(_QUERIES, -(-n_queries // n_blocks)))
    blocks = [slice(start, start + size) for start in range(0, max(1, n_queries), size)]
    if min(n_threads, len(blocks)) == 1:
        found = [search(block) for block in blocks]
    else:
        threads = ThreadPoolExecutor(n_threads - 1)
        futures = [threads.submit(search, block) for block in blocks]
        try:
            found = [
                search(block) if future.cancel() else future.result()
                for block, future in zip(reversed(blocks), reversed(futures), strict=True)
            ][::-1]
        finally:
            threads.shutdown(wait=False, cancel_futures=True)
    ids, distances = (np.concatenate(parts) if len(parts) > 1 else parts[0] for parts in zip(*found, strict=True))
    return SearchResult(ids, distances)


def find_nearest(
    top_k: Callable[..., None], queries: NDArray[Any], words: NDArray[Any], items: tuple[Any, ...], k: int,
    *, bounded: bool,
) -> Found:  # fmt: skip
    """Return ids and distances of the k nearest of every query; the kernel ``top_k`` gets the words and ``items``.

    Pass ``bounded=False`` if a mask leaves items out: the nearest of a tile may then be one of these.
    """
    asymmetric = queries.ndim == 3
    ids = np.empty((len(queries), k), np.int64)
    distances = np.empty(ids.shape, np.float32 if asymmetric else np.int32)
    if not ids.size:
        return ids, distances
    n_bytes = words.itemsize * words.shape[1]
    dtype = np.float32 if asymmetric else distance_dtype(n_bytes)
    tile = 512 if n_bytes <= 16 else 256  # rows that stay in the first-level cache
    nearest, buffer = np.zeros((len(queries), -(-len(words) // tile)), dtype), np.empty(tile, dtype)
    if bounded and k <= nearest.shape[1]:
        if not asymmetric and words.shape[1] in (3, 4) and len(queries) > 2:
            nearest_in_planes(queries, words, np.zeros((4, tile), words.dtype), nearest)
        else:
            nearest_in_tiles(queries, words, buffer, nearest)
    top_k(queries, words, *items, nearest, buffer, distances, ids)
    return ids, distances
