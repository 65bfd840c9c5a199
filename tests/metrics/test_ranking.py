from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.reference import hamming
from tests.reference import ranking as reference

from onlinehash import mean_average_precision, pack_bits
from onlinehash.exceptions import InvalidCodesError, InvalidInputError, InvalidLabelsError
from onlinehash.metrics import Ranking

GOLDEN = Path(__file__).parents[1] / "golden"


def random_problem(n_queries=5, n_items=60, n_bits=6, n_classes=4, seed=0):
    rng = np.random.default_rng(seed)
    codes = pack_bits(rng.integers(0, 2, (n_queries + n_items, n_bits)))
    labels = rng.integers(0, n_classes, n_queries + n_items)
    return codes[:n_queries], labels[:n_queries], codes[n_queries:], labels[n_queries:]


def stable_rankings(problem):
    query_codes, query_labels, codes, labels = problem
    distances = hamming.distances(query_codes, codes)
    return [
        (labels[np.argsort(d, kind="stable")] == label).tolist()
        for d, label in zip(distances, query_labels, strict=True)
    ]


def test_measures_equal_those_of_the_authors_code():
    golden = np.load(GOLDEN / "eval_metrics.npz")
    ranking = Ranking(
        pack_bits(golden["Hte"] > 0),
        golden["Yte"].ravel(),
        pack_bits(golden["Htr"] > 0),
        golden["Ytr"].ravel(),
        ties="stable",
    )
    assert abs(ranking.mean_average_precision() - golden["mAP"].item()) < 1e-12
    assert abs(ranking.mean_average_precision(50, denominator="found") - golden["mAP_50"].item()) < 1e-12
    assert abs(ranking.precision_at(20) - golden["prec_k20"].item()) < 1e-12
    assert abs(ranking.precision_within(2).precision - golden["prec_n2"].item()) < 1e-12
    assert np.nanmax(np.abs(ranking.average_precision() - golden["AP"].ravel())) < 1e-12


@pytest.mark.parametrize("k", [None, 1, 7, 60, 500])
@pytest.mark.parametrize("denominator", ["possible", "found"])
def test_stable_measures_equal_walking_down_the_sorted_list(k, denominator):
    problem = random_problem(n_classes=12)
    scores = [reference.average_precision(r, k, denominator) for r in stable_rankings(problem)]
    defined = [score for score in scores if score is not None]
    ranking = Ranking(*problem, ties="stable")
    assert ranking.mean_average_precision(k, denominator=denominator) == pytest.approx(np.mean(defined), abs=1e-12)
    precision = np.mean([np.mean(r[: min(k or 60, 60)]) for r in stable_rankings(problem)])
    assert ranking.precision_at(k or 60) == pytest.approx(precision, abs=1e-12)


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 10**6), st.sampled_from(["possible", "found"]), st.integers(1, 9))
def test_expected_measures_are_the_mean_over_all_orders_of_the_ties(seed, denominator, k):
    rng = np.random.default_rng(seed)
    problem = random_problem(1, 7, n_bits=2, n_classes=2, seed=rng)
    distances = hamming.distances(problem[0], problem[2])[0]
    lists = [(problem[3][order] == problem[1][0]).tolist() for order in reference.orders_of_ties(distances)]
    scores = [reference.average_precision(relevant, k, denominator) for relevant in lists]
    defined = [score for score in scores if score is not None]
    ranking = Ranking(*problem)
    got = ranking.mean_average_precision(k, denominator=denominator)
    assert got == pytest.approx(np.mean(defined), abs=1e-12) if defined else np.isnan(got)
    assert ranking.precision_at(k) == pytest.approx(np.mean([np.mean(r[:k]) for r in lists]), abs=1e-12)


