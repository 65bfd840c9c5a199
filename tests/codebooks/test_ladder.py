import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onlinehash import HCOH, HMOH, load_dataset
from onlinehash.codebooks import LadderCodebook, hadamard_matrix, make_codebook
from onlinehash.codebooks.ladder import _Chain, _nordstrom_robinson
from onlinehash.exceptions import InvalidInputError


def words(n_bits, n, seed=0):
    codebook = LadderCodebook(n_bits, seed=seed)
    return np.array([codebook.codeword(i) for i in range(n)])


def distances(W):
    products = W.astype(np.float32) @ W.T.astype(np.float32)
    return ((W.shape[1] - products) / 2)[np.triu_indices(len(W), 1)].astype(int)


@pytest.mark.parametrize("seed", [0, 1, 7])
@pytest.mark.parametrize(
    "n_bits, n_classes, distance",
    [
        (2, 2, 1), (3, 4, 2), (4, 8, 2), (6, 10, 2), (7, 8, 4), (7, 16, 3),
        (8, 10, 4), (8, 16, 4), (8, 128, 2), (8, 256, 1),
        (15, 256, 5), (16, 16, 8), (16, 32, 8), (16, 205, 6), (16, 256, 6), (16, 2048, 4),
        (32, 64, 16), (32, 205, 12), (32, 2048, 12),
        (64, 10, 32), (64, 128, 32), (64, 205, 28), (64, 1000, 28), (64, 1024, 28),
        (128, 205, 64), (128, 256, 64), (128, 1000, 56), (256, 512, 128), (256, 1000, 120),
    ],
)  # fmt: skip
def test_the_first_classes_are_exactly_this_far_apart(n_bits, n_classes, distance, seed):
    assert distances(words(n_bits, n_classes, seed)).min() == distance


