"""As much of CuPy as GpuIndex asks for, made of NumPy, and its kernels written in NumPy: for machines without a GPU."""

import sys
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType, SimpleNamespace

import numpy as np

_MODULES = (
    "onlinehash.indexes.engines.gpu",
    "onlinehash.indexes.engines.gpu_kernels",
    "onlinehash.collection.engines.gpu",
)
_NAMES = (
    *("arange", "asarray", "ascontiguousarray", "concatenate", "empty", "full", "int32", "lexsort", "ndarray"),
    *("searchsorted", "sort", "stack", "zeros"),
)


@contextmanager
def stand_in(scans=None):
    """Give the modules of GpuIndex a stand-in for CuPy; ``scans`` are other kernels than those of NumPy."""
    cupy = ModuleType("cupy")
    for name in _NAMES:
        setattr(cupy, name, getattr(np, name))
    cupy.asnumpy = np.asarray
    cupy.cuda = SimpleNamespace(runtime=SimpleNamespace(getDeviceCount=lambda: 1), Device=_Device)
    before = {name: sys.modules.pop(name, None) for name in ("cupy", *_MODULES)}
    sys.modules["cupy"] = cupy
    try:
        kernels = import_module(_MODULES[1])
        kernels.scan, kernels.scan_asymmetric = scans or (scan, scan_asymmetric)
        yield import_module(_MODULES[0])
    finally:
        for name, module in before.items():
            sys.modules.pop(name, None)
            if module is not None:
                sys.modules[name] = module


class _Device:
    compute_capability = "90"


def scan(words, first, last, queries, wanted, *, tensor):
    differing = words[None, first:last] ^ queries[:, None]
    _keep(np.bitwise_count(differing).sum(axis=2).astype(np.int64), first, wanted)


def scan_asymmetric(words, first, last, table, wanted):
    codes = np.ascontiguousarray(words[first:last]).view(np.uint8)[:, : len(table)]
    out = np.zeros(len(codes), np.float32)
    for b in range(0, len(table) - len(table) % 4, 4):
        t = [table[b + i][codes[:, b + i]] for i in range(4)]
        out += (t[0] + t[1]) + (t[2] + t[3])
    for b in range(len(table) - len(table) % 4, len(table)):
        out += table[b][codes[:, b]]
    _keep(out.view(np.int32).astype(np.int64)[None], first, wanted)


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
