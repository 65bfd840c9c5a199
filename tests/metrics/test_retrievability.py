import pytest

from onlinehash.exceptions import InvalidInputError
from onlinehash.metrics import coverage, self_recall


def test_items_are_found_by_themselves_or_by_others():
    ids, found = ["a", "b", "c", "d"], [["a", "b"], ["a", "b"], ["a", "b"], ["d", "c"]]
    assert self_recall(ids, found) == 0.75
    assert self_recall(ids, found, k=1) == 0.5
    assert coverage(ids, found) == 1.0
    assert coverage(ids, found, k=1) == 0.5


def test_of_items_that_share_one_place_only_the_first_are_seen():
    ids = range(100)
    found = [list(range(10)) for _ in ids]
    assert self_recall(ids, found) == coverage(ids, found) == 0.1


@pytest.mark.parametrize("measure", [self_recall, coverage])
@pytest.mark.parametrize(("ids", "found"), [([], []), ([1, 2], [[1]])])
def test_there_is_one_search_per_id(measure, ids, found):
    with pytest.raises(InvalidInputError, match="pass one search per id"):
        measure(ids, found)
