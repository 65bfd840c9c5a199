import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.reference import asymmetric as reference
from tests.thorough import times

from onlinehash import asymmetric_distances, pack_bits, unpack_signs
from onlinehash.exceptions import InvalidCodesError, InvalidInputError, InvalidLabelsError
from onlinehash.metrics import AsymmetricRanking, Ranking

MEASURES = [(None, "possible"), (1, "possible"), (7, "possible"), (7, "found"), (60, "found"), (500, "found")]


def random_problem(n_queries=5, n_items=60, n_bits=6, n_classes=4, seed=0):
    rng = np.random.default_rng(seed)
    soft = rng.integers(-4, 5, (n_queries, n_bits)) / 4  # sums of quarters are exact: ties are ties
    codes = pack_bits(rng.integers(0, 2, (n_items, n_bits)))
    return soft, rng.integers(0, n_classes, n_queries), codes, rng.integers(0, n_classes, n_items)


def assert_same_measures(a, b):
    for k, denominator in MEASURES:
        got, expected = (r.average_precision(k, denominator=denominator) for r in (a, b))
        assert np.allclose(got, expected, rtol=0, atol=1e-12, equal_nan=True)
        means = [r.mean_average_precision(k, denominator=denominator) for r in (a, b)]
        assert means[0] == pytest.approx(means[1], abs=1e-12, nan_ok=True)
        assert a.precision_at(k or 60) == pytest.approx(b.precision_at(k or 60), abs=1e-12)
        assert a.recall_at(k or 60) == pytest.approx(b.recall_at(k or 60), abs=1e-12, nan_ok=True)


@settings(deadline=None, max_examples=times(20, 60))
@given(st.integers(0, 10**6), st.sampled_from(["possible", "found"]), st.integers(1, 9), st.integers(1, 12))
def test_measures_are_the_mean_over_all_orders_of_the_ties(seed, denominator, k, n_bits):
    soft, query_labels, codes, labels = random_problem(3, 7, n_bits, 2, seed)
    codes[3:] = codes[np.random.default_rng(seed).integers(0, 3, 4)]
    ranking = AsymmetricRanking(soft, query_labels, codes, labels)
    got = ranking.average_precision(k, denominator=denominator)
    expected = [
        reference.expected_measures(row, labels == label, k, denominator)
        for row, label in zip(reference.distances(soft, codes), query_labels, strict=True)
    ]
    for mine, (score, _, _) in zip(got, expected, strict=True):
        assert np.isnan(mine) if score is None else mine == pytest.approx(score, abs=1e-12)
    weights = sum(weight for _, weight, _ in expected)
    mean = sum(weight * (score or 0.0) for score, weight, _ in expected) / weights if weights else np.nan
    assert ranking.mean_average_precision(k, denominator=denominator) == pytest.approx(mean, abs=1e-12, nan_ok=True)
    assert ranking.precision_at(k) == pytest.approx(np.mean([precision for _, _, precision in expected]), abs=1e-12)


@pytest.mark.parametrize("n_bits", [3, 8, 12, 64, 100])
@pytest.mark.parametrize("n_classes", [2, 12])
def test_sure_queries_have_the_measures_of_the_hamming_ranking(n_bits, n_classes):
    _, query_labels, codes, labels = random_problem(n_bits=n_bits, n_classes=n_classes)
    rng = np.random.default_rng(1)
    query_codes = codes[rng.integers(0, 60, 5)]
    soft = AsymmetricRanking(unpack_signs(query_codes, n_bits), query_labels, codes, labels)
    assert_same_measures(soft, Ranking(query_codes, query_labels, codes, labels))


