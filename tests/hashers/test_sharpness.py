"""Sharpened scores: HROH with more classes than its bits can name."""

import numpy as np
import pytest
from tests.reference import hroh as reference

from onlinehash import HROH, Encoder, FlatIndex, mean_average_precision
from onlinehash.hashers import load_hasher

N_CLASSES, N_BITS = 40, 12


def stream(n=1500, seed=0, noise=0.8, n_classes=N_CLASSES):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, n)
    centres = np.random.default_rng(99).normal(size=(n_classes, 16))
    return centres[y] + noise * rng.normal(size=(n, 16)), y


def make(n_bits=N_BITS, **params):
    return HROH(n_bits, **{"n_components": 64, "bandwidth": 0.8, "random_state": 0} | params)


def sharpened(scores, sharpness):
    return np.expm1(sharpness * scores / np.abs(scores).max(axis=1, keepdims=True)) / np.expm1(sharpness)


def assert_same_codes(one, other, X):
    """Few values are so close to zero that rounding decides their bit."""
    a, b = one.project(X), other.project(X)
    assert np.abs(a - b).max() < 1e-6
    assert np.array_equal(a >= 0, b >= 0)


@pytest.mark.parametrize(
    ("n", "sharpness", "balance"),
    [(150, "auto", 1.0), (150, 12, 0.5), (1024, "auto", 0.5), (1024, 0.5, 1.0), (1500, "auto", 1.0), (1500, 12, 0.5)],
)
def test_bits_are_the_signs_of_sharpened_scores_times_codewords(n, sharpness, balance):
    X, y = stream(n)
    hasher = make(sharpness=sharpness, alpha=0.3, balance=balance).partial_fit(X, y)
    hasher._flush()
    Z = reference.mapped(reference.unit(X), hasher.snapshot().features)
    classes = hasher.classes_
    own = (y[:, None] == classes).astype(float)
    by_class = reference.ridge(Z, own, 0.3) if balance == 1.0 else reference.balanced_ridge(Z, own, 0.3, balance)
    scores = Z @ by_class
    assert np.abs(hasher.decision_function(X) - scores).max() < 1e-6
    values = sharpened(scores, hasher.sharpness_) @ hasher.codewords_
    assert np.abs(hasher.project(X) - values).max() < 1e-6
    expected = 2 / 3 * np.log(len(classes) / 8) + 2 * len(classes) / 12**2 if sharpness == "auto" else sharpness
    assert hasher.sharpness_ == hasher.snapshot().sharpness == pytest.approx(expected)


@pytest.mark.parametrize("sharpness", [None, 0])
def test_without_sharpness_the_code_is_linear(sharpness):
    X, y = stream()
    hasher = make(sharpness=sharpness).partial_fit(X, y)
    encoder = hasher.snapshot()
    assert (encoder.sharpness, encoder.n_bits, hasher.sharpness_) == (0.0, N_BITS, 0.0)
    assert np.allclose(encoder.project(X), encoder.class_scores(X) @ encoder.codewords)


@pytest.mark.parametrize("n_classes, n_bits", [(10, 16), (4, 8), (2, 2)])
def test_with_few_classes_the_code_is_linear(n_classes, n_bits):
    X, y = stream(600, n_classes=n_classes)
    automatic, linear = make(n_bits).partial_fit(X, y), make(n_bits, sharpness=None).partial_fit(X, y)
    assert automatic.sharpness_ == 0.0
    assert np.array_equal(automatic.snapshot().weights, linear.snapshot().weights)


def test_nothing_changes_beyond_1024_classes():
    """The rule and the quality go on where a limit once made the code linear, to five times as many classes."""
    quality, sharpness = {}, {}
    for n_classes in (1024, 1025, 5000):
        rng = np.random.default_rng(0)
        centres = np.random.default_rng(1).normal(size=(5000, 24))[:n_classes]
        y = np.repeat(np.arange(n_classes), 4)
        X = centres[y] + 0.3 * rng.normal(size=(len(y), 24))
        encoder = make(32, features="none", assignment="arrival").partial_fit(X, y).snapshot()
        assert (len(encoder.classes), encoder.codewords.shape) == (n_classes, (n_classes, 32))
        queries = encoder.encode(centres[:300] + 0.3 * rng.normal(size=(300, 24)))
        quality[n_classes] = mean_average_precision(queries, np.arange(300), encoder.encode(X[:2000]), y[:2000])
        sharpness[n_classes] = encoder.sharpness
    assert list(sharpness.values()) == pytest.approx(3 * [2 / 3 * np.log(1024 / 8) + 2 * 256 / 32**2])
    assert abs(quality[1025] - quality[1024]) < 0.02
    assert quality[5000] > quality[1024] / 2


