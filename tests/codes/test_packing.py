import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from onlinehash import pack_bits, pack_signs, unpack_bits, unpack_signs
from onlinehash.exceptions import InvalidCodesError, InvalidInputError

bit_arrays = hnp.arrays(np.uint8, hnp.array_shapes(min_dims=2, max_dims=2, max_side=70), elements=st.integers(0, 1))


@given(bit_arrays)
def test_unpacking_inverts_packing(bits):
    assert np.array_equal(unpack_bits(pack_bits(bits), bits.shape[1]), bits)
    assert np.array_equal(unpack_signs(pack_signs(bits * 2.0 - 1), bits.shape[1]), bits * 2 - 1.0)


@given(bit_arrays)
def test_padding_bits_are_zero(bits):
    codes = pack_bits(bits)
    assert codes.shape[1] == -(-bits.shape[1] // 8)
    assert not np.unpackbits(codes, axis=1, bitorder="little")[:, bits.shape[1] :].any()


def test_bits_are_little_endian_within_a_byte():
    assert pack_bits([[1, 0, 0, 0, 0, 0, 0, 0, 0, 1]]).tolist() == [[1, 2]]


def test_zero_counts_as_positive_whatever_its_sign():
    assert pack_signs([[0.0, -0.0, -1e-300, 1e-300]]).tolist() == [[0b1011]]


@pytest.mark.parametrize("codes", [np.zeros((2, 3)), np.zeros(3, np.uint8), np.zeros((2, 0), np.uint8)])
def test_codes_of_the_wrong_dtype_or_shape_are_refused(codes):
    with pytest.raises(InvalidCodesError):
        unpack_bits(codes, 24)


def test_codes_of_the_wrong_width_or_with_padding_set_are_refused():
    with pytest.raises(InvalidCodesError, match="3 bytes per row, but 16 bits take 2"):
        unpack_bits(np.zeros((2, 3), np.uint8), 16)
    with pytest.raises(InvalidCodesError, match="beyond bit 4"):
        unpack_bits(np.array([[0b10000]], np.uint8), 4)


def test_pack_bits_refuses_anything_but_bits():
    with pytest.raises(InvalidCodesError, match="other than 0 and 1"):
        pack_bits([[1, -1]])
    with pytest.raises(InvalidCodesError, match="one row per code"):
        pack_signs([1.0, 2.0])


@pytest.mark.parametrize("n_bits", [0, -1, 1.5, "8", True])
def test_a_number_of_bits_that_is_not_positive_is_refused(n_bits):
    with pytest.raises(InvalidInputError, match="n_bits="):
        unpack_bits(np.zeros((1, 1), np.uint8), n_bits)
