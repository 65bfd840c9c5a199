import pytest

from onlinehash import HCOH, load_dataset, mean_average_precision
from onlinehash.experiments import evaluate, learning_curve


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
