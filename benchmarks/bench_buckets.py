"""Exact top-10 of a million learned codes, which repeat, against faiss IndexBinaryFlat and our own full scan.

The codes are those of HCOH, learned from 20 000 rows of MNIST, for 69 000 rows tiled to a million with small Gaussian
noise, a tenth of the length of a row.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import faiss
import numpy as np

from benchmarks.measure import Row, compare, interleaved, tiled_codes
from onlinehash import HCOH, BucketIndex, FlatIndex, load_dataset
from onlinehash.types import Codes, QueryValues

N, K, N_BITS, BATCH = 1_000_000, 10, 32, 1000


def learned_codes() -> tuple[Codes, Codes, QueryValues]:
    split = load_dataset("mnist").split()
    hasher = HCOH(N_BITS, learning_rate=split.learning_rate, preprocess=split.preprocess, random_state=0)
    encoder = hasher.partial_fit(*split.stream).snapshot()
    rng = np.random.default_rng(0)
    codes = tiled_codes(encoder, split.database.X, N, rng)
    queries = split.queries.X[rng.permutation(len(split.queries.X))[:100]]
    return codes, encoder.encode(queries), encoder.encode_asymmetric(queries)


def one_by_one(search: Callable[..., object], queries: Codes | QueryValues) -> None:
    for i in range(0, len(queries), 5):
        search(queries[i : i + 1], K)


def run() -> list[Row]:
    faiss.omp_set_num_threads(1)
    codes, queries, values = learned_codes()
    buckets, flat, theirs = BucketIndex(N_BITS), FlatIndex(N_BITS), faiss.IndexBinaryFlat(N_BITS)
    buckets.upsert(codes)
    flat.upsert(codes)
    theirs.add(codes)
    if not np.array_equal(buckets.search(queries, K).distances, theirs.search(queries, K)[0]):
        raise RuntimeError("the two indexes do not find the same distances")
    if not np.array_equal(buckets.search(values, K, asymmetric=True).ids, flat.search(values, K, asymmetric=True).ids):
        raise RuntimeError("the two indexes do not find the same items")
    rows = []
    for how, call in (("one query at a time", one_by_one), ("100 queries", lambda search, asked: search(asked, K))):
        seconds = interleaved(
            {
                "buckets": partial(call, buckets.search, queries),
                "flat": partial(call, flat.search, queries),
                "faiss": partial(call, theirs.search, queries),
                "asymmetric buckets": partial(call, partial(buckets.search, asymmetric=True), values),
                "asymmetric flat": partial(call, partial(flat.search, asymmetric=True), values),
            },
            rounds=15,
        )
        what = f"top {K} of {N} learned codes of {N_BITS} bits, {buckets.n_buckets} distinct, {how}"
        rows.append(compare(what, seconds, "faiss", "buckets", "at least 5"))
        rows.append(compare(what, seconds, "flat", "buckets", "-"))
        rows.append(compare(what, seconds, "asymmetric flat", "asymmetric buckets", "-"))
    return [*rows, *changes(buckets, flat, codes)]


def changes(buckets: BucketIndex, flat: FlatIndex, codes: Codes) -> list[Row]:
    """Add, replace and remove batches in both; every round leaves them as large as they were."""
    rng = np.random.default_rng(1)
    rounds = 50
    batches = [codes[rng.integers(0, N, BATCH)] for _ in range(2 * rounds)]
    new, old = rng.integers(N, 1 << 40, BATCH), [rng.choice(N, BATCH, replace=False) for _ in batches]
    calls: dict[str, Callable[[], None]] = {}
    for name, index in (("buckets", buckets), ("flat", flat)):
        added, replaced = iter(batches), zip(reversed(batches), old, strict=True)
        calls[f"add, {name}"] = partial(lambda index, codes: index.upsert(next(codes), new), index, added)
        calls[f"delete, {name}"] = partial(index.delete, new)
        calls[f"replace, {name}"] = partial(lambda index, items: index.upsert(*next(items)), index, replaced)
    seconds = interleaved(calls, rounds)
    what = f"{BATCH} items a call, among {N} learned codes of {N_BITS} bits"
    return [compare(what, seconds, f"{name}, buckets", f"{name}, flat", "-") for name in ("add", "delete", "replace")]
