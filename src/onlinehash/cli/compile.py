"""``onlinehash compile``: compile all kernels ahead of their first use."""

from __future__ import annotations

import numpy as np

from onlinehash.cli._screen import note, progress_bar


def run() -> None:
    """Compile all kernels now, for container images and shared machines.

    Otherwise each kernel is compiled for this processor at its first use, which takes up to two seconds. Compiled
    kernels are kept in the folder that NUMBA_CACHE_DIR names; by default beside the package or, if that cannot be
    written, in the cache folder of the user. Kernels beside the package are used by all users: run this command when
    an image is built, or as the administrator after the installation.
    """
    from onlinehash.datasets import load_dataset
    from onlinehash.hashers import HASHERS
    from onlinehash.indexes import BucketIndex, FlatIndex
    from onlinehash.metrics import AsymmetricRanking, Ranking

    stream = load_dataset("digits").split().stream
    X, y = stream.X[:300], stream.y[:300]
    with progress_bar("Compiling") as progress:
        for done, make in enumerate(HASHERS.values()):
            progress(done, len(HASHERS) + 1)
            for dtype in (np.float32, np.float64):
                hasher = make(random_state=0).partial_fit(X.astype(dtype), y)
                hasher.partial_fit(X[0].astype(dtype), y[0])
                encoder = hasher.snapshot()
                codes, soft = encoder.encode(X.astype(dtype)), encoder.encode_asymmetric(X.astype(dtype))
        for kind in (FlatIndex, BucketIndex):
            index = kind(encoder.n_bits)
            index.upsert(codes)
            for ids in (None, index.ids[::2]):
                index.search(codes, 10, ids=ids)
                index.search(soft, 10, ids=ids, asymmetric=True)
                index.range_search(codes, 2, ids=ids)
            index.delete(index.ids[:9])
        Ranking(codes, y, codes, y).mean_average_precision()
        AsymmetricRanking(soft, y, codes, y).mean_average_precision()
        progress(len(HASHERS) + 1, len(HASHERS) + 1)
    note("Compiled.")
