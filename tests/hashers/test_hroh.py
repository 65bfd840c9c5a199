import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.reference import hroh as reference

from onlinehash import HROH, load_dataset
from onlinehash.codebooks import LadderCodebook
from onlinehash.exceptions import InvalidInputError, InvalidLabelsError, NotLearnedError
from onlinehash.hashers import HASHERS, OnlineHasher, load_hasher

PENALTY = 0.3


def stream(n=300, d=9, n_classes=6, seed=0, noise=1.0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, n)
    y[:n_classes] = np.arange(n_classes)
    return (rng.normal(size=(n_classes, d))[y] + noise * rng.normal(size=(n, d))).astype(dtype), y


def words(n_classes=6, n_bits=16, seed=0):
    return dict(enumerate(np.random.default_rng(seed).choice([-1, 1], (n_classes, n_bits))))


def make(n_bits=16, **params):
    """Return a small hasher whose map does not depend on the stream."""
    return HROH(n_bits, **{"n_components": 64, "bandwidth": 0.8, "random_state": 0} | params)


def solution(hasher):
    """Return the weights of all features, the constant's last: one column per bit, or per class if sharpened."""
    encoder = hasher.snapshot()
    columns = np.vstack([encoder.weights, 2.0 * encoder.intercept])
    if encoder.sharpness:
        return columns
    n_classes = len(encoder.classes)
    return np.hstack([columns[:, :n_classes] @ encoder.codewords, columns[:, n_classes:]])


def summed(hasher):
    """Return the hasher with no rows that wait: the solution is then exact, and the penalty that of all rows."""
    hasher._flush()
    return hasher


def expected_solution(hasher, X, y, weights=None):
    features = hasher.snapshot().features if hasher.features == "fourier" else None
    Z, T = reference.mapped(reference.unit(X), features), words()
    if hasher.balance == 1.0:
        return reference.ridge(Z, reference.targets(y, T), PENALTY, weights)
    n_classes = len(hasher.classes_)
    by_class = reference.balanced_ridge(Z, reference.shares(y, n_classes), PENALTY, hasher.balance, weights)
    return by_class @ np.array([T[label] for label in range(n_classes)])


def assert_close(a, b, tolerance=1e-8):
    assert np.abs(a - b).max() <= tolerance * np.abs(b).max()


def as_bytes(hasher):
    return pickle.dumps(hasher)


# ---------------------------------------------------------------------- the solution


@pytest.mark.parametrize("balance", [1.0, 0.5, 0.0])
@pytest.mark.parametrize("features", ["fourier", "none"])
@pytest.mark.parametrize("n", [3, 100, 256, 300, 1100])
def test_the_weights_are_those_of_ridge_regression_on_the_codewords(features, n, balance):
    X, y = stream(n, n_classes=min(n, 6))
    hasher = make(features=features, codebook=words(), alpha=PENALTY, balance=balance).partial_fit(X, y)
    assert_close(solution(hasher), expected_solution(hasher, X, y))


@pytest.mark.parametrize("preprocess", ["none", "mean"])
def test_other_preprocessing_comes_before_the_map(preprocess):
    X, y = stream()
    mean = X.mean(axis=0)
    rows = X if preprocess == "none" else reference.unit(X - mean)
    given_mean = preprocess if preprocess == "none" else mean
    hasher = make(preprocess=given_mean, codebook=words(), alpha=PENALTY, balance=1.0).partial_fit(X, y)
    Z = reference.mapped(rows, hasher.snapshot().features)
    assert_close(solution(hasher), reference.ridge(Z, reference.targets(y, words()), PENALTY))
    encoder = hasher.snapshot()
    assert_close(encoder.project(X), Z @ solution(hasher))


def test_the_bandwidth_is_the_median_squared_distance_in_the_first_rows():
    X, y = stream(600)
    features = make(bandwidth=None).partial_fit(X, y).snapshot().features
    rows = reference.unit(X[:256])
    distances = np.square(rows[:, None] - rows).sum(axis=2)[np.triu_indices(256, 1)]
    assert features.bandwidth == pytest.approx(np.median(distances))


@pytest.mark.parametrize("balance", [1.0, 0.5, 0.0])
@pytest.mark.parametrize("n", [100, 300, 1100])
def test_a_row_with_several_labels_is_learned_towards_the_mean_of_their_codewords(n, balance):
    X, _ = stream(n)
    rng = np.random.default_rng(1)
    y = [rng.choice(6, rng.integers(1, 4), replace=False).tolist() for _ in range(n)]
    hasher = make(codebook=words(), alpha=PENALTY, balance=balance).partial_fit(X, y)
    assert_close(solution(hasher), expected_solution(hasher, X, y))


@pytest.mark.parametrize("balance", [1.0, 0.5, 0.0])
@pytest.mark.parametrize("n", [100, 300, 1100])
def test_weights_count_rows(n, balance):
    X, y = stream(n)
    weights = np.random.default_rng(1).choice([0.0, 0.5, 1.0, 2.0], n)
    hasher = make(codebook=words(), alpha=PENALTY, balance=balance).partial_fit(X, y, weights)
    assert_close(solution(hasher), expected_solution(hasher, X, y, weights))


@pytest.mark.parametrize("alpha", [PENALTY, None])
def test_a_row_of_weight_two_is_two_rows_and_one_of_weight_zero_is_none(alpha):
    X, y = stream()
    times = np.random.default_rng(1).integers(0, 3, len(X))
    weighted = make(codebook=words(), alpha=alpha).partial_fit(X, y, times)
    repeated = make(codebook=words(), alpha=alpha)
    repeated.partial_fit(np.repeat(X, times, axis=0), np.repeat(y, times))
    assert_close(solution(weighted), solution(repeated))