def test_sharpened_codes_retrieve_better():
    X, y = stream(3000)
    learned, held_out = slice(0, 2000), slice(2000, None)
    quality = {}
    for sharpness in ("auto", None):
        encoder = make(sharpness=sharpness).partial_fit(X[learned], y[learned]).snapshot()
        codes = encoder.encode(X[held_out])
        quality[sharpness] = mean_average_precision(codes[:200], y[held_out][:200], codes[200:], y[held_out][200:])
    assert quality["auto"] > quality[None] + 0.05


def test_sharpness_may_change_at_any_time_and_leaves_no_trace():
    X, y = stream()
    hasher, linear = make().partial_fit(X, y), make(sharpness=None).partial_fit(X, y)
    before = hasher.snapshot()
    hasher.set_params(sharpness=None)
    assert np.array_equal(hasher.snapshot().weights, linear.snapshot().weights)
    assert np.array_equal(linear.set_params(sharpness="auto").project(X), before.project(X))
    hasher.set_params(sharpness="auto").partial_fit(X[:10], y[:10])
    assert hasher.snapshot().version == len(X) + 10


def test_merging_unlearning_and_other_lengths_stay_exact():
    X, y = stream(2200)
    words = dict(enumerate(np.random.default_rng(1).choice([-1, 1], (N_CLASSES, N_BITS))))
    whole = make(codebook=words).partial_fit(X[:2000], y[:2000])
    whole._flush()
    order = np.argsort(y[:2000], kind="stable")
    first, second = (make(codebook=words).partial_fit(X[part], y[part]) for part in np.split(order, 2))
    assert_same_codes(first.merge(second), whole, X)
    whole.partial_fit(X[2000:], y[2000:]).unlearn(X[2000:], y[2000:])
    assert_same_codes(first, whole, X)
    gone = y[:2000] == 3
    never = make(codebook=words).partial_fit(X[:2000][~gone], y[:2000][~gone])
    never._flush()
    whole.unlearn(X[:2000][gone], y[:2000][gone])
    assert whole.snapshot().codewords.shape == (N_CLASSES - 1, N_BITS)
    assert_same_codes(whole, never, X)
    assert_same_codes(make(64).partial_fit(X, y).with_bits(9), make(9, assignment="learned").fit(X, y).with_bits(9), X)


@pytest.mark.parametrize("params", [{}, {"general_bits": 4}])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_encoders_and_hashers_are_saved_and_loaded(params, dtype, tmp_path):
    X, y = stream()
    X = X.astype(dtype)
    hasher = make(**params).partial_fit(X, y)
    hasher.save(tmp_path / "hasher.oh")
    encoder = hasher.snapshot()
    encoder.save(tmp_path / "encoder.oh")
    loaded = Encoder.load(tmp_path / "encoder.oh")
    assert (loaded.n_bits, loaded.sharpness) == (N_BITS, encoder.sharpness)
    assert np.array_equal(loaded.project(X), encoder.project(X))
    assert loaded.project(X).dtype == dtype
    with pytest.raises(ValueError, match="read-only"):
        loaded.codewords[0, 0] = 1
    assert np.array_equal(load_hasher(tmp_path / "hasher.oh").project(X), encoder.project(X))


def test_asymmetric_queries_keep_the_sharpened_values():
    X, y = stream(3000)
    encoder = make().partial_fit(X[:2000], y[:2000]).snapshot()
    values = encoder.encode_asymmetric(X[:50])
    assert np.array_equal(values, np.tanh(encoder.project(X[:50])))
    index = FlatIndex(encoder.n_bits)
    index.upsert(encoder.encode(X[2000:]))
    fine = index.search(encoder.encode_asymmetric(X[:200]), k=20, asymmetric=True).ids
    coarse = index.search(encoder.encode(X[:200]), k=20).ids
    held_out = y[2000:]
    assert (held_out[fine] == y[:200, None]).mean() >= (held_out[coarse] == y[:200, None]).mean()