def test_real_queries_are_measured_by_walking_down_the_sorted_list():
    rng = np.random.default_rng(0)
    soft = np.tanh(rng.normal(size=(4, 40)))
    codes, labels = pack_bits(rng.integers(0, 2, (300, 40))), rng.integers(0, 3, 300)
    got = AsymmetricRanking(soft, [0, 1, 2, 0], codes, labels).average_precision()
    for q, row in enumerate(asymmetric_distances(soft, codes)):
        assert len(np.unique(row)) == 300  # nothing ties
        relevant = labels[np.argsort(row)] == [0, 1, 2, 0][q]
        ranks = np.flatnonzero(relevant) + 1
        assert got[q] == pytest.approx(np.mean(np.arange(1, len(ranks) + 1) / ranks), abs=1e-12)


def test_the_order_of_the_database_changes_nothing():
    soft, query_labels, codes, labels = random_problem()
    order = np.random.default_rng(1).permutation(len(codes))
    a = AsymmetricRanking(soft, query_labels, codes, labels)
    b = AsymmetricRanking(soft, query_labels, codes[order], labels[order])
    assert a.mean_average_precision() == b.mean_average_precision()
    assert a.mean_average_precision(10, denominator="found") == b.mean_average_precision(10, denominator="found")
    assert a.precision_at(10) == b.precision_at(10)


def test_several_labels_make_relevant_what_shares_one():
    soft, query_labels, codes, labels = random_problem()
    single = AsymmetricRanking(soft, query_labels, codes, labels)
    assert_same_measures(AsymmetricRanking(soft, [[y] for y in query_labels.tolist()], codes, labels), single)
    rng = np.random.default_rng(3)
    query_tags, tags = rng.integers(0, 2, (5, 4)), rng.integers(0, 2, (60, 4))
    tags[0] = 0
    query_codes = codes[:5]
    ranking = AsymmetricRanking(unpack_signs(query_codes, 6), query_tags, codes, tags)
    assert_same_measures(ranking, Ranking(query_codes, query_tags, codes, tags))


def test_queries_without_relevant_items_are_left_out_of_the_mean():
    codes = np.array([[0], [1], [3]], np.uint8)
    ranking = AsymmetricRanking([[-1.0, -0.5], [0.1, 0.2]], ["a", "zebra"], codes, ["a", "b", "a"])
    assert ranking.mean_average_precision() == pytest.approx((1 + 2 / 3) / 2)
    assert np.isnan(ranking.average_precision()[1])
    assert np.isnan(AsymmetricRanking([[0.0, 0.0]], ["x"], codes, ["a", "b", "a"]).mean_average_precision())


def test_bad_arguments_are_named():
    soft, query_labels, codes, labels = random_problem()
    ranking = AsymmetricRanking(soft, query_labels, codes, labels)
    for call, error, message in [
        (lambda: ranking.mean_average_precision(0), InvalidInputError, "k=0 is not positive"),
        (lambda: ranking.average_precision(5, denominator="all"), InvalidInputError, "denominator='all'"),
        (lambda: ranking.precision_at(2.5), InvalidInputError, "k=2.5 is not an integer"),
        (lambda: AsymmetricRanking(soft[:0], [], codes, labels), InvalidInputError, "0 queries"),
        (lambda: AsymmetricRanking(soft, ["a"] * 5, codes, labels), InvalidLabelsError, "different kinds"),
        (lambda: AsymmetricRanking(soft, query_labels[:4], codes, labels), InvalidLabelsError, "4 labels"),
        (
            lambda: AsymmetricRanking(soft * np.nan, query_labels, codes, labels),
            InvalidCodesError,
            "The queries hold nan",
        ),
        (lambda: AsymmetricRanking(soft * 9, query_labels, codes, labels), InvalidCodesError, "from -1 to 1"),
        (lambda: AsymmetricRanking(np.zeros((5, 9)), query_labels, codes, labels), InvalidCodesError, "9 bits take 2"),
        (lambda: AsymmetricRanking(soft[:, :5], query_labels, codes, labels), InvalidCodesError, "beyond bit 5"),
    ]:
        with pytest.raises(error, match=message):
            call()
