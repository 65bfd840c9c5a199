"""A real Redis server, with an append-only file."""

from __future__ import annotations

import threading

import pytest
from redis import Redis
from tests.servers import wait_until
from tests.streams.messages import VECTORS, line

from onlinehash.streams import Consumer, SourceError, UnreachableError, open_source

pytestmark = pytest.mark.slow


@pytest.fixture
def stream(request):
    return request.node.name


@pytest.fixture
def client(redis_server):
    with redis_server.client() as client:
        yield client


@pytest.fixture
def url(redis_server, stream):
    return redis_server.url(stream)


def run(url, collection, **options):
    with open_source(url) as source:
        return Consumer(source, collection, batch_size=options.pop("batch", 8)).run(follow=False, **options)


def fill(client, stream, ids, **more):
    return [client.xadd(stream, {"item": line(id, **more)}) for id in ids]


def test_entries_are_json_or_fields_of_their_own(client, stream, url, collection):
    fill(client, stream, [1], payload="a")
    client.xadd(stream, {"id": 2, "vectors": VECTORS[2].tobytes(), "label": 1, "payload": '{"n": 2}'})
    client.xadd(stream, {"id": 3, "vectors": str(VECTORS[3].tolist()), "labels": "[1, 2]"})
    client.xadd(stream, {"id": 1, "deleted": 1})
    stats = run(url, collection)
    assert (stats.received, stats.stored, stats.deleted, stats.lag) == (4, 3, 1, 0)
    found = [(one.id, one.labels, one.payload, one.vectors.tolist()) for one in collection.items()]
    assert found == [(2, 1, {"n": 2}, VECTORS[2].tolist()), (3, (1, 2), None, VECTORS[3].tolist())]
    assert run(url, collection).received == 0


def test_poison_moves_to_the_dead_stream_and_the_rest_is_applied(client, stream, url, collection):
    fill(client, stream, range(5))
    bad = [client.xadd(stream, {"item": b"\xff{"}), client.xadd(stream, {"id": 9, "vectors": b"abc", "extra": "own"})]
    bad += fill(client, stream, [10], vectors=[1.0])
    fill(client, stream, range(5, 9))
    stats = run(url, collection, batch=100)
    assert (stats.stored, stats.dead_letters, stats.lag) == (9, 3, 0)
    dead = [fields for _, fields in client.xrange(f"{stream}:dead")]
    assert sorted(fields[b"dead:id"] for fields in dead) == sorted(bad)
    assert {fields[b"dead:id"]: fields for fields in dead}[bad[1]][b"extra"] == b"own"
    assert all(fields[b"dead:error"] for fields in dead)


def test_a_dead_letter_is_not_written_twice(client, stream, url, collection):
    client.xadd(stream, {"item": "bad"})
    with open_source(url) as source:
        source.start(collection)
        (message,) = source.fetch(10, 0)
        source.put_dead_letters([(message, "no good")])
        source.put_dead_letters([(message, "no good")])
    assert client.xlen(f"{stream}:dead") == 1
    assert run(url, collection).lag == 0


