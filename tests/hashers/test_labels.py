"""Several labels a row, and rows without a label."""

import numpy as np
import pytest

from onlinehash import HCOH, HMOH, LSH, OSH, AdaptHash, MIHash
from onlinehash.codebooks import ClassTable, HadamardCodebook
from onlinehash.codebooks.assignment import majority
from onlinehash.exceptions import InvalidLabelsError
from onlinehash.types import LabelSets

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 8))
Y = RNG.integers(0, 5, 60)
MULTI = [HCOH, HMOH, OSH, MIHash]


def make(hasher, **params):
    params |= {"reservoir_size": 30} if hasher is MIHash else {}
    return hasher(n_bits=8, random_state=0, **params)


@pytest.mark.parametrize("hasher", MULTI)
def test_one_label_in_a_list_is_one_label(hasher):
    single = make(hasher).partial_fit(X, Y)
    listed = make(hasher).partial_fit(X, [[y] for y in Y.tolist()])
    assert np.array_equal(single.project(X), listed.project(X))


@pytest.mark.parametrize("hasher", MULTI)
def test_an_indicator_matrix_is_its_lists_of_columns(hasher):
    indicator = RNG.integers(0, 2, (60, 5))
    indicator[:, 0] |= indicator.sum(axis=1) == 0
    lists = [np.flatnonzero(row).tolist() for row in indicator]
    a = make(hasher).partial_fit(X, indicator)
    b = make(hasher).partial_fit(X, lists)
    assert np.array_equal(a.project(X), b.project(X))


@pytest.mark.parametrize("hasher", [*MULTI, AdaptHash])
def test_rows_without_a_label_are_skipped_and_counted(hasher):
    y = [None if i % 3 == 0 else int(label) for i, label in enumerate(Y)]
    some = make(hasher).partial_fit(X, y)
    kept = np.arange(60) % 3 != 0
    alone = make(hasher).partial_fit(X[kept], Y[kept])
    assert np.array_equal(some.project(X), alone.project(X))
    assert (some.n_samples_seen_, some.n_unlabelled_) == (40, 20)
    with_nan = np.where(kept, Y, np.nan)
    assert np.array_equal(make(hasher).partial_fit(X, with_nan).transform(X), alone.transform(X))


@pytest.mark.parametrize("hasher", MULTI)
def test_empty_label_lists_are_rows_without_a_label(hasher):
    lists = [[] if i % 2 else [int(label), 9] for i, label in enumerate(Y)]
    learned = make(hasher).partial_fit(X, lists)
    assert (learned.n_samples_seen_, learned.n_unlabelled_) == (30, 30)


def test_a_stream_without_any_label_teaches_a_supervised_method_nothing():
    hasher = HCOH(8, random_state=0).partial_fit(X, [None] * 60)
    assert hasher.n_unlabelled_ == 60
    with pytest.raises(AttributeError, match="not learned"):
        hasher.snapshot()
    hasher.partial_fit(X, Y)
    assert (hasher.n_samples_seen_, hasher.n_unlabelled_) == (60, 60)


def test_unsupervised_methods_learn_from_every_row():
    hasher = LSH(8, random_state=0).partial_fit(X, [None] * 60)
    assert hasher.n_samples_seen_ == 60
    with pytest.raises(InvalidLabelsError, match="60 rows"):
        LSH(8).partial_fit(X, Y[:5])


def test_sets_of_labels_are_taken_too():
    sets = [{"b", "a"} if i % 2 else {"c"} for i in range(60)]
    lists = [["a", "b"] if i % 2 else ["c"] for i in range(60)]
    assert np.array_equal(make(HCOH).partial_fit(X, sets).weights_, make(HCOH).partial_fit(X, lists).weights_)


def test_an_indicator_matrix_in_lists_is_not_taken_for_labels():
    with pytest.raises(InvalidLabelsError, match=r"np\.array"):
        make(HCOH).partial_fit(X, RNG.integers(0, 2, (60, 5)).tolist())


def test_methods_that_compare_single_labels_refuse_several():
    with pytest.raises(InvalidLabelsError, match="AdaptHash learns from one label per row"):
        AdaptHash(8).partial_fit(X, [[1, 2]] * 60)


def test_several_codewords_meet_at_their_majority():
    table = ClassTable(HadamardCodebook(8, seed=1))
    table.admit(LabelSets([("a", "b", "c")]))
    target = table.targets(LabelSets([("a", "b", "c"), ("a",)]))
    words = table.codewords.astype(int)
    assert np.array_equal(target[0], np.sign(words.sum(axis=0)))
    assert np.array_equal(target[1], words[0])


def test_undecided_bits_balance_the_code():
    for sums in ([0] * 8, [2, 0, 0, 0, 0, 0, 0, 0], [-2, -2, 0, 0], [2, 2, 2, 0]):
        signs = majority(np.array(sums))
        assert np.array_equal(signs[np.array(sums) != 0], np.sign(sums)[np.array(sums) != 0])
        assert abs(int(signs.sum())) <= max(abs(sum(np.sign(sums))) - sums.count(0), len(sums) % 2)


def test_osh_updates_once_for_every_label():
    both = OSH(8, random_state=0, preprocess="none", loss="hinge").partial_fit(X[:1], [["a", "b"]])
    one_by_one = OSH(8, random_state=0, preprocess="none", loss="hinge").partial_fit(X[[0, 0]], ["a", "b"])
    assert np.allclose(both.weights_, one_by_one.weights_)
