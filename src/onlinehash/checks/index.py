"""The contract of an index, as named checks that can be run on any implementation, with FlatIndex as the oracle."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onlinehash.checks._promise import check_all, checks_of, promise, refusal
from onlinehash.codes import code_width, hamming_distances
from onlinehash.indexes import FlatIndex
from onlinehash.types import Codes, Ids, SearchResult

MakeIndex = Callable[..., Any]
IndexCheck = Callable[[MakeIndex], None]

_N_BITS = (5, 16, 32, 72)


def check_index(make_index: MakeIndex, *, exact: bool = True) -> None:
    """Raise ``AssertionError`` if an index breaks a promise of the contract.

    ``ties``, ``supports_asymmetric`` and ``save`` with ``load`` are optional; without them, their checks are skipped.

    Parameters
    ----------
    make_index : callable
        Returns an empty index for a number of bits and, if it takes them, ``ties``; the class itself, where that is all
        it takes.
    exact : bool
        Whether the index finds the nearest items. An approximate index must still return the requested number of items
        with their true distances, nearest first, ties in order; :func:`recall` measures how many of the nearest it
        finds.

    Examples
    --------
    >>> from onlinehash import FlatIndex
    >>> check_index(FlatIndex)
    """
    check_all(index_checks(exact=exact), make_index, lambda same: same)


def recall(index: Any, oracle: Any, queries: ArrayLike, k: int) -> float:
    """Return the share of the k nearest items that an index finds.

    An item counts if it is no farther than the true k-th nearest; ties at that distance are interchangeable.

    Parameters
    ----------
    index : index
        May be approximate.
    oracle : index
        Exact, with the same items.
    queries : array-like of uint8, shape (n_queries, n_bytes)
    k : int

    Examples
    --------
    >>> index, oracle = FlatIndex(n_bits=8), FlatIndex(n_bits=8)
    >>> oracle.upsert(np.array([[0b0001], [0b0010], [0b0111], [0b1111]], np.uint8))
    >>> index.upsert(oracle.codes[1:], ids=oracle.ids[1:])
    >>> recall(index, oracle, np.array([[0b0000]], np.uint8), k=1)
    1.0
    >>> recall(index, oracle, np.array([[0b0000]], np.uint8), k=2)
    0.5
    """
    found, expected = index.search(queries, k).distances, oracle.search(queries, k).distances
    if not expected.size:
        return 1.0  # nothing to find, nothing missed
    return float(np.count_nonzero(found <= expected[:, -1:]) / expected.size)


def index_checks(*, exact: bool = True) -> Iterator[IndexCheck]:
    """Return the individual checks, functions of a factory of empty indexes.

    Examples
    --------
    >>> next(index_checks()).__name__
    'check_search_is_exact'
    """
    return (check for check in checks_of(globals(), check_index) if exact or not check.__name__.endswith("exact"))


def check_search_is_exact(make_index: MakeIndex) -> None:
    """The k nearest items are found, nearest first, ties in order, for any k."""
    for index, oracle, n_bits in _cases(make_index):
        queries = _codes(9, n_bits, seed=1)
        for k in (1, 10, 300, 5000):
            _same(index.search(queries, k), oracle.search(queries, k), f"search for {k} of {n_bits} bits")


def check_asymmetric_search_is_exact(make_index: MakeIndex) -> None:
    """The same holds for asymmetric queries."""
    if not make_index(8).supports_asymmetric:
        return
    for index, oracle, n_bits in _cases(make_index):
        queries = _values(70, n_bits)
        for k in (1, 10, 5000):
            found, expected = (each.search(queries, k, asymmetric=True) for each in (index, oracle))
            _same(found, expected, f"asymmetric search of {n_bits} bits")


def check_radius_search_is_exact(make_index: MakeIndex) -> None:
    """All items within a radius are found, the radius included, nearest first, ties in order."""
    for index, oracle, n_bits in _cases(make_index):
        queries = _codes(9, n_bits, seed=1)
        for radius in (0, 2, n_bits):
            what = f"range_search of {radius} in {n_bits} bits"
            _same_lists(index.range_search(queries, radius), oracle.range_search(queries, radius), what)


def check_restricted_search_is_exact(make_index: MakeIndex) -> None:
    """With ``ids``, results equal those of an index of these items alone; unknown ids are ignored."""
    for index, oracle, n_bits in _cases(make_index):
        queries, values = _codes(3, n_bits, seed=1), _values(3, n_bits)
        for some in (oracle.ids[::3], oracle.ids[:2], oracle.ids[:0], oracle.ids):
            alone = FlatIndex(n_bits, oracle.ties)
            alone.upsert(oracle.get(some), some)
            for ids in (np.append(some, 10**9), np.sort(some), some.tolist() * 2):
                what = f"a search of {n_bits} bits among {len(some)} ids"
                _same(index.search(queries, 10, ids=ids), alone.search(queries, 10), what)
                if index.supports_asymmetric:
                    found = index.search(values, 10, ids=ids, asymmetric=True)
                    _same(found, alone.search(values, 10, asymmetric=True), what)
                _same_lists(index.range_search(queries, 2, ids=ids), alone.range_search(queries, 2), what)


def check_search_after_changes_is_exact(make_index: MakeIndex) -> None:
    """After insertions, replacements and deletions, a search equals a full scan."""
    queries = _codes(3, 16, seed=1)
    for make in _orders(make_index):
        for step, (index, oracle) in enumerate(_changes(make)):
            _same(index.search(queries, 20), oracle.search(queries, 20), f"a search after {step + 1} changes")


def check_answers_are_true(make_index: MakeIndex) -> None:
    """Results have the requested size, true distances and order, and respect ``ids`` and the radius."""
    for index, oracle, n_bits in _cases(make_index):
        queries, ids = _codes(5, n_bits, seed=1), oracle.ids[::3]
        for k in (1, 10, 5000):
            for some in (None, ids):
                found = index.search(queries, k, ids=some)
                asked = (len(queries), min(k, len(oracle) if some is None else len(some)))
                promise(found.ids.shape == asked, f"{found.ids.shape[1]} items found, not {asked[1]}")
                for query, one in zip(queries, found, strict=True):
                    _true(one, query, oracle, some)
        for some in (None, ids):
            for query, one in zip(queries, index.range_search(queries, 2, ids=some), strict=True):
                _true(one, query, oracle, some)
                promise(bool((one.distances <= 2).all()), "an item beyond the radius")


def check_changes_are_seen_at_once(make_index: MakeIndex) -> None:
    """Insertions, replacements and deletions are visible at once."""
    queries = _codes(3, 16, seed=1)
    for index, oracle in _changes(make_index):
        _same_items(index, oracle)
        for query, found in zip(queries, index.search(queries, 20), strict=True):
            _true(found, query, oracle, None)


def check_items_are_given_back(make_index: MakeIndex) -> None:
    """``len``, ``in``, ``get``, ``ids`` and ``codes`` agree."""
    for index, oracle, n_bits in _cases(make_index):
        _same_items(index, oracle)
        some = oracle.ids[::7]
        promise(np.array_equal(index.get(some), oracle.get(some)), "get returns other codes")
        promise(all(int(id) in index for id in some[:20]), "an id that was added is not in the index")
        promise(10**9 not in index and 2**70 not in index and "a" not in index, "an id never added is in the index")
        promise(index.n_bits == n_bits, "n_bits is not what was asked for")


def check_ids_are_numbered_on(make_index: MakeIndex) -> None:
    """Items without ids are numbered from the largest id + 1."""
    for make in _orders(make_index):
        index = make(16)
        index.upsert(_codes(2, 16))
        index.upsert(_codes(1, 16), [10])
        index.upsert(_codes(2, 16))
        promise((ids := sorted(index.ids.tolist())) == [0, 1, 10, 11, 12], f"the ids are {ids}")
        promise(np.array_equal(index.get([11, 12]), _codes(2, 16)), "new items are numbered out of order")


def check_nothing_is_found_in_nothing(make_index: MakeIndex) -> None:
    """An empty index, an emptied one and no queries give empty results of the right shape."""
    emptied = make_index(16)
    emptied.upsert(_codes(50, 16))
    emptied.delete(emptied.ids)
    for index in (make_index(16), emptied):
        queries = _codes(3, 16)
        index.upsert(queries[:0])
        index.delete([])
        promise(len(index) == 0 and index.ids.shape == (0,) and index.codes.shape == (0, 2), "it is not empty")
        promise(index.search(queries, 5).ids.shape == (3, 0), "a search found something")
        if index.supports_asymmetric:
            found = index.search(_values(3, 16), 5, asymmetric=True)
            promise(found.distances.shape == (3, 0), "an asymmetric search found something")
        promise([len(one) for one in index.range_search(queries, 16)] == [0, 0, 0], "a radius found something")
    filled, _ = _filled(make_index, 16)
    promise(filled.search(_codes(0, 16), 5).ids.shape == (0, 5), "no queries have an answer")
    promise(len(filled.range_search(_codes(0, 16), 5)) == 0, "no queries have an answer")


def check_saved_index_is_the_same(make_index: MakeIndex) -> None:
    """An index read from a file, memory-mapped or not, equals the original; changing it leaves the file unchanged."""
    if not hasattr(make_index(8), "save"):
        return
    queries, codes = _codes(5, 32, seed=1), _codes(100, 32, seed=2)
    for make in _orders(make_index):
        index, oracle = _filled(make, 32)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "index.ohi"
            index.save(path)
            for mmap in (False, True, True):
                again, (changed, twin) = type(index).load(path, mmap=mmap), _filled(make, 32)
                _same(again.search(queries, 20), index.search(queries, 20), f"a search after load(mmap={mmap})")
                _same_items(again, oracle)
                for each in (again, changed, twin):
                    each.delete(oracle.ids[:300])
                    each.upsert(codes, np.arange(100))
                _same(again.search(queries, 20), changed.search(queries, 20), f"a change after load(mmap={mmap})")
                _same_items(again, twin)
                del again, each  # a mapped file cannot be removed on some systems


def check_input_is_not_changed(make_index: MakeIndex) -> None:
    """The input is not modified, and modifying it later does not change the index."""
    index, codes, ids = make_index(16), _codes(40, 16), np.arange(40)[::-1].copy()
    codes_before, ids_before = codes.copy(), ids.copy()
    index.upsert(codes, ids)
    index.search(codes, 3, ids=ids)
    promise(np.array_equal(codes, codes_before) and np.array_equal(ids, ids_before), "the input was changed")
    codes[:], ids[:] = 0, 7
    promise(np.array_equal(index.get(ids_before), codes_before), "the index shares memory with its input")


def check_read_only_and_mapped_input_is_accepted(make_index: MakeIndex) -> None:
    """Read-only, memory-mapped and strided codes are accepted."""
    codes = _codes(60, 32)
    expected = FlatIndex(32)
    expected.upsert(codes)
    frozen = codes.copy()
    frozen.flags.writeable = False
    with tempfile.TemporaryDirectory() as folder:
        np.save(Path(folder) / "codes.npy", codes)
        mapped = np.load(Path(folder) / "codes.npy", mmap_mode="r")
        for same in (frozen, mapped, np.asfortranarray(codes), np.repeat(codes, 2, axis=0)[::2]):
            index = make_index(32)
            index.upsert(same)
            _same_items(index, expected)
            # Two approximate indexes may differ at random, so the index is compared with itself.
            _same(index.search(same, 9), index.search(codes, 9), f"{type(same).__name__} queries")
        del mapped


def check_codes_given_out_cannot_be_written_to(make_index: MakeIndex) -> None:
    """Writing to the arrays that ``codes``, ``ids`` and ``get`` return does not change the index."""
    index, oracle = _filled(make_index, 16)
    promise(not index.codes.flags.writeable, "codes can be written to")
    index.get(oracle.ids)[:] = 0
    index.ids[:] = 0
    _same_items(index, oracle)


def check_refused_input_changes_nothing(make_index: MakeIndex) -> None:
    """Invalid input raises an ``OnlineHashError`` and leaves the index unchanged."""
    index, oracle = _filled(make_index, 12)
    known = int(oracle.ids[0])
    codes, padded = _codes(2, 12), np.full((2, 2), 255, np.uint8)
    refused: list[tuple[str, Callable[[], Any]]] = [
        ("an id twice", lambda: index.upsert(codes, [4, 4])),
        ("too few ids", lambda: index.upsert(codes, [4])),
        ("ids that are strings", lambda: index.upsert(codes, ["a", "b"])),
        ("ids that are floats", lambda: index.upsert(codes, [1.5, 2.5])),
        ("ids beyond int64", lambda: index.upsert(codes, np.array([1, 2**64 - 1], np.uint64))),
        ("codes that are too wide", lambda: index.upsert(_codes(2, 32))),
        ("codes that are not bytes", lambda: index.upsert(codes.astype(float))),
        ("padding that is not zero", lambda: index.upsert(padded)),
        ("an unknown id to remove", lambda: index.delete([known, 10**9])),
        ("an id to remove twice", lambda: index.delete([known, known])),
        ("an unknown id to get", lambda: index.get([known, 10**9])),
        ("k=0", lambda: index.search(codes, 0)),
        ("k=True", lambda: index.search(codes, True)),
        ("asymmetric queries for k=True", lambda: index.search(_values(1, 12), True, asymmetric=True)),
        ("queries that are too wide", lambda: index.search(_codes(2, 32), 1)),
        ("asymmetric queries that are too wide", lambda: index.search(_values(1, 13), 1, asymmetric=True)),
        ("asymmetric queries beyond 1", lambda: index.search(_values(1, 12) + 3, 1, asymmetric=True)),
        ("a negative radius", lambda: index.range_search(codes, -1)),
        ("a radius that is not an integer", lambda: index.range_search(codes, 1.5)),
        ("ids that are not a list", lambda: index.search(codes, 1, ids=known)),
        ("n_bits=0", lambda: make_index(0)),
    ]
    for what, call in refused:
        if "asymmetric" in what and not index.supports_asymmetric:
            continue
        refusal(call, f"{what}: accepted")
        _same_items(index, oracle)


def _orders(make_index: MakeIndex) -> list[MakeIndex]:
    """Return a factory for each order of ties that an index has."""
    has_ties = "ties" in signature(make_index).parameters
    return [partial(make_index, ties=ties) for ties in ("id", "hash")] if has_ties else [make_index]


def _cases(make_index: MakeIndex) -> Iterator[tuple[Any, FlatIndex, int]]:
    """Yield an index and the oracle with the same items for each order of ties, with each number of bits."""
    for make in _orders(make_index):
        for n_bits in _N_BITS:
            yield *_filled(make, n_bits), n_bits


def _empty(make_index: MakeIndex, n_bits: int) -> tuple[Any, FlatIndex]:
    """Return an empty index, and one that must find the same."""
    index = make_index(n_bits)
    return index, FlatIndex(n_bits, getattr(index, "ties", "id"))


def _filled(make_index: MakeIndex, n_bits: int) -> tuple[Any, FlatIndex]:
    """Return an index and the oracle with the same items: ids unordered, some replaced, some deleted."""
    rng = np.random.default_rng(n_bits)
    ids = np.append(rng.permutation(3000) - 1000, [np.iinfo(np.int64).min, np.iinfo(np.int64).max])
    codes, others = _codes(len(ids), n_bits), _codes(500, n_bits, seed=9)
    index, oracle = _empty(make_index, n_bits)
    for each in (index, oracle):
        each.upsert(codes[:1000], ids[:1000])
        each.upsert(codes[1000:], ids[1000:])
        each.upsert(others, ids[800:1300])
        each.delete(ids[100:400])
    return index, oracle


def _changes(make_index: MakeIndex) -> Iterator[tuple[Any, FlatIndex]]:
    """Yield an index and the oracle after each of many changes to both."""
    rng = np.random.default_rng(5)
    index, oracle = _empty(make_index, 16)
    for step in range(60):
        size = int(rng.integers(0, 200))
        if step % 3 < 2:
            ids = rng.choice(1000, size, replace=False) - 500
            codes = _codes(size, 16, seed=step)
            for each in (index, oracle):
                each.upsert(codes, ids)
        else:
            ids = rng.permutation(oracle.ids)[: 2 * size if step < 40 else 1000]
            for each in (index, oracle):
                each.delete(ids)
        yield index, oracle


def _codes(n_codes: int, n_bits: int, seed: int = 0) -> Codes:
    """Return codes of which half take few distinct values, as learned codes do."""
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 2, (n_codes, n_bits), dtype=np.uint8)
    bits[::2, 3:] = 0
    return np.packbits(bits, axis=1, bitorder="little").reshape(n_codes, code_width(n_bits))


def _values(n_queries: int, n_bits: int) -> NDArray[np.float32]:
    """Return query values whose distances are exact in single precision in any order of summation."""
    return (np.random.default_rng(3).integers(-8, 9, (n_queries, n_bits)) / 8).astype(np.float32)


def _same(found: SearchResult[Any], expected: SearchResult[Any], what: str) -> None:
    promise(found.ids.dtype == np.int64 and found.ids.shape == expected.ids.shape, f"{what}: ids of another shape")
    promise(found.distances.dtype == expected.distances.dtype, f"{what}: distances are {found.distances.dtype}")
    promise(np.array_equal(found.distances, expected.distances), f"{what}: the distances differ")
    promise(np.array_equal(found.ids, expected.ids), f"{what}: the ids differ")


def _same_lists(found: SearchResult[Any], expected: SearchResult[Any], what: str) -> None:
    promise(len(found) == len(expected), f"{what}: not one result per query")
    for one, other in zip(found, expected, strict=True):
        _same(one, other, what)


def _true(found: SearchResult[Any], query: Codes, oracle: FlatIndex, among: Ids | None) -> None:
    ids, distances = found.ids, found.distances
    promise(bool(np.isin(ids, oracle.ids).all()), "a result is no item of the index")
    promise(among is None or bool(np.isin(ids, among).all()), "a result is not among the given ids")
    promise(np.array_equal(distances, hamming_distances(query[None], oracle.get(ids))[0]), "a distance is wrong")
    ranked = oracle.search(query[None], max(1, len(ids)), ids=ids).ids[0]
    promise(np.array_equal(ids, ranked), f"results are not ordered by distance and {oracle.ties}, or one occurs twice")


def _same_items(index: Any, oracle: FlatIndex) -> None:
    promise(len(index) == len(oracle), f"it holds {len(index)} items, not {len(oracle)}")
    ids, codes = _by_id(index.ids, index.codes)
    expected_ids, expected = _by_id(oracle.ids, oracle.codes)
    promise(np.array_equal(ids, expected_ids), "it holds other ids")
    promise(np.array_equal(codes, expected), "ids and codes do not match")


def _by_id(ids: Ids, codes: Codes) -> tuple[Ids, Codes]:
    order = np.argsort(ids)
    return ids[order], codes[order]
