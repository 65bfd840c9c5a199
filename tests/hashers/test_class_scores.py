"""Scores of classes by HROH: balanced classes, predictions, and rows left out."""

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tests.reference import hroh as reference

from onlinehash import HROH
from onlinehash.exceptions import InvalidInputError, InvalidLabelsError, NotLearnedError
from onlinehash.hashers import load_hasher
from onlinehash.hashers._ridge import Members, RidgeStatistics

BALANCES = [1.0, 0.5, 0.0]


def stream(n=600, n_classes=10, seed=0, noise=1.0, zipf=True):
    """Return rows whose classes have counts from many to few, in random order; every class has a row."""
    rng = np.random.default_rng(seed)
    chances = 1.0 / np.arange(1, n_classes + 1) if zipf else np.ones(n_classes)
    y = np.concatenate([np.arange(n_classes), rng.choice(n_classes, n - n_classes, p=chances / chances.sum())])
    X = np.random.default_rng(99).normal(size=(n_classes, 8))[y] + noise * rng.normal(size=(n, 8))
    order = rng.permutation(n)
    return X[order], y[order]


def make(n_bits=16, **params):
    return HROH(n_bits, **{"n_components": 64, "bandwidth": 0.8, "random_state": 0} | params)


def several_labels(y):
    n_classes = y.max() + 1
    return [[int(label), int(label + 1) % n_classes][: 1 + i % 2] for i, label in enumerate(y)]


def in_order(hasher, scores, classes):
    """Return the columns of scores of the classes given; 0 for a class that the hasher has never seen."""
    known = hasher.classes_.tolist()
    return np.stack([scores[:, known.index(c)] if c in known else np.zeros(len(scores)) for c in classes], axis=1)


# ---------------------------------------------------------------------- balance


def test_balanced_statistics_are_those_of_the_slow_way():
    X, y = stream(80, 5)
    members = Members(np.arange(80), y, np.ones(80), np.ones(80))
    statistics = RidgeStatistics(8)
    statistics.add(X, members)
    counts = np.bincount(y)
    means = np.array([X[y == c].mean(axis=0) for c in range(5)])
    for power in BALANCES:
        balanced = statistics.balanced(power)
        expected = counts**power * 80 / (counts**power).sum()
        within = sum(np.outer(x - means[c], x - means[c]) for x, c in zip(X, y, strict=True))
        between = sum(w * np.outer(mean, mean) for w, mean in zip(expected, means, strict=True))
        assert np.allclose(balanced.counts, expected)
        assert np.allclose(balanced.sums, expected[:, None] * means)
        assert np.allclose(balanced.gram, within + between)
        assert (balanced.total, balanced.squares) == (80.0, 80.0)
    assert np.array_equal(statistics.counts, counts)


def test_equal_counts_give_the_same_codes_whatever_the_balance():
    X, _ = stream(600, zipf=False)
    y = np.arange(600) % 10
    codes = [make(balance=balance).partial_fit(X, y).project(X) for balance in (*BALANCES, 0.123)]
    assert all(np.array_equal(each, codes[0]) for each in codes[1:])


def test_balance_changes_unequal_counts_and_may_change_at_any_time():
    X, y = stream()
    hasher = make().partial_fit(X, y)
    assert hasher.balance == 0.5
    values = [hasher.set_params(balance=balance).project(X) for balance in (1.0, 0.5, 0.0, 1.0)]
    assert np.array_equal(values[0], values[3])
    assert np.abs(values[0] - values[1]).max() > 0.05
    assert np.abs(values[1] - values[2]).max() > 0.05
    assert np.array_equal(values[1], make().partial_fit(X, y).project(X))


def test_balance_finds_classes_with_few_rows():
    X, y = stream(3000, 40, noise=0.7)
    tested, own = stream(2000, 40, seed=1, noise=0.7, zipf=False)
    few = own >= 20
    right = {
        balance: (make(balance=balance).partial_fit(X, y).predict(tested) == own)[few].mean() for balance in BALANCES
    }
    assert right[0.5] > right[1.0] + 0.1


