"""The sums behind HROH: what is added, merged and taken out, the penalty, and the solution."""

from threading import Thread
from time import sleep

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.reference import hroh as reference

from onlinehash.exceptions import InvalidInputError
from onlinehash.hashers._ridge import FewRowsFactor, Members, RidgeSolution, RidgeStatistics


def single(numbers, weights=None):
    n = len(numbers)
    return Members(np.arange(n), np.asarray(numbers, np.intp), np.ones(n), np.ones(n) if weights is None else weights)


def several(sets, weights=None):
    owner = np.repeat(np.arange(len(sets)), [len(s) for s in sets])
    share = np.concatenate([np.full(len(s), 1.0 / len(s)) for s in sets])
    return Members(
        owner, np.concatenate(sets).astype(np.intp), share, np.ones(len(sets)) if weights is None else weights
    )


def problem(n=60, m=8, n_classes=4, seed=0, scale=1.0, noise=0.5):
    rng = np.random.default_rng(seed)
    numbers = rng.integers(0, n_classes, n)
    numbers[:n_classes] = np.arange(n_classes)
    rows = scale * reference.unit(rng.normal(size=(n_classes, m))[numbers] + noise * rng.normal(size=(n, m)))
    return rows, numbers, rng.choice(np.array([-1, 1], np.int8), (n_classes, 12))


def summed(rows, members, **options):
    statistics = RidgeStatistics(rows.shape[1])
    statistics.add(rows, members, **options)
    return statistics


def towards(statistics, words):
    """The sum of z t^T over all rows z, for the codewords t of their classes."""
    return statistics.sums.T @ words.astype(float)


def solution(statistics, penalty, words):
    return statistics.factored(penalty).solve(towards(statistics, words))


def gram(statistics):
    return np.tril(statistics.gram) + np.tril(statistics.gram, -1).T


def assert_same(a, b, tolerance=1e-12):
    assert np.allclose(gram(a), gram(b), rtol=0, atol=tolerance)
    assert np.allclose(a.sums, b.sums, rtol=0, atol=tolerance)
    assert np.allclose(a.counts, b.counts, rtol=0, atol=tolerance)
    assert np.allclose([a.total, a.squares], [b.total, b.squares], rtol=0, atol=tolerance)


def test_the_solution_is_that_of_least_squares():
    rows, numbers, words = problem()
    statistics = summed(rows, single(numbers))
    expected = reference.ridge(rows, words[numbers].astype(float), 0.3)
    assert np.abs(solution(statistics, 0.3, words) - expected).max() < 1e-10
    some = solution(statistics.leading(5), 0.3, words)
    assert np.abs(some - reference.ridge(rows[:, :5], words[numbers].astype(float), 0.3)).max() < 1e-10


def test_rows_of_several_classes_are_learned_towards_the_mean_of_their_words():
    rows, _, words = problem()
    rng = np.random.default_rng(1)
    sets = [rng.choice(4, rng.integers(1, 4), replace=False) for _ in rows]
    members = several(sets)
    T = reference.targets(sets, dict(enumerate(words)))
    assert np.abs(solution(summed(rows, members), 0.3, words) - reference.ridge(rows, T, 0.3)).max() < 1e-10
    assert members.counts(5).tolist() == pytest.approx([sum(1 / len(s) for s in sets if c in s) for c in range(5)])


@given(st.lists(st.integers(0, 3), min_size=1, max_size=30), st.data())
@settings(deadline=None, max_examples=30)
def test_weights_repeat_rows_and_zero_leaves_them_out(times, data):
    n = len(times)
    rows, numbers, _ = problem(max(n, 4), seed=n)
    rows, numbers, times = rows[:n], numbers[:n], np.array(times)
    cut = data.draw(st.integers(0, n))
    weighted = RidgeStatistics(8)
    for part in (slice(cut), slice(cut, None)):
        weighted.add(rows[part], single(numbers[part], times[part].astype(float)))
    repeated = RidgeStatistics(8)
    repeated.add(np.repeat(rows, times, axis=0), single(np.repeat(numbers, times)))
    repeated.grow(len(weighted.counts))
    assert_same(weighted, repeated)


def test_members_are_cut_and_put_together_again():
    members = several([[0, 1], [2], [0, 3, 1], [1]], np.arange(4.0))
    for cut in range(5):
        again = members.between(0, cut).followed_by(members.between(cut, 4), cut)
        for name in ("owner", "number", "share", "weight"):
            assert np.array_equal(getattr(again, name), getattr(members, name))
    assert len(members.between(1, 1).number) == 0


