from threading import Thread
from time import sleep

import numpy as np
import pytest

from onlinehash import _lapack


@pytest.fixture
def rows():
    return np.random.default_rng(0).standard_normal((90, 40))


def test_gram_matrices_are_added_to_the_lower_triangle(rows):
    gram = np.asfortranarray(rows[:40])
    expected = np.tril(0.5 * gram - 2.0 * rows.T @ rows) + np.triu(gram, 1)
    _lapack.add_gram(-2.0, rows, 0.5, gram)
    np.testing.assert_allclose(gram, expected)
    _lapack.add_gram(1.0, rows[:0], 2.0, gram)
    np.testing.assert_allclose(np.tril(gram), 2.0 * np.tril(expected))


def test_a_factor_solves_its_system(rows):
    system, columns = np.asfortranarray(rows.T @ rows), rows[:3].T
    solution = np.linalg.solve(system, columns)
    lower = _lapack.factor(system)
    assert lower is system
    np.testing.assert_allclose(_lapack.solve(lower, columns), solution)
    assert _lapack.solve(lower, columns[:, :0]).shape == (40, 0)


def test_matrices_in_another_order_or_that_are_read_only_are_copied(rows):
    gram = rows.T @ rows
    expected = np.tril(2.0 * gram)
    gram.flags.writeable = False
    assert np.allclose(np.tril(_lapack.add_gram(1.0, rows, 1.0, gram)), expected)
    lower = np.tril(_lapack.factor(gram))
    np.testing.assert_allclose(lower @ lower.T, gram)
    np.testing.assert_allclose(_lapack.solve(np.ascontiguousarray(lower), gram), np.eye(40), atol=1e-9)
    with pytest.raises(ValueError, match=r"\(90, 40\) is not square"):
        _lapack.factor(rows)


def test_a_matrix_that_is_not_positive_has_no_factor():
    assert _lapack.factor(np.asfortranarray(-np.eye(3))) is None


def test_other_threads_run_while_a_matrix_is_factored():
    thread, n_turns = Thread(target=_lapack.factor, args=[np.asfortranarray(np.eye(2000))]), 0
    thread.start()
    while thread.is_alive():
        sleep(0.001)
        n_turns += 1
    assert n_turns > 5
