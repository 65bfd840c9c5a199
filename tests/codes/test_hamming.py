import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.reference import hamming as reference

from onlinehash import hamming_distances
from onlinehash.exceptions import InvalidCodesError


def random_codes(n, n_bytes, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (n, n_bytes), dtype=np.uint8)


@pytest.mark.parametrize("n_bytes", [1, 2, 3, 4, 6, 8, 12, 16, 32, 40])
def test_distances_equal_counting_bit_by_bit(n_bytes):
    queries, codes = random_codes(3, n_bytes, 1), random_codes(11, n_bytes, 2)
    assert np.array_equal(hamming_distances(queries, codes), reference.distances(queries, codes))


def test_the_largest_distance_of_long_codes_does_not_overflow():
    far = hamming_distances(np.zeros((1, 40), np.uint8), np.full((1, 40), 255, np.uint8))
    assert far.tolist() == [[320]]


@given(st.integers(1, 9), st.integers(0, 2**32 - 1))
def test_hamming_distance_is_a_metric(n_bytes, seed):
    codes = random_codes(6, n_bytes, seed)
    d = hamming_distances(codes, codes).astype(int)
    assert np.array_equal(d, d.T)
    assert np.array_equal(d == 0, (codes[:, None] == codes).all(axis=2))
    assert (d[:, None, :] <= d[:, :, None] + d[None, :, :]).all()


def test_read_only_strided_and_unaligned_codes_are_accepted():
    codes = random_codes(10, 8)
    expected = reference.distances(codes[:2], codes)
    frozen = codes.copy()
    frozen.flags.writeable = False
    wide = np.zeros((10, 9), np.uint8)
    wide[:, 1:] = codes
    unaligned = np.frombuffer(b"\0" + codes.tobytes(), np.uint8, offset=1).reshape(10, 8)
    for same in (frozen, wide[:, 1:], unaligned):
        assert np.array_equal(hamming_distances(same[:2], codes), expected)
        assert np.array_equal(hamming_distances(codes[:2], same), expected)


def test_codes_of_different_widths_are_refused():
    with pytest.raises(InvalidCodesError, match="codes has 2 bytes per row, but 8 bits take 1"):
        hamming_distances(np.zeros((1, 1), np.uint8), np.zeros((1, 2), np.uint8))