def test_what_was_applied_but_not_acknowledged_is_not_applied_again(client, stream, url, collection, monkeypatch):
    fill(client, stream, range(20))
    with open_source(url) as source, monkeypatch.context() as patch:
        patch.setattr(source, "acknowledge", lambda messages: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            Consumer(source, collection, batch_size=8).run(follow=False)
    assert len(collection) == 8
    stats = run(url, collection, batch=5)
    assert (stats.redelivered, stats.stored, stats.lag) == (8, 12, 0)
    assert collection.hasher.n_samples_seen_ == 20


def test_what_was_read_but_not_applied_comes_first(client, stream, url, collection):
    fill(client, stream, range(10))
    with open_source(url) as source:
        source.start(collection)
        assert len(source.fetch(4, 0)) == 4
    fill(client, stream, [0], payload="newer")
    run(url, collection)
    assert collection.get(0)[0].payload == "newer"
    assert collection.hasher.n_samples_seen_ == 11


def test_collections_of_one_group_share_its_messages_and_leave_each_other_theirs(
    client, stream, url, collection, tmp_path
):
    fill(client, stream, range(10))
    with open_source(f"{url}?group=shared") as source:
        source.start(collection)
        assert len(source.fetch(6, 0)) == 6
        with type(collection).open(tmp_path / "other.oh", "hcoh") as other:
            assert run(f"{url}?group=shared", other, batch=100).stored == 4
    assert (run(f"{url}?group=shared", collection).stored, len(collection)) == (6, 6)


def test_two_collections_both_get_everything_by_default(client, stream, url, collection, tmp_path):
    fill(client, stream, range(5))
    assert run(url, collection).stored == 5
    with type(collection).open(tmp_path / "other.oh", "hcoh") as other:
        assert run(url, other).stored == 5


def test_a_group_that_was_removed_is_made_again_behind_what_is_stored(client, stream, url, collection):
    fill(client, stream, range(10))
    run(url, collection)
    client.xgroup_destroy(stream, client.xinfo_groups(stream)[0]["name"])
    fill(client, stream, range(10, 15))
    assert run(url, collection).received == 5
    with open_source(url) as source:
        source.start(collection)
        client.xgroup_destroy(stream, client.xinfo_groups(stream)[0]["name"])
        assert source.fetch(5, 0) == []
        fill(client, stream, [15])
        assert len(source.fetch(5, 0)) == 1


def test_a_new_stream_of_the_same_name_is_read_from_its_beginning(client, stream, url, collection):
    client.xadd(stream, {"item": line(1)}, id="9-1")
    run(url, collection)
    client.delete(stream)
    client.xadd(stream, {"item": line(2)}, id="5-1")
    assert run(url, collection).stored == 1


def test_entries_deleted_before_they_were_read_do_not_stop_it(client, stream, url, collection):
    names = fill(client, stream, range(10))
    with open_source(url) as source:
        source.start(collection)
        source.fetch(4, 0)
    client.xdel(stream, names[1], names[7])
    stats = run(url, collection)
    assert (stats.stored, stats.dead_letters, stats.lag) == (8, 1, 0)


def test_lag_counts_what_is_pending_and_what_waits(client, stream, url, collection):
    fill(client, stream, range(10))
    with open_source(url) as source:
        source.start(collection)
        assert source.lag() == 10
        messages = source.fetch(4, 0)
        assert source.lag() == 10
        source.acknowledge(messages)
        assert source.lag() == 6


def test_a_server_that_is_not_there_or_no_stream_ends_it_at_once(client, stream, url, collection):
    with pytest.raises(UnreachableError, match="does not answer"):
        run("redis://127.0.0.1:1/0/items", collection)
    client.set(stream, "text")
    with pytest.raises(SourceError, match="WRONGTYPE"):
        run(url, collection)


def test_a_password_is_asked_for_and_not_shown(redis_server, collection):
    with pytest.raises(SourceError, match="refuses us") as error:
        run(f"redis://me:secret@127.0.0.1:{redis_server.port}/0/items", collection)
    assert "secret" not in str(error.value)


def test_a_server_that_is_killed_and_comes_back_loses_nothing(tmp_path_factory, collection, monkeypatch, caplog):
    from tests.servers.redis import RedisServer

    monkeypatch.setattr("onlinehash.streams.consumer._LONGEST_PAUSE", 0.2)
    server = RedisServer(tmp_path_factory.mktemp("killed"))
    try:
        with Redis(port=server.port) as client:
            fill(client, "items", range(300))
        with open_source(server.url("items")) as source:
            consumer = Consumer(source, collection, batch_size=20)
            running = threading.Thread(target=consumer.run)
            running.start()
            wait_until(lambda: len(collection) >= 40)
            server.kill()
            wait_until(lambda: "asking again" in caplog.text)
            assert consumer.stats().lag is None
            server.start()
            with Redis(port=server.port) as client:
                fill(client, "items", range(300, 400))
            wait_until(lambda: len(collection) == 400)
            consumer.stop()
            running.join()
            assert consumer.stats().lag == 0
    finally:
        server.kill()
    assert "answers again" in caplog.text
    assert collection.hasher.n_samples_seen_ == 400
