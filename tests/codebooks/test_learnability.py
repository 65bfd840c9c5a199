from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.reference.hroh import explained_variance

from onlinehash.codebooks import HadamardCodebook, swap_for_learnability


def problem(n_classes, n_bits, seed):
    """Return a positive semidefinite matrix, as the features give one, and random words."""
    rng = np.random.default_rng(seed)
    roots = rng.normal(size=(n_classes, n_classes))
    return roots @ roots.T, rng.choice(np.array([-1, 1], np.int8), (n_classes, n_bits))


def swaps(places, movable):
    for a, b in combinations(movable, 2):
        swapped = places.copy()
        swapped[[a, b]] = swapped[[b, a]]
        yield swapped


@given(st.integers(2, 12), st.integers(1, 9), st.integers(0, 1000))
@settings(deadline=None, max_examples=60)
def test_it_never_explains_less_and_leaves_no_swap_that_explains_more(n_classes, n_bits, seed):
    explained, words = problem(n_classes, n_bits, seed)
    places = swap_for_learnability(explained, words, np.arange(n_classes))
    assert sorted(places) == list(range(n_classes))
    reached = explained_variance(explained, words[places])
    slack = 1e-8 * np.trace(explained)
    assert reached >= explained_variance(explained, words) - slack
    best_swap = max(explained_variance(explained, words[other]) for other in swaps(places, range(n_classes)))
    assert best_swap <= reached + slack


@pytest.mark.parametrize("seed", range(10))
def test_four_classes_end_among_the_best_that_no_swap_improves(seed):
    explained, words = problem(4, 3, seed)
    reached = explained_variance(explained, words[swap_for_learnability(explained, words, np.arange(4))])
    optima = []
    for order in permutations(range(4)):
        places = np.array(order)
        value = explained_variance(explained, words[places])
        if all(explained_variance(explained, words[other]) <= value + 1e-9 for other in swaps(places, range(4))):
            optima.append(value)
    assert min(abs(value - reached) for value in optima) < 1e-9


@given(st.integers(3, 12), st.integers(0, 1000), st.data())
@settings(deadline=None, max_examples=40)
def test_classes_that_may_not_move_keep_their_words(n_classes, seed, data):
    explained, words = problem(n_classes, 5, seed)
    movable = np.array(sorted(data.draw(st.sets(st.integers(0, n_classes - 1)))), np.intp)
    places = swap_for_learnability(explained, words, movable)
    fixed = np.setdiff1d(np.arange(n_classes), movable)
    assert np.array_equal(places[fixed], fixed)
    reached = explained_variance(explained, words[places])
    for other in swaps(places, movable.tolist()):
        assert explained_variance(explained, words[other]) <= reached + 1e-8 * np.trace(explained)


def test_no_order_of_orthogonal_words_is_better_than_another():
    explained, _ = problem(8, 16, 0)
    codebook = HadamardCodebook(16, seed=3)
    words = np.array([codebook.codeword(i) for i in range(8)])
    value = explained_variance(explained, words)
    rng = np.random.default_rng(1)
    assert all(np.isclose(explained_variance(explained, words[rng.permutation(8)]), value) for _ in range(20))
    assert np.array_equal(swap_for_learnability(explained, words, np.arange(8)), np.arange(8))


def test_the_arguments_are_not_changed():
    explained, words = problem(6, 4, 5)
    before = explained.copy(), words.copy()
    places = swap_for_learnability(explained, words, np.arange(6))
    assert not np.array_equal(places, np.arange(6))
    assert np.array_equal(explained, before[0])
    assert np.array_equal(words, before[1])