def test_weights_of_rows_without_a_label_go_with_them():
    X, y = stream(100)
    labelled = np.arange(100) % 3 != 0
    weights = np.random.default_rng(1).uniform(0.5, 2.0, 100)
    some = make().partial_fit(X, np.where(labelled, y, np.nan), weights)
    assert np.array_equal(
        some.transform(X), make().partial_fit(X[labelled], y[labelled], weights[labelled]).transform(X)
    )
    assert_close(solution(some), solution(make().fit(X[labelled], y[labelled], weights[labelled])))


@pytest.mark.parametrize("balance", [1.0, 0.5, 0.0])
@pytest.mark.parametrize("cuts", [[], [1, 2, 7, 280], [256], [255, 257]])
def test_decay_weighs_rows_by_their_age(cuts, balance):
    X, y = stream(300)
    weights = np.random.default_rng(1).uniform(0.5, 2.0, 300)
    hasher = make(codebook=words(), alpha=PENALTY, decay=0.98, balance=balance)
    for part in np.split(np.arange(300), cuts):
        hasher.partial_fit(X[part], y[part], weights[part]).snapshot()
    faded = weights * 0.98 ** np.arange(299, -1, -1)
    assert_close(solution(hasher), expected_solution(hasher, X, y, faded))


@pytest.mark.parametrize("balance", [1.0, 0.5, 0.0])
def test_decay_reaches_across_sums_of_many_rows(balance):
    X, y = stream(1500)
    hasher = make(codebook=words(), alpha=PENALTY, decay=0.999, balance=balance).partial_fit(X, y)
    faded = 0.999 ** np.arange(1499, -1, -1)
    assert_close(solution(hasher), expected_solution(hasher, X, y, faded))


@pytest.mark.parametrize("alpha", [PENALTY, None])
def test_single_precision_stays_close_to_double(alpha):
    X, y = stream(1300)
    double = make(alpha=alpha).partial_fit(X, y)
    single = make(alpha=alpha).partial_fit(X.astype(np.float32), y)
    assert single.project(X).dtype == np.float32
    assert_close(single.project(X), double.project(X), 1e-4)


def test_a_row_alone_is_summed_to_the_same_bits_as_among_others():
    X, y = stream(200, dtype=np.float32)
    whole, rows = make().partial_fit(X, y), make()
    for x, label in zip(X, y, strict=True):
        rows.partial_fit(x, label)
    assert np.array_equal(whole.project(X), rows.project(X))


def test_digits_are_retrieved():
    split = load_dataset("digits").split()
    hasher = HROH(16, n_components=256, random_state=0).partial_fit(*split.stream)
    assert hasher.score(*split.queries) > 0.93


# ---------------------------------------------------------------------- order


@pytest.mark.parametrize("seed", range(6))
def test_a_stream_sorted_by_class_learns_the_same(seed):
    X, y = stream(400, seed=seed, noise=1.5)
    order = np.argsort(y, kind="stable")[::-1]
    shuffled = make(codebook=words()).partial_fit(X, y)
    assert_close(solution(make(codebook=words()).partial_fit(X[order], y[order])), solution(shuffled), 1e-7)


@given(st.lists(st.integers(0, 700), max_size=6))
@settings(deadline=None, max_examples=10)
def test_how_the_stream_is_cut_does_not_matter(cuts):
    X, y = stream(700)
    whole, parts = make(bandwidth=None).partial_fit(X, y), make(bandwidth=None)
    for part in np.split(np.arange(700), sorted(cuts)):
        if len(part):
            parts.partial_fit(X[part], y[part])
    assert_close(solution(parts), solution(whole))


@pytest.mark.parametrize("cuts", [[1024], [1000, 1050], [256, 1500], [2500]])
def test_the_cut_does_not_matter_where_classes_settle(cuts):
    X, y = stream(2600, n_classes=20)
    y[:2300][y[:2300] == 7] = 8  # class 7 comes late
    whole, parts = make(8).partial_fit(X, y), make(8)
    for part in np.split(np.arange(2600), cuts):
        parts.partial_fit(X[part], y[part])
    assert np.array_equal(parts.codewords_, whole.codewords_)
    assert_close(solution(parts), solution(whole))


@pytest.mark.parametrize("seed", range(3))
def test_the_cut_does_not_matter_after_rows_were_forgotten(seed):
    X, y = stream(1500, n_classes=20, seed=seed, noise=3.0)
    whole, parts = make(8), make(8)
    for each in (whole, parts):
        each.partial_fit(X[:300], y[:300]).unlearn(X[:5], y[:5])
    whole.partial_fit(X[300:], y[300:])
    for start in range(300, 1500, 97):
        parts.partial_fit(X[start : start + 97], y[start : start + 97])
    assert parts._classes.settled == whole._classes.settled
    assert np.array_equal(parts.codewords_, whole.codewords_)
    assert_close(solution(summed(parts)), solution(summed(whole)))


def test_one_row_at_a_time_learns_the_same():
    X, y = stream(600)
    whole, rows = make(codebook=words()).partial_fit(X, y), make(codebook=words())
    for x, label in zip(X, y, strict=True):
        rows.partial_fit(x, label)
    assert_close(solution(rows), solution(whole))


# ---------------------------------------------------------------------- merging


@pytest.mark.parametrize("n, cut", [(600, 300), (300, 10), (2600, 1400)])
def test_two_halves_merge_into_the_whole(n, cut):
    X, y = stream(n)
    whole = make().partial_fit(X, y)
    first, second = make().partial_fit(X[:cut], y[:cut]), make().partial_fit(X[cut:], y[cut:])
    before = as_bytes(second)
    assert first.merge(second) is first
    assert_close(solution(first), solution(summed(whole)))
    assert_close(first.project(X), whole.project(X))
    assert (first.n_samples_seen_, first.snapshot().version) == (n, n)
    assert as_bytes(second) == before


