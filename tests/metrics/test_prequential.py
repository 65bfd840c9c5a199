import numpy as np
import pytest

from onlinehash import HCOH, load_dataset
from onlinehash.exceptions import InvalidInputError
from onlinehash.experiments import Run, prequential_curve, run
from onlinehash.metrics import Prequential, Ranking


def test_values_are_those_of_the_last_queries():
    rng = np.random.default_rng(0)
    codes, labels = rng.integers(0, 256, (40, 2), np.uint8), rng.integers(0, 3, 40)
    quality = Prequential(k=5, window=8)
    for start in range(10, 40, 10):
        quality.search(codes[start : start + 10], labels[start : start + 10], codes[:start], labels[:start])
    last = Ranking(codes[32:], labels[32:], codes[:30], labels[:30])
    assert quality.n_queries == 30
    assert quality.precision == pytest.approx(last.precision_at(5))
    assert quality.mean_average_precision == pytest.approx(np.nanmean(last.average_precision()))


def test_a_query_of_a_class_that_is_not_stored_finds_nothing():
    quality = Prequential(k=2)
    assert np.isnan(quality.precision) and np.isnan(quality.mean_average_precision)
    quality.search(np.zeros((1, 1), np.uint8), [7], np.zeros((2, 1), np.uint8), [1, 1])
    assert quality.precision == 0.0 and np.isnan(quality.mean_average_precision)
    with pytest.raises(InvalidInputError, match="window"):
        Prequential(window=0)


def test_items_are_searched_for_before_they_are_learned_from():
    X, y = load_dataset("digits").split().stream
    seen = []

    class Watched(HCOH):
        def snapshot(self):
            seen.append(self.n_samples_seen_)
            return super().snapshot()

    points = [100, 500, 1500]
    found = list(prequential_curve(Watched(16, random_state=0), (X, y), points))
    assert seen == [100, 500] and [n for n, _ in found] == [500, 1500]
    encoder = HCOH(16, random_state=0).partial_fit(X[:500], y[:500]).snapshot()
    expected = Ranking(encoder.encode(X[500:]), y[500:], encoder.encode(X[:500]), y[:500])
    assert found[1][1].mean_average_precision == pytest.approx(expected.mean_average_precision())


@pytest.mark.slow
def test_a_run_draws_the_curve_of_its_own_stream():
    options = {"checkpoints": 4, "queries": "stream", "missing_labels": 0.3}
    result = run(
        Run("HROH", "hroh", "digits", "online", 16, 0, params={"preprocess": "unit", "n_components": 256}, **options)
    )
    curve = result["curve"]
    assert len(curve["values"]) == len(curve["precision_at_10"]) == 3 and curve["values"][-1] > 0.9
