"""Filters against the rule in plain Python, on both stores, with changes in between."""

import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test
from tests.collection.brute import by_distance, pairs
from tests.collection.filter_oracle import filters, passes, payloads
from tests.collection.places import EnginePlace, FilePlace

from onlinehash import HCOH, hamming_distances

pytestmark = pytest.mark.slow

VECTORS = np.random.default_rng(3).normal(size=(12, 4)).astype(np.float32)
numbers = st.integers(0, 19)
SIMPLE = ({"a": {"$gt": -1, "$lte": 0.5}}, {"b": {"$in": ["a", "1", "ß"]}}, {"a": "true"}, {"b": {"$contains": "a"}})
labels = st.none() | st.integers(0, 2) | st.sampled_from([(0, 1), (1, 2), (0, 1, 12)])
rows = st.tuples(st.integers(0, 11), labels, payloads)


def has(item, label):
    """Return whether an item has a label."""
    return label in item[1] if isinstance(item[1], tuple) else item[1] == label


class FilterMachine(RuleBasedStateMachine):
    search = None

    @initialize(strings=st.booleans())
    def create(self, strings):
        self.make_place()
        self.name = (lambda number: f"k{number}") if strings else (lambda number: number)
        self.items = {}  # by id: number of the vector, label, payload; in order of arrival
        self.collection = self.place.open(HCOH(n_bits=9, random_state=0), "manual", search=self.search)
        self.reader = self.place.open(readonly=True)

    def make_place(self):
        self.folder = tempfile.TemporaryDirectory()
        self.place = FilePlace(Path(self.folder.name))

    def teardown(self):
        if hasattr(self, "reader"):
            self.reader.close()
            self.collection.close()
            self.leave_place()

    def leave_place(self):
        self.folder.cleanup()

    @rule(given=st.dictionaries(numbers, rows, min_size=1, max_size=10))
    def upsert(self, given):
        """Store, or replace, several items."""
        ids = [self.name(number) for number in given]
        vectors, given_labels, contents = zip(*given.values(), strict=True)
        self.collection.upsert(ids, VECTORS[list(vectors)], list(given_labels), list(contents))
        for id, row in zip(ids, given.values(), strict=True):
            self.items.pop(id, None)
            self.items[id] = row

    @precondition(lambda self: self.items)
    @rule(data=st.data(), payload=payloads, label=st.none() | st.integers(0, 2))
    def update(self, data, payload, label):
        """Change the payload of an item, and perhaps its label."""
        id = data.draw(st.sampled_from(list(self.items)))
        self.collection.update(id, payload=payload, labels=... if label is None else label)
        vector, old, _ = self.items[id]
        if label is not None:
            del self.items[id]  # it arrives again
        self.items[id] = (vector, old if label is None else label, payload)

    @rule(where=filters)
    def delete(self, where):
        """Delete what passes a filter."""
        gone = [id for id in self.items if passes(self.items[id][2], where)]
        assert self.collection.delete(where=where) == len(gone)
        for id in gone:
            del self.items[id]

    @rule(given=st.sets(numbers, max_size=3))
    def delete_ids(self, given):
        """Delete some ids."""
        ids = [self.name(number) for number in given]
        assert self.collection.delete(ids, missing="ignore") == len(self.items.keys() & set(ids))
        self.items = {id: row for id, row in self.items.items() if id not in ids}

    @rule(path=st.sampled_from(["a", "b", "a.b", "größe", "it's 100%", "\\'"]))
    def create_or_drop_index(self, path):
        """Create an index, or drop it if there is one."""
        if path in self.collection.indexes():
            self.collection.drop_index(path)
        else:
            self.collection.create_index(path)

    @precondition(lambda self: self.items and self.collection.encoder is not None)
    @rule()
    def refresh(self):
        """Make all codes again."""
        self.collection.refresh()

    @rule()
    def reopen(self):
        """Close and open again."""
        self.collection.close()
        self.collection = self.place.open(search=self.search)

    @rule(
        where=filters, query=st.integers(0, 11), k=st.integers(1, 8), label=st.none() | st.integers(0, 2), twice=numbers
    )
    def ask(self, where, query, k, label, twice):
        """Compare all ways to ask, by the writer and by a reader."""
        passing = [id for id in self.items if passes(self.items[id][2], where)]
        for collection in (self.collection, self.reader):
            assert collection.count(where) == len(passing)
            assert [item.id for item in collection.items(where=where, chunk=4)] == sorted(passing)
            counted = Counter(one for id in passing for one in each(self.items[id][1]))
            assert collection.label_counts(where) == dict(counted)
            encoder = collection.encoder
            if encoder is None:
                assert collection.search(VECTORS[query], k, where=where).ids == []
                continue
            distances = hamming_distances(encoder.encode(VECTORS[[query]]), encoder.encode(VECTORS))[0].tolist()
            ranked = by_distance(collection, [distances[self.items[id][0]] for id in passing], passing)
            labelled = [pair for pair in ranked if label is None or has(self.items[pair[1]], label)]
            found = collection.search(VECTORS[query], k, where=where, labels=label, include=["payload"])
            assert pairs(found) == labelled[:k]
            assert found.payload == [self.items[id][2] for id in found.ids]
            some = [self.name(number) for number in range(twice)]
            near = [pair for pair in ranked if pair[0] <= 3 and pair[1] in some]
            assert pairs(collection.range_search(VECTORS[query], 3, where=where, ids=some)) == near
            assert pairs(collection.search(VECTORS[query], 100, where=where)) == ranked
            for simple in SIMPLE:  # asked again and again, so that answers are remembered
                found = collection.search(VECTORS[query], 100, where=simple).ids
                assert set(found) == {id for id in self.items if passes(self.items[id][2], simple)}

    @rule(
        where=st.none() | filters,
        some=st.none() | st.integers(0, 3) | st.lists(st.integers(0, 12), min_size=1, max_size=3),
        order=st.sampled_from(["id", "arrival"]),
        descending=st.booleans(),
        limit=st.integers(1, 7),
        gone=st.booleans(),
    )
    def list_items(self, where, some, order, descending, limit, gone):
        """Compare lists and pages by label, payload and order, by the writer and by a reader."""
        wanted = some if isinstance(some, list) else [some]
        listed = [
            id
            for id, item in self.items.items()
            if (some is None or any(has(item, label) for label in wanted)) and (where is None or passes(item[2], where))
        ]
        listed = (sorted(listed) if order == "id" else listed)[:: -1 if descending else 1]
        given = {"labels": some, "where": where, "order": order, "descending": descending}
        for collection in (self.collection, self.reader):
            assert collection.count(where, labels=some) == len(listed)
            assert [item.id for item in collection.items(**given, chunk=3)] == listed
            assert [item.id for item in collection.items(**given, limit=limit)] == listed[:limit]
            if len(listed) > 1:
                assert [item.id for item in collection.items(**given, after=listed[1])] == listed[2:]
            page, found = collection.page(**given, limit=limit), []
            while True:
                found += [item.id for item in page.items]
                if page.cursor is None:
                    break
                page = collection.page(**given, cursor=page.cursor, limit=limit)
            assert found == listed
        if gone and len(listed) > limit:  # a cursor holds although its item is deleted
            cursor, last = self.collection.page(**given, limit=limit).cursor, listed[limit - 1]
            self.collection.delete(last)
            del self.items[last]
            assert [item.id for item in self.collection.page(**given, cursor=cursor).items] == listed[limit:]


def each(label):
    """Return the labels of an item, None if it has none."""
    return label if isinstance(label, tuple) else (label,)


class FaissMachine(FilterMachine):
    search = "faiss"


@pytest.mark.parametrize(("machine", "n_examples"), [(FilterMachine, 12), (FaissMachine, 2)])
def test_filters_of_a_file_follow_the_rule(machine, n_examples):
    run_state_machine_as_test(
        machine, settings=settings(max_examples=n_examples, stateful_step_count=20, deadline=None)
    )


def test_filters_in_postgres_follow_the_rule(server):
    class PostgresMachine(FilterMachine):
        def make_place(self):
            self.place = EnginePlace(server.url)

        def leave_place(self):
            server.execute(f"DROP SCHEMA onlinehash_{self.place.name} CASCADE")

    run_state_machine_as_test(PostgresMachine, settings=settings(max_examples=4, stateful_step_count=20, deadline=None))