@pytest.mark.parametrize("balance", BALANCES)
@pytest.mark.parametrize("alpha", [0.3, None])
def test_sums_stay_exact_under_balance(balance, alpha):
    X, y = stream(900)
    words = dict(enumerate(np.random.default_rng(1).choice([-1, 1], (10, 16))))

    def learned(rows, n_bits=16):
        codebook = {label: word[:n_bits] for label, word in words.items()}
        return make(n_bits, codebook=codebook, balance=balance, alpha=alpha).partial_fit(X[rows], y[rows])

    whole = learned(np.arange(900))
    values = whole.project(X)
    by_class = np.argsort(y, kind="stable")
    assert np.allclose(learned(by_class).project(X), values, atol=1e-7)
    assert np.allclose(learned(by_class[:400]).merge(learned(by_class[400:])).project(X), values, atol=1e-7)
    shorter = whole.with_codebook({label: np.tile(word[:8], 2) for label, word in words.items()})
    assert np.allclose(shorter.project(X)[:, :8], values[:, :8], atol=1e-7)
    assert np.allclose(make(64, balance=balance, alpha=alpha).partial_fit(X, y).with_bits(16).project(X),
                       make(16, balance=balance, alpha=alpha).partial_fit(X, y).project(X), atol=1e-7)  # fmt: skip
    gone = (y == 0) | (np.arange(900) < 50)
    assert np.allclose(whole.unlearn(X[gone], y[gone]).project(X), learned(np.flatnonzero(~gone)).project(X), atol=1e-6)


@pytest.mark.parametrize("n", [100, 700])
def test_parameters_and_scores_are_saved_and_loaded(n, tmp_path):
    X, y = stream(n)
    hasher = make(balance=0.25, temperature=0.2, bandwidth=None).partial_fit(X, y)
    hasher.save(tmp_path / "hasher.oh")
    loaded = load_hasher(tmp_path / "hasher.oh")
    assert (loaded.balance, loaded.temperature) == (0.25, 0.2)
    assert loaded.snapshot().calibration.temperature == 0.2
    assert np.array_equal(loaded.predict_proba(X), hasher.predict_proba(X))
    assert np.array_equal(loaded.leave_one_out(X[:9], y[:9]), hasher.leave_one_out(X[:9], y[:9]))


# ---------------------------------------------------------------------- predictions


@pytest.mark.parametrize("params", [{}, {"general_bits": 4}, {"sharpness": 3.0}, {"bandwidth": None}])
@pytest.mark.parametrize("n", [100, 600])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_scores_predictions_and_probabilities(params, n, dtype):
    X, y = stream(n)
    names = np.array([f"class {c}" for c in y])
    X = X.astype(dtype)
    hasher = make(**params).partial_fit(X, names)
    scores, chances = hasher.decision_function(X), hasher.predict_proba(X)
    assert scores.shape == chances.shape == (n, 10)
    assert scores.dtype == dtype
    encoder = hasher.snapshot()
    assert list(encoder.classes) == hasher.classes_.tolist()
    assert np.array_equal(scores, encoder.class_scores(X))
    codes, same = encoder.encode_and_score(X)
    assert np.array_equal(codes, encoder.encode(X))
    assert np.array_equal(same, scores)
    assert np.allclose(chances.sum(axis=1), 1.0, atol=1e-5)
    assert (chances >= 0.0).all()
    exponents = np.exp(scores.astype(float) / hasher.temperature)
    assert np.allclose(chances, exponents / exponents.sum(axis=1, keepdims=True), atol=1e-5)
    assert np.array_equal(hasher.predict(X), hasher.classes_[scores.argmax(axis=1)])
    assert (hasher.predict(X) == names).mean() > 0.7


def test_scores_are_those_of_balanced_ridge_regression():
    X, y = stream()
    hasher = make(alpha=0.3).partial_fit(X, y)
    Z = reference.mapped(reference.unit(X), hasher.snapshot().features)
    own = (y[:, None] == hasher.classes_).astype(float)
    assert np.allclose(hasher.decision_function(X), Z @ reference.balanced_ridge(Z, own, 0.3, 0.5), atol=1e-8)


def test_temperature_may_change_at_any_time():
    X, y = stream()
    hasher = make().partial_fit(X, y)
    surest = [hasher.set_params(temperature=T).predict_proba(X).max(axis=1).mean() for T in (0.01, 0.05, 1.0)]
    assert surest == sorted(surest, reverse=True)
    with pytest.raises(InvalidInputError, match="temperature=0 is not positive"):
        hasher.set_params(temperature=0).predict_proba(X)
    with pytest.raises(InvalidInputError, match="balance=2 is not a number from 0 to 1"):
        hasher.set_params(temperature=0.05, balance=2).predict(X)


