"""The consumer against a queue in memory that delivers again whatever was not acknowledged, and fails when told to."""

from __future__ import annotations

import json
import threading
from collections import Counter
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.streams.messages import VECTORS, line

from onlinehash import HCOH
from onlinehash.collection import Collection
from onlinehash.exceptions import InvalidInputError, StorageError
from onlinehash.streams import Consumer, SourceError, UnreachableError
from onlinehash.streams.message import Message
from onlinehash.streams.processed_ids import BATCHES, ProcessedIds
from onlinehash.streams.source import Source


class Crash(Exception):  # noqa: N818
    """The end of the process, as far as the test goes."""


class Queue(Source):
    """Messages in memory; ``fails`` holds, by operation, errors to raise before or after doing it."""

    place = "queue"

    def __init__(self, contents):
        self.messages = [Message(i + 1, content) for i, content in enumerate(contents)]
        self.dead, self.fails, self.calls = [], [], []

    def start(self, collection):
        self.processed = ProcessedIds(collection, "queue", "here")

    def _maybe(self, operation, when):
        if self.fails and self.fails[0][:2] == (operation, when):
            raise self.fails.pop(0)[2]

    def fetch(self, limit, wait):
        self._maybe("fetch", "before")
        return self.messages[:limit]

    def is_in(self, message):
        return message.id in self.processed

    def checkpoint(self, messages):
        self._maybe("checkpoint", "before")
        return self.processed.checkpoint([message.id for message in messages])

    def acknowledge(self, messages):
        self._maybe("acknowledge", "before")
        gone = {message.id for message in messages}
        self.messages = [message for message in self.messages if message.id not in gone]
        self._maybe("acknowledge", "after")
        self.processed.turn()

    def put_dead_letters(self, letters):
        self._maybe("put_dead_letters", "before")
        known = {letter.message.id for letter in self.dead}
        self.dead += [letter for letter in letters if letter.message.id not in known]
        self._maybe("put_dead_letters", "after")

    def lag(self):
        return len(self.messages)


def delete(id):
    return json.dumps({"id": id, "deleted": True}).encode()


def test_items_deletions_and_repeats_are_applied_in_order(collection):
    queue = Queue([line(1), line(2), line(1, payload="b"), delete(2), line(3), delete(9)])
    queue.messages.append(Message(7, line(2, payload="again")))
    stats = Consumer(queue, collection).run(follow=False)
    assert (stats.received, stats.stored, stats.deleted, stats.dead_letters, stats.lag) == (7, 5, 2, 0, 0)
    assert [(one.id, one.payload) for one in collection.items()] == [(1, "b"), (2, "again"), (3, None)]
    assert collection.hasher.n_samples_seen_ == 5


def test_what_the_collection_refuses_is_put_away_and_the_rest_applied(collection):
    bad = {
        3: line(3, vectors=[1.0, 2.0]),
        5: line(5, vectors=[float("nan")] * 16),
        6: line(0, id="text"),
        7: line(7, label="text"),
        8: b"no message",
        11: line(0, id=1 << 70),
        15: delete("text"),
        19: line(19, payload="x" * 70_000),
    }
    queue = Queue([bad.get(i, line(i)) for i in range(20)])
    stats = Consumer(queue, collection, batch_size=9).run(follow=False)
    assert [letter.message.id - 1 for letter in sorted(queue.dead, key=lambda letter: letter.message.id)] == list(bad)
    assert (stats.stored, stats.dead_letters) == (20 - len(bad), len(bad))
    assert list(collection) == [i for i in range(20) if i not in bad]
    errors = {letter.message.id - 1: letter.error for letter in queue.dead}
    assert "vectors has 2 features" in errors[3] or "2 numbers" in errors[3]
    assert "labels of this collection are int" in errors[7]


def test_what_comes_again_is_acknowledged_and_changes_nothing(collection):
    queue = Queue([line(i) for i in range(10)])
    queue.fails = [("acknowledge", "before", Crash())]
    consumer = Consumer(queue, collection, batch_size=10)
    with pytest.raises(Crash):
        consumer.run(follow=False)
    assert (len(collection), len(queue.messages)) == (10, 10)
    collection.update(3, labels=1)  # what came later is not undone either
    stats = Consumer(queue, collection, batch_size=10).run(follow=False)
    assert (stats.received, stats.redelivered, stats.stored, stats.lag) == (10, 10, 0, 0)
    assert collection.hasher.n_samples_seen_ == 11
    assert collection.get(3)[0].labels == 1


def test_a_server_that_forgets_acknowledgements_doubles_nothing(collection):
    contents = [line(i % 50) for i in range(3 * BATCHES)]
    queue = Queue(contents)
    Consumer(queue, collection, batch_size=3).run(follow=False)
    queue.messages = Queue(contents).messages
    stats = Consumer(queue, collection, batch_size=5).run(follow=False)
    assert stats.redelivered == len(contents)
    assert collection.hasher.n_samples_seen_ == len(contents)