def mean_of_defined(scores):
    defined = [score for score in scores if score is not None]
    return np.mean(defined) if defined else np.nan


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 10**6), st.integers(1, 9))
def test_expected_recall_is_the_mean_over_all_orders_of_the_ties(seed, k):
    problem = random_problem(1, 7, n_bits=2, n_classes=2, seed=np.random.default_rng(seed))
    distances = hamming.distances(problem[0], problem[2])[0]
    lists = [(problem[3][order] == problem[1][0]).tolist() for order in reference.orders_of_ties(distances)]
    expected = mean_of_defined(reference.recall(relevant, k) for relevant in lists)
    assert Ranking(*problem).recall_at(k) == pytest.approx(expected, abs=1e-12, nan_ok=True)


@pytest.mark.parametrize("k", [1, 7, 60, 500])
def test_stable_recall_equals_walking_down_the_sorted_list(k):
    problem = random_problem(n_queries=9, n_classes=12)
    expected = mean_of_defined(reference.recall(relevant, k) for relevant in stable_rankings(problem))
    assert Ranking(*problem, ties="stable").recall_at(k) == pytest.approx(expected, abs=1e-12)


def test_recall_never_falls_with_k_and_ends_at_one():
    for ties in ("expected", "stable"):
        ranking = Ranking(*random_problem(), ties=ties)
        values = [ranking.recall_at(k) for k in range(1, 61)]
        assert values == sorted(values)
        assert values[-1] == ranking.recall_at(10**6) == 1.0


def test_recall_is_precision_times_k_over_the_relevant_items():
    golden = np.load(GOLDEN / "eval_metrics.npz")
    for label in np.unique(golden["Yte"]):  # one class at a time: all its queries have as many relevant items
        asked = golden["Yte"].ravel() == label
        ranking = Ranking(
            pack_bits(golden["Hte"][asked] > 0),
            golden["Yte"].ravel()[asked],
            pack_bits(golden["Htr"] > 0),
            golden["Ytr"].ravel(),
        )
        n_relevant = (golden["Ytr"].ravel() == label).sum()
        assert ranking.recall_at(20) == pytest.approx(ranking.precision_at(20) * 20 / n_relevant, abs=1e-12)


def test_recall_leaves_out_queries_without_relevant_items():
    codes = np.array([[0], [1], [3]], np.uint8)
    assert Ranking(codes[:2], ["a", "zebra"], codes, ["a", "b", "a"]).recall_at(1) == 0.5
    assert np.isnan(Ranking(codes, ["x", "y", "z"], codes, ["a", "b", "a"]).recall_at(2))


def test_expected_and_stable_agree_where_nothing_ties():
    codes = np.array([[0b0], [0b1], [0b11], [0b111], [0b1111]], np.uint8)
    problem = (codes[:1], [0], codes, [1, 0, 1, 0, 0])
    for k in (None, 2, 3):
        for denominator in ("possible", "found"):
            values = {
                ties: Ranking(*problem, ties=ties).mean_average_precision(k, denominator=denominator)
                for ties in ("expected", "stable")
            }
            assert values["expected"] == pytest.approx(values["stable"], abs=1e-12)


def test_the_order_of_the_database_does_not_change_expected_measures():
    query_codes, query_labels, codes, labels = random_problem()
    order = np.random.default_rng(1).permutation(len(codes))
    a = Ranking(query_codes, query_labels, codes, labels)
    b = Ranking(query_codes, query_labels, codes[order], labels[order])
    assert a.mean_average_precision() == b.mean_average_precision()
    assert a.mean_average_precision(10, denominator="found") == b.mean_average_precision(10, denominator="found")
    assert a.precision_at(10) == b.precision_at(10)


def test_counts_cover_every_item_at_every_width():
    for n_bits in (3, 8, 20, 64, 100, 300):
        query_codes, query_labels, codes, labels = random_problem(n_bits=n_bits)
        ranking = Ranking(query_codes, query_labels, codes, labels)
        distances = hamming.distances(query_codes, codes)
        for q, row in enumerate(distances):
            assert np.array_equal(ranking.total[q], np.bincount(row, minlength=ranking.total.shape[1]))
            mine = row[labels == query_labels[q]]
            assert np.array_equal(ranking.relevant[q], np.bincount(mine, minlength=ranking.total.shape[1]))