def test_a_class_that_was_unlearned_is_never_predicted():
    X, y = stream()
    hasher = make().partial_fit(X, y)
    gone = y == 3
    hasher.unlearn(X[gone], y[gone])
    at = hasher.classes_.tolist().index(3)
    assert len(hasher.classes_) == 10
    assert 3 not in hasher.snapshot().classes
    assert np.isneginf(hasher.decision_function(X)[:, at]).all()
    assert np.isneginf(hasher.leave_one_out(X[~gone], y[~gone])[:, at]).all()
    chances = hasher.predict_proba(X)
    assert not chances[:, at].any()
    assert np.allclose(chances.sum(axis=1), 1.0)
    assert not (hasher.predict(X) == 3).any()
    with pytest.raises(InvalidLabelsError, match="All rows of class 3 were unlearned"):
        hasher.leave_one_out(X[gone], y[gone])
    hasher.unlearn(X[~gone], y[~gone])
    with pytest.raises(InvalidInputError, match="no class is left to score"):
        hasher.predict(X)


def test_one_class_is_certain():
    X, _ = stream(50)
    hasher = make().partial_fit(X, ["only"] * 50)
    assert np.array_equal(hasher.predict_proba(X), np.ones((50, 1)))
    assert set(hasher.predict(X)) == {"only"}


def test_a_hasher_classifies_at_the_end_of_a_pipeline():
    X, y = stream()
    pipeline = make_pipeline(StandardScaler(), make()).fit(X, y)
    assert (pipeline.predict(X) == y).mean() > 0.7
    assert pipeline.predict_proba(X).shape == pipeline.decision_function(X).shape == (600, 10)
    assert np.array_equal(pipeline.classes_, pipeline[-1].classes_)


# ---------------------------------------------------------------------- leave one out


@pytest.mark.parametrize("balance, tolerance", [(1.0, 1e-6), (0.5, 1e-2), (0.0, 1e-2)])
@pytest.mark.parametrize("lists", [False, True])
@pytest.mark.parametrize("n", [150, 400])  # before the bandwidth is known, and after
def test_scores_without_a_row_are_those_of_learning_without_it(n, lists, balance, tolerance):
    X, y = stream(n - 1, 12, noise=0.5)
    X, y = np.vstack([X, -X[:1]]), np.append(y, 12)  # a class of one row
    labels = several_labels(y) if lists else y.tolist()
    hasher = make(bandwidth=None, alpha=0.3, balance=balance).partial_fit(X, labels)
    rows = [0, 1, 2, 77, n - 2, n - 1]
    without = hasher.leave_one_out(X[rows], [labels[row] for row in rows])
    assert without.shape == (len(rows), 13)
    bandwidth = hasher.snapshot().features.bandwidth
    for row, scores in zip(rows, without, strict=True):
        others = [other for other in range(n) if other != row]
        again = make(bandwidth=bandwidth, alpha=0.3, balance=balance)
        again.partial_fit(X[others], [labels[other] for other in others])
        expected = in_order(again, again.decision_function(X[row : row + 1]), hasher.classes_)[0]
        assert np.abs(scores - expected).max() < tolerance
    assert np.abs(without - hasher.decision_function(X[rows])).max() > 0.01


@pytest.mark.parametrize("n, changes", [(60, True), (1000, False)])
def test_class_means_have_a_say_below_50_rows_per_class(n, changes):
    X, y = stream(n, 20, zipf=False)
    hasher = make().partial_fit(X, y)
    scores = hasher.decision_function(X)
    hasher.alpha = hasher.alpha_
    alone = hasher.decision_function(X)
    assert np.allclose(alone, scores) != changes
    hasher.alpha, hasher.sharpness = None, None
    assert np.allclose(hasher.decision_function(X), alone)


@pytest.mark.parametrize("balance", BALANCES)
@pytest.mark.parametrize("lists", [False, True])
def test_few_rows_are_left_out_nearly_exactly(lists, balance):
    X, y = stream(60, 20, noise=0.5, zipf=False)
    labels = several_labels(y) if lists else y.tolist()
    hasher = make(balance=balance).partial_fit(X, labels)
    without = hasher.leave_one_out(X, labels)
    errors, chosen = [], []
    for row in range(len(y)):
        others = [other for other in range(len(y)) if other != row]
        again = make(balance=balance).partial_fit(X[others], [labels[other] for other in others])
        expected = in_order(again, again.decision_function(X[row : row + 1]), hasher.classes_)[0]
        errors.append(np.abs(without[row] - expected).max())
        chosen.append(without[row].argmax() == expected.argmax())
    assert np.median(errors) < 0.03 and np.mean(chosen) > 0.9
    assert np.abs(without - hasher.decision_function(X)).max() > 0.1


