import numpy as np
import pytest

from onlinehash.exceptions import InvalidInputError
from onlinehash.metrics import Curve, checkpoints


def test_area_is_by_trapezoids_over_the_range_and_mean_is_plain():
    curve = Curve([10, 20, 60], [0.0, 1.0, 0.5])
    assert curve.auc() == pytest.approx((10 * 0.5 + 40 * 0.75) / 50)
    assert curve.mean() == pytest.approx(0.5)


def test_a_curve_grows_forward_only():
    curve = Curve()
    curve.add(5, 0.1)
    with pytest.raises(InvalidInputError, match="does not come after 5"):
        curve.add(5, 0.2)
    with pytest.raises(InvalidInputError, match="at least 2"):
        curve.auc()


def test_checkpoints_hold_the_first_and_the_last_instance_and_move_by_a_sixth_at_most():
    regular, moved = checkpoints(20_000), checkpoints(20_000, seed=1)
    assert len(regular) == len(moved) == 50
    assert (moved[0], moved[-1]) == (1, 20_000)
    assert np.abs(moved - regular).max() <= 20_000 / 49 / 6 + 1
    assert not np.array_equal(moved, regular)
    assert np.array_equal(moved, checkpoints(20_000, seed=1))


def test_short_streams_have_fewer_checkpoints():
    assert checkpoints(3).tolist() == [1, 2, 3]
    assert checkpoints(1).tolist() == [1]
