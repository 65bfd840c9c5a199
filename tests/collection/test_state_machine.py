"""A collection against a plain dict and brute force, through changes, refreshes and reopening."""

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from tests.collection.brute import by_distance
from tests.collection.places import EnginePlace, FilePlace
from tests.collection.refreshing import wait_for_refresh
from tests.thorough import times

from onlinehash import HCOH, HROH, hamming_distances
from onlinehash.collection import generations
from onlinehash.exceptions import UnknownIdError

pytestmark = pytest.mark.slow

VECTORS = np.random.default_rng(3).normal(size=(12, 4)).astype(np.float32)
ROWS_PER_CHUNK = generations.rows_per_chunk
LABELS = [None, 0, 1, 2, (0, 1), (1, 2)]

numbers = st.integers(0, 9)
rows = st.dictionaries(numbers, st.tuples(st.integers(0, 11), st.sampled_from(LABELS)), min_size=1, max_size=4)


class CollectionMachine(RuleBasedStateMachine):
    hasher = HCOH(n_bits=9, random_state=0)

    @initialize(strings=st.booleans(), policy=st.sampled_from(["manual", "auto", 1, 5]))
    def create(self, strings, policy):
        generations.rows_per_chunk = lambda store: 3
        self.make_place()
        self.name = (lambda number: "k" * (number % 3) + str(number)) if strings else (lambda number: number)
        self.items = {}  # by id: number of the vector, labels, payload
        self.n_learned = 0
        self.collection = self.place.open(self.hasher, policy)

    def make_place(self):
        self.folder = tempfile.TemporaryDirectory()
        self.place = FilePlace(Path(self.folder.name))

    def teardown(self):
        if hasattr(self, "collection"):
            report = self.collection.check()
            self.collection.close()
            self.leave_place()
            assert report.ok, report
            generations.rows_per_chunk = ROWS_PER_CHUNK

    def leave_place(self):
        self.folder.cleanup()

    def put(self, id, vector, label, payload):
        """Note an item, and that the hasher learns from it."""
        self.items[id] = (vector, label, payload)
        self.n_learned += label is not None

    @rule(given=rows, payload=st.none() | st.integers())
    def add(self, given, payload):
        """Store, or replace, several items."""
        ids = [self.name(number) for number in given]
        vectors = [vector for vector, _ in given.values()]
        labels = [list(label) if isinstance(label, tuple) else label for _, label in given.values()]
        self.collection.upsert(ids, VECTORS[vectors], labels, payload=[payload] * len(ids))
        for id, (vector, label) in zip(ids, given.values(), strict=True):
            self.put(id, vector, label, payload)

    @rule(number=numbers, vector=st.none() | st.integers(0, 11), label=st.sampled_from([..., *LABELS]))
    def update(self, number, vector, label):
        """Change one item, if it is there."""
        id = self.name(number)
        given = list(label) if isinstance(label, tuple) else label
        X = None if vector is None else VECTORS[vector]
        if id not in self.items:
            try:
                self.collection.update(id, X, labels=given)
            except UnknownIdError:
                return
            raise AssertionError("an unknown id was updated")
        self.collection.update(id, X, labels=given, payload="updated")
        old_vector, old_label, _ = self.items[id]
        if vector is None and label is ...:
            self.items[id] = (old_vector, old_label, "updated")
        else:
            new_label = old_label if label is ... else label
            self.put(id, old_vector if vector is None else vector, new_label, "updated")

    @rule(given=st.sets(numbers, min_size=1, max_size=4))
    def delete(self, given):
        """Delete what there is of some ids."""
        ids = [self.name(number) for number in given]
        self.collection.delete(ids, missing="ignore")
        for id in ids:
            self.items.pop(id, None)

    @precondition(lambda self: self.n_learned)
    @rule()
    def refresh(self):
        """Make all codes again."""
        self.collection.refresh()
        if self.items:
            assert self.collection.stats().version == self.n_learned

    @rule(wait=st.booleans())
    def reopen(self, wait):
        """Close and open again."""
        self.collection.close()
        self.collection = self.place.open()
        if wait:
            wait_for_refresh(self.collection)

    @precondition(lambda self: self.n_learned)
    @rule(n_bits=st.integers(5, 20))
    def change_bits(self, n_bits):
        """Learn codes of another length."""
        self.collection.change_hasher(n_bits)
        self.n_learned = sum(label is not None for _, label, _ in self.items.values())

    @rule(query=st.integers(0, 11), k=st.integers(1, 12), label=st.none() | st.integers(0, 2), some=st.sets(numbers))
    def search(self, query, k, label, some):
        """Search with and without filters."""
        wait_for_refresh(self.collection)
        ids = [self.name(number) for number in some]
        encoder = self.collection.encoder
        stats = self.collection.stats()
        if encoder is None or not self.items:
            assert self.collection.search(VECTORS[query], k).ids == []
            return
        assert stats.n_searchable == len(self.items)
        distances = hamming_distances(encoder.encode(VECTORS[[query]]), encoder.encode(VECTORS))[0].tolist()
        ranked = by_distance(self.collection, [distances[item[0]] for item in self.items.values()], list(self.items))
        passing = [pair for pair in ranked if self.has(pair[1], label)]
        chosen = [pair for pair in passing if pair[1] in ids]
        for hits, expected in (
            (self.collection.search(VECTORS[query], k, rescore=None), ranked[:k]),
            (self.collection.search(VECTORS[query], k, rescore=None, labels=label), passing[:k]),
            (self.collection.search(VECTORS[query], k, rescore=None, labels=label, ids=ids), chosen[:k]),
            (self.collection.range_search(VECTORS[query], 3), [pair for pair in ranked if pair[0] <= 3]),
        ):
            assert list(zip(hits.distances, hits.ids, strict=True)) == expected

    def has(self, id, label):
        own = self.items[id][1]
        return label is None or own == label or (isinstance(own, tuple) and label in own)

    @invariant()
    def holds_what_the_dict_holds(self):
        if not hasattr(self, "collection"):
            return
        assert len(self.collection) == len(self.items)
        items = {item.id: item for item in self.collection.items()}
        assert list(items) == sorted(self.items)
        for id, (vector, label, payload) in self.items.items():
            assert np.array_equal(items[id].vectors, VECTORS[vector])
            assert (items[id].labels, items[id].payload) == (label, payload)
        assert self.collection.stats().n_learned == self.n_learned