@pytest.mark.parametrize("cut", [100, 256, 300])
def test_a_sibling_has_the_same_map(cut):
    X, y = stream(600)
    first = make(bandwidth=None, random_state=None).partial_fit(X[:cut], y[:cut])
    clone = first.empty_clone()
    with pytest.raises(NotLearnedError):
        clone.snapshot()
    second = clone.partial_fit(X[cut:], y[cut:])
    bandwidth = first.snapshot().features.bandwidth
    whole = make(bandwidth=bandwidth, random_state=first.seed_).partial_fit(X, y)
    assert_close(solution(first.merge(second)), solution(whole))


def test_a_clone_made_before_the_map_is_fixed_does_not_fix_it():
    X, y = stream(600)
    first, alone = (make(bandwidth=None).partial_fit(X[:50], y[:50]) for _ in range(2))
    second = first.empty_clone().partial_fit(X[300:], y[300:])
    for each in (first, alone):
        each.partial_fit(X[50:300], y[50:300])
    assert first.to_bytes() == alone.to_bytes()
    with pytest.raises(InvalidInputError, match="bandwidth is"):
        first.merge(second)


def test_the_other_hasher_may_hold_new_labels_and_know_them_in_another_order():
    X, y = stream(500, n_classes=6)
    order = np.argsort(y, kind="stable")[::-1]
    early, late = order[:220], order[220:]  # classes 5, 4, 3; then 3, 2, 1, 0
    first = make(codebook=words()).partial_fit(X[early], y[early])
    second = make(codebook=words()).partial_fit(X[late[::-1]], y[late[::-1]])
    first.merge(second)
    assert sorted(first.classes_) == list(range(6))
    assert_close(solution(first), solution(make(codebook=words()).partial_fit(X, y)), 1e-7)


def test_the_codebook_of_the_first_holds():
    X, y = stream(500)
    first = make(16, codebook=words()).partial_fit(X[:200], y[:200])
    first.merge(make(9, codebook="random").partial_fit(X[200:], y[200:]))
    assert_close(solution(first), solution(make(16, codebook=words()).partial_fit(X, y)))


def test_merging_goes_on_after_more_rows_and_several_times():
    X, y = stream(900)
    parts = [make(codebook=words()).partial_fit(X[i::3], y[i::3]) for i in range(3)]
    parts[0].snapshot()
    merged = parts[0].merge(parts[1]).merge(parts[2]).partial_fit(X[:50], y[:50])
    rows, labels = np.vstack([X, X[:50]]), np.concatenate([y, y[:50]])
    assert_close(solution(summed(merged)), solution(summed(make(codebook=words()).partial_fit(rows, labels))))
    assert merged.n_samples_seen_ == 950


def test_merging_adds_up_the_rows_without_a_label():
    X, y = stream(100)
    first, second = (
        make().partial_fit(X, np.where(y == 0, np.nan, y)),
        make().partial_fit(X, np.where(y == 1, np.nan, y)),
    )
    n_skipped = first.n_unlabelled_ + second.n_unlabelled_
    assert first.merge(second).n_unlabelled_ == n_skipped > second.n_unlabelled_


def test_merging_without_a_map_needs_no_seed():
    X, y = stream(500)
    first, second = make(features="none", random_state=1), make(features="none", random_state=2)
    first.partial_fit(X[:200], y[:200]).merge(second.partial_fit(X[200:], y[200:]))
    assert_close(solution(first), solution(make(features="none", random_state=1).partial_fit(X, y)))


@pytest.mark.parametrize(
    "mine, theirs, message",
    [
        ({}, {"random_state": 1}, "random_state is 0 here and 1 there"),
        ({}, {"bandwidth": 0.7}, "bandwidth is 0.8 here and 0.7 there"),
        ({}, {"n_components": 32}, "n_components is 64 here and 32 there"),
        ({}, {"features": "none"}, "features is fourier here and none there"),
        ({}, {"preprocess": "none"}, r"preprocess is \[0.0, .* here and none there"),
        ({}, {"preprocess": np.ones(9)}, r"preprocess is \[0.0, .* here and \[1.0, "),
        ({"preprocess": "running"}, {"preprocess": "running"}, "A running mean belongs to one stream"),
        ({"preprocess": "none"}, {"preprocess": "running"}, "A running mean belongs to one stream"),
        ({"preprocess": "running"}, {}, "A running mean belongs to one stream"),
        ({"bandwidth": None}, {}, "bandwidth is"),
        ({"bandwidth": None}, {"bandwidth": None}, "bandwidth is"),
        ({"codebook": words(3)}, {}, "no codeword for label 3"),
    ],
)
def test_hashers_with_different_maps_do_not_merge_and_stay_as_they_are(mine, theirs, message):
    X, y = stream(100)
    small = y < 3
    first, second = make(**mine).partial_fit(X[small], y[small]), make(**theirs).partial_fit(X, y)
    before = as_bytes(first), as_bytes(second)
    with pytest.raises((InvalidInputError, InvalidLabelsError), match=message):
        first.merge(second)
    assert (as_bytes(first), as_bytes(second)) == before


def test_merging_refuses_another_width_other_kinds_of_labels_and_hashers_that_saw_nothing():
    X, y = stream(100)
    first = make().partial_fit(X, y)
    before = as_bytes(first)
    with pytest.raises(InvalidInputError, match="number of columns of X is 9 here and 8 there"):
        first.merge(make().partial_fit(X[:, :8], y))
    with pytest.raises(InvalidLabelsError, match="use one kind"):
        first.merge(make().partial_fit(X, y.astype(str)))
    with pytest.raises(NotLearnedError):
        first.merge(make())
    with pytest.raises(NotLearnedError):
        make().merge(first)
    with pytest.raises(NotLearnedError):
        make().empty_clone()
    assert as_bytes(first) == before
    with pytest.raises(InvalidInputError, match="belongs to one stream"):
        make(preprocess="running").partial_fit(X, y).empty_clone()


# ---------------------------------------------------------------------- forgetting


