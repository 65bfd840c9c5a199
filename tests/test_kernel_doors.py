"""Arrays that do not fit are refused at the door, before a compiled loop sees them."""

import numpy as np
import pytest

from onlinehash._internal.walsh import walsh_hadamard
from onlinehash.codes import hamming_distances
from onlinehash.codes.distances import table_distances
from onlinehash.exceptions import InvalidInputError
from onlinehash.features import Centring, Fourier, RunningCentring
from onlinehash.hashers._block import products, subtract_products

F8 = np.dtype(np.float64)


@pytest.mark.parametrize(
    "call",
    [
        lambda: walsh_hadamard(np.zeros((2, 2, 2))),
        lambda: walsh_hadamard(np.zeros(4, np.int8)),
        lambda: Centring(np.zeros(3)).transform(np.zeros((2, 4))),
        lambda: Centring(np.zeros(4)).learn(np.zeros((2, 4)), np.zeros((1, 4))),
        lambda: RunningCentring(np.zeros(3)).learn(np.zeros((2, 4)), np.zeros((2, 4))),
        lambda: RunningCentring(np.zeros(4)).learn(np.zeros((2, 4)), np.zeros((2, 3))),
        lambda: Fourier.draw(4, 8, 1.0, 0).transform(np.zeros((2, 40))),
        lambda: table_distances(np.zeros((1, 8), np.float32), np.zeros((3, 2), np.uint8)),
        lambda: hamming_distances(np.zeros((1, 8), np.uint8), np.zeros((1, 16), np.uint8)),
    ],
)
def test_what_does_not_fit_is_refused(call):
    with pytest.raises(InvalidInputError):
        call()


def test_distances_of_very_long_codes_do_not_wrap():
    codes = np.array([[0] * 8192, [255] * 8192], np.uint8)
    assert hamming_distances(codes[:1], codes).tolist() == [[0, 65536]]


@pytest.mark.parametrize("n_bits", [1, 4, 7])
@pytest.mark.parametrize("n_rows", [1, 3, 8, 13])
def test_products_of_any_size_are_those_of_numpy(n_bits, n_rows):
    rng = np.random.default_rng(0)
    rows, weights = np.zeros((13, 10), F8), np.asfortranarray(rng.standard_normal((10, n_bits)))
    rows[:, :10] = rng.standard_normal((13, 10))
    block, before = rows[:n_rows, :10], weights.copy()
    projections, gram = np.zeros((n_rows, n_bits)), np.zeros((n_rows, n_rows))
    products(rows, weights.T, n_rows, n_bits, 10, False, projections)
    products(rows, rows, n_rows, n_rows, 10, True, gram)
    assert np.allclose(projections, block @ before)
    assert np.allclose(np.tril(gram), np.tril(block @ block.T))
    subtract_products(weights.T, rows, 10, projections)
    assert np.allclose(weights, before - block.T @ projections)
