import numpy as np
import pytest

from onlinehash import FlatIndex
from onlinehash.checks import check_index, index_checks, recall
from onlinehash.indexes.index import check_id_filter
from onlinehash.types import SearchResult


class Plain:
    """Has only what every index must have."""

    supports_asymmetric = False

    def __init__(self, n_bits):
        self._index = FlatIndex(n_bits)

    def __len__(self):
        return len(self._index)

    def __contains__(self, id):
        return id in self._index

    def __getattr__(self, name):
        if name in {"save", "load"}:
            raise AttributeError(name)
        return getattr(self._index, name)


class Halved(Plain):
    """Looks at every second item only, and fills up with the others."""

    def search(self, codes, k, *, ids=None):
        among = np.sort(self.ids if ids is None else np.intersect1d(check_id_filter(ids), self.ids))
        halves = [self._index.search(codes, k, ids=half) for half in (among[::2], among[1::2])]
        ids, distances = (np.hstack([getattr(h, n) for h in halves])[:, :k] for n in ("ids", "distances"))
        order = np.lexsort((ids, distances))
        return SearchResult(*(np.take_along_axis(array, order, axis=1) for array in (ids, distances)))


class Liar(Halved):
    """Makes distances up."""

    def search(self, codes, k, *, ids=None):
        found = super().search(codes, k, ids=ids)
        return SearchResult(found.ids, np.zeros_like(found.distances))


class Short(Halved):
    """Answers with fewer items than it has."""

    def search(self, codes, k, *, ids=None):
        found = super().search(codes, k, ids=ids)
        return SearchResult(found.ids[:, :200], found.distances[:, :200])


class Late(Halved):
    """Forgets nothing: what was removed is found again, in place of what is there."""

    def __init__(self, n_bits):
        super().__init__(n_bits)
        self._all = FlatIndex(n_bits)

    def upsert(self, codes, ids=None):
        self._index.upsert(codes, ids)
        self._all.upsert(self.codes, self.ids)

    def search(self, codes, k, *, ids=None):
        if ids is None and len(self):
            return self._all.search(codes, min(k, len(self)))
        return super().search(codes, k, ids=ids)


class Lossy(FlatIndex):
    """Loses an item in its file."""

    def save(self, path):
        copy = FlatIndex(self.n_bits)
        copy.upsert(self.codes[1:], self.ids[1:])
        copy.save(path)


def test_an_index_may_do_without_asymmetric_search_and_files():
    check_index(Plain)


def test_an_approximate_index_keeps_all_promises_but_the_exact_ones():
    check_index(Halved, exact=False)
    with pytest.raises(AssertionError, match="breaks check_search_is_exact"):
        check_index(Halved)


@pytest.mark.parametrize(
    ("index", "broken"),
    [
        (Liar, "check_answers_are_true: a distance is wrong"),
        (Short, "check_answers_are_true: 200 items found"),
        (Late, "no item of the index"),
        (Lossy, "check_saved_index_is_the_same"),
    ],
)
def test_an_approximate_index_that_breaks_a_promise_is_found_out(index, broken):
    with pytest.raises(AssertionError, match=broken):
        check_index(index, exact=False)


def test_only_exact_indexes_are_checked_for_exactness():
    left_out = {check.__name__ for check in index_checks()} - {check.__name__ for check in index_checks(exact=False)}
    assert left_out == {check.__name__ for check in index_checks() if check.__name__.endswith("exact")}
    assert len(left_out) == 5


def test_recall_counts_what_is_no_farther_than_the_true_last():
    codes = np.array([[0], [1], [2], [4], [255]], np.uint8)  # three at distance 1 from zero
    oracle, index = FlatIndex(8), FlatIndex(8)
    oracle.upsert(codes)
    query = np.zeros((1, 1), np.uint8)
    for ids, expected in [([0, 3], 1.0), ([0, 1], 1.0), ([1, 2], 1.0), ([0, 4], 0.5), ([4], 0.0), ([0], 0.5)]:
        index = FlatIndex(8)
        index.upsert(codes[ids], ids)
        assert recall(index, oracle, query, 2) == expected
    assert recall(oracle, oracle, codes, 3) == 1.0


def test_nothing_can_be_missed_where_there_is_nothing():
    assert recall(FlatIndex(8), FlatIndex(8), np.zeros((2, 1), np.uint8), 5) == 1.0
    filled = FlatIndex(8)
    filled.upsert(np.zeros((2, 1), np.uint8))
    assert recall(filled, filled, np.zeros((0, 1), np.uint8), 5) == 1.0