TestCollection = CollectionMachine.TestCase
TestCollection.settings = settings(max_examples=times(25, 100), stateful_step_count=30, deadline=None)


class UnlearningMachine(CollectionMachine):
    """With a hasher that unlearns what is replaced, and whose labels can be linked, merged and renamed."""

    hasher = HROH(n_bits=9, n_components=8, bandwidth=1.0, random_state=0)

    def put(self, id, vector, label, payload):
        old = self.items.get(id, (None, None, None))
        self.items[id] = (vector, label, payload)
        if old[:2] != (vector, label):
            self.n_learned += (old[1] is not None) + (label is not None)

    @precondition(lambda self: self.n_learned)
    @rule(n_bits=st.integers(5, 20))
    def change_bits(self, n_bits):
        """Learn codes of another length, without learning again."""
        self.collection.change_hasher(n_bits)

    @property
    def labels(self):
        """Return the labels that items have."""
        own = [
            label if isinstance(label, tuple) else (label,) for _, label, _ in self.items.values() if label is not None
        ]
        return sorted({label for some in own for label in some})

    @precondition(lambda self: len(self.labels) > 1)
    @rule(data=st.data())
    def merge(self, data):
        """Make two labels one."""
        label, into = data.draw(st.permutations(self.labels))[:2]
        assert self.collection.merge_labels(label, into) == self.relabel(label, into)

    @precondition(lambda self: self.labels)
    @rule(data=st.data(), to=st.integers(20, 25))
    def rename(self, data, to):
        """Call a label something else."""
        if to not in self.labels:
            label = data.draw(st.sampled_from(self.labels))
            assert self.collection.rename_label(label, to) == self.relabel(label, to)

    def relabel(self, label, to):
        n_changed = 0
        for id, (vector, own, payload) in self.items.items():
            if self.has(id, label):
                some = sorted({*(own if isinstance(own, tuple) else (own,))} - {label} | {to})
                self.items[id] = (vector, some[0] if len(some) == 1 else tuple(some), payload)
                n_changed += 1
        self.n_learned += 1
        return n_changed

    @rule(given=st.sets(numbers, min_size=2, max_size=3))
    def link(self, given):
        """Link items that have no label, or were linked before."""
        ids = [self.name(number) for number in given]
        if all(id in self.items and (self.items[id][1] is None or is_link(self.items[id][1])) for id in ids):
            joined = {self.items[id][1] for id in ids} - {None}
            if self.collection.label_type == "int":
                label = self.collection.link(ids)
                for id, (vector, own, payload) in self.items.items():
                    if id in ids or own in joined:
                        self.put(id, vector, label, payload)

    @rule(given=st.sets(numbers, min_size=1, max_size=4))
    def unlearn(self, given):
        """Delete items, and unlearn them."""
        ids = [self.name(number) for number in given if self.name(number) in self.items]
        self.collection.delete(ids, unlearn=True)
        for id in ids:
            self.n_learned += self.items.pop(id)[1] is not None


def is_link(label):
    return not isinstance(label, tuple) and label < -1_000_000_000


TestUnlearning = UnlearningMachine.TestCase
TestUnlearning.settings = settings(max_examples=times(25, 100), stateful_step_count=30, deadline=None)


def test_a_collection_in_postgres_does_the_same(server):
    class PostgresMachine(CollectionMachine):
        def make_place(self):
            self.place = EnginePlace(server.url)

        def leave_place(self):
            server.execute(f"DROP SCHEMA onlinehash_{self.place.name} CASCADE")

    run_state_machine_as_test(
        PostgresMachine, settings=settings(max_examples=times(6, 30), stateful_step_count=20, deadline=None)
    )
