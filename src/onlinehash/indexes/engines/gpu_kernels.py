"""CUDA kernels of :class:`GpuIndex`: scans that write a key for every item that is near enough.

A key is the number of the query, the distance and the row, from the high bits to the low ones: sorted keys are the
nearest items of every query, ties by row. Codes are rows of ``W`` 32-bit words, and the array of codes is long enough
for whole tiles of 64 rows.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from onlinehash.exceptions import needs_extra

with needs_extra("cupy", "gpu"):
    import cupy

__all__ = ["SHIFT", "TILE", "cupy", "has_tensor_cores", "most_queries", "n_multiprocessors", "scan", "scan_asymmetric"]

TILE = 64
"""Rows that a scan reads together; it starts at a multiple of them."""

SHIFT = 41
"""Bits below the number of the query in a key: 9 of a Hamming distance, 32 of a row."""

_THREADS = 256
_BLOCKS = 128  # per multiprocessor: where one waits for keys to be written, others go on
_BLOCKS_WITH_TABLE = 32  # fewer, where each loads a table first

_SOURCE = r"""
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

#define GROUP (W == 1 ? 4 : W == 2 ? 2 : 1)  // codes in one load of 16 bytes
#define WORDS (GROUP * W)

struct Group { u32 w[WORDS]; };

__device__ __forceinline__ Group load(const u32* codes, i64 group) {
    Group g;
#if W == 1 || W % 2 == 0 && W % 4 != 2 || W == 2
    const uint4* from = (const uint4*)codes + group * (WORDS / 4);
#pragma unroll
    for (int j = 0; j < WORDS / 4; ++j) {
        const uint4 x = __ldg(from + j);
        g.w[4 * j] = x.x; g.w[4 * j + 1] = x.y; g.w[4 * j + 2] = x.z; g.w[4 * j + 3] = x.w;
    }
#else
#pragma unroll
    for (int j = 0; j < WORDS; ++j) g.w[j] = __ldg(codes + group * WORDS + j);
#endif
    return g;
}

// What a scan looks for, and where it writes. With ids, items at the bound count if their id is below the limit.
struct Wanted {
    const int* bound; const i64* limit; const i64* ids; u64* out; i64 capacity; u64* count;
};

__device__ __forceinline__ int most(const Wanted& wanted, int q) {
    return wanted.ids ? wanted.bound[q] : wanted.bound[q] - 1;
}

__device__ __noinline__ void keep(const Wanted wanted, int q, int distance, i64 row) {
    if (wanted.ids && distance == wanted.bound[q] && wanted.ids[row] >= wanted.limit[q]) return;
    const u32 here = __activemask();  // one addition for all threads that are here
    const u32 lane = threadIdx.x % 32;
    const int leader = __ffs(here) - 1;
    u64 at = 0;
    if (lane == leader) at = atomicAdd(wanted.count, (u64)__popc(here));
    at = __shfl_sync(here, at, leader) + __popc(here & ((1u << lane) - 1));
    if (at < wanted.capacity) wanted.out[at] = ((u64)q << 41) | ((u64)(u32)distance << 32) | (u64)row;
}

// Q queries in registers, against every code: xor and count bits.
extern "C" __global__ void __launch_bounds__(256) scan(
    const u32* codes, i64 first, i64 last, const u32* queries, int q0, int n_queries,
    const int* bound, const i64* limit, const i64* ids, u64* out, i64 capacity, u64* count) {
    const Wanted wanted = {bound, limit, ids, out, capacity, count};
    u32 query[Q][W];
    int far[Q];
#pragma unroll
    for (int q = 0; q < Q; ++q) {
        const bool is_one = q0 + q < n_queries;
        far[q] = is_one ? most(wanted, q0 + q) : -1;
#pragma unroll
        for (int w = 0; w < W; ++w) query[q][w] = is_one ? queries[(q0 + q) * W + w] : 0;
    }
    const i64 stop = (last + GROUP - 1) / GROUP;
    const i64 step = (i64)gridDim.x * blockDim.x;
    for (i64 i = first / GROUP + (i64)blockIdx.x * blockDim.x + threadIdx.x; i < stop; i += AHEAD * step) {
        Group g[AHEAD];
#pragma unroll
        for (int a = 0; a < AHEAD; ++a) g[a] = load(codes, i + a * step < stop ? i + a * step : i);
#pragma unroll
        for (int a = 0; a < AHEAD; ++a) {
#pragma unroll
            for (int r = 0; r < GROUP; ++r) {
#pragma unroll
                for (int q = 0; q < Q; ++q) {
                    int distance = 0;
#pragma unroll
                    for (int w = 0; w < W; ++w) distance += __popc(g[a].w[r * W + w] ^ query[q][w]);
                    if (distance <= far[q]) {
                        const i64 row = (i + a * step) * GROUP + r;
                        if (row < last) keep(wanted, q0 + q, distance, row);
                    }
                }
            }
        }
    }
}