def test_queries_without_relevant_items_are_left_out_of_the_mean():
    codes = np.array([[0], [1], [3]], np.uint8)
    ranking = Ranking(codes[:2], ["a", "zebra"], codes, ["a", "b", "a"])
    assert ranking.mean_average_precision() == pytest.approx((1 + 2 / 3) / 2)
    assert np.isnan(ranking.average_precision()[1])
    assert np.isnan(mean_average_precision(codes, ["x", "y", "z"], codes, ["a", "b", "a"]))


@pytest.mark.parametrize("ties", ["expected", "stable"])
def test_several_labels_make_relevant_what_shares_one(ties):
    query_codes, query_labels, codes, labels = random_problem()
    single = Ranking(query_codes, query_labels, codes, labels, ties=ties)
    listed = Ranking(query_codes, [[y] for y in query_labels.tolist()], codes, labels, ties=ties)
    assert np.array_equal(single.relevant, listed.relevant)
    assert single.mean_average_precision(9) == listed.mean_average_precision(9)
    rng = np.random.default_rng(3)
    query_tags, tags = rng.integers(0, 2, (5, 4)), rng.integers(0, 2, (60, 4))
    tags[0] = 0
    ranking = Ranking(query_codes, query_tags, codes, tags, ties=ties)
    shared = query_tags @ tags.T > 0
    distances = hamming.distances(query_codes, codes)
    for q in range(5):
        expected = np.bincount(distances[q][shared[q]], minlength=ranking.total.shape[1])
        assert np.array_equal(ranking.relevant[q], expected)
    if ties == "stable":
        orders = np.argsort(distances, axis=1, kind="stable")
        scores = [reference.average_precision(shared[q][orders[q]].tolist(), 7) for q in range(5)]
        defined = [score for score in scores if score is not None]
        assert ranking.mean_average_precision(7) == pytest.approx(np.mean(defined), abs=1e-12)


def test_rows_without_a_label_cannot_be_judged():
    query_codes, query_labels, codes, labels = random_problem()
    with pytest.raises(InvalidLabelsError, match="rows without a label"):
        Ranking(query_codes, query_labels, codes, [None, *labels[1:].tolist()])


def test_an_empty_radius_counts_as_zero_and_is_reported():
    codes = np.array([[0b0], [0b1], [0b11]], np.uint8)
    queries = np.array([[0b0], [0b11110000]], np.uint8)
    ranking = Ranking(queries, [0, 0], codes, [0, 1, 0])
    assert ranking.precision_within(1) == (0.25, 0.5)
    assert ranking.precision_within(99).precision == pytest.approx(2 / 3)


def test_function_and_ranking_agree():
    problem = random_problem()
    ranking = Ranking(*problem, ties="stable")
    assert mean_average_precision(*problem, k=9, denominator="found", ties="stable") == ranking.mean_average_precision(
        9, denominator="found"
    )


def test_bad_arguments_are_named():
    problem = random_problem()
    ranking = Ranking(*problem)
    for call, message in [
        (lambda: Ranking(*problem, ties="random"), "ties='random'"),
        (lambda: ranking.mean_average_precision(0), "k=0 is not positive"),
        (lambda: ranking.mean_average_precision(5, denominator="all"), "denominator='all'"),
        (lambda: ranking.precision_at(2.5), "k=2.5 is not an integer"),
        (lambda: ranking.recall_at(0), "k=0 is not positive"),
        (lambda: ranking.precision_within(-1), "radius=-1"),
        (lambda: Ranking(problem[0][:0], [], *problem[2:]), "0 queries"),
    ]:
        with pytest.raises(InvalidInputError, match=message):
            call()
    with pytest.raises(InvalidLabelsError, match="different kinds"):
        Ranking(problem[0], ["a"] * 5, problem[2], problem[3])
    with pytest.raises(InvalidLabelsError, match="4 labels, X has 5 rows"):
        Ranking(problem[0], problem[1][:4], problem[2], problem[3])
    with pytest.raises(InvalidCodesError, match="codes has 1 bytes per row, but 16 bits take 2"):
        Ranking(np.zeros((5, 2), np.uint8), problem[1], problem[2], problem[3])
