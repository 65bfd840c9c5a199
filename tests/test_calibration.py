"""Calibration: thresholds, temperature, class lists and learned distances, against slow versions of each."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onlinehash import HROH, Encoder
from onlinehash.encoders import Calibration


def softmax(scores, temperature):
    exponents = np.exp(scores / temperature)
    return exponents / exponents.sum(axis=-1, keepdims=True)


def sharpened(scores):
    return np.expm1(4.0 * scores / np.abs(scores).max(axis=-1, keepdims=True)) / np.expm1(4.0)


def problem(n=300, n_classes=12, seed=0, noise=0.25):
    """Return scores of rows as ridge regression gives them, and the numbers of their classes."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, n)
    return 0.6 * np.eye(n_classes)[y] + noise * rng.normal(size=(n, n_classes)), y


# ---------------------------------------------------------------------- thresholds


def slow_threshold(probabilities, correct, max_error, unknown=(), share=0.0):
    """The least probability that, as a threshold, names at most max_error wrong classes, with one row more."""
    best, one = np.inf, (1.0 - share) / len(probabilities)
    for threshold in sorted({*probabilities, *unknown}):
        accepted = probabilities >= threshold
        named = (1.0 - share) * accepted.mean()
        wrong = (1.0 - share) * (accepted & ~correct).mean()
        if len(unknown):
            strangers = share * (np.asarray(unknown) >= threshold).mean()
            named, wrong = named + strangers, wrong + strangers
        if named > 0.0 and wrong + one <= max_error * (named + one) + 1e-12:
            best = min(best, threshold)
    return best


chances = st.lists(st.integers(1, 8).map(lambda eighths: eighths / 8), min_size=1, max_size=30)  # with many ties


@given(chances, st.data(), st.sampled_from([0.0, 0.05, 0.1, 0.25, 0.5, 1.0]))
@settings(deadline=None, max_examples=200)
def test_a_threshold_is_the_least_that_keeps_the_error(values, data, max_error):
    correct = np.array(data.draw(st.lists(st.booleans(), min_size=len(values), max_size=len(values))))
    calibration = Calibration(0.05, 0.3, 0.2, np.array(values, np.float32), correct)
    assert calibration.threshold(max_error) == slow_threshold(np.array(values), correct, max_error)
    unknown = np.array(data.draw(chances))
    share = data.draw(st.sampled_from([0.1, 0.5, 0.9]))
    expected = slow_threshold(np.array(values), correct, max_error, unknown, share)
    assert calibration.threshold(max_error, unknown, share) == expected


def test_one_row_more_than_found_is_taken_to_be_wrong():
    """Sums of tenths are not exact."""
    for n in range(2, 60):
        calibration = Calibration(probabilities=np.linspace(1, 0.5, n, dtype=np.float32), correct=np.arange(n) < n - 1)
        assert calibration.threshold(2.0 / (n + 1)) == 0.5
        assert calibration.threshold(1.9 / (n + 1)) > 0.5


def test_few_rows_promise_little():
    """Ninety-nine rows without an error are needed for one in a hundred."""
    for n in (20, 98, 99, 200):
        calibration = Calibration(probabilities=np.full(n, 0.9, np.float32), correct=np.ones(n, bool))
        assert np.isfinite(calibration.threshold(0.01)) == (n >= 99)


def test_equal_probabilities_are_accepted_together():
    calibration = Calibration(
        probabilities=np.float32([0.9, 0.5, 0.5, 0.5]), correct=np.array([True, True, True, False])
    )
    assert calibration.threshold(0.5) == 0.5
    assert calibration.threshold(0.39) == np.inf


def test_without_rows_no_probability_is_enough():
    assert Calibration().threshold(0.5) == np.inf
    assert Calibration.fit(np.empty((0, 3)), []).threshold(1.0) == np.inf


def test_unknown_rows_raise_the_threshold():
    scores, y = problem()
    calibration = Calibration.fit(scores, y[:, None])
    alone = calibration.threshold(0.1)
    assert alone < calibration.threshold(0.1, np.full(50, 0.9), 0.3) <= np.inf
    assert calibration.threshold(0.1, np.full(50, 0.01), 0.3) <= alone  # strangers that nothing resembles


