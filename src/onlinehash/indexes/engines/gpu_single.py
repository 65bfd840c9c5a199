"""The nearest items of one query on a GPU, in one scan of all codes and one copy to the host.

The distances to a sample of the rows are counted, the k-th smallest of them bounds what the scan keeps, and of that
only the k nearest and their ties leave the GPU. Nothing waits for the host in between.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from onlinehash.indexes.engines import gpu_kernels as kernels
from onlinehash.indexes.engines.gpu_kernels import TILE, cupy
from onlinehash.types import Distances, Ids

__all__ = ["MOST_NEIGHBOURS", "find_bound", "nearest", "take_nearest"]

MOST_NEIGHBOURS = 256
"""The largest k for which one scan is enough."""

_ALL = 1 << 18  # up to this many items, the distances to all are counted
_LEAST = 1 << 16  # rows in each part of a sample
_ROOM = 1 << 20  # keys that the scan may write
_MOST_KEYS = 1 << 16  # keys that one block looks through
_SENT = 1 << 11  # items copied to the host together with their number

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
extern "C" __global__ void __launch_bounds__(1024) take_nearest(
    const u64* keys, const u64* count, i64 most_keys, const i64* ids, i64 k, u64* out) {
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
    }
}
"""


@cache
def _kernel(name: str, n_words: int, device: int) -> Any:
    """Return a compiled kernel for codes of a width."""
    return cupy.RawModule(code=_SOURCE, options=(f"-DW={n_words}", "--std=c++17")).get_function(name)


def find_bound(words: Any, ids: Any, n_items: int, query: Any, k: int, *, ordered: bool) -> tuple[Any, Any]:
    """Return the bound and the limit for a scan that keeps at least k items, and not many more."""
    n_first, n_spread, stride = sample(n_items)
    n_words, device = words.shape[1], cupy.cuda.Device().id
    counts = cupy.zeros(2 * (32 * n_words + 1), np.uint32)
    bound, limit = cupy.empty(1, np.int32), cupy.empty(1, np.int64)
    blocks = min(8 * kernels.n_multiprocessors(device), -(-(n_first + n_spread) // 256))
    given = (words, n_first, n_spread, stride, query, counts)
    _kernel("count_distances", n_words, device)((blocks,), (256,), given)
    is_limited = cupy.int32(ordered and n_first < n_items)
    _kernel("find_bound", n_words, device)((1,), (256,), (counts, k, ids, n_first, is_limited, bound, limit))
    return bound, limit


def sample(n_items: int) -> tuple[int, int, int]:
    """Return the numbers of rows at the start and in spread tiles whose distances are counted, and tiles per tile."""
    if n_items <= _ALL:
        return n_items, 0, 1
    n_first, n_spread = (max(_LEAST, n_items // part // TILE * TILE) for part in (1024, 64))
    return n_first, n_spread, (n_items // TILE - n_first // TILE) // (n_spread // TILE)


def take_nearest(keys: Any, count: Any, ids: Any, n_words: int, k: int) -> Any:
    """Return how many items are as near as the k-th, how many keys there are, and the key and the id of each item."""
    out, most_keys = cupy.empty(2 + 2 * _MOST_KEYS, np.uint64), min(_MOST_KEYS, len(keys))
    kernel = _kernel("take_nearest", n_words, cupy.cuda.Device().id)
    kernel((1,), (1024,), (keys, count, most_keys, ids, k, out))
    return out


def nearest(words: Any, ids: Any, n_items: int, query: Any, k: int, *, ordered: bool) -> tuple[Ids, Distances] | None:
    """Return the ids and distances of the k nearest items of one query, or None if too many are as near as they."""
    bound, limit = find_bound(words, ids, n_items, query, k, ordered=ordered)
    keys, count = cupy.empty(min(_ROOM, n_items), np.uint64), cupy.zeros(1, np.uint64)
    kernels.scan(words, 0, n_items, query, (bound, limit, ids, keys, len(keys), count), tensor=False)
    out = take_nearest(keys, count, ids, words.shape[1], k)
    taken = cupy.asnumpy(out[: 2 + 2 * _SENT])
    n_taken, n_keys = taken[:2].tolist()
    if n_keys > min(_MOST_KEYS, len(keys)):
        return None
    if n_taken > _SENT:
        taken = cupy.asnumpy(out[: 2 + 2 * n_taken])
    found_ids, distances = (
        taken[3 : 2 + 2 * n_taken : 2].view(np.int64),
        taken[2 : 2 + 2 * n_taken : 2] >> np.uint64(32),
    )
    order = np.lexsort((found_ids, distances))[:k]
    return found_ids[order], distances[order].astype(np.int32)
