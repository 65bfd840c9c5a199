"""Every index keeps every promise."""

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.reference import hamming as reference

from onlinehash import BucketIndex, FlatIndex
from onlinehash.checks import check_index, index_checks
from onlinehash.types import SearchResult


@pytest.mark.parametrize("check", list(index_checks()), ids=lambda check: check.__name__)
@pytest.mark.parametrize("index", [FlatIndex, BucketIndex])
def test_index_keeps(index, check):
    check(index)


class Careless(FlatIndex):
    """Breaks ties the other way round."""

    def search(self, codes, k, *, ids=None):
        found = super().search(codes, k, ids=ids)
        order = np.lexsort((-found.ids, found.distances))
        return SearchResult(*(np.take_along_axis(array, order, axis=1) for array in (found.ids, found.distances)))


class Forgetful(BucketIndex):
    """Removes before it looks whether all ids are known."""

    def delete(self, ids):
        for id in ids:
            super().delete([id])


@pytest.mark.parametrize(
    ("index", "check"), [(Careless, "check_search_is_exact"), (Forgetful, "check_refused_input_changes_nothing")]
)
def test_an_index_that_breaks_a_promise_is_found_out(index, check):
    with pytest.raises(AssertionError, match=f"breaks {check}"):
        check_index(index)


class IndexAgainstDict(RuleBasedStateMachine):
    """Any sequence of changes leaves an index equal to a plain dict."""

    some_ids = st.lists(st.integers(-20, 20), unique=True, max_size=12)

    @initialize(make_index=st.sampled_from([FlatIndex, BucketIndex]), n_bits=st.sampled_from([5, 8, 16, 40]))
    def start(self, make_index, n_bits):
        self.index, self.items, self.n_bits = make_index(n_bits), {}, n_bits

    def codes(self, n, seed):
        n_bytes = -(-self.n_bits // 8)
        return np.random.default_rng(seed).integers(0, 4, (n, n_bytes), dtype=np.uint8)  # few bits: many ties

    @rule(ids=some_ids, seed=st.integers(0, 999))
    def upsert(self, ids, seed):
        codes = self.codes(len(ids), seed)
        self.index.upsert(codes, np.array(ids, np.int64))
        self.items.update(zip(ids, codes, strict=True))

    @precondition(lambda self: self.items)
    @rule(data=st.data())
    def delete(self, data):
        ids = data.draw(st.lists(st.sampled_from(sorted(self.items)), unique=True))
        self.index.delete(np.array(ids, np.int64))
        for id in ids:
            del self.items[id]

    @rule(k=st.integers(1, 50), seed=st.integers(0, 999), ids=st.none() | some_ids)
    def search(self, k, seed, ids):
        query = self.codes(1, seed)
        found = self.index.search(query, k, ids=ids)[0]
        self.assert_found(found, self.ranking(query[0], ids)[:k])

    @rule(radius=st.integers(0, 6), seed=st.integers(0, 999), ids=st.none() | some_ids)
    def range_search(self, radius, seed, ids):
        query = self.codes(1, seed)
        found = self.index.range_search(query, radius, ids=ids)[0]
        self.assert_found(found, [pair for pair in self.ranking(query[0], ids) if pair[0] <= radius])

    def ranking(self, query, ids):
        return reference.ranking(query, {k: code for k, code in self.items.items() if ids is None or k in ids})

    def assert_found(self, found, expected):
        assert list(zip(found.distances.tolist(), found.ids.tolist(), strict=True)) == expected

    @invariant()
    def same_items(self):
        assert sorted(self.index.ids.tolist()) == sorted(self.items)
        for id, code in self.items.items():
            assert np.array_equal(self.index.get([id])[0], code)


TestIndexAgainstDict = IndexAgainstDict.TestCase
TestIndexAgainstDict.settings = settings(deadline=None, max_examples=60, stateful_step_count=25)