def test_with_balance_one_it_is_the_formula_of_ridge_regression():
    X, y = stream(1500)
    hasher = make(alpha=0.3, balance=1.0).partial_fit(X, y)
    Z = reference.mapped(reference.unit(X), hasher.snapshot().features)
    leverages = np.einsum("ij,ij->i", Z, np.linalg.solve(Z.T @ Z + 0.3 * np.eye(Z.shape[1]), Z.T).T)[:, None]
    own, scores = y[:, None] == hasher.classes_, hasher.decision_function(X)
    expected = own - (own - scores) / (1.0 - leverages)
    assert np.allclose(hasher.leave_one_out(X, y), expected, atol=1e-7)  # more rows than are mapped at once


@pytest.mark.parametrize("balance", BALANCES)
def test_a_single_row_knows_nothing_of_its_class_without_itself(balance):
    X, y = stream(300)
    X, y = np.vstack([X, np.full((1, 8), 5.0)]), np.append(y, 77)
    hasher = make(balance=balance).partial_fit(X, y)
    without = hasher.leave_one_out(X[-1:], [77])
    assert without[0, hasher.classes_.tolist().index(77)] == pytest.approx(0.0, abs=1e-9)
    assert hasher.decision_function(X[-1:])[0, hasher.classes_.tolist().index(77)] > 0.1
    alone = make(balance=balance).partial_fit(X[-1:], [77])
    assert np.allclose(alone.leave_one_out(X[-1:], [77]), 0.0)
    assert alone.leave_one_out(X[-1], 77).shape == (1, 1)


def test_wrong_labels_have_low_scores():
    X, y = stream(800, noise=0.5)
    told = y.copy()
    told[:20] = (y[:20] + 1) % 10
    hasher = make().partial_fit(X, told)
    scores = hasher.leave_one_out(X, told)
    own = scores[np.arange(800), [hasher.classes_.tolist().index(label) for label in told]]
    doubt = scores.max(axis=1) - own
    assert np.isin(np.arange(20), np.argsort(-doubt)[:40]).mean() > 0.8


def test_leaving_out_changes_nothing():
    X, y = stream(700)
    asked, alone = make(bandwidth=None), make(bandwidth=None)
    for start in range(0, 700, 100):
        rows = slice(start, start + 100)
        asked.partial_fit(X[rows], y[rows]).leave_one_out(X[:5], y[:5])
        alone.partial_fit(X[rows], y[rows])
    assert asked.to_bytes() == alone.to_bytes()
    assert np.array_equal(asked.project(X), alone.project(X))


@pytest.mark.parametrize(
    "params, message", [({"decay": 0.99}, "With decay=0.99"), ({"preprocess": "running"}, "The running mean has moved")]
)
def test_streams_whose_rows_cannot_be_left_out_say_so(params, message):
    X, y = stream(100)
    hasher = make(**params).partial_fit(X, y)
    with pytest.raises(InvalidInputError, match=message):
        hasher.leave_one_out(X[:2], y[:2])
    assert hasher.predict_proba(X).shape == (100, 10)


@pytest.mark.parametrize(
    "labels, message",
    [
        ([0, 77], "No row of class 77 was ever learned"),
        ([[0], [0, 77]], "No row of class 77"),
        (["0", "1"], "No row of class '0'"),
        ([0.0, np.nan], "y has rows without a label"),
        ([0], "y has 1 labels, X has 2 rows"),
    ],
)
def test_rows_that_cannot_have_been_learned_are_refused(labels, message):
    X, y = stream(100)
    with pytest.raises(InvalidLabelsError, match=message):
        make().partial_fit(X, y).leave_one_out(X[:2], labels)


def test_nothing_learned_is_nothing_to_score():
    X, y = stream(20)
    for use in (lambda h: h.decision_function(X), lambda h: h.predict(X), lambda h: h.leave_one_out(X, y)):
        with pytest.raises(NotLearnedError):
            use(make())
