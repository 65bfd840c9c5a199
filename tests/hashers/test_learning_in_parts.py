"""Learning in parts: clones of HROH that learn pieces of a stream, and are merged."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onlinehash import HROH
from onlinehash.exceptions import InvalidFeaturesError


def stream(n, d=6, n_classes=30, seed=0, dtype=np.float32):
    rng = np.random.default_rng(seed)
    y = np.minimum(rng.integers(0, n_classes, n), 3 + np.arange(n) // 40)  # more and more of them
    return (rng.normal(size=(n_classes, d))[y] + 0.7 * rng.normal(size=(n, d))).astype(dtype), y


def make(**params):
    return HROH(8, **{"n_components": 16, "random_state": 0} | params)


# ---------------------------------------------------------------------- where a stream may be cut


@settings(max_examples=60, deadline=None)
@given(
    n_before=st.integers(0, 1500),
    n_rows=st.integers(1, 5000),
    bandwidth=st.sampled_from([None, 0.8]),
    flushed=st.booleans(),
    seed=st.integers(0, 9),
)
def test_parts_merged_at_the_cuts_equal_the_stream_in_order(n_before, n_rows, bandwidth, flushed, seed):
    X, y = stream(n_before + n_rows)
    whole = make(bandwidth=bandwidth)
    if n_before:
        whole.partial_fit(X[:n_before], y[:n_before])
        if flushed:  # the number of rows summed is then no multiple of a block
            whole.merge(whole.empty_clone().partial_fit(X[:7], y[:7]))
    one = HROH.load(whole.to_bytes()).partial_fit(X[n_before:], y[n_before:])
    rng = np.random.default_rng(seed)

    X, y = X[n_before:], y[n_before:]
    cuts = whole.split_points(n_rows)
    assert cuts == sorted(set(cuts))
    if cuts[0]:
        whole.partial_fit(X[: cuts[0]], y[: cuts[0]])
    for start, stop in pairwise(cuts):
        some = np.unique([start, *rng.integers(start, stop, 3), stop])
        parts = [whole.empty_clone().partial_fit(X[a:b], y[a:b]) for a, b in pairwise(some)]
        for part in parts[1:]:
            parts[0].merge(part)
        whole.merge(parts[0])
    if cuts[-1] < n_rows:
        whole.partial_fit(X[cuts[-1] :], y[cuts[-1] :])
    assert_same(whole, one)


def assert_same(merged, one):
    assert merged.classes_.tolist() == one.classes_.tolist()
    assert merged._classes.settled == one._classes.settled
    assert np.array_equal(merged.codewords_, one.codewords_)
    for name in ("n_samples_seen_", "n_unlabelled_", "n_features_in_", "seed_"):
        assert getattr(merged, name) == getattr(one, name)
    if one._head is not None:
        return
    assert (merged._sums.n_summed, merged._sums.n_waiting) == (one._sums.n_summed, one._sums.n_waiting)
    n_waiting = one._sums.n_waiting
    assert np.array_equal(merged._sums._block[:n_waiting], one._sums._block[:n_waiting])
    mine, theirs = merged._sums.statistics, one._sums.statistics
    np.testing.assert_allclose(mine.gram, theirs.gram, rtol=0, atol=1e-9 * theirs.gram.diagonal().min())
    np.testing.assert_allclose(mine.sums, theirs.sums, rtol=0, atol=1e-9 * np.abs(theirs.sums).max(initial=0.0))
    for name in ("counts", "total", "squares"):
        np.testing.assert_allclose(getattr(mine, name), getattr(theirs, name), rtol=1e-9)


def test_cuts_are_where_classes_settle_and_where_rows_begin_to_wait():
    assert make().split_points(100) == [100]
    assert make().split_points(256) == [256]
    assert make().split_points(1023) == [256, 768]
    assert make().split_points(5000) == [256, 1024, 2048, 4096, 4864]
    X, y = stream(300)
    assert make().partial_fit(X[:100], y[:100]).split_points(2000) == [156, 924, 1948]
    assert make().partial_fit(X, y).split_points(2000) == [212, 724, 1748]


def test_a_merged_hasher_settles_as_one_that_learned_all_rows():
    X, y = stream(1500, n_classes=12)
    first = make().partial_fit(X[:700], y[:700])
    second = first.empty_clone().partial_fit(X[700:], y[700:])
    assert not first._classes.settled
    assert len(first.merge(second)._classes.settled) == 12


def test_a_sibling_keeps_width_and_precision():
    X, y = stream(600)
    first = make().partial_fit(X[:300], y[:300])
    second = first.empty_clone().partial_fit(X[300:].astype(np.float64), y[300:])
    assert second.snapshot().weights.dtype == np.float32
    with pytest.raises(InvalidFeaturesError, match="X has 5 features, but HROH is expecting 6"):
        first.empty_clone().partial_fit(X[:, :5], y)
    with pytest.raises(InvalidFeaturesError, match="too large for float32"):
        first.empty_clone().partial_fit(np.full((2, 6), 1e300), [0, 1])