def test_merging_adds_and_taking_out_subtracts():
    rows, numbers, _ = problem()
    whole = summed(rows, single(numbers))
    first, second = summed(rows[:20], single(numbers[:20])), summed(rows[20:], single(3 - numbers[20:]))
    first.merge(second, np.array([3, 2, 1, 0]))
    assert_same(first, whole)
    whole.add(rows[20:], single(numbers[20:]).negative())
    assert_same(whole, summed(rows[:20], single(numbers[:20])))


def test_decay_fades_what_is_there():
    rows, numbers, _ = problem()
    faded = summed(rows[:20], single(numbers[:20]))
    faded.add(rows[20:], single(numbers[20:]), decay=0.25)
    assert_same(faded, summed(rows, single(numbers, np.where(np.arange(60) < 20, 0.25, 1.0))))


def test_sums_of_no_rows_are_refused():
    rows, numbers, _ = problem()
    statistics = summed(rows[:5], single(numbers[:5]))
    statistics.add(10 * rows[5:10], single(numbers[5:10]).negative())
    with pytest.raises(InvalidInputError, match="Were rows unlearned that had not been learned"):
        statistics.factored(1e-3)


@pytest.mark.parametrize("m", [3, 256, 600])
def test_a_factor_solves_its_system_in_strips(m):
    rng = np.random.default_rng(0)
    rows, columns = rng.normal(size=(2 * m, m)), rng.normal(size=(m, 5))
    statistics = summed(rows, single(np.zeros(2 * m, int)))
    expected = np.linalg.solve(rows.T @ rows + 0.7 * np.eye(m), columns)
    factor = statistics.factored(0.7)
    assert np.abs(factor.solve(columns) - expected).max() < 1e-10
    assert factor.solve(columns[:, :0]).shape == (m, 0)
    leverages = np.diag(rows @ np.linalg.solve(rows.T @ rows + 0.7 * np.eye(m), rows.T))
    assert np.abs(factor.leverages(rows) - leverages).max() < 1e-10


@pytest.mark.parametrize("penalty", [1e-3, 1.0])
@pytest.mark.parametrize("n", [1, 4, 19])
def test_a_system_of_few_rows_is_solved_by_these(n, penalty):
    rows = problem(n=n, m=80, n_classes=1)[0]
    rows = np.vstack([rows, rows[:1]])  # one of them twice
    statistics, columns = summed(rows, single([0] * len(rows))), np.random.default_rng(0).normal(size=(80, 5))
    factor, system = statistics.factored(penalty), rows.T @ rows + penalty * np.eye(80)
    assert isinstance(factor, FewRowsFactor) == (n < 19)
    assert np.allclose(factor.solve(columns), np.linalg.solve(system, columns), rtol=1e-9)
    assert np.allclose(factor.leverages(rows), np.diag(rows @ np.linalg.solve(system, rows.T)), rtol=1e-9)


def test_sums_of_no_rows_are_refused_where_rows_are_few():
    rows, numbers, _ = problem(n=8, m=80)
    statistics = summed(rows, single(numbers))
    statistics.add(10.0 * rows[::-1, ::-1][:1], single([0], np.array([-1.0])))
    with pytest.raises(InvalidInputError, match="not those of any rows"):
        statistics.factored(1e-3)


@pytest.mark.parametrize("balance", [0.0, 0.5, 1.0])
@pytest.mark.parametrize(
    "n_rows, m, n_classes", [(12, 120, 4), (40, 120, 4), (196, 120, 4), (40, 8, 4), (900, 40, 300)]
)
def test_class_means_have_a_say_where_classes_have_few_rows(n_rows, m, n_classes, balance):
    rows, numbers, _ = problem(n_rows, m, n_classes)
    solution, own = (
        RidgeSolution(summed(rows, single(numbers)), balance, None, 0, np.arange(n_classes), angles=True),
        np.eye(n_classes)[numbers],
    )
    assert np.abs(solution.columns - reference.blended(rows, own, solution.penalty, balance)).max() < 1e-8
    assert np.abs(solution.columns - reference.balanced_ridge(rows, own, solution.penalty, balance)).max() > 1e-4
    some, columns = np.array([0, 2, 3]), np.random.default_rng(1).normal(size=(3, 2))
    weights, (A, _) = solution.columns[:, some], reference.balanced_sums(rows, own, balance)
    assert np.allclose(solution.products(some, columns), weights.T @ A @ weights @ columns)


@pytest.mark.parametrize(
    "n_rows, n_classes, angles", [(200, 4, True), (200, 1, True), (12, 4, False), (3000, 3000, True)]
)
def test_regression_alone_scores_many_rows_per_class_and_thousands_of_classes(n_rows, n_classes, angles):
    rows, numbers, _ = problem(n_rows, 40, n_classes)
    solution = RidgeSolution(summed(rows, single(numbers)), 1.0, None, 0, np.arange(n_classes), angles)
    own = np.eye(n_classes)[numbers]
    assert np.abs(solution.columns - reference.ridge(rows, own, solution.penalty)).max() < 1e-10