def test_rows_with_several_labels_weights_and_decay_are_sharpened_too():
    X, y = stream(2000)
    lists = [[int(label), (int(label) + 1) % N_CLASSES] if i % 3 == 0 else [int(label)] for i, label in enumerate(y)]
    weights = np.random.default_rng(1).uniform(0.5, 2.0, 2000)
    hasher = make(24, decay=0.9999).partial_fit(X, lists, weights)
    assert hasher.sharpness_ > 0.0
    assert hasher.score(X, y) > 0.5


def test_a_row_of_zero_scores_has_zero_values():
    encoder = Encoder(np.eye(3), codewords=np.array([[1, -1], [1, 1], [-1, 1]], np.int8), sharpness=5.0)
    assert np.array_equal(encoder.project(np.zeros((1, 3))), [[0.0, 0.0]])
    tiny = encoder.project(np.float32([[1e-40, 0.0, 0.0]]))
    assert np.allclose(tiny, encoder.project([[1.0, 0.0, 0.0]]))


# ---------------------------------------------------------------------- general bits


@pytest.mark.parametrize("n_general", [6, 8])
def test_general_bits_follow_the_class_bits_and_come_from_the_row_alone(n_general):
    X, y = stream()
    hasher = make(16, general_bits=n_general).partial_fit(X, y)
    plain = make(16 - n_general).partial_fit(X, y)
    assert hasher.codewords_.shape == (N_CLASSES, 16 - n_general)
    assert np.allclose(hasher.project(X)[:, :-n_general], plain.project(X), atol=1e-6)
    assert not hasher.snapshot().weights[16:, -n_general:].any()
    assert hasher.score(X, y) == plain.score(X, y)


def test_general_bits_are_balanced_uncorrelated_and_separate_classes_never_learned():
    X, y = stream(4000)
    seen = y < 30
    hasher = make(16, general_bits=12).partial_fit(X[:2000][seen[:2000]], y[:2000][seen[:2000]])
    values = hasher.project(X[seen])[:, -12:]
    assert np.abs((values >= 0).mean(axis=0) - 0.5).max() < 0.2
    assert np.sqrt(np.square(values).mean()) == pytest.approx(0.5, abs=0.05)
    strangers, labels = X[2000:][~seen[2000:]], y[2000:][~seen[2000:]]
    quality = []
    for each in (hasher, make(16).partial_fit(X[:2000][seen[:2000]], y[:2000][seen[:2000]])):
        codes = each.transform(strangers)
        quality.append(mean_average_precision(codes[:100], labels[:100], codes[100:], labels[100:]))
    assert quality[0] > quality[1] + 0.05


@pytest.mark.parametrize("n", [600, 2000])
def test_general_bits_are_those_of_the_rows_whatever_their_order_and_cut(n):
    X, y = stream(n)
    whole = make(16, general_bits=6, assignment="arrival").partial_fit(X, y)
    order = np.argsort(y, kind="stable")[::-1]
    cut = [make(16, general_bits=6, assignment="arrival").partial_fit(X[part], y[part]) for part in np.split(order, 2)]
    merged = cut[0].merge(cut[1])
    assert np.abs(merged.project(X)[:, -6:] - whole.project(X)[:, -6:]).max() < 1e-6
    whole.partial_fit(X[:50] + 1.0, y[:50]).unlearn(X[:50] + 1.0, y[:50])
    assert np.abs(merged.project(X)[:, -6:] - whole.project(X)[:, -6:]).max() < 1e-5


def test_general_bits_need_neither_several_classes_nor_different_rows():
    for X, y in [(np.ones((5, 4)), [0] * 5), (np.zeros((5, 4)), [0, 1, 2, 3, 4]), (np.eye(4)[:1], [0])]:
        hasher = make(6, general_bits=3).partial_fit(X, y)
        assert np.isfinite(hasher.project(X)).all()
