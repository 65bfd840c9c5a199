"""A real NATS server, with its streams on the disk."""

from __future__ import annotations

import threading
import time

import pytest
from tests.servers import wait_until
from tests.servers.nats import NatsServer
from tests.streams.messages import line

from onlinehash.collection import Collection
from onlinehash.exceptions import DataNotFoundError
from onlinehash.streams import Consumer, SourceError, UnreachableError, open_source

pytestmark = pytest.mark.slow


@pytest.fixture
def stream(request, nats_server):
    nats_server.make(request.node.name)
    return request.node.name


@pytest.fixture
def url(nats_server, stream):
    """An address whose messages are not delivered again, however busy the machine is."""
    return f"{nats_server.url(stream)}?ack_wait=60"


@pytest.fixture
def hasty_url(nats_server, stream):
    """An address whose messages are soon delivered again if they are not acknowledged."""
    return f"{nats_server.url(stream)}?ack_wait=1"


def run(url, collection, batch=8):
    with open_source(url) as source:
        return Consumer(source, collection, batch_size=batch).run(follow=False)


def lines(ids, **more):
    return [line(id, **more) for id in ids]


def dead_letters(server, stream):
    async def fetch(jetstream):
        info = await jetstream.stream_info(f"{stream}-dead")
        return [await jetstream.get_msg(f"{stream}-dead", i + 1) for i in range(info.state.messages)]

    return server.ask(fetch)


def test_messages_are_applied_once(nats_server, stream, url, collection):
    nats_server.publish(stream, [*lines(range(20)), b'{"id": 3, "deleted": true}'])
    stats = run(url, collection)
    assert (stats.received, stats.stored, stats.deleted, stats.lag) == (21, 20, 1, 0)
    assert run(url, collection).received == 0
    nats_server.publish(stream, lines([20]))
    assert run(url, collection).received == 1
    assert collection.hasher.n_samples_seen_ == 21


def test_a_subject_takes_only_some_of_a_stream(nats_server, stream, url, collection):
    nats_server.publish(stream, lines(range(5)), "shoes")
    nats_server.publish(stream, lines(range(10, 15)), "hats")
    assert run(f"{url}&subject={stream}.hats", collection).lag == 0
    assert list(collection) == list(range(10, 15))
    with pytest.raises(SourceError, match=r"takes '\w+.hats', not '\w+.shoes'; name another one with \?durable="):
        run(f"{url}&subject={stream}.shoes", collection)


def test_poison_moves_to_the_dead_stream_once_and_the_rest_is_applied(nats_server, stream, hasty_url, collection):
    nats_server.publish(stream, [line(1), b"\xff bad", line(2, vectors=[1.0]), line(3)])
    with open_source(hasty_url) as source:
        source.start(collection)
        given = source.fetch(10, 1)
        source.put_dead_letters([(given[1], "put away, and then killed: \u00e9\n")])
    stats = run(hasty_url, collection)
    assert (stats.stored, stats.dead_letters, stats.lag) == (2, 2, 0)
    letters = dead_letters(nats_server, stream)
    assert [letter.headers["Dead-Id"] for letter in letters] == ["2", "3"]
    assert letters[0].data == b"\xff bad"
    assert letters[0].headers["Dead-Error"] == "put away, and then killed: \\xe9"
    assert "1 features" in letters[1].headers["Dead-Error"] or "1 numbers" in letters[1].headers["Dead-Error"]


