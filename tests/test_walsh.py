import numpy as np
import pytest

from onlinehash._internal.walsh import walsh_hadamard
from onlinehash.codebooks import hadamard_matrix
from onlinehash.exceptions import InvalidInputError


@pytest.mark.parametrize("n", [1, 2, 8, 64, 256])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_transform_equals_the_product_with_the_matrix(n, dtype):
    values = np.random.default_rng(0).normal(size=(n, 5)).astype(dtype)
    expected = hadamard_matrix(n) @ values
    assert np.allclose(walsh_hadamard(values.copy()), expected, rtol=1e-4, atol=1e-4)
    vector = values[:, 0].copy()
    assert np.allclose(walsh_hadamard(vector), expected[:, 0], rtol=1e-4, atol=1e-4)


def test_transforming_twice_gives_the_values_back():
    values = np.random.default_rng(0).normal(size=(16, 3))
    assert np.allclose(walsh_hadamard(walsh_hadamard(values.copy())) / 16, values)


@pytest.mark.parametrize("n", [0, 3, 12])
def test_lengths_that_are_no_power_of_two_are_refused(n):
    with pytest.raises(InvalidInputError, match="power of two"):
        walsh_hadamard(np.zeros(n))