// One query as a table of what each value of each byte adds, summed in the order of the host.
extern "C" __global__ void __launch_bounds__(256) scan_asymmetric(
    const u32* codes, i64 first, i64 last, const float* tables,
    const int* bound, const i64* limit, const i64* ids, u64* out, i64 capacity, u64* count) {
    __shared__ float table[N_BYTES * 256];
    for (int i = threadIdx.x; i < N_BYTES * 256; i += blockDim.x) table[i] = tables[i];
    __syncthreads();
    const Wanted wanted = {bound, limit, ids, out, capacity, count};
    const int far = most(wanted, 0);
    const i64 step = (i64)gridDim.x * blockDim.x;
    for (i64 row = first + (i64)blockIdx.x * blockDim.x + threadIdx.x; row < last; row += step) {
        float sum = 0.0f;
#pragma unroll
        for (int w = 0; w < W; ++w) {
            const u32 word = __ldg(codes + row * W + w);
            float part[4];
#pragma unroll
            for (int b = 0; b < 4; ++b)
                part[b] = 4 * w + b < N_BYTES ? table[(4 * w + b) * 256 + ((word >> 8 * b) & 255)] : 0.0f;
            if (4 * w + 3 < N_BYTES) {
                sum = __fadd_rn(sum, __fadd_rn(__fadd_rn(part[0], part[1]), __fadd_rn(part[2], part[3])));
            } else {
#pragma unroll
                for (int b = 0; b < 4; ++b) sum = __fadd_rn(sum, part[b]);
            }
        }
        const int distance = __float_as_int(sum);
        if (distance <= far) keep(wanted, 0, distance, row);
    }
}

#if __CUDA_ARCH__ >= 800
#define ROW_TILES (W <= 4 ? 4 : 2)  // of 16 rows, that a warp multiplies with the same queries
#define ITEMS (2 * W + 2)

// D = A B + C for 16 rows, 8 queries and 32 bits: A holds bits as 0 and 1, B queries as +1 and -1.
__device__ __forceinline__ void multiply(int* d, const u32* a, u32 b0, u32 b1, int c0, int c1, int c2, int c3) {
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"
        : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "r"(c0), "r"(c1), "r"(c2), "r"(c3));
}

