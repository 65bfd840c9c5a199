"""The nearest items of one query on a GPU, in one scan of all codes.

The distances to a sample of the rows are counted, the k-th smallest of them bounds what the scan keeps, and of that
only the k nearest and their ties are written, to memory of the host. The host waits once, at the end.
"""

from __future__ import annotations

from functools import cache
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinehash.indexes.engines import gpu_kernels as kernels
from onlinehash.indexes.engines.gpu_kernels import TILE, cupy
from onlinehash.types import Distances, Ids

__all__ = ["MOST_NEIGHBOURS", "SingleSearch", "find_bound", "take_nearest"]

MOST_NEIGHBOURS = 256
"""The largest k for which one scan is enough."""

_ALL = 1 << 18  # up to this many items, the distances to all are counted
_LEAST = 1 << 16  # rows in each part of a sample
_MOST_KEYS = 1 << 16  # keys that the scan may write, which one block looks through
_EXPECTED = 1 << 13  # keys within the bound that a sample gives, on average

_SOURCE = r"""
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

#define BINS (32 * W + 1)

// The least distance within which k items were counted.
__device__ __forceinline__ int least(const u32* counts, i64 k) {
    i64 n = 0;
    int d = 0;
    while (d < BINS - 1 && (n += counts[d]) < k) ++d;
    return d;
}

// Counts the distances to the first rows, and to tiles of 64 rows spread over the others.
extern "C" __global__ void __launch_bounds__(256) count_distances(
    const u32* codes, i64 n_first, i64 n_spread, i64 stride, const u32* query, u32* counts) {
    __shared__ u32 here[2 * BINS];
    for (int i = threadIdx.x; i < 2 * BINS; i += blockDim.x) here[i] = 0;
    __syncthreads();
    const i64 step = (i64)gridDim.x * blockDim.x;
#pragma unroll 4
    for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < n_first + n_spread; i += step) {
        const i64 over = i - n_first;
        const i64 row = over < 0 ? i : n_first + over / 64 * 64 * stride + over % 64;
        int distance = 0;
#pragma unroll
        for (int w = 0; w < W; ++w) distance += __popc(__ldg(codes + row * W + w) ^ __ldg(query + w));
        atomicAdd(here + (over < 0 ? 0 : BINS) + distance, 1u);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < 2 * BINS; i += blockDim.x)
        if (here[i]) atomicAdd(counts + i, here[i]);
}

// Items nearer than the bound count, and those at the bound whose id is below the limit. Where ids rise with the row
// and the first rows hold k items within the bound, later items at the bound cannot win.
extern "C" __global__ void find_bound(
    const u32* counts, i64 k, const i64* ids, i64 n_first, int ordered, int* bound, i64* limit) {
    __shared__ u32 first[BINS], all[BINS];
    for (int i = threadIdx.x; i < BINS; i += blockDim.x) {
        first[i] = counts[i];
        all[i] = counts[i] + counts[BINS + i];
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        const int d = least(all, k);
        const bool is_enough = ordered && least(first, k) <= d && d < BINS - 1;
        *bound = is_enough ? d : d + 1;
        *limit = is_enough ? ids[n_first] : (i64)(1ull << 63);
    }
}

// By one block. Writes how many items are as near as the k-th, how many keys there were, and the key and id of each.
// Counts are zero afterwards, for the next query.
extern "C" __global__ void __launch_bounds__(1024) take_nearest(
    const u64* keys, u64* count, i64 most_keys, const i64* ids, i64 k, u32* sampled, u64* out) {
    __shared__ u32 counts[BINS];
    __shared__ u32 n_taken;
    __shared__ int farthest;
    const i64 n_keys = (i64)*count <= most_keys ? (i64)*count : 0;
    if (threadIdx.x == 0) n_taken = 0;
    for (int i = threadIdx.x; i < BINS; i += blockDim.x) counts[i] = 0;
    __syncthreads();
    for (i64 i = threadIdx.x; i < n_keys; i += blockDim.x) atomicAdd(counts + (keys[i] >> 32), 1u);
    __syncthreads();
    if (threadIdx.x == 0) farthest = least(counts, k);
    __syncthreads();
    for (i64 i = threadIdx.x; i < n_keys; i += blockDim.x) {
        const u64 key = keys[i];
        if ((int)(key >> 32) > farthest) continue;
        const u32 at = atomicAdd(&n_taken, 1u);
        out[2 + 2 * at] = key;
        out[3 + 2 * at] = (u64)ids[(u32)key];
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        out[0] = n_taken;
        out[1] = *count;
        *count = 0;
    }
    for (int i = threadIdx.x; i < 2 * BINS; i += blockDim.x) sampled[i] = 0;
}
"""


