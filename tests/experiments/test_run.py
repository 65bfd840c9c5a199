from dataclasses import replace

import pytest

from onlinehash import HCOH, LSH, load_dataset, mean_average_precision
from onlinehash.exceptions import InvalidInputError
from onlinehash.experiments import Run, evaluate, learning_curve, run
from onlinehash.experiments.run import sharpened


@pytest.fixture(scope="module")
def split():
    return load_dataset("digits").split(seed=1)


def test_quality_is_that_of_the_metrics(split):
    encoder = HCOH(16, random_state=0).partial_fit(*split.stream).snapshot()
    queries, database = split.queries, split.database
    expected = mean_average_precision(encoder.encode(queries.X), queries.y, encoder.encode(database.X), database.y)
    assert evaluate(encoder, split).mean_average_precision == expected


def test_a_curve_rises_and_ends_where_one_go_ends(split):
    points = list(learning_curve(HCOH(32, random_state=0), split, [1, 100, len(split.stream.X)]))
    values = [point.quality.mean_average_precision for point in points]
    assert values == sorted(values)
    whole = HCOH(32, random_state=0).partial_fit(*split.stream).snapshot()
    assert values[-1] == pytest.approx(evaluate(whole, split).mean_average_precision, abs=1e-3)
    assert points[-1].learning_seconds >= points[0].learning_seconds > 0


def test_validation_searches_the_end_of_the_stream_among_the_rest_of_it():
    result = run(Run("HCOH", "hcoh", "digits", "online", n_bits=16, seed=0, validation=300))
    assert result["n_instances"] == 1200
    assert "new_items" not in result["metrics"]
    X, y = load_dataset("digits").split().stream
    encoder = HCOH(16, random_state=0).partial_fit(X[:1200], y[:1200]).snapshot()
    expected = mean_average_precision(encoder.encode(X[1200:]), y[1200:], encoder.encode(X[:1200]), y[:1200])
    assert result["metrics"]["mean_average_precision"] == pytest.approx(expected)
    with pytest.raises(InvalidInputError, match="validation=1500 leaves nothing"):
        run(Run("HCOH", "hcoh", "digits", "online", n_bits=16, seed=0, validation=1500))


def test_possible_items_are_more_than_those_found(split):
    whole = {"hasher": "lsh", "dataset": "digits", "protocol": "online", "n_bits": 8, "seed": 0}
    cut = replace(split, map_at=100)
    encoder = HCOH(8, random_state=0).partial_fit(*split.stream).snapshot()
    found, possible = (evaluate(encoder, replace(cut, denominator=name)) for name in ("found", "possible"))
    assert possible.mean_average_precision < found.mean_average_precision
    assert "denominator" not in Run("LSH", **whole).config()
    assert Run("LSH", **whole, denominator="possible").config()["denominator"] == "possible"


def test_sharpened_codes_of_a_long_code_are_better_than_a_short_code(split):
    short = HCOH(8, random_state=0).partial_fit(*split.stream)
    long = HCOH(64, random_state=0).partial_fit(*split.stream)
    better = evaluate(sharpened(long, 8, seed=0), split).mean_average_precision
    assert better > evaluate(short.snapshot(), split).mean_average_precision + 0.05
    with pytest.raises(InvalidInputError, match="no codewords_"):
        sharpened(LSH(16).partial_fit(*split.stream), 8, seed=0)