// Many queries at once, by the tensor cores. The distance is popcount(q) + sum over the set bits of a code of 1 - 2 q.
// Sums start at popcount(q) - far - 1, so that an item is near enough if its sum is negative.
extern "C" __global__ void __launch_bounds__(256, 2) scan_tensor(
    const u32* codes, i64 first, i64 last, const u32* queries, int n_queries,
    const int* bound, const i64* limit, const i64* ids, u64* out, i64 capacity, u64* count) {
    extern __shared__ u32 shared[];  // (query group, item, lane)
    const Wanted wanted = {bound, limit, ids, out, capacity, count};
    const int lane = threadIdx.x % 32, across = lane / 4, along = lane % 4;
    const int n_groups = (n_queries + 7) / 8;
    for (int at = threadIdx.x / 32; at < n_groups * ITEMS; at += blockDim.x / 32) {
        const int group = at / ITEMS, item = at % ITEMS;
        u32 value;
        if (item < 2 * W) {  // four bits of a query, as bytes +1 and -1; bit 8 j + s goes to byte j
            const int q = group * 8 + across;
            const u32 word = q < n_queries ? queries[q * W + item / 2] : 0;
            const u32 bits = (word >> (along + 4 * (item % 2))) & 0x01010101u;
            value = 0x01010101u ^ (bits * 0xFEu);
        } else {
            const int q = group * 8 + 2 * along + item - 2 * W;
            int start = 1 << 20;
            if (q < n_queries) {
                start = -most(wanted, q) - 1;
                for (int w = 0; w < W; ++w) start += __popc(queries[q * W + w]);
            }
            value = (u32)start;
        }
        shared[at * 32 + lane] = value;
    }
    __syncthreads();
    const i64 warps = (i64)gridDim.x * (blockDim.x / 32), rows = 16 * ROW_TILES;
    i64 base = first + ((i64)blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32) * rows;
    u32 next[ROW_TILES][2][W];
    if (base < last) {
#pragma unroll
        for (int t = 0; t < ROW_TILES; ++t)
#pragma unroll
            for (int h = 0; h < 2; ++h)
#pragma unroll
                for (int w = 0; w < W; ++w) next[t][h][w] = __ldg(codes + (base + 16 * t + 8 * h + across) * W + w);
    }
    for (; base < last; base += warps * rows) {
        u32 bits[ROW_TILES][W][4];
#pragma unroll
        for (int t = 0; t < ROW_TILES; ++t)
#pragma unroll
            for (int w = 0; w < W; ++w)
#pragma unroll
                for (int j = 0; j < 4; ++j)
                    bits[t][w][j] = (next[t][j % 2][w] >> (along + 4 * (j / 2))) & 0x01010101u;
        const i64 ahead = base + warps * rows;
        if (ahead < last) {
#pragma unroll
            for (int t = 0; t < ROW_TILES; ++t)
#pragma unroll
                for (int h = 0; h < 2; ++h)
#pragma unroll
                    for (int w = 0; w < W; ++w)
                        next[t][h][w] = __ldg(codes + (ahead + 16 * t + 8 * h + across) * W + w);
        }
        for (int group = 0; group < n_groups; ++group) {
            const u32* items = shared + group * ITEMS * 32 + lane;
            u32 b[2 * W];
#pragma unroll
            for (int j = 0; j < 2 * W; ++j) b[j] = items[j * 32];
            const int start0 = (int)items[2 * W * 32], start1 = (int)items[(2 * W + 1) * 32];
            int sums[ROW_TILES][4];
            int any = 0;
#pragma unroll
            for (int t = 0; t < ROW_TILES; ++t) {
                int* d = sums[t];
                multiply(d, bits[t][0], b[0], b[1], start0, start1, start0, start1);
#pragma unroll
                for (int w = 1; w < W; ++w) multiply(d, bits[t][w], b[2 * w], b[2 * w + 1], d[0], d[1], d[2], d[3]);
                any |= d[0] | d[1] | d[2] | d[3];
            }
            if (any < 0) {
#pragma unroll
                for (int t = 0; t < ROW_TILES; ++t)
#pragma unroll
                    for (int e = 0; e < 4; ++e)
                        if (sums[t][e] < 0) {
                            const int q = group * 8 + 2 * along + e % 2;
                            const i64 row = base + 16 * t + across + 8 * (e / 2);
                            if (row < last) keep(wanted, q, sums[t][e] + most(wanted, q) + 1, row);
                        }
            }
            __syncwarp();
        }
    }
}
#endif
"""


@cache
def _kernel(name: str, n_words: int, n_bytes: int, n_queries: int, device: int) -> Any:
    """Return a compiled kernel for codes of a width."""
    ahead = 4 if n_queries == 1 and n_words <= 4 else 1
    options = (f"-DW={n_words}", f"-DN_BYTES={n_bytes}", f"-DQ={n_queries}", f"-DAHEAD={ahead}", "--std=c++17")
    return cupy.RawModule(code=_SOURCE, options=options).get_function(name)


@cache
def n_multiprocessors(device: int) -> int:
    """Return how many multiprocessors a device has."""
    return int(cupy.cuda.Device(device).attributes["MultiProcessorCount"])


def has_tensor_cores() -> bool:
    """Return whether the tensor cores of the current device multiply 8-bit integers as the kernel needs."""
    return int(cupy.cuda.Device().compute_capability) >= 80


def most_queries(n_words: int) -> int:
    """Return how many queries fit into the shared memory of one scan."""
    return 256 if n_words <= 4 else 128


def scan(words: Any, first: int, last: int, queries: Any, wanted: tuple[Any, ...], *, tensor: bool) -> None:
    """Write the keys of rows from ``first`` to ``last`` that are near enough to queries.

    ``wanted`` are the bound and the limit of every query, the ids or 0, the keys to write, how many there is room for,
    and how many were found, which may be more.
    """
    (n_queries, n_words), n_rows = queries.shape, last - first
    device = cupy.cuda.Device().id
    if tensor:
        kernel = _kernel("scan_tensor", n_words, 1, 1, device)
        most = _BLOCKS_WITH_TABLE * n_multiprocessors(device)
        blocks = min(most, -(-n_rows // (TILE // 2 * _THREADS // 32)))
        shared = -(-n_queries // 8) * (2 * n_words + 2) * 32 * 4
        kernel((blocks,), (_THREADS,), (words, first, last, queries, _int(n_queries), *wanted), shared_mem=shared)
        return
    at_once = 1 if n_queries == 1 else 16 if n_words <= 2 else 4
    kernel = _kernel("scan", n_words, 1, at_once, device)
    blocks = min(_BLOCKS * n_multiprocessors(device), -(-n_rows // _THREADS))
    for start in range(0, n_queries, at_once):
        kernel((blocks,), (_THREADS,), (words, first, last, queries, _int(start), _int(n_queries), *wanted))


def scan_asymmetric(words: Any, first: int, last: int, table: Any, wanted: tuple[Any, ...]) -> None:
    """Write the keys of rows whose asymmetric distance to one query, given as a table, is small enough."""
    device = cupy.cuda.Device().id
    kernel = _kernel("scan_asymmetric", words.shape[1], table.shape[0], 1, device)
    blocks = min(_BLOCKS_WITH_TABLE * n_multiprocessors(device), -(-(last - first) // _THREADS))
    kernel((blocks,), (_THREADS,), (words, first, last, table, *wanted))


def _int(value: int) -> Any:
    return cupy.int32(value)