@cache
def _kernel(name: str, n_words: int, device: int) -> Any:
    """Return a compiled kernel for codes of a width."""
    return cupy.RawModule(code=_SOURCE, options=(f"-DW={n_words}", "--std=c++17")).get_function(name)


class Room:
    """What the kernels of one search at a time read and write; counts are zero between searches."""

    def __init__(self, n_words: int) -> None:
        self.query = cupy.zeros((1, n_words), np.uint32)
        self.sampled = cupy.zeros(2 * (32 * n_words + 1), np.uint32)
        self.bound, self.limit = cupy.zeros(1, np.int32), cupy.zeros(1, np.int64)
        self.keys, self.count = cupy.zeros(_MOST_KEYS, np.uint64), cupy.zeros(1, np.uint64)
        self.given: NDArray[np.uint32] = _on_host(n_words, np.uint32)
        self.out: NDArray[np.uint64] = _on_host(2 + 2 * _MOST_KEYS, np.uint64)


def _on_host(size: int, dtype: Any) -> NDArray[Any]:
    """Return zeros in memory of the host that the GPU reads and writes."""
    array: NDArray[Any] = np.frombuffer(cupy.cuda.alloc_pinned_memory(size * np.dtype(dtype).itemsize), dtype, size)
    array[:] = 0
    return array


class SingleSearch:
    """Searches for one query, one at a time.

    Parameters
    ----------
    n_words : int
        Words of 32 bits per code.
    """

    def __init__(self, n_words: int) -> None:
        self._n_words, self._lock = n_words, Lock()
        self._room: Room | None = None

    def nearest(
        self, words: Any, ids: Any, n_items: int, query: NDArray[np.uint8], k: int, *, ordered: bool
    ) -> tuple[Ids, Distances] | None:
        """Return the ids and distances of the k nearest items of a query, or None if too many are as near as they."""
        with self._lock:
            room = self._room = self._room or Room(self._n_words)
            room.given.view(np.uint8)[: len(query)] = query
            room.query.set(room.given[None])
            find_bound(words, ids, n_items, k, room, ordered=ordered)
            wanted = room.bound, room.limit, ids, room.keys, len(room.keys), room.count
            kernels.scan(words, 0, n_items, room.query, wanted, tensor=False)
            take_nearest(room, ids, k)
            cupy.cuda.get_current_stream().synchronize()
            n_taken, n_keys = room.out[:2].tolist()
            if n_keys > len(room.keys):
                return None
            taken = room.out[2 : 2 + 2 * n_taken].reshape(-1, 2).copy()
        found_ids, distances = taken[:, 1].view(np.int64), taken[:, 0] >> np.uint64(32)
        order = np.lexsort((found_ids, distances))[:k]
        return found_ids[order], distances[order].astype(np.int32)


def find_bound(words: Any, ids: Any, n_items: int, k: int, room: Room, *, ordered: bool) -> None:
    """Find the bound and the limit for a scan that keeps at least k items, and not many more."""
    n_first, n_spread, stride = sample(n_items, k)
    n_words, device = words.shape[1], cupy.cuda.Device().id
    blocks = min(8 * kernels.n_multiprocessors(device), -(-(n_first + n_spread) // 256))
    given = (words, n_first, n_spread, stride, room.query, room.sampled)
    _kernel("count_distances", n_words, device)((blocks,), (256,), given)
    is_limited = cupy.int32(ordered and n_first < n_items)
    found = (room.sampled, k, ids, n_first, is_limited, room.bound, room.limit)
    _kernel("find_bound", n_words, device)((1,), (256,), found)


def sample(n_items: int, k: int) -> tuple[int, int, int]:
    """Return the numbers of rows at the start and in spread tiles whose distances are counted, and tiles per tile."""
    if n_items <= _ALL:
        return n_items, 0, 1
    n_first, n_spread = (max(_LEAST, some // TILE * TILE) for some in (n_items // 1024, n_items * k // _EXPECTED))
    return n_first, n_spread, (n_items // TILE - n_first // TILE) // (n_spread // TILE)


def take_nearest(room: Room, ids: Any, k: int) -> None:
    """Write how many items are as near as the k-th, how many keys there are, and the key and the id of each item."""
    kernel = _kernel("take_nearest", room.query.shape[1], cupy.cuda.Device().id)
    out = room.out.ctypes.data
    kernel((1,), (1024,), (room.keys, room.count, len(room.keys), ids, k, room.sampled, out))
