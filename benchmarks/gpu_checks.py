"""Check on a GPU that everything gives the results of the CPU."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks.gpu_report import Report
from onlinehash import HCOH, HROH, Collection, FlatIndex
from onlinehash.checks import index_checks
from onlinehash.exceptions import InvalidInputError


def check_indexes(report: Report, options: argparse.Namespace) -> None:
    """Compare GpuIndex with FlatIndex."""
    from onlinehash.indexes.engines import GpuIndex

    for check in index_checks():
        if options.quick and "asymmetric" in check.__name__:
            continue
        report.check(check.__name__, partial(check, GpuIndex))
    for n_bits in (64, 100) if options.quick else (8, 16, 64, 100, 128, 256):
        for tensor in (True,) if options.quick else (True, False):
            report.check(
                f"changes and searches of {n_bits} bits, tensor cores {tensor}",
                partial(_compare, n_bits, 12 if options.quick else 40, tensor=tensor),
            )


def _compare(n_bits: int, n_steps: int, *, tensor: bool) -> None:
    import cupy
    import torch

    from onlinehash.indexes.engines import GpuIndex

    rng = np.random.default_rng(n_bits)
    index, flat = GpuIndex(n_bits), FlatIndex(n_bits)
    index._tensor = tensor
    there = (np.asarray, cupy.asarray, lambda codes: torch.asarray(codes, device="cuda"))
    n_bytes, mask = -(-n_bits // 8), 255 >> (-n_bits % 8)
    for step in range(n_steps):
        size = int(rng.integers(1, 20_000))
        codes = rng.integers(0, 4 if step % 2 else 256, (size, n_bytes), dtype=np.uint8)
        codes[:, -1] &= mask
        ids = None if step % 4 == 0 else rng.choice(10**5, size, replace=False)
        doomed: Any = rng.permutation(flat.ids)[: size // 2] if step % 3 == 2 else []
        index.upsert(there[step % 3](codes), ids)
        flat.upsert(codes, ids)
        for each in (index, flat):
            each.delete(doomed)
        queries = codes[: int(rng.integers(1, 40))].copy()
        for k in (1, 10, 256, 3000):
            for some in (queries, queries[:1], queries[-1:]):
                found, expected = index.search(there[step % 3](some), k), flat.search(some, k)
                assert np.array_equal(found.distances, expected.distances), (step, k)
                assert np.array_equal(found.ids, expected.ids), (step, k)
        among = rng.choice(10**5, 5000)
        found, expected = (each.search(queries[:1], 10, ids=among) for each in (index, flat))
        assert np.array_equal(found.ids, expected.ids), step
        near, expected_near = (each.range_search(queries, n_bits // 4) for each in (index, flat))
        for one, other in zip(near, expected_near, strict=True):
            assert np.array_equal(one.ids, other.ids), step
            assert np.array_equal(one.distances, other.distances), step


def check_hashers(report: Report, options: argparse.Namespace) -> None:
    """Compare HROH and encoders on the GPU with those on the CPU."""
    import cupy
    import torch

    rng = np.random.default_rng(0)
    centres = rng.standard_normal((50, 784))
    y = rng.integers(0, 50, 25_000)
    X = centres[y] + 2.0 * rng.standard_normal((25_000, 784))
    host = HROH(64, random_state=0).partial_fit(X[:20_000], y[:20_000])
    expected, encoder = host._sums.complete(), host.snapshot()
    puts = {"torch": lambda a: torch.asarray(a, device="cuda"), "cupy": cupy.asarray}

    def compare(name: str, put: Callable[[Any], Any]) -> str:
        there = HROH(64, random_state=0)
        for start in range(0, 20_000, 3000):
            stop = min(start + 3000, 20_000)
            there.partial_fit(put(X[start:stop]), put(y[start:stop]))
        sums = HROH.load(there.to_bytes())._sums.statistics  # on the host
        gram = np.abs(np.tril(sums.gram) - np.tril(expected.gram)).max() / np.abs(expected.gram).max()
        classes = np.abs(sums.sums - expected.sums).max() / np.abs(expected.sums).max()
        assert max(gram, classes) < 1e-9, (gram, classes)
        theirs = there.snapshot()
        there_codes: Any = theirs.encode(put(X[20_000:]))
        assert type(there_codes).__module__.startswith(name)
        plain = there_codes.get() if name == "cupy" else there_codes.cpu().numpy()
        same = float((np.unpackbits(plain ^ theirs.encode(X[20_000:])) == 0).mean())
        learned = float((np.unpackbits(plain ^ encoder.encode(X[20_000:])) == 0).mean())
        single = HROH(64, random_state=0).partial_fit(X[:5000].astype(np.float32), y[:5000]).snapshot()
        rows = X[20_000:].astype(np.float32)
        codes: Any = single.encode(put(rows))
        plain = codes.get() if name == "cupy" else codes.cpu().numpy()
        in_single = float((np.unpackbits(plain ^ single.encode(rows)) == 0).mean())
        score = there.score(put(X[20_000:]), put(y[20_000:]))
        again = HROH.load(there.to_bytes()).partial_fit(X[20_000:], y[20_000:])
        there.partial_fit(put(X[20_000:]), put(y[20_000:])).unlearn(put(X[20_000:]), put(y[20_000:]))
        sums = HROH.load(there.to_bytes())._sums.statistics
        left = np.abs(np.tril(sums.gram) - np.tril(expected.gram)).max() / np.abs(expected.gram).max()
        assert left < 1e-9, left
        assert again.n_samples_seen_ == 25_000
        return (
            f"sums differ by {gram:.1e} and {classes:.1e}; equal bits: one encoder on both sides {same:.7f}, "
            f"learned on each {learned:.7f}, in single precision {in_single:.7f}; score {score:.4f}, "
            f"on the CPU {host.score(X[20_000:], y[20_000:]):.4f}"
        )

    for name, put in puts.items():
        report.check(f"HROH and its encoder, {name}", partial(compare, name, put))
    for options_of in ({"preprocess": "running"}, {"decay": 0.999}):
        hasher: Any = HROH(16, random_state=0, **options_of)
        report.check(f"HROH with {options_of}", partial(_same_codes, hasher, X, y, puts["torch"]))
    report.check("half precision", partial(_learn_half, X, y))
    report.check("refused by other methods", partial(_refused, X, y))
    report.check("a search of tensors that stay on the GPU", partial(_pipeline, encoder, X))


def _same_codes(hasher: HROH, X: Any, y: Any, put: Callable[[Any], Any]) -> str:
    there = HROH(**hasher.get_params()).partial_fit(put(X[:4000]), y[:4000]).snapshot()
    here = hasher.partial_fit(X[:4000], y[:4000]).snapshot()
    codes: Any = there.encode(put(X[4000:6000]))
    same = float((np.unpackbits(codes.cpu().numpy() ^ here.encode(X[4000:6000])) == 0).mean())
    assert same > 0.9999, same
    return f"equal bits {same:.7f}"


def _learn_half(X: Any, y: Any) -> str:
    import torch

    rows = torch.asarray(X, device="cuda").bfloat16()
    hasher = HROH(32, random_state=0).partial_fit(rows[:4000], torch.asarray(y[:4000], device="cuda"))
    return f"score {hasher.score(rows[4000:6000], y[4000:6000]):.4f}, codes {hasher.transform(rows[:2]).dtype}"


def _refused(X: Any, y: Any) -> str:
    import torch

    rows = torch.asarray(X[:10], device="cuda")
    told = []
    for call in (
        lambda: HCOH(16).partial_fit(rows, y[:10]),
        lambda: FlatIndex(16).search(torch.zeros((1, 2), dtype=torch.uint8, device="cuda"), 1),
        lambda: HROH(16).partial_fit(torch.full((3, 4), float("nan"), device="cuda"), [0, 1, 2]),
    ):
        try:
            call()
        except InvalidInputError as error:
            told.append(str(error))
    assert len(told) == 3, told
    return " | ".join(told)


def _pipeline(encoder: Any, X: Any) -> None:
    import torch

    from onlinehash.indexes.engines import GpuIndex

    index, flat = GpuIndex(64), FlatIndex(64)
    rows = torch.asarray(X, device="cuda")
    codes = encoder.encode(rows)
    index.upsert(codes)
    flat.upsert(codes.cpu().numpy())
    found, expected = index.search(codes[:100], 10), flat.search(codes[:100].cpu().numpy(), 10)
    assert np.array_equal(found.ids, expected.ids)
    values = encoder.encode_asymmetric(rows[:5])
    found, expected = index.search(values, 10, asymmetric=True), flat.search(values.cpu().numpy(), 10, asymmetric=True)
    assert np.array_equal(found.ids, expected.ids)
    assert np.array_equal(found.distances, expected.distances)


def check_collection(report: Report, options: argparse.Namespace) -> None:
    """Compare a collection searched on the GPU with one in memory."""

    def compare() -> str:
        rng = np.random.default_rng(0)
        X, y = rng.standard_normal((3000, 32)), rng.integers(0, 5, 3000)
        with tempfile.TemporaryDirectory() as folder:
            results = []
            for search in ("gpu", "memory"):
                hasher = HROH(32, n_components=128, random_state=0)
                with Collection.open(f"{folder}/{search}.oh", hasher, search=search) as items:
                    for start in range(0, 2500, 250):
                        items.upsert(range(start, start + 250), X[start : start + 250], y[start : start + 250])
                    items.delete(range(100, 300))
                    items.upsert(range(500), X[2500:], y[2500:])
                    items.refresh()
                    found = [items.search(X[:50], 10, **more).ids for more in ({}, {"labels": 2}, {"asymmetric": True})]
                    results.append((found, items.stats().index))
            same = np.mean([a == b for a, b in zip(*(found for found, _ in results), strict=True)])
            return f"equal answers {same:.3f}; engines {[kind for _, kind in results]}"

    report.check("a collection with search='gpu'", compare)
