"""Every hasher in the registry keeps every promise."""

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from onlinehash.checks import check_hasher
from onlinehash.encoders import Encoder
from onlinehash.hashers import (
    FOH,
    FROSH,
    HASHERS,
    HCOH,
    HMOH,
    HROH,
    ITQ,
    OKH,
    OSH,
    SDOHHC,
    MIHash,
    OnlineHasher,
    SketchHash,
)

pytestmark = pytest.mark.slow

SMALLER = {
    HROH: {"n_components": 200},
    SDOHHC: {"n_anchors": 100, "batch_size": 200, "rounds": 2},
}  # than by default, where that only takes time

HASHERS_UNDER_TEST = [
    *(hasher(n_bits=12, random_state=0, **SMALLER.get(hasher, {})) for hasher in HASHERS.values()),
    FROSH(n_bits=6, chunk_size=7, sketch_size=6, random_state=3),
    FROSH(n_bits=8, chunk_size=32, sketch_size=16, preprocess="none", random_state=2),
    ITQ(n_bits=20, sample_size=30, random_state=1),
    ITQ(n_bits=7, n_iterations=0, random_state=2),
    FOH(n_bits=8, batch_size=30, random_state=3),
    HMOH(n_bits=8, n_anchors=40, batch_size=3, random_state=3),
    # A small step: large ones make MIHash chaotic, so that rounding shows.
    MIHash(n_bits=8, reservoir_size=50, trigger_interval=9, gradient="exact", learning_rate=0.1, random_state=3),
    OKH(n_bits=8, n_anchors=33, variant="as_released", random_state=3),
    OSH(n_bits=8, loss="hinge", random_state=3),
    OSH(n_bits=8, variant="as_released", random_state=3),
    SDOHHC(n_bits=8, batch_size=30, n_anchors=20, memory_size=10, rounds=2, variant="as_released", random_state=3),
    SketchHash(n_bits=6, batch_size=7, sketch_size=6, random_state=3),
    SketchHash(n_bits=6, batch_size=8, variant="as_released", random_state=3),
    SketchHash(n_bits=20, batch_size=1, sketch_size=20, preprocess="none", random_state=2),
    HCOH(n_bits=8, batch_size=7, fit_bias=True, random_state=1),
    HCOH(n_bits=70, preprocess="none", batch_size=50, random_state=2),
    HROH(n_bits=9, features="none", n_components=64, preprocess="running", general_bits=3, random_state=1),
    HROH(n_bits=8, n_components=30, assignment="arrival", confidence_bits=2, random_state=2),
    HROH(n_bits=8, n_components=70, bandwidth=1.0, decay=0.99, random_state=3),
]


@pytest.mark.parametrize("hasher", HASHERS_UNDER_TEST, ids=repr)
def test_hasher_keeps_every_promise(hasher):
    check_hasher(hasher)


# scikit-learn skips its array-API check unless SCIPY_ARRAY_API is set; a skip is no failure.
NO_MORE_BITS_THAN_FEATURES = (FROSH, ITQ, SketchHash)  # scikit-learn's data have as few as one


def expected_failures(estimator):
    if isinstance(estimator, HROH):
        return {"check_sample_weight_equivalence_on_dense_data": "codewords and bandwidth follow the order of arrival"}
    return {}


@parametrize_with_checks(
    [
        hasher(n_bits=1 if hasher in NO_MORE_BITS_THAN_FEATURES else 32, random_state=0, **SMALLER.get(hasher, {}))
        for hasher in HASHERS.values()
    ],
    expected_failed_checks=expected_failures,
)
def test_scikit_learn_accepts(estimator, check):
    check(estimator)


class Forgetful(HCOH):
    name = "forgetful"

    def _encoder(self):
        self._weights *= np.asarray(0.5, self._dtype)  # a look that changes the stream
        return super()._encoder()


def test_a_hasher_that_breaks_a_promise_is_found_out():
    with pytest.raises(AssertionError, match="breaks check_"):
        check_hasher(Forgetful(n_bits=8, random_state=0))


class Boaster(HCOH):
    name = "boaster"
    unlearns = True


class Trickster(HROH):
    name = "trickster"

    def unlearn(self, X, y, sample_weight=None):
        self.n_unlearned_ += len(X)  # and nothing else
        return self


@pytest.mark.parametrize(
    "hasher, broken",
    [
        (Boaster(n_bits=8, random_state=0), "check_capabilities_are_declared: unlearns is True"),
        (Trickster(n_bits=8, n_components=32, random_state=0), "check_unlearned_rows_leave_no_trace"),
    ],
)
def test_a_hasher_that_declares_what_it_cannot_do_is_found_out(hasher, broken):
    with pytest.raises(AssertionError, match=f"breaks {broken}"):
        check_hasher(hasher)


class ClassMeans(OnlineHasher):
    """As simple as a method with weights can be: signs of the differences to weighted class means."""

    name = "class_means"
    takes_weights = True

    def fit(self, X, y=None, sample_weight=None):
        return self._fit(X, y, sample_weight)

    def partial_fit(self, X, y=None, sample_weight=None):
        self._absorb(*self._check_next(X, y, sample_weight))
        return self

    def __init__(self, n_bits=32, *, preprocess="none", random_state=None, output="codes"):
        self.n_bits = n_bits
        self.preprocess = preprocess
        self.random_state = random_state
        self.output = output

    def _start(self, n_features):
        self._labels, self._sums, self._totals = [], np.zeros((0, n_features)), np.zeros((0, 1))

    def _learn(self, X, targets, weights):
        counts = np.ones(len(X)) if weights is None else weights
        for row, label, count in zip(self._preprocessed(X), targets.tolist(), counts, strict=True):
            if label not in self._labels:
                self._labels.append(label)
                self._sums, self._totals = np.vstack([self._sums, 0 * row]), np.vstack([self._totals, [[0.0]]])
            self._sums[self._labels.index(label)] += count * row
            self._totals[self._labels.index(label)] += count

    def _encoder(self):
        means = self._sums / np.maximum(self._totals, 1e-300)
        first, second = np.random.default_rng([self.seed_, len(means)]).integers(len(means), size=(2, self.n_bits))
        weights = (means[first] - means[second]).T.astype(self._dtype)
        return Encoder(weights, None, self._features.freeze(), self.version_, self.name)

    def _state(self):
        return {"labels": self._labels}, {"sums": self._sums, "totals": self._totals}

    def _restore(self, state, arrays):
        self._labels, self._sums, self._totals = state["labels"], arrays["sums"].copy(), arrays["totals"].copy()


def test_a_method_with_weights_is_written_as_any_other():
    check_hasher(ClassMeans(n_bits=12, random_state=0))
