"""Every index keeps every promise."""

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.reference import hamming as reference

from onlinehash import FlatIndex
from onlinehash.checks import check_index, index_checks
from onlinehash.exceptions import InvalidInputError
from onlinehash.types import SearchResult


@pytest.mark.parametrize("check", list(index_checks()), ids=lambda check: check.__name__)
def test_index_keeps(check):
    check(FlatIndex)


class Careless(FlatIndex):
    """Breaks ties the other way round."""

    def search(self, codes, k, *, ids=None):
        found = super().search(codes, k, ids=ids)
        order = np.lexsort((-found.ids, found.distances))
        return SearchResult(*(np.take_along_axis(array, order, axis=1) for array in (found.ids, found.distances)))


class Forgetful(FlatIndex):
    """Removes before it looks whether all ids are known."""

    def delete(self, ids):
        for id in ids:
            super().delete([id])


def test_an_index_that_breaks_a_promise_is_found_out():
    with pytest.raises(AssertionError, match="breaks check_search_is_exact"):
        check_index(Careless)
    checks = {check.__name__: check for check in index_checks()}
    with pytest.raises(AssertionError, match="it holds 2701 items, not 2702"):
        checks["check_refused_input_changes_nothing"](Forgetful)


class IndexAgainstDict(RuleBasedStateMachine):
    """Any sequence of changes leaves an index equal to a plain dict."""

    some_ids = st.lists(st.integers(-20, 20), unique=True, max_size=12)

    @initialize(n_bits=st.sampled_from([5, 8, 16, 40]))
    def start(self, n_bits):
        self.index, self.items, self.n_bits = FlatIndex(n_bits), {}, n_bits

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


@pytest.mark.parametrize("n_bits", [8, 64, 256])
def test_ties_by_hash_are_the_same_draw_for_every_search(n_bits, tmp_path):
    rng = np.random.default_rng(n_bits)
    codes = rng.integers(0, 3, (4000, n_bits // 8), dtype=np.uint8)
    codes[:, 1:] = 0  # six codes of two bits
    ids = np.concatenate([rng.permutation(3998), [-(2**63), 2**63 - 1]])
    index, by_id = FlatIndex(n_bits, ties="hash"), FlatIndex(n_bits)
    for each in (index, by_id):
        each.upsert(codes, ids)
        each.delete(ids[::5])
    queries, values = codes[:20], np.tile(np.linspace(-1, 1, n_bits), (3, 1))
    hashes = {id: reference.tie_hash(id) for id in ids.tolist()}
    for k in (1, 10, 3000):
        for some in (None, np.sort(ids)[::2], ids[:30]):
            everything = by_id.search(queries, 5000, ids=some)
            found = index.search(queries, k, ids=some)
            for one, expected in zip(found, everything, strict=True):
                pairs = zip(expected.distances.tolist(), expected.ids.tolist(), strict=True)
                in_order = sorted(pairs, key=lambda pair: (pair[0], hashes[pair[1]]))
                assert list(zip(one.distances.tolist(), one.ids.tolist(), strict=True)) == in_order[:k]
            near = index.range_search(queries[:1], 1, ids=some)[0]
            n_near = int((everything.distances[0] <= 1).sum())
            if k >= n_near:
                assert near.ids.tolist() == found.ids[0, :n_near].tolist()
        everything, found = by_id.search(values, 5000, asymmetric=True), index.search(values, k, asymmetric=True)
        assert np.array_equal(found.distances, everything.distances[:, :k])
    index.save(tmp_path / "index.ohi")
    again = FlatIndex.load(tmp_path / "index.ohi")
    assert again.ties == "hash"
    assert np.array_equal(again.search(queries, 50).ids, index.search(queries, 50).ids)


def test_ties_by_hash_do_not_prefer_old_items():
    index = FlatIndex(16, ties="hash")
    index.upsert(np.zeros((10_000, 2), np.uint8))
    drawn = index.search(np.zeros((1, 2), np.uint8), 1000).ids[0]
    assert 4700 < drawn.mean() < 5300  # 3 standard deviations to either side; by id, it is 500
    with pytest.raises(InvalidInputError, match="ties='arrival'"):
        FlatIndex(16, ties="arrival")