@pytest.mark.parametrize("n", [300, 900, 3000])
def test_forgetting_the_class_that_came_last_equals_never_having_seen_it(n):
    X, y = stream(n)
    order = np.argsort(y == 5, kind="stable")
    X, y = X[order], y[order]
    gone = y == 5
    hasher = HROH(16, n_components=64, random_state=0).partial_fit(X, y)
    before = hasher.snapshot()
    assert hasher.unlearn(X[gone], y[gone]) is hasher
    never = HROH(16, n_components=64, random_state=0)
    if (~gone).sum() < 256:  # the bandwidth is that of all rows seen when the rows were forgotten
        never.bandwidth = before.features.bandwidth
    never.partial_fit(X[~gone], y[~gone])
    assert_close(solution(hasher), solution(never), 1e-6)
    assert (hasher.n_samples_seen_, hasher.n_unlearned_) == (n, gone.sum())
    assert hasher.snapshot().version == n + gone.sum()


@pytest.mark.parametrize("cut", [200, 290, 650])
def test_forgetting_a_class_in_the_middle_equals_never_having_seen_it(cut):
    X, y = stream(700, noise=1.5)
    gone = y == 2
    hasher = make(codebook=words()).partial_fit(X[:cut], y[:cut])
    hasher.snapshot()
    hasher.partial_fit(X[cut:], y[cut:]).unlearn(X[gone], y[gone])
    assert_close(solution(hasher), solution(make(codebook=words()).partial_fit(X[~gone], y[~gone])), 1e-6)


@pytest.mark.parametrize("n_bits", [4, 16])
def test_classes_that_have_not_settled_take_the_words_they_would_have_had(n_bits):
    X, y = stream(700, n_classes=12)
    gone = y == 2
    hasher = make(n_bits).partial_fit(X, y).unlearn(X[gone], y[gone])
    never = make(n_bits).partial_fit(X[~gone], y[~gone])
    assert_close(solution(hasher), solution(never), 1e-6)


def test_rows_are_forgotten_one_by_one_or_with_several_labels_or_weights():
    X, y = stream(400)
    lists = [[int(label), (int(label) + 1) % 6] if i % 2 else [int(label)] for i, label in enumerate(y)]
    weights = np.random.default_rng(1).uniform(0.5, 2.0, 400)
    hasher = make(codebook=words()).partial_fit(X, lists, weights)
    hasher.unlearn(X[:300], lists[:300], weights[:300])
    for i in range(300, 310):
        hasher.unlearn(X[i : i + 1], lists[i : i + 1], weights[i : i + 1])
    never = make(codebook=words()).partial_fit(X[310:], lists[310:], weights[310:])
    assert_close(solution(hasher), solution(never), 1e-6)
    single = make(codebook=words()).partial_fit(X, y).unlearn(X[0], y[0])
    assert_close(solution(single), solution(make(codebook=words()).partial_fit(X[1:], y[1:])), 1e-6)


def test_rows_without_a_label_were_not_learned_and_are_not_forgotten():
    X, y = stream(400)
    hasher = make(codebook=words()).partial_fit(X, y)
    hasher.unlearn(X[:4], [int(y[0]), None, None, int(y[3])])
    assert hasher.n_unlearned_ == 2
    assert_close(
        solution(hasher),
        solution(make(codebook=words()).partial_fit(np.delete(X, [0, 3], 0), np.delete(y, [0, 3]))),
        1e-6,
    )
    assert hasher.unlearn(X[:2], [[], []]).unlearn(X[:2], [None, None]).n_unlearned_ == 2


@pytest.mark.parametrize("features", ["fourier", "none"])
def test_single_precision_rows_are_forgotten(features):
    X, y = stream(500, dtype=np.float32)
    gone = np.arange(500) >= 300
    params = {"features": features, "n_components": 40, "codebook": words()}
    hasher = make(**params).partial_fit(X, y).unlearn(X[gone], y[gone])
    never = make(**params).partial_fit(X[~gone], y[~gone])
    assert_close(solution(hasher), solution(never), 1e-5)


def test_more_rows_than_are_mapped_at_once_are_forgotten():
    X, y = stream(3000)
    hasher = make(codebook=words()).partial_fit(X, y).unlearn(X[200:2700], y[200:2700])
    rest = np.r_[:200, 2700:3000]
    assert_close(solution(hasher), solution(make(codebook=words()).partial_fit(X[rest], y[rest])), 1e-6)


def test_what_was_forgotten_can_be_learned_again():
    X, y = stream(400)
    gone = y == 2
    hasher = make(codebook=words()).partial_fit(X, y)
    before = solution(hasher)
    hasher.unlearn(X[gone], y[gone]).partial_fit(X[gone], y[gone])
    assert_close(solution(hasher), before, 1e-6)
    assert hasher.n_samples_seen_ == 400 + gone.sum()


@pytest.mark.parametrize("params", [{}, {"general_bits": 4}, {"features": "none"}, {"bandwidth": None}])
def test_all_rows_may_be_forgotten(params):
    X, y = stream(100)
    weights = np.random.default_rng(1).uniform(0.5, 2.0, 100)
    hasher = make(**params).partial_fit(X, y, weights).unlearn(X, y, weights)
    assert np.abs(hasher.project(X)).max() < 1e-6
    hasher.partial_fit(X, y)
    assert hasher.score(X, y) > 0.5


@pytest.mark.parametrize("params", [{}, {"bandwidth": None}])
@pytest.mark.parametrize(
    "y, message",
    [
        ([0, 77], "No row of class 77 was ever learned"),
        ([[0], [0, 77]], "No row of class 77"),
        (["0", "1"], "No row of class '0'"),
        ([6, 6], "There are 2 rows of class 6 to unlearn, but only 1 were learned"),
        ([0], "y has 1 labels, X has 2 rows"),
    ],
)
def test_rows_that_were_not_learned_are_refused_and_nothing_changes(params, y, message):
    X, labels = stream(100)
    labels[50] = 6
    hasher = make(**params).partial_fit(X, labels)
    before = as_bytes(hasher)
    with pytest.raises(InvalidLabelsError, match=message):
        hasher.unlearn(X[:2], y)
    with pytest.raises(InvalidInputError, match="sample_weight"):
        hasher.unlearn(X[:2], labels[:2], [1.0, -1.0])
    assert as_bytes(hasher) == before