def test_other_threads_run_while_a_large_system_is_solved():
    statistics, turns = RidgeStatistics(1500), []
    while len(turns) < 5 and max(turns, default=0) <= 5:  # a busy machine may give this thread no turn
        solving = Thread(target=lambda: statistics.factored(1.0).solve(np.ones((1500, 64))))
        solving.start()
        turns.append(0)
        while solving.is_alive():
            sleep(0.001)
            turns[-1] += 1
    assert max(turns) > 5, turns


CLASSES = np.arange(4)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_the_penalty_grows_with_the_squares_of_the_features(scale):
    rows, numbers, _ = problem()
    plain = summed(rows, single(numbers)).choose_penalty(0, CLASSES)
    scaled = summed(scale * rows, single(numbers)).choose_penalty(0, CLASSES)
    assert scaled == pytest.approx(scale**2 * plain)


def test_weighing_all_rows_alike_chooses_for_as_many_more_rows():
    rows, numbers, _ = problem()
    twice = summed(np.vstack([rows, rows]), single(np.concatenate([numbers, numbers])))
    weighted = summed(rows, single(numbers, np.full(60, 2.0)))
    assert weighted.choose_penalty(0, CLASSES) == pytest.approx(twice.choose_penalty(0, CLASSES))


@pytest.mark.parametrize("penalty", [0.01, 1.0, 30.0])
def test_the_error_of_a_penalty_is_that_of_generalised_cross_validation(penalty):
    rows, numbers, _ = problem()
    words = np.random.default_rng(1).choice([-1.0, 1.0], (4, 16))
    statistics = summed(rows, single(numbers))
    exact = 4.0 * np.eye(8, 16)  # sixteen probes that give the trace itself
    error = statistics._error(penalty, exact, towards(statistics, words))
    assert error == pytest.approx(reference.cross_validation_error(rows, words[numbers], penalty))


@pytest.mark.parametrize("noise", [0.1, 0.5, 2.0])
def test_the_penalty_is_about_as_good_as_the_best(noise):
    rows, numbers, words = problem(150, 20, seed=2, noise=noise)
    T = words[numbers].astype(float)
    chosen = summed(rows, single(numbers)).choose_penalty(0, CLASSES)
    best = min(reference.cross_validation_error(rows, T, p) for p in np.power(10.0, np.arange(-3, 2.1, 0.25)))
    assert reference.cross_validation_error(rows, T, chosen) < 1.15 * best


def test_more_noise_asks_for_more_penalty():
    penalties = []
    for noise in (0.05, 4.0):
        rows, numbers, _ = problem(80, 40, noise=noise)
        penalties.append(summed(rows, single(numbers)).choose_penalty(0, CLASSES))
    assert penalties[0] < penalties[1]


@pytest.mark.parametrize("seed", range(8))
def test_the_penalty_does_not_depend_on_the_numbers_of_the_classes(seed):
    rows, numbers, _ = problem(60, 30, 6, seed, noise=1.5)
    order = np.random.default_rng(seed).permutation(6)  # class c is number order[c] in another stream
    plain = summed(rows, single(numbers)).choose_penalty(0, np.arange(6))
    assert summed(rows, single(order[numbers])).choose_penalty(0, order) == pytest.approx(plain)


@pytest.mark.parametrize("n_rows", [1, 2, 5])
def test_the_penalty_is_positive_and_finite_with_fewer_rows_than_features(n_rows):
    rows, numbers, _ = problem(10, 50)
    penalty = summed(rows[:n_rows], single(numbers[:n_rows])).choose_penalty(0, np.unique(numbers[:n_rows]))
    assert 1e-4 < penalty < 1e3


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_the_penalty_is_positive_where_all_rows_are_equal(value):
    statistics = summed(np.full((20, 5), value), single(np.zeros(20, int)))
    assert 0.0 < statistics.choose_penalty(0, np.array([0])) < 1e4


def test_the_penalty_of_nothing_is_positive():
    rows, numbers, words = problem()
    statistics = summed(rows, single(numbers))
    statistics.add(rows, single(numbers).negative())
    penalty = statistics.choose_penalty(0, np.empty(0, np.intp))
    assert penalty == 1.0
    assert np.abs(solution(statistics, penalty, words)).max() < 1e-12
    assert RidgeStatistics(3).choose_penalty(0, np.empty(0, np.intp)) == 1.0
