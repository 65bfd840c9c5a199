from pathlib import Path

import numpy as np
import pytest

from onlinehash import hadamard_codewords
from onlinehash.codebooks import HadamardCodebook, hadamard_matrix, hadamard_rows, make_codebook
from onlinehash.codebooks.hadamard import _drawn_rows
from onlinehash.exceptions import InvalidInputError, UnknownNameError

GOLDEN = Path(__file__).parents[1] / "golden"


def words(codebook, n):
    return np.array([codebook.codeword(i) for i in range(n)], dtype=int)


def test_the_closed_form_equals_the_authors_matrix():
    golden = np.load(GOLDEN / "hadamard.npz")
    assert np.array_equal(hadamard_matrix(16), golden["H16"])
    assert np.array_equal(hadamard_matrix(32), golden["H32"])


@pytest.mark.parametrize("order", [1, 2, 8, 64, 256])
def test_rows_are_orthogonal(order):
    H = hadamard_matrix(order).astype(int)
    assert np.array_equal(H @ H.T, order * np.eye(order))


def test_a_row_is_computed_from_its_number_alone():
    assert np.array_equal(hadamard_rows([5, 3], 16), hadamard_matrix(16)[[5, 3]])


@pytest.mark.parametrize("order", [0, 3, 12])
def test_orders_that_are_no_power_of_two_are_refused(order):
    with pytest.raises(InvalidInputError, match="not a power of two"):
        hadamard_matrix(order)


def test_up_to_n_bits_classes_get_different_orthogonal_codewords():
    W = words(HadamardCodebook(16, seed=3), 16)
    assert np.array_equal(W @ W.T, 16 * np.eye(16))


def test_the_order_of_the_rows_depends_on_the_seed_alone():
    assert np.array_equal(words(HadamardCodebook(16, seed=1), 9), words(HadamardCodebook(16, seed=1), 9))
    assert not np.array_equal(words(HadamardCodebook(16, seed=1), 9), words(HadamardCodebook(16, seed=2), 9))


def test_codebook_grows_when_a_class_more_than_its_order_arrives_and_no_earlier_word_moves():
    codebook = HadamardCodebook(8, seed=0)
    before = words(codebook, 8)
    after = words(codebook, 40)
    assert np.array_equal(after[:8], before)
    assert after.shape == (40, 8)
    assert set(np.unique(after)) == {-1, 1}


def test_a_codeword_does_not_depend_on_which_were_asked_for_before():
    assert np.array_equal(HadamardCodebook(8, seed=4).codeword(37), words(HadamardCodebook(8, seed=4), 38)[37])


def test_lengths_that_differ_from_the_order_are_reduced_by_one_gaussian_matrix():
    codebook = HadamardCodebook(12, n_classes=10, seed=0)
    rows = hadamard_matrix(16).astype(int)
    used = _drawn_rows(0, 16, 0)[:10].tolist()
    assert len(set(used)) == 10
    gaussian = np.random.default_rng([0, 16, 1]).standard_normal((16, 12))
    signs = np.where(rows[used] @ gaussian >= 0, 1, -1)
    assert np.array_equal(words(codebook, 10), signs)


def test_reduced_words_keep_orthogonal_rows_apart_on_average():
    distances = []
    for seed in range(30):
        W = words(HadamardCodebook(12, n_classes=16, seed=seed), 16)
        distances.append(((12 - W @ W.T) / 2)[np.triu_indices(16, 1)].mean())
    assert abs(np.mean(distances) - 6) < 0.2  # fair coins: half the bits


def test_known_classes_fix_the_order_as_in_the_paper():
    assert set(hadamard_codewords(range(10), 16, seed=0)) == set(range(10))
    few = hadamard_codewords(range(10), 8, seed=0)
    assert np.array_equal(few[3], HadamardCodebook(8, n_classes=10, seed=0).codeword(3))
    assert not np.array_equal(few[3], HadamardCodebook(8, seed=0).codeword(3))


def test_an_unknown_codebook_is_named_with_a_hint():
    with pytest.raises(UnknownNameError, match="Did you mean 'hadamard'"):
        make_codebook("hadamar", 8, 0)
    with pytest.raises(InvalidInputError, match="neither a name nor a mapping"):
        make_codebook(7, 8, 0)