# ---------------------------------------------------------------------- fitting


def likelihood(scores, own, temperature):
    p = softmax(scores, temperature)
    return np.mean([np.log(p[row, number]) for row, numbers in enumerate(own) for number in numbers])


@pytest.mark.parametrize("noise", [0.1, 0.25, 0.6])
@pytest.mark.parametrize("lists", [False, True])
def test_the_temperature_is_the_most_likely_one(noise, lists):
    scores, y = problem(noise=noise)
    own = [[int(c), (int(c) + 1) % 12][: 1 + lists * (row % 2)] for row, c in enumerate(y)]
    chosen = Calibration.fit(scores, own).temperature
    tried = np.geomspace(0.005, 1.0, 400)
    best = max(likelihood(scores, own, temperature) for temperature in tried)
    assert likelihood(scores, own, chosen) > best - 0.005


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_what_is_kept_of_the_rows(dtype):
    scores, y = problem()
    scores = scores.astype(dtype)
    calibration = Calibration.fit(scores, y[:, None])
    assert np.array_equal(calibration.correct, scores.argmax(axis=1) == y)
    assert np.allclose(calibration.probabilities, softmax(scores, calibration.temperature).max(axis=1), atol=1e-5)
    assert calibration.known_score == pytest.approx(np.quantile(scores.max(axis=1), 0.05))
    assert calibration.spread == pytest.approx(scores.max(axis=1).std())
    assert calibration.is_known(scores).mean() == pytest.approx(0.95, abs=0.01)


def test_probabilities_mean_what_they_say():
    scores, y = problem(4000)
    calibration = Calibration.fit(scores[:2000], y[:2000, None])
    right = scores[2000:].argmax(axis=1) == y[2000:]
    sure = softmax(scores[2000:], calibration.temperature).max(axis=1)
    for low, high in [(0.4, 0.6), (0.6, 0.8), (0.8, 1.0)]:
        some = (sure >= low) & (sure < high)
        assert right[some].mean() == pytest.approx(sure[some].mean(), abs=0.08)
    accepted = sure >= calibration.threshold(0.1)
    assert (~right[accepted]).mean() == pytest.approx(0.1, abs=0.03)


def test_one_class_is_always_right():
    calibration = Calibration.fit(np.full((5, 1), 0.7), [[0]] * 5)
    assert calibration.correct.all()
    assert np.array_equal(calibration.probabilities, np.ones(5))
    assert calibration.spread > 0.0
    assert calibration.threshold(0.2) == 1.0


def test_a_class_that_was_unlearned_has_no_part():
    scores, y = problem()
    some = np.hstack([scores, np.full((300, 1), -np.inf)])
    assert Calibration.fit(some, y[:, None]).temperature == Calibration.fit(scores, y[:, None]).temperature


# ---------------------------------------------------------------------- rankings


@pytest.mark.parametrize("n_classes", [1, 2, 4, 5, 6, 300])
def test_lists_hold_the_most_probable_classes(n_classes):
    scores = problem(50, n_classes)[0]
    lists = Calibration(0.1).class_lists(scores)
    assert (lists.shape, lists.dtype) == ((50, 5), np.uint32)
    p, f = softmax(scores, 0.1), np.maximum(sharpened(scores), 0.0)
    n_listed = min(5, n_classes)
    for row, entries in enumerate(lists):
        best = np.argsort(-scores[row])[:n_listed]
        assert (entries[:n_listed] >> 16).tolist() == best.tolist()
        assert np.abs((entries[:n_listed] >> 8 & 255) / 255 - p[row, best]).max() <= 0.5 / 255 + 1e-12
        assert np.abs((entries[:n_listed] & 255) / 255 - f[row, best]).max() <= 0.5 / 255 + 1e-12
        assert not entries[n_listed:].any()


