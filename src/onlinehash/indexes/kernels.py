"""Compiled loops that find the k nearest codes.

A search has two passes. The first writes the smallest distance of every tile of rows: it has no branch, becomes vector
instructions, and reads a tile once for several queries. The k-th smallest of them is a bound that k rows keep. The
second pass opens only the tiles that hold a row within the bound.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinehash._internal.kernels import kernel
from onlinehash.codes.kernels import distances, popcount

FAR = 0x7FFFFFFF  # more than any distance
NO_ID = 0x7FFFFFFFFFFFFFFF
_BOUND_PRECISION = 1 / 8  # of distances that are not integers
_ROWS_PER_PART = 64  # of an open tile, skipped at once
_INVERSE_OF_FIRST = np.uint64(pow(0xBF58476D1CE4E5B9, -1, 1 << 64))  # of the factors of the hash
_INVERSE_OF_LAST = np.uint64(pow(0x94D049BB133111EB, -1, 1 << 64))


@kernel(fastmath={"nnan", "nsz"}, inner=True)  # else no vector loop for floats
def _lowest(values: Any) -> Any:
    """Return the smallest value."""
    smallest = values[0]
    for i in range(values.shape[0]):
        if values[i] < smallest:  # noqa: PLR1730 (min() would widen to 64 bits and lose the vector loop)
            smallest = values[i]
    return smallest


@kernel()
def nearest_in_tiles(queries: Any, words: Any, buffer: Any, out: Any) -> None:
    """Fill ``out`` (n_queries, n_tiles) with the smallest distance of every query in every tile."""
    tile_size = buffer.shape[0]
    for tile in range(out.shape[1]):
        rows = words[tile * tile_size : (tile + 1) * tile_size]
        for q in range(queries.shape[0]):
            distances(queries[q], rows, buffer)
            out[q, tile] = _lowest(buffer[: rows.shape[0]])


@kernel()
def nearest_in_planes(queries: Any, words: Any, planes: Any, out: Any) -> None:
    """Do as :func:`nearest_in_tiles` for rows of three or four words, faster for several queries.

    A tile is transposed to ``planes``, four rows of a tile's size that are zero at first: the same word of successive
    rows then fills a vector register.
    """
    tile_size = planes.shape[1]
    p0, p1, p2, p3 = planes[0], planes[1], planes[2], planes[3]
    for tile in range(out.shape[1]):
        start = tile * tile_size
        size = min(tile_size, words.shape[0] - start)
        for w in range(words.shape[1]):
            for i in range(size):
                planes[w, i] = words[start + i, w]
        for q in range(queries.shape[0]):
            q0, q1, q2 = queries[q, 0], queries[q, 1], queries[q, 2]
            q3 = queries[q, 3] if words.shape[1] == 4 else p3[0]  # a plane of zeros
            smallest = popcount(p0[0] ^ q0) + popcount(p1[0] ^ q1) + popcount(p2[0] ^ q2) + popcount(p3[0] ^ q3)
            for i in range(1, size):
                distance = popcount(p0[i] ^ q0) + popcount(p1[i] ^ q1) + popcount(p2[i] ^ q2) + popcount(p3[i] ^ q3)
                smallest = min(smallest, distance)
            out[q, tile] = smallest


@kernel(inner=True)
def _sift_down(distances: Any, ids: Any, size: int) -> None:
    """Restore the heap (largest distance, then largest id, on top) after its top was replaced."""
    distance, id = distances[0], ids[0]
    hole = 0
    while True:
        child = 2 * hole + 1
        if child >= size:
            break
        right = child + 1
        if right < size and (
            distances[right] > distances[child] or (distances[right] == distances[child] and ids[right] > ids[child])
        ):
            child = right
        if distances[child] < distance or (distances[child] == distance and ids[child] < id):
            break
        distances[hole] = distances[child]
        ids[hole] = ids[child]
        hole = child
    distances[hole] = distance
    ids[hole] = id


@kernel(inner=True)
def _unwind(distances: Any, ids: Any) -> None:
    """Sort a heap: the worst goes to the end, then the next."""
    for size in range(ids.shape[0] - 1, 0, -1):
        distances[0], distances[size] = distances[size], distances[0]
        ids[0], ids[size] = ids[size], ids[0]
        _sift_down(distances, ids, size)


@kernel(inner=True)
def _start(nearest: Any, n_bits: int, best: Any, best_ids: Any) -> None:
    """Fill a heap with places that any row within the bound takes; the bound is far if there are fewer than k tiles."""
    bound = float(FAR)
    if best.shape[0] <= nearest.shape[0]:
        bound, step = float(n_bits), float(n_bits)
        while step > _BOUND_PRECISION:
            step /= 2
            best[0] = bound - step  # rounded down where distances are integers
            limit, n_within = best[0], 0
            for i in range(nearest.shape[0]):
                n_within += nearest[i] <= limit
            if n_within >= best.shape[0]:
                bound -= step
    for i in range(best.shape[0]):
        best[i] = bound
        best_ids[i] = NO_ID


@kernel(inner=True)
def _is_masked(id: int, mask: Any, base: int) -> bool:
    """Return whether a mask of the ids from ``base`` on leaves an id out; an empty mask leaves out none."""
    place = id - base
    return mask.shape[0] > 0 and (place < 0 or place >= mask.shape[0] or mask[place] == 0)


@kernel(inner=True)
def _mixed(z: Any) -> Any:
    """Return the next number of splitmix64, for an unsigned integer of 64 bits or an array of them."""
    z = z + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def mixed(ids: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the hash of every id, an integer of 64 bits that no other id has."""
    hashes: NDArray[np.int64] = _mixed.py_func(ids.view(np.uint64)).view(np.int64)
    return hashes


