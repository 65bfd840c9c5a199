"""Arrays that do not fit are refused before a compiled loop sees them."""

import numpy as np
import pytest

from onlinehash._walsh import walsh_hadamard
from onlinehash.codebooks import swap_for_learnability
from onlinehash.codes import hamming_distances
from onlinehash.codes.asymmetric import table_distances
from onlinehash.codes.hamming import same_words
from onlinehash.exceptions import InvalidInputError
from onlinehash.features import Centring, HadamardFourier, RunningCentring
from onlinehash.hashers import HCOH, HMOH, HROH, OSH, MIHash
from onlinehash.hashers._block import BlockUpdate, block_rows, lower_gram, subtract_products, write_products
from onlinehash.hashers._ridge import Members, RidgeStatistics
from onlinehash.hashers.mihash_kernels import mutual_information

F8 = np.dtype(np.float64)
X, Y = np.random.default_rng(0).normal(size=(300, 5)), np.arange(300) % 3


def members(owner, number):
    return Members(np.array(owner), np.array(number), np.ones(len(owner)), np.ones(2))


@pytest.mark.parametrize(
    "call",
    [
        lambda: walsh_hadamard(np.zeros((2, 2, 2))),
        lambda: walsh_hadamard(np.zeros(4, np.int8)),
        lambda: Centring(np.zeros(3)).transform(np.zeros((2, 4))),
        lambda: Centring(np.zeros(5)).subtract(np.zeros((2, 4))),
        lambda: Centring(np.zeros(4)).learn(np.zeros((2, 4)), np.zeros((1, 4))),
        lambda: RunningCentring(np.zeros(3)).learn(np.zeros((2, 4)), np.zeros((2, 4))),
        lambda: RunningCentring(np.zeros(4)).learn(np.zeros((2, 4)), np.zeros((2, 3))),
        lambda: HadamardFourier.draw(4, 8, 1.0, 0).transform(np.zeros((2, 40))),
        lambda: HadamardFourier.draw(4, 8, 1.0, 0).write(np.zeros((2, 4)), np.zeros((1, 8))),
        lambda: HadamardFourier.draw(4, 8, 1.0, 0).write(np.zeros((2, 4)), np.zeros((2, 99))),
        lambda: lower_gram(np.zeros((4, 5)), 5, 5, np.zeros((8, 8))),
        lambda: lower_gram(np.zeros((8, 5)), 5, 5, np.zeros((5, 4))),
        lambda: BlockUpdate(4, 8, F8).apply(np.zeros((5, 9)), block_rows(4, 5, F8), 4, print, sequential=True),
        lambda: BlockUpdate(4, 8, F8).apply(np.zeros((5, 8)), block_rows(8, 5, F8), 8, print, sequential=True),
        lambda: BlockUpdate(4, 8, F8).apply(np.zeros((50, 8)), block_rows(4, 5, F8), 4, print, sequential=True),
        lambda: write_products(np.zeros((4, 5)), np.zeros((3, 5)), 5, np.zeros((4, 4))),
        lambda: subtract_products(np.zeros((5, 8)), block_rows(4, 5, F8), 5, np.zeros((4, 7))),
        lambda: RidgeStatistics(3).add(np.zeros((2, 4)), members([0, 1], [0, 0])),
        lambda: RidgeStatistics(3).add(np.zeros((2, 3)), members([0, 2], [0, 0])),
        lambda: RidgeStatistics(3).add(np.zeros((2, 3)), members([0, 1], [0, -5])),
        lambda: RidgeStatistics(3).add(np.zeros((2, 3)), members([0, 1], [0])),
        lambda: swap_for_learnability(np.eye(3), np.ones((4, 2), np.int8), np.arange(4)),
        lambda: swap_for_learnability(np.eye(4), np.ones((4, 2), np.int8), np.array([0, 4])),
        lambda: mutual_information(np.zeros((4, 2), np.uint8), np.ones((4, 4), bool), 3),
        lambda: mutual_information(np.full((4, 1), 255, np.uint8), np.ones((4, 4), bool), 3),
        lambda: mutual_information(np.zeros((4, 1), np.uint8), np.ones((4, 3), bool), 3),
        lambda: table_distances(np.zeros((1, 8), np.float32), np.zeros((3, 2), np.uint8)),
        lambda: same_words(np.zeros((1, 8), np.uint8), np.zeros((1, 16), np.uint8)),
    ],
)
def test_what_does_not_fit_is_refused(call):
    with pytest.raises(InvalidInputError):
        call()


@pytest.mark.parametrize(
    "hasher, name",
    [(HCOH(8), "_weights"), (OSH(8), "_weights"), (HMOH(8), "_mistakes"), (MIHash(8, reservoir_size=50), "_halves")],
    ids=["hcoh", "osh", "hmoh", "mihash"],
)
def test_a_state_that_does_not_fit_is_refused(hasher, name):
    hasher.fit(X, Y)
    state = getattr(hasher, name)
    setattr(hasher, name, state[..., :4])
    with pytest.raises(InvalidInputError, match=r"fit|counts of mistakes"):
        hasher.partial_fit(X, Y)


def test_sums_that_do_not_fit_are_refused():
    hasher = HROH(8, n_components=20, random_state=0).fit(X, Y)
    hasher._sums.statistics.sums = hasher._sums.statistics.sums[:, :4]
    with pytest.raises(InvalidInputError, match="do not fit"):
        hasher.partial_fit(X, Y)


def test_distances_of_very_long_codes_do_not_wrap():
    codes = np.array([[0] * 8192, [255] * 8192], np.uint8)
    assert hamming_distances(codes[:1], codes).tolist() == [[0, 65536]]


@pytest.mark.parametrize("n_bits", [1, 4, 7])
@pytest.mark.parametrize("n_rows", [1, 3, 8, 13])
def test_products_of_any_size_are_those_of_numpy(n_bits, n_rows):
    rng = np.random.default_rng(0)
    rows, weights = block_rows(13, 10, F8), np.asfortranarray(rng.standard_normal((10, n_bits)))
    rows[:, :10] = rng.standard_normal((13, 10))
    block, before, seen = rows[:n_rows, :10], weights.copy(), []

    def replay(projections, gram):
        seen.extend([projections.copy(), gram[:n_rows, :n_rows].copy()])

    BlockUpdate(13, n_bits, F8).apply(weights, rows, n_rows, replay, sequential=True)
    assert np.allclose(seen[0], block @ before)
    assert np.allclose(np.tril(seen[1]), np.tril(block @ block.T))
    assert np.allclose(weights, before - block.T @ seen[0])