@pytest.mark.parametrize(
    "params, message", [({"decay": 0.99}, "With decay=0.99"), ({"preprocess": "running"}, "The running mean has moved")]
)
def test_streams_that_cannot_forget_say_so_and_stay_as_they_are(params, message):
    X, y = stream(100)
    hasher = make(**params).partial_fit(X, y)
    before = as_bytes(hasher)
    with pytest.raises(InvalidInputError, match=message):
        hasher.unlearn(X[:2], y[:2])
    assert as_bytes(hasher) == before


def test_nothing_learned_is_nothing_to_forget():
    with pytest.raises(NotLearnedError):
        make().unlearn(*stream(10))


# ---------------------------------------------------------------------- other bits, other codebooks


@pytest.mark.parametrize("n", [100, 400, 2000])
@pytest.mark.parametrize("params", [{"bandwidth": None}, {}])
def test_other_lengths_equal_having_learned_them(n, params):
    X, y = stream(n, n_classes=10)
    long = make(64, **params).partial_fit(X, y)
    before = as_bytes(long)
    short = long.with_bits(16)
    assert as_bytes(long) == before
    assert (short.n_bits, long.n_bits) == (16, 64)
    expected = make(16, **params).partial_fit(X, y)
    assert np.array_equal(short.codewords_, expected.codewords_)
    assert_close(solution(short), solution(expected))
    short.partial_fit(X[:50] + 1.0, y[:50])
    assert as_bytes(long) == before
    assert_close(solution(short), solution(expected.partial_fit(X[:50] + 1.0, y[:50])))


def test_where_classes_are_more_than_bits_another_length_chooses_words_afresh():
    X, y = stream(1500, n_classes=20, noise=2.0)
    long, short = make(64).partial_fit(X, y), make(8).partial_fit(X, y)
    assert len(short._classes.settled) == 20
    assert np.array_equal(short.with_bits(8).codewords_, long.with_bits(8).codewords_)


def test_another_length_may_have_general_bits():
    X, y = stream(400)
    long = make(64).partial_fit(X, y)
    short = long.with_bits(16, general_bits=6)
    assert_close(solution(short), solution(make(16, general_bits=6).partial_fit(X, y)))
    assert long.general_bits == 0
    assert short.with_bits(16).general_bits == 0
    for n_bits, general_bits in [(0, 0), (8, 8), (8, 9), (8, -1), (8, 1.5), (2.5, 0)]:
        with pytest.raises(InvalidInputError):
            long.with_bits(n_bits, general_bits)
    assert (long.n_bits, long.general_bits) == (64, 0)


def test_more_general_bits_than_features_are_rotations_and_tell_rows_apart():
    X, y = stream(400)
    assert X.shape[1] == 9
    few, many = (make(8 + n, general_bits=n).partial_fit(X, y).snapshot() for n in (9, 40))
    assert (few.n_bits, many.n_bits, many.codewords.shape[1]) == (17, 48, 8)
    np.testing.assert_allclose(many.project(X)[:, 8:17], few.project(X)[:, 8:], atol=1e-6)
    codes = {length: {code.tobytes() for code in each.encode(X)} for length, each in ((9, few), (40, many))}
    assert len(codes[40]) > 1.2 * len(codes[9])


def test_another_codebook_equals_having_learned_it():
    X, y = stream(400)
    hasher = make().partial_fit(X, y)
    before = as_bytes(hasher)
    for codebook in (words(seed=3), "random", "hadamard"):
        other = hasher.with_codebook(codebook)
        assert_close(solution(other), solution(make(codebook=codebook).partial_fit(X, y)))
    with pytest.raises(InvalidLabelsError, match="no codeword for label 3"):
        hasher.with_codebook(words(3))
    with pytest.raises(InvalidInputError, match="shape"):
        hasher.with_codebook(words(n_bits=9))
    assert as_bytes(hasher) == before
    for change in (lambda: make().with_bits(8), lambda: make().with_codebook("random")):
        with pytest.raises(NotLearnedError):
            change()


# ---------------------------------------------------------------------- snapshots


@pytest.mark.parametrize("features", ["fourier", "none"])
@pytest.mark.parametrize("n_waiting, looks", [(1, False), (60, False), (60, True)])
def test_few_rows_that_wait_move_the_solution_as_if_they_were_summed(n_waiting, looks, features):
    X, y = stream(1024 + n_waiting)
    hasher = make(codebook=words(), alpha=PENALTY, features=features).partial_fit(X[:1024], y[:1024])
    before = solution(hasher) if looks else None
    moved = solution(hasher.partial_fit(X[1024:], y[1024:]))
    assert hasher.snapshot().version == 1024 + n_waiting
    exact = solution(summed(hasher))
    assert_close(exact, expected_solution(hasher, X, y))
    assert_close(moved, exact, 1e-5)
    if before is not None:
        assert np.abs(before - exact).max() > 0.01


def test_few_rows_that_wait_may_weigh_much():
    X, y = stream(1084)
    weights = np.where(np.arange(1084) < 1024, 1.0, 1000.0)
    hasher = make(codebook=words(), alpha=PENALTY).partial_fit(X, y, weights)
    moved = solution(hasher)
    assert_close(moved, solution(summed(hasher)), 1e-4)


