// CUDA kernels of GpuIndex. The first ones scan codes and write a key for every item that is near enough.
//
// A key is the number of the query, the distance and the row, from the high bits to the low ones: sorted keys are the
// nearest items of every query, ties by row. Codes are rows of W 32-bit words, and the array of codes is long enough for
// whole tiles of 64 rows. N_BYTES is the length of a code, Q the number of queries in registers, and AHEAD the number of
// loads under way.

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

// The last ones find the nearest items of one query in one scan of all codes. The distances to a sample of the rows are
// counted, the k-th smallest of them bounds what the scan keeps, and of that only the k nearest and their ties are
// written, to memory of the host. The host waits once, at the end.

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