def unmixed(hashes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the ids of hashes."""
    z: Any = hashes.view(np.uint64)
    z = (z ^ (z >> 31) ^ (z >> 62)) * _INVERSE_OF_LAST
    z = (z ^ (z >> 27) ^ (z >> 54)) * _INVERSE_OF_FIRST
    found: NDArray[np.int64] = ((z ^ (z >> 30) ^ (z >> 60)) - np.uint64(0x9E3779B97F4A7C15)).view(np.int64)
    return found


@kernel()
def top_k(
    queries: Any, words: Any, ids: Any, ordered: bool, mask: Any, base: int, hashed: bool,
    nearest: Any, buffer: Any, out_distances: Any, out_ids: Any,
) -> None:  # fmt: skip
    """Find the k nearest items of each query that a mask leaves, ties by id; the largest integer where there are fewer.

    Where ``hashed``, ties are ordered by a hash of the id, and ``out_ids`` are the hashes. A heap of the k best so far
    keeps the worst of them on top. Where ``ordered`` says that ids rise with the row, a tile of later rows at the same
    distance cannot win.
    """
    n_bits = 8 * words.shape[1] * words.itemsize
    tile_size = buffer.shape[0]
    k = out_ids.shape[1]
    for q in range(queries.shape[0]):
        best, best_ids = out_distances[q], out_ids[q]
        _start(nearest[q] if mask.shape[0] == 0 else nearest[q, :0], n_bits, best, best_ids)
        for tile in range(nearest.shape[1]):
            start = tile * tile_size
            if nearest[q, tile] > best[0]:
                continue
            if ordered and not hashed and nearest[q, tile] == best[0] and ids[start] > best_ids[0]:
                continue
            rows = words[start : start + tile_size]
            distances(queries[q], rows, buffer)
            for part in range(0, rows.shape[0], _ROWS_PER_PART):
                last = part + _ROWS_PER_PART if part + _ROWS_PER_PART < rows.shape[0] else rows.shape[0]
                bound = best[0]
                if _lowest(buffer[part:last]) > bound:
                    continue
                for i in range(part, last):
                    distance = buffer[i]
                    if distance > bound:
                        continue
                    id = ids[start + i]
                    key = np.int64(_mixed(np.uint64(id))) if hashed else id
                    if (distance == bound and key > best_ids[0]) or _is_masked(id, mask, base):
                        continue
                    best[0] = distance
                    best_ids[0] = key
                    _sift_down(best, best_ids, k)
                    bound = best[0]
        _unwind(best, best_ids)
