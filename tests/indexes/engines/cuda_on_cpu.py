"""The CUDA kernels of GpuIndex, compiled by the C++ compiler of this machine: a thread for every thread of a warp."""

import ctypes
import re
import subprocess

import numpy as np

_BEFORE = r"""
#include <atomic>
#include <barrier>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>
#define __device__
#define __global__
#define __forceinline__ inline
#define __noinline__
#define __shared__
#define __CUDA_ARCH__ 900
struct Index { unsigned x; };
thread_local Index threadIdx, blockIdx;
Index blockDim{32}, gridDim{1};
struct uint4 { unsigned x, y, z, w; };
template <class T> T __ldg(const T* p) { return *p; }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline unsigned __activemask() { return 1u << (threadIdx.x % 32); }
template <class T> T __shfl_sync(unsigned, T value, int) { return value; }
inline unsigned long long atomicAdd(unsigned long long* p, unsigned long long value) {
    return std::atomic_ref<unsigned long long>(*p).fetch_add(value);
}
inline unsigned atomicAdd(unsigned* p, unsigned value) { return std::atomic_ref<unsigned>(*p).fetch_add(value); }
std::barrier all(32);
inline void __syncthreads() { all.arrive_and_wait(); }
inline void __syncwarp() { all.arrive_and_wait(); }
inline float __fadd_rn(float a, float b) { volatile float sum = a + b; return sum; }
inline int __float_as_int(float value) { int bits; memcpy(&bits, &value, 4); return bits; }
unsigned A[32][4], B[32][2];
// The fragments of mma.m16n8k32 for 8-bit integers, as the PTX manual lays them out.
void mma(int* d, const unsigned* a, unsigned b0, unsigned b1, int c0, int c1, int c2, int c3) {
    const int lane = threadIdx.x;
    memcpy(A[lane], a, 16); B[lane][0] = b0; B[lane][1] = b1;
    all.arrive_and_wait();
    int sums[4] = {c0, c1, c2, c3};
    for (int i = 0; i < 4; i++) {
        const int row = lane / 4 + (i < 2 ? 0 : 8), column = lane % 4 * 2 + i % 2;
        for (int k = 0; k < 32; k++) {
            const unsigned left = A[row % 8 * 4 + k % 16 / 4][(row >= 8) + 2 * (k >= 16)];
            const unsigned right = B[column * 4 + k % 16 / 4][k >= 16];
            sums[i] += (int8_t)(left >> 8 * (k % 4)) * (int8_t)(right >> 8 * (k % 4));
        }
    }
    all.arrive_and_wait();
    memcpy(d, sums, 16);
}
"""
_AFTER = r"""
u32 shared[1 << 16];
template <class F> void run(unsigned blocks, F kernel) {
    gridDim.x = blocks;
    for (unsigned b = 0; b < blocks; b++) {
        std::vector<std::thread> threads;
        for (unsigned t = 0; t < 32; t++)
            threads.emplace_back([=] { threadIdx.x = t; blockIdx.x = b; kernel(); });
        for (auto& thread : threads) thread.join();
    }
}
#define REST const int* bound, const i64* limit, const i64* ids, u64* out, i64 room, u64* count
#define GIVEN bound, limit, ids, out, room, count
extern "C" void run_scan(const u32* codes, i64 first, i64 last, const u32* queries, int n, REST) {
    for (int q = 0; q < n; q += Q) run(3, [=] { scan(codes, first, last, queries, q, n, GIVEN); });
}
extern "C" void run_tensor(const u32* codes, i64 first, i64 last, const u32* queries, int n, REST) {
    run(3, [=] { scan_tensor(codes, first, last, queries, n, GIVEN); });
}
extern "C" void run_asymmetric(const u32* codes, i64 first, i64 last, const float* table, REST) {
    run(2, [=] { scan_asymmetric(codes, first, last, table, GIVEN); });
}
extern "C" void run_bound(const u32* codes, i64 n_first, i64 n_spread, i64 stride, const u32* query, u32* counts,
                          i64 k, const i64* ids, int ordered, int* bound, i64* limit) {
    run(3, [=] { count_distances(codes, n_first, n_spread, stride, query, counts); });
    run(1, [=] { find_bound(counts, k, ids, n_first, ordered, bound, limit); });
}
extern "C" void run_take(const u64* keys, u64* count, i64 most, const i64* ids, i64 k, u32* sampled, u64* out) {
    run(1, [=] { take_nearest(keys, count, most, ids, k, sampled, out); });
}
"""


class Kernels:
    """The kernels for one width of codes, as functions with the arguments of those of CuPy."""

    def __init__(self, source, folder, n_words, n_bytes, n_queries, ahead):
        source = re.sub(r'asm\("mma.*?\)\);', "mma(d, a, b0, b1, c0, c1, c2, c3);", source, flags=re.DOTALL)
        source = re.sub(r"__launch_bounds__\([^)]*\)", "", source).replace("    __shared__", "    static")
        (folder / "kernels.cpp").write_text(_BEFORE + source + _AFTER)
        sizes = f"-DW={n_words}", f"-DN_BYTES={n_bytes}", f"-DQ={n_queries}", f"-DAHEAD={ahead}"
        options = "-std=c++20", "-w", "-shared", "-fPIC", "-pthread", *sizes
        library = folder / f"kernels_{n_words}_{n_queries}.so"
        subprocess.run(["g++", *options, str(folder / "kernels.cpp"), "-o", str(library)], check=True)
        self._library = ctypes.CDLL(str(library))

    def scan(self, words, queries, tensor, first, last, wanted):
        function = self._library.run_tensor if tensor else self._library.run_scan
        _call(function, words, first, last, queries, ctypes.c_int(len(queries)), *wanted)

    def scan_asymmetric(self, words, table, first, last, wanted):
        _call(self._library.run_asymmetric, words, first, last, np.ascontiguousarray(table), *wanted)

    def find_bound(self, sample, chosen, k, single):
        words, ids, n_items, ordered = chosen
        n_first, n_spread, stride = sample(n_items, k)
        limited = ctypes.c_int(ordered and n_first < n_items)
        given = (
            words,
            n_first,
            n_spread,
            stride,
            single.query,
            single.sampled,
            k,
            ids,
            limited,
            single.bound,
            single.limit,
        )
        _call(self._library.run_bound, *given)

    def take_nearest(self, single, ids, k):
        _call(self._library.run_take, single.keys, single.count, len(single.keys), ids, k, single.sampled, single.out)


def _call(function, *arguments):
    pointers = []
    for argument in arguments:
        if isinstance(argument, np.ndarray):
            assert argument.flags.c_contiguous
            pointers.append(ctypes.c_void_p(argument.ctypes.data))
        else:
            pointers.append(ctypes.c_longlong(argument) if isinstance(argument, int) else argument)
    function(*pointers)