def test_what_was_applied_but_not_acknowledged_is_not_applied_again(
    nats_server, stream, hasty_url, collection, monkeypatch
):
    nats_server.publish(stream, lines(range(20)))
    with open_source(hasty_url) as source, monkeypatch.context() as patch:
        patch.setattr(source, "acknowledge", lambda messages: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            Consumer(source, collection, batch_size=8).run(follow=False)
    stats = run(hasty_url, collection, batch=5)
    assert (stats.redelivered, stats.stored, stats.lag) == (8, 12, 0)
    assert collection.hasher.n_samples_seen_ == 20


def test_older_messages_do_not_come_after_newer_ones(nats_server, stream, hasty_url, collection):
    nats_server.publish(stream, lines(range(4), payload="old"))
    with open_source(hasty_url) as source:
        source.start(collection)
        assert len(source.fetch(10, 1)) == 4
    nats_server.publish(stream, lines(range(4), payload="new"))
    run(hasty_url, collection, batch=2)
    assert {one.payload for one in collection.items()} == {"new"}
    assert collection.hasher.n_samples_seen_ == 8


def test_a_slow_batch_is_applied_once(nats_server, stream, url, collection, monkeypatch):
    nats_server.publish(stream, lines(range(10)))
    real = Collection.upsert

    def slowly(self, ids, *arguments, **named):
        time.sleep(2 if len(ids) else 0)
        real(self, ids, *arguments, **named)

    monkeypatch.setattr(Collection, "upsert", slowly)
    stats = run(url, collection, batch=5)
    assert stats.stored == collection.hasher.n_samples_seen_ == 10


def test_a_consumer_that_was_removed_is_made_again_behind_what_is_stored(nats_server, stream, url, collection):
    nats_server.publish(stream, lines(range(10)))
    url += "&durable=mine"
    run(url, collection)
    nats_server.ask(lambda jetstream: jetstream.delete_consumer(stream, "mine"))
    nats_server.publish(stream, lines(range(10, 15)))
    assert run(url, collection).received == 5
    with open_source(url) as source:
        source.start(collection)
        nats_server.publish(stream, lines([15]))
        given = source.fetch(5, 1)
        collection.upsert([15], [[0.5] * 16], [0], checkpoint=source.checkpoint(given))
        nats_server.ask(lambda jetstream: jetstream.delete_consumer(stream, "mine"))
        with pytest.raises(DataNotFoundError, match="its consumer was removed"):
            source.acknowledge(given)
    nats_server.publish(stream, lines([16]))
    assert run(url, collection).received == 1


def test_a_new_stream_of_the_same_name_is_read_from_its_beginning(nats_server, stream, url, collection):
    nats_server.publish(stream, lines(range(5)))
    run(url, collection)
    nats_server.ask(lambda jetstream: jetstream.delete_stream(stream))
    nats_server.make(stream)
    nats_server.publish(stream, lines(range(5, 8)))
    assert run(url, collection).stored == 3


def test_a_server_or_stream_that_is_not_there_ends_it_at_once(nats_server, collection):
    with pytest.raises(UnreachableError, match="does not answer"):
        run("nats://127.0.0.1:1/items", collection)
    with pytest.raises(DataNotFoundError, match="create the stream first"):
        run(nats_server.url("nowhere"), collection)


def test_a_password_is_asked_for_and_not_shown(tmp_path, collection):
    server = NatsServer(tmp_path, "--user", "me", "--pass", "right")
    try:
        with pytest.raises(SourceError, match="refuses us") as error:
            run(server.url("items").replace("//", "//me:secret@"), collection)
    finally:
        server.stop()
    assert "secret" not in str(error.value)


def test_a_consumer_of_another_kind_is_refused(nats_server, stream, url, collection):
    nats_server.ask(lambda jetstream: jetstream.add_consumer(stream, durable_name="all", ack_policy="all"))
    with pytest.raises(SourceError, match="explicit acknowledgements"):
        run(f"{url}&durable=all", collection)


def test_a_server_that_is_killed_and_comes_back_loses_nothing(tmp_path_factory, collection, monkeypatch, caplog):
    monkeypatch.setattr("onlinehash.streams.consumer._LONGEST_PAUSE", 0.2)
    server = NatsServer(tmp_path_factory.mktemp("killed"))
    try:
        server.make("items")
        server.publish("items", lines(range(300)))
        with open_source(f"{server.url('items')}?ack_wait=0.4") as source:
            consumer = Consumer(source, collection, batch_size=20)
            running = threading.Thread(target=consumer.run)
            running.start()
            wait_until(lambda: len(collection) >= 40)
            server.kill()
            wait_until(lambda: "asking again" in caplog.text)
            server.start()
            server.publish("items", lines(range(300, 400)))
            wait_until(lambda: len(collection) == 400 and consumer.stats().lag == 0)
            consumer.stop()
            running.join()
    finally:
        server.kill()
    assert "answers again" in caplog.text
    assert collection.hasher.n_samples_seen_ == 400