def test_a_server_that_is_gone_is_waited_for(collection, monkeypatch, caplog):
    monkeypatch.setattr("onlinehash.streams.consumer._PAUSE", 0.001)
    queue = Queue([b"bad", *(line(i) for i in range(10))])
    gone = UnreachableError("queue does not answer")
    queue.fails = [
        ("fetch", "before", gone),
        ("fetch", "before", gone),
        ("put_dead_letters", "after", gone),
        ("acknowledge", "after", gone),
        ("acknowledge", "before", gone),
    ]
    stats = Consumer(queue, collection, batch_size=4).run(follow=False)
    assert (stats.stored, stats.dead_letters, len(queue.dead), queue.fails) == (10, 1, 1, [])
    assert collection.hasher.n_samples_seen_ == 10
    assert caplog.text.count("does not answer; asking again") == 5
    assert "queue answers again" in caplog.text


def test_a_stop_is_heard_while_the_server_is_gone(collection):
    queue = Queue([line(1)])
    queue.fails = [("fetch", "before", UnreachableError("queue does not answer"))] * 1000
    consumer = Consumer(queue, collection)
    threading.Timer(0.3, consumer.stop).start()
    assert consumer.run().received == 0


def test_a_stop_finishes_the_batch_in_hand(collection):
    queue = Queue([line(i) for i in range(100)])
    consumer = Consumer(queue, collection, batch_size=10)
    stats = consumer.run(progress=lambda stats: consumer.stop())
    assert (stats.stored, stats.lag, len(collection)) == (10, 90, 10)
    assert consumer.run(follow=False).stored == 100


def test_a_collection_that_cannot_be_written_stops_it_without_acknowledging(collection, monkeypatch):
    queue = Queue([line(i) for i in range(10)])

    def full(*arguments, **named):
        raise StorageError("The disk is full.")

    with monkeypatch.context() as patch:
        patch.setattr(Collection, "upsert", full)
        with pytest.raises(StorageError):
            Consumer(queue, collection).run(follow=False)
    assert len(queue.messages) == 10
    assert Consumer(queue, collection).run(follow=False).stored == 10
    assert collection.hasher.n_samples_seen_ == 10


def test_stats_go_without_a_lag_while_the_server_is_gone(collection, monkeypatch):
    queue = Queue([])
    monkeypatch.setattr(queue, "lag", lambda: (_ for _ in ()).throw(UnreachableError("gone")))
    assert Consumer(queue, collection).stats().lag is None


def test_errors_of_a_source_end_it(collection):
    queue = Queue([line(1)])
    queue.fails = [("fetch", "before", SourceError("no such stream"))]
    with pytest.raises(SourceError):
        Consumer(queue, collection).run()


def test_a_batch_is_positive(collection):
    with pytest.raises(InvalidInputError, match="batch_size=0"):
        Consumer(Queue([]), collection, batch_size=0)


CONTENTS = st.lists(
    st.tuples(st.sampled_from(["add", "add", "add", "delete", "bad", "wide"]), st.integers(0, 5)), max_size=25
)
STEPS = (
    "put_dead_letters before",
    "put_dead_letters after",
    "checkpoint before",
    "acknowledge before",
    "acknowledge after",
)
CRASHES = st.lists(st.sampled_from(STEPS), max_size=8)


@settings(max_examples=12, deadline=None)
@given(CONTENTS, CRASHES, st.integers(1, 8))
def test_crashes_at_any_step_leave_each_message_applied_exactly_once(kinds, crashes, batch):
    contents, wanted, n_learned, dead = [line(0)], {0: None}, 1, Counter()
    for number, (kind, id) in enumerate(kinds, 2):
        contents.append(
            {
                "add": line(id, payload=number),
                "delete": delete(id),
                "bad": b"?",
                "wide": line(id, vectors=[0.5] * 17),
            }[kind]
        )
        n_learned += kind == "add"
        if kind == "add":
            wanted[id] = number
        elif kind == "delete":
            wanted.pop(id, None)
        else:
            dead[number] += 1
    with TemporaryDirectory() as folder:
        path = f"{folder}/items.oh"
        Collection.open(path, HCOH(16, random_state=0), "manual").close()
        with Collection.open(path) as collection:
            first = Queue(contents[:1])
            Consumer(first, collection).run(follow=False)
        queue = Queue(contents)
        queue.fails = [(*crash.split(), Crash()) for crash in crashes]
        for _ in range(len(crashes) + 1):
            with Collection.open(path) as collection:
                try:
                    Consumer(queue, collection, batch_size=batch).run(follow=False)
                    break
                except Crash:
                    continue
        with Collection.open(path) as collection:
            assert {one.id: one.payload for one in collection.items()} == wanted
            assert collection.hasher.n_samples_seen_ == n_learned
            assert not queue.messages
            assert Counter(letter.message.id for letter in queue.dead) == dead
            for one in collection.items():
                np.testing.assert_array_equal(one.vectors, VECTORS[one.id])
