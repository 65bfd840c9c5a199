"""As much of CuPy as GpuIndex asks for, made of NumPy, and its kernels written in NumPy: for machines without a GPU."""

import sys
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType, SimpleNamespace

import numpy as np

_MODULES = ("onlinehash.indexes.engines.gpu", "onlinehash.collection.engines.gpu")
_NAMES = (
    *("arange", "asarray", "ascontiguousarray", "concatenate", "empty", "full", "int32", "lexsort", "ndarray"),
    *("searchsorted", "sort", "stack"),
)


@contextmanager
def stand_in():
    """Give the modules of GpuIndex a stand-in for CuPy, and kernels of NumPy."""
    cupy = ModuleType("cupy")
    for name in _NAMES:
        setattr(cupy, name, getattr(np, name))
    cupy.asnumpy = np.asarray
    cupy.zeros = lambda *given: np.zeros(*given).view(_Array)
    cupy.cuda = SimpleNamespace(
        runtime=SimpleNamespace(getDeviceCount=lambda: 1),
        Device=_Device,
        alloc_pinned_memory=bytearray,
        get_current_stream=lambda: SimpleNamespace(synchronize=lambda: None),
    )
    before = {name: sys.modules.pop(name, None) for name in ("cupy", *_MODULES)}
    sys.modules["cupy"] = cupy
    try:
        gpu = import_module(_MODULES[0])
        gpu.scan, gpu.scan_asymmetric, gpu.take_nearest = scan, scan_asymmetric, take_nearest
        gpu.find_bound = lambda *given: find_bound(gpu.sample, *given)
        yield gpu
    finally:
        for name, module in before.items():
            sys.modules.pop(name, None)
            if module is not None:
                sys.modules[name] = module


class _Array(np.ndarray):
    def set(self, values):
        self[...] = values


class _Device:
    compute_capability = "90"


def scan(words, queries, tensor, first, last, wanted):
    differing = words[None, first:last] ^ queries[:, None]
    _keep(np.bitwise_count(differing).sum(axis=2).astype(np.int64), first, wanted)


def scan_asymmetric(words, table, first, last, wanted):
    codes = np.ascontiguousarray(words[first:last]).view(np.uint8)[:, : len(table)]
    out = np.zeros(len(codes), np.float32)
    for b in range(0, len(table) - len(table) % 4, 4):
        t = [table[b + i][codes[:, b + i]] for i in range(4)]
        out += (t[0] + t[1]) + (t[2] + t[3])
    for b in range(len(table) - len(table) % 4, len(table)):
        out += table[b][codes[:, b]]
    _keep(out.view(np.int32).astype(np.int64)[None], first, wanted)


def find_bound(sample, chosen, k, single):
    words, ids, n_items, ordered = chosen
    n_first, n_spread, stride = sample(n_items, k)
    over = np.arange(n_spread)
    rows = np.concatenate([np.arange(n_first), n_first + over // 64 * 64 * stride + over % 64])
    assert len(set(rows)) == n_first + n_spread
    assert rows.max() < n_items
    distances = np.bitwise_count(words[rows] ^ single.query).sum(axis=1)
    bound = np.sort(distances)[k - 1]
    if ordered and n_first < n_items and (distances[:n_first] <= bound).sum() >= k and bound < 32 * words.shape[1]:
        single.bound[0], single.limit[0] = bound, ids[n_first]
    else:
        single.bound[0], single.limit[0] = bound + 1, -(2**63)


def take_nearest(single, ids, k):
    count = int(single.count[0])
    found = single.keys[:count] if count <= len(single.keys) else single.keys[:0]
    distances = found >> np.uint64(32)
    near = found[distances <= np.sort(distances)[k - 1]] if len(found) else found
    single.out[:2] = len(near), count
    single.out[2 : 2 + 2 * len(near) : 2] = near
    single.out[3 : 2 + 2 * len(near) : 2] = ids[(near & np.uint64(2**32 - 1)).astype(np.int64)].view(np.uint64)
    single.count[0], single.sampled[:] = 0, 0


def _keep(distances, first, wanted):
    bound, limit, ids, out, room, count = wanted
    near = distances < bound[:, None]
    if not isinstance(ids, int):
        near |= (distances == bound[:, None]) & (ids[first : first + distances.shape[1]] < limit[:, None])
    q, row = np.nonzero(near)
    keys = (q.astype(np.uint64) << np.uint64(41)) | (distances[q, row].astype(np.uint64) << np.uint64(32))
    keys |= (row + first).astype(np.uint64)
    np.random.default_rng(0).shuffle(keys)  # threads write in any order
    start = int(count[0])
    n_kept = max(0, min(room - start, len(keys)))
    out[start : start + n_kept] = keys[:n_kept]
    count[0] += len(keys)