def test_a_new_class_among_few_rows_that_wait_is_learned_at_once():
    X, y = stream(1100, n_classes=8, noise=0.5)
    X, y = np.vstack([X[y < 7], X[y == 7][:20]]), np.concatenate([y[y < 7], y[y == 7][:20]])
    looked, alone = make(32), make(32)
    for start in range(0, len(X), 150):
        looked.partial_fit(X[start : start + 150], y[start : start + 150]).snapshot()
        alone.partial_fit(X[start : start + 150], y[start : start + 150])
    assert looked.score(X[-20:], y[-20:]) > 0.8
    assert np.array_equal(looked.project(X), alone.project(X))


@pytest.mark.parametrize("n_bits", [4, 32])
@pytest.mark.parametrize("params", [{}, {"bandwidth": None}, {"decay": 0.999}])
def test_looking_changes_nothing(n_bits, params):
    X, y = stream(1500, n_classes=12)
    looked, alone = make(n_bits, **params), make(n_bits, **params)
    for start in range(0, len(X), 230):
        part = slice(start, start + 230)
        looked.partial_fit(X[part], y[part]).snapshot()
        assert len(looked.codewords_) == 12
        alone.partial_fit(X[part], y[part])
    assert np.array_equal(looked.codewords_, alone.codewords_)
    assert np.array_equal(solution(looked), solution(alone))
    assert looked.snapshot().version == 1500


# ---------------------------------------------------------------------- codewords


def test_codewords_settle_after_1024_instances():
    X, y = stream(4000, n_classes=20)
    hasher = make(8).partial_fit(X[:1023], y[:1023])
    assert not hasher._classes.settled
    hasher.partial_fit(X[1023:1024], y[1023:1024])
    assert len(hasher._classes.settled) == 20
    settled = hasher.codewords_
    assert sorted(hasher._classes.settled.values()) == list(range(20))
    for start in range(1024, 4000, 500):
        hasher.partial_fit(X[start : start + 500] * -1.0, y[start : start + 500])
        assert np.array_equal(hasher.codewords_, settled)


def test_codewords_are_provisional_before_and_all_different_at_any_time():
    X, y = stream(1000, n_classes=20)
    hasher = make(8)
    seen = []
    for start in range(0, 1000, 100):
        seen.append(hasher.partial_fit(X[start : start + 100], y[start : start + 100]).codewords_)
        assert len(np.unique(seen[-1], axis=0)) == 20
    assert any(not np.array_equal(seen[0], later) for later in seen[1:])
    arrival = make(8, assignment="arrival").partial_fit(X, y)
    assert {tuple(word) for word in arrival.codewords_} == {tuple(word) for word in seen[-1]}


def test_a_class_with_few_rows_settles_later():
    X, y = stream(2048, n_classes=20)
    rare = np.flatnonzero(y == 19)
    y[rare[(rare < 1024) & (rare > rare[10])]] = 0
    hasher = make(8).partial_fit(X[:1024], y[:1024])
    assert 19 not in hasher._classes.settled
    assert len(hasher._classes.settled) == 19
    settled = hasher.codewords_
    hasher.partial_fit(X[1024:], y[1024:])
    assert np.array_equal(hasher.codewords_[:19], settled[:19])
    assert len(hasher._classes.settled) == 20


def test_a_class_that_comes_later_moves_no_settled_codeword():
    X, y = stream(3000, n_classes=20)
    late = y[:2000] >= 15
    X, y = np.vstack([X[:2000][~late], X[2000:]]), np.concatenate([y[:2000][~late], y[2000:]])
    hasher = make(8).partial_fit(X[:1100], y[:1100])
    settled = hasher.codewords_
    hasher.partial_fit(X[1100:], y[1100:])
    assert len(hasher.classes_) == 20
    assert np.array_equal(hasher.codewords_[:15], settled)
    assert len(np.unique(hasher.codewords_, axis=0)) == 20


def test_a_settled_class_that_was_forgotten_keeps_its_codeword():
    X, y = stream(1500, n_classes=20)
    gone = y == 3
    hasher = make(8).partial_fit(X, y)
    settled = hasher.codewords_
    assert np.array_equal(hasher.unlearn(X[gone], y[gone]).codewords_, settled)
    assert np.array_equal(hasher.partial_fit(X[gone], y[gone]).codewords_, settled)


def test_merging_moves_no_settled_codeword():
    X, y = stream(3000, n_classes=20)
    first = make(8).partial_fit(X[:1500][y[:1500] < 15], y[:1500][y[:1500] < 15])
    settled = first.codewords_
    first.merge(make(8).partial_fit(X[1500:], y[1500:]))
    assert len(settled) == 15
    assert np.array_equal(first.codewords_[:15], settled)
    assert len(np.unique(first.codewords_, axis=0)) == 20


def test_words_may_stay_in_order_of_arrival():
    X, y = stream(1500, n_classes=20)
    hasher = make(8, assignment="arrival").partial_fit(X, y)
    codebook = LadderCodebook(8, seed=0)
    assert np.array_equal(hasher.codewords_, [codebook.codeword(i) for i in range(20)])
    assert not hasher._classes.settled


def test_learned_words_are_easier_to_learn():
    X, y = stream(1500, n_classes=40, noise=0.7)
    learned = make(8).partial_fit(X, y)
    arrival = make(8, assignment="arrival").partial_fit(X, y)
    assert learned.score(X, y) > arrival.score(X, y)


@pytest.mark.parametrize("n", [60, 150, 300])
def test_score_is_that_of_the_codewords_in_use(n):
    X, y = stream(n, n_classes=20, noise=0.5)
    waiting = make(8, bandwidth=None).partial_fit(X, y)
    bandwidth = waiting.snapshot().features.bandwidth
    assert waiting.score(X, y) == make(8, bandwidth=bandwidth).partial_fit(X, y).score(X, y)
    assert waiting.score(X, y) > 0.3


# ---------------------------------------------------------------------- the penalty


