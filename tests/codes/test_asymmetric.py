import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.reference import asymmetric as reference

from onlinehash import asymmetric_distances, hamming_distances, pack_bits, unpack_signs
from onlinehash.exceptions import InvalidCodesError


def random_problem(n_queries, n_codes, n_bits, seed=0):
    rng = np.random.default_rng(seed)
    return np.tanh(rng.normal(size=(n_queries, n_bits))), pack_bits(rng.integers(0, 2, (n_codes, n_bits)))


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 140), st.integers(0, 10**6))
def test_distances_equal_adding_up_bit_by_bit(n_bits, seed):
    soft, codes = random_problem(3, 9, n_bits, seed)
    got = asymmetric_distances(soft, codes)
    assert got.dtype == np.float32
    assert np.allclose(got, reference.distances(soft, codes), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("n_bits", [1, 7, 8, 20, 64, 100, 300])
def test_sure_queries_get_the_hamming_distance_exactly(n_bits):
    codes = random_problem(1, 50, n_bits)[1]
    soft = unpack_signs(codes[:5], n_bits)
    assert np.array_equal(asymmetric_distances(soft, codes), hamming_distances(codes[:5], codes))


@pytest.mark.parametrize("n_bits", [5, 24, 64, 90])
def test_equal_codes_get_equal_distances_wherever_they_are(n_bits):
    soft, codes = random_problem(2, 700, n_bits)
    order = np.random.default_rng(1).integers(0, 700, 3000)
    assert np.array_equal(asymmetric_distances(soft, codes)[:, order], asymmetric_distances(soft, codes[order]))


def test_distances_are_never_negative():
    for seed in range(20):
        signs = np.where(np.random.default_rng(seed).random((1, 64)) < 0.5, -1.0, 1.0)
        nearly_sure = signs * (1 - np.random.default_rng(seed).random((1, 64)) * 1e-6)
        assert asymmetric_distances(nearly_sure, pack_bits(signs > 0)).min() >= 0


def test_any_number_of_queries_is_taken():
    soft, codes = random_problem(200, 3, 12)
    every = asymmetric_distances(soft, codes)
    assert np.array_equal(every[150:153], asymmetric_distances(soft[150:153], codes))
    assert asymmetric_distances(soft[:0], codes).shape == (0, 3)
    assert asymmetric_distances(soft, codes[:0]).shape == (200, 0)


def test_read_only_and_strided_input_is_accepted_and_left_alone():
    soft, codes = random_problem(4, 20, 16)
    expected = asymmetric_distances(soft, codes)
    soft.flags.writeable = codes.flags.writeable = False
    assert np.array_equal(asymmetric_distances(soft, codes), expected)
    assert np.array_equal(asymmetric_distances(soft[::2], codes[::-3]), expected[::2, ::-3])
    assert np.array_equal(asymmetric_distances(np.asfortranarray(soft), np.asfortranarray(codes)), expected)


@pytest.mark.parametrize(
    "soft, message",
    [
        ([[0.0, np.nan, 0.0]], "The queries hold nan at row 0, bit 1"),
        ([[0.0, 0.0, 0.0], [0.0, 0.0, -np.inf]], "The queries hold -inf at row 1, bit 2"),
        ([[1.5, 0.0, 0.0]], "The queries hold 1.5 at row 0, bit 0; values go from -1 to 1"),
        ([0.0, 0.0, 0.0], r"The queries have shape \(3,\)"),
        (np.zeros((1, 0)), r"The queries have shape \(1, 0\)"),
        (np.zeros((1, 3), np.uint8), "The queries have dtype uint8"),
        ([["a", "b", "c"]], "The queries have dtype"),
        (np.zeros((1, 9)), "1 bytes per row, but 9 bits take 2"),
        (np.zeros((1, 2)), "bits set beyond bit 2"),
    ],
)
def test_bad_input_is_named(soft, message):
    with pytest.raises(InvalidCodesError, match=message):
        asymmetric_distances(soft, np.array([[0b101]], np.uint8))