def slow_distance(calibration, query, item, cosine, n_listed):
    """The learned distance from all classes, of which an item has its best."""
    p, f = [softmax(each, calibration.temperature) for each in (query, item)], [sharpened(query), sharpened(item)]
    listed = np.isin(np.arange(len(item)), np.argsort(-item)[:n_listed])
    same = p[0][listed] @ p[1][listed]
    stored = np.maximum(f[1], 0.0) * listed
    agree = f[0] @ stored / np.linalg.norm(f[0]) / np.linalg.norm(stored)
    gate = 0.9 / (1.0 + np.exp((calibration.known_score - query.max()) / (0.3 * calibration.spread)))
    return 1.0 - gate * (same + agree) / 2.0 - (1.0 - gate) * cosine


@pytest.mark.parametrize("n_classes", [1, 5, 30])
@pytest.mark.parametrize("scale", [0.2, 1.0])  # queries unlike everything learned, and like it
def test_distances_are_nearly_those_of_all_classes(n_classes, scale):
    scores, y = problem(200, n_classes, noise=0.1)
    calibration = Calibration.fit(scores, y[:, None])
    cosines = np.random.default_rng(1).uniform(-1.0, 0.99, 200)
    lists = calibration.class_lists(scores)
    for query in scale * scores[:6]:
        distances = calibration.distances(query, lists, cosines)
        for n_listed, tolerance in ((5, 0.005), (n_classes, 0.03)):  # rounding, and the classes that are not listed
            items = zip(scores, cosines, strict=True)
            expected = [slow_distance(calibration, query, *item, n_listed) for item in items]
            assert np.abs(distances - np.maximum(expected, 1e-6)).max() < tolerance


def test_distances_are_learned_for_known_queries_and_geometric_for_others():
    scores, y = problem(noise=0.05)
    calibration = Calibration.fit(scores, y[:, None])
    lists, cosines = calibration.class_lists(scores), np.linspace(0.9, -0.9, 300)
    known = calibration.distances(scores[0], lists, np.zeros(300))
    assert known[y == y[0]].max() < known[y != y[0]].min()
    stranger = calibration.distances(np.full(12, 0.01), lists, cosines)
    assert np.array_equal(np.argsort(stranger), np.arange(300))
    assert np.abs(stranger - (1.0 - cosines)).max() < 0.05


def test_the_same_vector_comes_first():
    scores, y = problem(noise=0.05)
    calibration = Calibration.fit(scores, y[:, None])
    cosines = np.full(300, 0.5)
    cosines[7] = 1.0
    distances = calibration.distances(scores[3], calibration.class_lists(scores), cosines)
    assert distances[7] == 0.0
    assert np.delete(distances, 7).min() > 0.0


# ---------------------------------------------------------------------- in an encoder


@pytest.mark.parametrize("labels", [np.arange(7), np.array([f"class {c}" for c in range(7)])])
def test_an_encoder_is_saved_with_classes_and_calibration(labels, tmp_path):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 7, 300)
    X = rng.normal(size=(7, 6))[y] + 0.3 * rng.normal(size=(300, 6))
    hasher = HROH(16, n_components=32, random_state=0).partial_fit(X, labels[y])
    plain = hasher.snapshot()
    scores = hasher.leave_one_out(X, labels[y])
    numbers = [[hasher.classes_.tolist().index(label)] for label in labels[y].tolist()]
    calibration = Calibration.fit(scores, numbers)
    encoder = Encoder(
        **{name: getattr(plain, name) for name in plain.__dataclass_fields__} | {"calibration": calibration}
    )
    encoder.save(tmp_path / "encoder.oh")
    loaded = Encoder.load(tmp_path / "encoder.oh")
    assert loaded.classes == encoder.classes == tuple(hasher.classes_.tolist())
    for name in ("temperature", "known_score", "spread", "near_cosine"):
        assert getattr(loaded.calibration, name) == getattr(calibration, name)
    assert np.array_equal(loaded.calibration.probabilities, calibration.probabilities)
    assert np.array_equal(loaded.calibration.correct, calibration.correct)
    assert loaded.calibration.correct.dtype == bool
    assert np.array_equal(loaded.class_scores(X), encoder.class_scores(X))
    assert np.array_equal(loaded.project(X), plain.project(X))