def least_weight(n, n_words):
    """Return the least weight of a linear code that starts the ladder, from its cosets of RM(1), all words at once."""
    chain, H = _Chain(n), hadamard_matrix(n).astype(np.float32)
    leaders = np.array([chain.linear_leader(i) for i in range(n_words // (2 * n))], np.float32)
    bias = np.abs(leaders @ H)
    bias[0, 0] = 0  # the word 0 itself
    return (n - bias.max()) / 2


@pytest.mark.parametrize(
    "n, dimension, distance",
    [
        (4, 3, 2), (4, 4, 1), (8, 4, 4), (8, 7, 2), (8, 8, 1), (16, 5, 8), (16, 7, 6), (16, 11, 4), (16, 15, 2),
        (32, 6, 16), (32, 11, 12), (32, 16, 8), (64, 7, 32), (64, 10, 28), (64, 16, 24), (64, 18, 22),
        (128, 8, 64), (128, 15, 56), (256, 9, 128), (256, 13, 120),
    ],
)  # fmt: skip
def test_the_chain_has_the_distances_of_the_extended_bch_codes(n, dimension, distance):
    assert least_weight(n, 1 << dimension) == distance


@pytest.mark.parametrize("m", range(1, 9))
def test_the_last_rung_holds_all_words(m):
    n = 1 << m
    chain = _Chain(n)
    chain.linear_leader((1 << (n - m - 1)) - 1)
    assert len(chain._sums) == n - m - 1
    assert chain._exponent <= n - 1
    linear = [sum((x >> bit & 1) << x for x in range(n)) for bit in range(m)]
    basis = []
    for word in [(1 << n) - 1, *linear, *chain._sums]:
        rest = word
        for other in basis:
            rest = min(rest, rest ^ other)
        assert rest
        basis.append(rest)


def test_the_nordstrom_robinson_cosets_differ_by_bent_functions_and_lead_all_others():
    order = _nordstrom_robinson()
    assert sorted(order) == list(range(64))
    chain = _Chain(16)
    H = hadamard_matrix(16).astype(int)
    for a in order[:8]:
        for b in set(order[:8]) - {a}:
            assert set(np.abs(chain.linear_leader(a ^ b) @ H)) == {4}


@pytest.mark.parametrize("n_bits", range(1, 71))
def test_every_length_works_and_few_classes_stay_apart(n_bits):
    W = words(n_bits, 40)
    assert W.dtype == np.int8
    assert W.shape == (40, n_bits)
    assert set(np.unique(W)) == {-1, 1}
    assert len(np.unique(W, axis=0)) == min(40, 2**n_bits)
    if n_bits >= 4:
        assert distances(W[:10]).min() >= n_bits // 3 - (n_bits < 8)


@pytest.mark.parametrize("n_bits", range(1, 11))
def test_few_bits_use_every_word_once_before_one_repeats(n_bits):
    W = words(n_bits, 2**n_bits + 3, seed=2)
    assert len(np.unique(W[: 2**n_bits], axis=0)) == 2**n_bits
    assert np.array_equal(W[2**n_bits :], W[np.arange(3) % 2**n_bits])


@pytest.mark.parametrize("n_bits", [4, 8])
def test_few_bits_at_a_power_of_two_follow_the_ladder_itself(n_bits):
    codebook = LadderCodebook(n_bits, seed=5)
    assert [codebook._sieved(i) for i in range(4 * n_bits)] == list(range(4 * n_bits))


@pytest.mark.parametrize("n_bits", [15, 31, 63, 127])
def test_dropping_one_bit_costs_at_most_one_of_the_distance(n_bits):
    assert distances(words(n_bits, 2 * n_bits)).min() == (n_bits + 1) // 2 - 1


@given(st.integers(1, 140), st.integers(0, 2**32 - 1), st.integers(0, 3000))
@settings(deadline=None, max_examples=40)
def test_a_codeword_depends_on_its_number_alone(n_bits, seed, index):
    fresh = LadderCodebook(n_bits, seed=seed).codeword(index)
    used = LadderCodebook(n_bits, seed=seed)
    for other in (index + 17, 0, index // 2, 10**6 if n_bits > 15 else 7):
        used.codeword(other)
    assert np.array_equal(used.codeword(index, label="any"), fresh)


@pytest.mark.parametrize("n_bits", [5, 16, 24, 64])
def test_seeds_draw_different_words(n_bits):
    drawn = {words(n_bits, 10, seed).tobytes() for seed in range(8)}
    assert len(drawn) == 8


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("n_bits", [16, 24, 32, 48, 64, 96, 128, 256])
def test_ten_classes_tell_all_bits_apart_and_leave_none_constant(n_bits, seed):
    W = words(n_bits, 10, seed)
    splits = np.unique(W * W[0], axis=1)  # a bit and its complement split the classes alike
    assert splits.shape[1] == n_bits
    assert np.abs(W.sum(axis=0)).max() < 10


@pytest.mark.parametrize("n_bits", [16, 32, 64, 128])
def test_bits_are_balanced_among_the_classes(n_bits):
    assert np.abs(words(n_bits, 10).mean(axis=0)).mean() < 0.4  # fair coins: 0.25
    assert np.abs(words(n_bits, n_bits // 2).mean(axis=0)).mean() < 0.3
    assert not words(n_bits, 2 * n_bits).sum(axis=0).any()


@pytest.mark.parametrize("index", [10**9, 10**30, 2**4096 + 3])
def test_far_words_of_long_codes_are_made_one_by_one(index):
    word = LadderCodebook(4096, seed=1).codeword(index)
    assert abs(int(word.sum())) < 400
    assert np.array_equal(word, LadderCodebook(4096, seed=1).codeword(index % 2**4096))


def test_words_repeat_only_after_all_of_them():
    codebook = LadderCodebook(16, seed=0)
    assert np.array_equal(codebook.codeword(2**16 + 5), codebook.codeword(5))


def test_no_bits_are_refused():
    with pytest.raises(InvalidInputError, match="n_bits=0 is not positive"):
        LadderCodebook(0)


@pytest.mark.parametrize("hasher", [HCOH, HMOH])
def test_hashers_learn_towards_the_ladder(hasher):
    split = load_dataset("digits").split()
    learned = hasher(32, codebook="ladder", random_state=0).partial_fit(*split.stream)
    ladder = make_codebook("ladder", 32, learned.seed_)
    assert np.array_equal(learned.codewords_, [ladder.codeword(i) for i in range(10)])
    assert learned.score(*split.queries) > 0.9
