"""The protocols cut a data set as the paper does."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onlinehash.datasets import PROTOCOLS, Dataset, ProtocolSizes
from onlinehash.exceptions import InvalidInputError, UnknownNameError

SIZES = ProtocolSizes(queries_per_class=3, n_stream=20, learning_rate=0.2, map_at=7, precision_at=5)


def make_dataset(counts: tuple[int, ...] = (10, 25, 15), n_features: int = 4, seed: int = 0) -> Dataset:
    """Return rows that can be told apart: the first feature is the row number."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.repeat(np.arange(len(counts)), counts))
    X = rng.normal(5, 2, (len(y), n_features)).astype(np.float32)
    X[:, 0] = np.arange(len(y))
    names = tuple(f"class {label}" for label in range(len(counts)))
    return Dataset("made", X, y, names, "made up", "here", "none", SIZES)


@settings(deadline=None, max_examples=30)
@given(
    counts=st.lists(st.integers(4, 30), min_size=1, max_size=6).map(tuple),
    seed=st.integers(0, 2**32),
)
def test_every_row_is_a_query_or_in_the_database_once(counts: tuple[int, ...], seed: int) -> None:
    split = make_dataset(counts).split(seed=seed)
    rows = np.concatenate([split.database.X[:, 0], split.queries.X[:, 0]])
    assert sorted(rows) == list(range(sum(counts)))


def test_every_class_has_the_same_number_of_queries() -> None:
    split = make_dataset().split()
    assert np.bincount(split.queries.y).tolist() == [3, 3, 3]
    assert np.bincount(split.database.y).tolist() == [7, 22, 12]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_features_stay_with_their_labels(protocol: str) -> None:
    data = make_dataset()
    one_hot = dataclasses.replace(data, X=np.eye(3, dtype=np.float32)[data.y])
    split = one_hot.split(protocol)
    for batch in (split.stream, split.database, split.queries):
        assert np.array_equal(batch.X.argmax(axis=1), batch.y)


def test_the_stream_is_the_head_of_the_database_and_shares_its_memory() -> None:
    split = make_dataset().split()
    assert np.array_equal(split.stream.X, split.database.X[:20])
    assert np.array_equal(split.stream.y, split.database.y[:20])
    assert np.shares_memory(split.stream.X, split.database.X)
    assert np.shares_memory(split.stream.y, split.database.y)


def test_a_database_smaller_than_the_stream_is_learned_whole() -> None:
    data = make_dataset((5, 5))
    assert len(data.split().stream.X) == len(data.split().database.X) == 4


def test_both_protocols_choose_the_same_rows() -> None:
    data = make_dataset()
    online, published = data.split("online", seed=3), data.split("published", seed=3)
    for raw, normalised in ((online.database, published.database), (online.queries, published.queries)):
        assert np.array_equal(raw.y, normalised.y)
        centred = raw.X - data.X.mean(axis=0)
        cosine = (centred * normalised.X).sum(axis=1) / np.linalg.norm(centred, axis=1)
        assert np.allclose(cosine, 1, atol=1e-5)


def test_one_seed_gives_one_split_and_another_seed_another() -> None:
    data = make_dataset()
    assert np.array_equal(data.split(seed=1).database.X, data.split(seed=1).database.X)
    assert not np.array_equal(data.split(seed=1).database.X, data.split(seed=2).database.X)


def test_queries_of_a_class_are_drawn_from_all_its_rows() -> None:
    data = make_dataset((10,))
    drawn = {row for seed in range(40) for row in data.split(seed=seed).queries.X[:, 0]}
    assert drawn == set(range(10))


def test_the_database_is_shuffled_over_the_classes() -> None:
    y = np.repeat([0, 1], 500)
    data = Dataset("made", np.zeros((1000, 1), np.float32), y, ("a", "b"), "", "", "", SIZES)
    assert 0.3 < data.split().database.y[:200].mean() < 0.7


def test_published_features_equal_a_slow_reference() -> None:
    data = make_dataset((6000, 200), n_features=7)
    raw, published = data.split("online").database, data.split("published").database
    mean = [sum(float(value) for value in column) / len(column) for column in data.X.T]
    for row, got in list(zip(raw.X, published.X, strict=True))[::97]:
        centred = [float(value) - middle for value, middle in zip(row, mean, strict=True)]
        length = sum(value**2 for value in centred) ** 0.5
        assert np.allclose(got, [value / length for value in centred], rtol=1e-6, atol=1e-7)


def test_published_features_keep_their_precision_far_from_the_origin() -> None:
    rng = np.random.default_rng(0)
    X = (1000 + rng.normal(size=(400, 3))).astype(np.float32)
    data = Dataset("far", X, np.arange(400) % 2, ("a", "b"), "", "", "", SIZES)
    exact = X.astype(np.float64) - X.astype(np.float64).mean(axis=0)
    exact /= np.linalg.norm(exact, axis=1, keepdims=True)
    order = np.argsort(X[:, 0], kind="stable")
    split, raw = data.split("published"), data.split("online")
    got = np.concatenate([split.database.X, split.queries.X])
    rows = np.concatenate([raw.database.X, raw.queries.X])
    assert np.allclose(got[np.argsort(rows[:, 0], kind="stable")], exact[order], atol=1e-6)


def test_a_row_that_equals_the_mean_stays_zero() -> None:
    X = np.array([[1, 1], [3, 3], [2, 2], [2, 2]] * 4, np.float32)
    data = Dataset("made", X, np.zeros(16, np.int64), ("a",), "", "", "", SIZES)
    split = data.split("published")
    lengths = np.linalg.norm(np.concatenate([split.database.X, split.queries.X]), axis=1)
    assert np.count_nonzero(lengths == 0) == 8
    assert np.allclose(lengths[lengths > 0], 1)


def test_the_split_leaves_the_data_set_as_it_was() -> None:
    data = make_dataset()
    before = data.X.copy()
    data.X.setflags(write=False)
    data.split("published").database.X[:] = 0
    assert np.array_equal(data.X, before)


def test_the_split_carries_the_numbers_of_its_protocol() -> None:
    split = make_dataset().split()
    assert (split.map_at, split.precision_at, split.learning_rate) == (7, 5, 0.2)
    assert split.preprocess == "running"
    assert make_dataset().split("published").preprocess == "none"


def test_features_stay_float32() -> None:
    for protocol in PROTOCOLS:
        assert make_dataset().split(protocol).stream.X.dtype == np.float32


def test_an_unknown_protocol_is_named_with_the_closest_one() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'published'"):
        make_dataset().split("publishd")


@pytest.mark.parametrize("rows", [2, 3])
def test_a_class_with_too_few_rows_is_named(rows: int) -> None:
    with pytest.raises(InvalidInputError, match=rf"Class 1 has {rows} rows.*at least 4"):
        make_dataset((10, rows)).split()


def test_a_class_with_one_row_more_than_its_queries_is_enough() -> None:
    assert np.bincount(make_dataset((10, 4)).split().database.y).tolist() == [7, 1]


def test_zero_queries_are_refused() -> None:
    sizes = dataclasses.replace(SIZES, queries_per_class=0)
    with pytest.raises(InvalidInputError, match="queries_per_class=0"):
        dataclasses.replace(make_dataset(), sizes=sizes).split()


def test_a_data_set_needs_a_row_for_every_label() -> None:
    with pytest.raises(InvalidInputError, match="a row for every label"):
        dataclasses.replace(make_dataset(), y=np.zeros(3, np.int64))


def test_the_repr_of_a_data_set_is_one_short_line() -> None:
    assert "array" not in repr(make_dataset())