def test_the_penalty_does_not_depend_on_the_number_of_bits():
    X, y = stream(400)
    scores = [make(n_bits).partial_fit(X, y).decision_function(X) for n_bits in (8, 16, 64)]
    assert np.array_equal(scores[0], scores[1])
    assert np.array_equal(scores[0], scores[2])


@pytest.mark.parametrize("bandwidth", [None, 0.8])
def test_the_length_of_rows_does_not_matter(bandwidth):
    X, y = stream(400)
    plain, scaled = make(bandwidth=bandwidth).partial_fit(X, y), make(bandwidth=bandwidth).partial_fit(1000 * X, y)
    assert_close(solution(scaled), solution(plain), 1e-6)


@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_rows_of_any_scale_are_learned_without_preprocessing(scale):
    # Not the same codes: the constant and the cosines do not grow with the rows.
    X, y = stream(400, noise=0.5)
    hasher = make(preprocess="none", bandwidth=None).partial_fit(scale * X, y)
    plain = make(preprocess="none", bandwidth=None).partial_fit(X, y)
    assert hasher.score(scale * X, y) > plain.score(X, y) - 0.05


@pytest.mark.parametrize("n", [1, 2, 5, 30])
@pytest.mark.parametrize("d", [9, 200])
def test_few_rows_are_learned_sensibly(n, d):
    X, y = stream(n, d, n_classes=min(n, 5), noise=0.3)
    hasher = make(bandwidth=None).partial_fit(X, y)
    assert np.isfinite(solution(hasher)).all()
    assert hasher.score(X, y) > 0.9


@pytest.mark.parametrize("params", [{}, {"general_bits": 4}, {"features": "none"}])
def test_one_class_only_gives_its_codeword(params):
    X, _ = stream(50)
    hasher = make(bandwidth=None, **params).partial_fit(X, ["only"] * 50)
    signs = np.where(hasher.project(X)[:, : 16 - params.get("general_bits", 0)] >= 0, 1, -1)
    assert (signs == hasher.codewords_[0, : signs.shape[1]]).mean() > 0.95


@pytest.mark.parametrize("params", [{}, {"general_bits": 4}, {"features": "none"}])
@pytest.mark.parametrize("value", [0.0, 3.0])
def test_rows_that_are_all_equal_or_zero_are_learned_from(params, value):
    hasher = make(bandwidth=None, **params).partial_fit(np.full((40, 5), value), np.arange(40) % 4)
    assert np.isfinite(solution(hasher)).all()
    hasher = make(bandwidth=None, **params).partial_fit(np.full((300, 5), value), np.zeros(300, int))
    n_class_bits = 16 - params.get("general_bits", 0)
    signs = np.where(hasher.project(np.full((1, 5), value)) >= 0, 1, -1)
    assert np.array_equal(signs[0, :n_class_bits], hasher.codewords_[0, :n_class_bits])


# ---------------------------------------------------------------------- saving


@pytest.mark.parametrize("cut", [100, 256, 1023, 1500])
@pytest.mark.parametrize(
    "params",
    [
        {},
        {"bandwidth": None},
        {"features": "none", "general_bits": 3},
        {"decay": 0.999},
        {"codebook": words(20, 8)},
    ],
    ids=str,
)
def test_a_resumed_stream_goes_on_bit_for_bit(params, cut, tmp_path):
    X, y = stream(2100, n_classes=20, dtype=np.float32)
    y[:1600][y[:1600] == 13] = 0  # comes late
    weights = np.random.default_rng(1).uniform(0.5, 2.0, 2100)
    hasher = make(8, **params)
    hasher.partial_fit(X[:60], y[:60]).partial_fit(X[60:cut], y[60:cut], weights[60:cut])
    hasher.save(tmp_path / "h.oh")
    again = load_hasher(tmp_path / "h.oh")
    assert isinstance(again, HROH)
    assert np.array_equal(again.codewords_, hasher.codewords_)
    assert np.array_equal(solution(again), solution(hasher))
    for each in (hasher, again):
        each.partial_fit(X[cut:], y[cut:], weights[cut:])
    assert again._classes.settled == hasher._classes.settled
    assert np.array_equal(again.codewords_, hasher.codewords_)
    assert np.array_equal(solution(again), solution(hasher))


def test_a_loaded_hasher_merges_and_forgets(tmp_path):
    X, y = stream(700)
    hasher = make(bandwidth=None).partial_fit(X[:300], y[:300])
    hasher.unlearn(X[:10], y[:10]).save(tmp_path / "h.oh")
    again = load_hasher(tmp_path / "h.oh")
    assert again.n_unlearned_ == 10
    assert again.snapshot().version == 310
    for each in (hasher, again):
        each.merge(each.empty_clone().partial_fit(X[300:], y[300:])).unlearn(X[10:40], y[10:40])
    assert np.array_equal(solution(again), solution(hasher))


# ---------------------------------------------------------------------- refused


