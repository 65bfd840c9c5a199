"""``onlinehash compile``: compile all kernels ahead of their first use."""

from __future__ import annotations

import numpy as np

from onlinehash.cli._screen import note, progress_bar


def run() -> None:
    """Compile all kernels now, for container images and shared machines.

    Otherwise each kernel is compiled for this processor at its first use, which takes up to two seconds. Compiled
    kernels are kept in the folder that NUMBA_CACHE_DIR names; by default beside the package or, if that cannot be
    written, in the cache folder of the user. When an image is built, run this command as the user that will run the
    image.
    """
    from onlinehash.datasets import load_dataset
    from onlinehash.hashers import HASHERS, HROH, OSH
    from onlinehash.indexes import FlatIndex
    from onlinehash.metrics import AsymmetricRanking, Ranking

    stream = load_dataset("digits").split().stream
    X, y = stream.X[:300], stream.y[:300]
    hashers = [make(random_state=0) for name, make in HASHERS.items() if name != "hroh"]
    hashers += [HROH(n_bits, n_components=64, random_state=0) for n_bits in (8, 32)]
    hashers += [OSH(loss="hinge", random_state=0)]
    with progress_bar("Compiling") as progress:
        for done, hasher in enumerate(hashers):
            progress(done, len(hashers) + 1)
            for dtype in (np.float32, np.float64):
                rows = X.astype(dtype)
                encoder = hasher.fit(rows, y).partial_fit(rows[0], y[0]).snapshot()
                codes, soft = encoder.encode(rows), encoder.encode_asymmetric(rows)
        for dtype in (np.float32, np.float64):  # more classes than are all scored
            rows = np.random.default_rng(0).normal(size=(1100, 4)).astype(dtype)
            HROH(features="none", assignment="arrival").fit(rows, np.arange(1100)).snapshot().encode(rows[:1])
        for n_bits in (8, 16, 32, 64, 256):  # of which a row is an array of other words
            index, stored = FlatIndex(n_bits), np.zeros((30, n_bits // 8), np.uint8)
            index.upsert(stored)
            for ids, k in ((None, 1), (None, 10), (index.ids[::2], 10)):
                index.search(stored, k, ids=ids)
                index.search(np.zeros((30, n_bits), np.float32), k, ids=ids, asymmetric=True)
                index.range_search(stored, 2, ids=ids)
        for ties in ("expected", "stable"):
            Ranking(codes, y, codes, y, ties=ties).mean_average_precision()
        AsymmetricRanking(soft, y, codes, y).mean_average_precision()
        progress(len(hashers) + 1, len(hashers) + 1)
    note("Compiled.")