@pytest.mark.parametrize(
    "params, message",
    [
        ({"decay": 0}, "decay=0 is not positive"),
        ({"decay": 1.5}, "decay=1.5 is more than 1"),
        ({"decay": "slow"}, "decay='slow' is not a number"),
        ({"features": "x"}, "features='x' is not one of 'fourier', 'none'"),
        ({"assignment": "x"}, "assignment='x' is not one of 'learned', 'arrival'"),
        ({"n_components": 0}, "n_components=0 is not positive"),
        ({"n_components": 2.5}, "n_components=2.5 is not an integer"),
        ({"bandwidth": -1}, "bandwidth=-1 is not positive"),
        ({"bandwidth": 0}, "bandwidth=0 is not positive"),
        ({"alpha": 0.0}, "alpha=0.0 is not positive"),
        ({"alpha": np.nan}, "alpha=nan is not positive"),
        ({"balance": -0.1}, "balance=-0.1 is not a number from 0 to 1"),
        ({"balance": 1.1}, "balance=1.1 is not a number from 0 to 1"),
        ({"balance": np.nan}, "balance=nan is not a number from 0 to 1"),
        ({"balance": None}, "balance=None is not a number from 0 to 1"),
        ({"balance": True}, "balance=True is not a number from 0 to 1"),
        ({"balance": "auto"}, "balance='auto' is not a number from 0 to 1"),
        ({"temperature": 0}, "temperature=0 is not positive"),
        ({"temperature": -1.0}, "temperature=-1.0 is not positive"),
        ({"temperature": np.inf}, "temperature=inf is not positive and finite"),
        ({"temperature": "hot"}, "temperature='hot' is not a number"),
        ({"general_bits": -1}, "general_bits=-1 is not an integer of at least 0"),
        ({"general_bits": True}, "general_bits=True is not an integer"),
        ({"general_bits": 1.5}, "general_bits=1.5 is not an integer"),
        ({"general_bits": 16}, "general_bits=16 leaves no bit for classes, of n_bits=16"),
        ({"sharpness": "sharp"}, "sharpness='sharp' is neither 'auto', None nor a number from 0 to 80"),
        ({"sharpness": -1.0}, "sharpness=-1.0 is not positive"),
        ({"sharpness": True}, "sharpness=True is not a number"),
        ({"sharpness": 81}, "sharpness=81 is more than 80"),
        ({"n_bits": 0}, "n_bits=0 is not positive"),
        ({"codebook": "laddr"}, "Did you mean 'ladder'"),
        ({"codebook": words(n_bits=9)}, r"has shape \(9,\)"),
        ({"preprocess": "some"}, "preprocess='some'"),
    ],
)
def test_a_faulty_parameter_is_named_and_leaves_no_trace(params, message):
    hasher = make(**params)
    before = dict(vars(hasher))
    with pytest.raises(ValueError, match=message):
        hasher.partial_fit(*stream())
    assert vars(hasher).keys() == before.keys()


@pytest.mark.parametrize(
    "weights, message",
    [
        ([1.0, 1.0], r"sample_weight has shape \(2,\); X has 3 rows"),
        (2.0, r"sample_weight has shape \(\)"),
        ([[1.0], [1.0], [1.0]], r"sample_weight has shape \(3, 1\)"),
        ([1.0, -1.0, 1.0], "negative or not finite"),
        ([1.0, np.nan, 1.0], "negative or not finite"),
        ([1.0, np.inf, 1.0], "negative or not finite"),
        ([0.0, 0.0, 0.0], "sample_weight is zero for every row"),
        ([0.0, 0.0, 1.0], "sample_weight is zero for every row that has a label"),
    ],
)
def test_faulty_weights_are_refused_and_nothing_changes(weights, message):
    X, y = stream(100)
    hasher = make().partial_fit(X, y)
    before = as_bytes(hasher)
    for learn in (hasher.partial_fit, hasher.fit, hasher.unlearn):
        with pytest.raises(InvalidInputError, match=message):
            learn(X[:3], [0, 1, None], weights)
        assert as_bytes(hasher) == before
    fresh = make()
    with pytest.raises(InvalidInputError, match=message):
        fresh.partial_fit(X[:3], [0, 1, None], weights)
    with pytest.raises(NotLearnedError):
        fresh.snapshot()


def test_weights_count_in_the_running_mean_and_rows_of_weight_zero_bring_no_class():
    X, weights = np.eye(3, 4), [1.0, 0.0, 2.0]
    hasher = HROH(8, features="none", preprocess="running", random_state=0).partial_fit(X, ["b", "a", "c"], weights)
    assert hasher.classes_.tolist() == ["b", "c"]
    assert np.allclose(hasher.snapshot().features.mean, np.average(X, axis=0, weights=weights))
    one_by_one = HROH(8, features="none", preprocess="running", random_state=0)
    for row, label, weight in zip(X, ["b", "a", "c"], weights, strict=True):
        if weight:
            one_by_one.partial_fit([row], [label], [weight])
    assert np.allclose(one_by_one.project(X), hasher.project(X))
    assert np.allclose(load_hasher(hasher.to_bytes()).project(X), hasher.project(X))


def test_fit_starts_again_and_takes_weights():
    X, y = stream(300)
    weights = np.random.default_rng(1).uniform(0.5, 2.0, 300)
    hasher = make().partial_fit(X[:50] + 3.0, y[:50]).unlearn(X[:5] + 3.0, y[:5])
    again = hasher.fit(X, y, weights)
    assert (again.n_samples_seen_, again.n_unlearned_) == (300, 0)
    assert np.array_equal(solution(again), solution(make().partial_fit(X, y, weights)))


@pytest.mark.parametrize("n", [100, 700, 1500])  # before the head is complete, before and after classes settle
def test_looks_leave_no_trace(n):
    X, y = stream(2000, n_classes=20)
    looked_at, alone = (make(8, bandwidth=None, codebook="ladder").partial_fit(X[:n], y[:n]) for _ in range(2))
    before = {name: pickle.dumps(value) for name, value in looked_at.__dict__.items() if name != "_solved"}
    words = looked_at.codewords_
    looked_at.snapshot()
    looked_at.score(X[:50], y[:50])
    looked_at.empty_clone()
    assert looked_at.to_bytes() == alone.to_bytes()
    assert {name: pickle.dumps(value) for name, value in looked_at.__dict__.items() if name != "_solved"} == before
    assert np.array_equal(looked_at.codewords_, words)
    for each in (looked_at, alone):
        each.partial_fit(X[n:], y[n:])
    assert looked_at.to_bytes() == alone.to_bytes()
    assert np.array_equal(looked_at.project(X), alone.project(X))


def test_every_hasher_learns_and_freezes_by_the_same_methods():
    for hasher in HASHERS.values():
        assert hasher.snapshot is OnlineHasher.snapshot
        assert hasher.takes_weights or hasher.fit is OnlineHasher.fit
        assert hasher.takes_weights or hasher.partial_fit is OnlineHasher.partial_fit
