from __future__ import annotations

import json
import threading

import numpy as np
import pytest
from tests.servers import wait_until
from tests.streams.messages import VECTORS, item

from onlinehash import HCOH, Collection
from onlinehash.collection import export_items
from onlinehash.exceptions import DataNotFoundError, InvalidInputError, OnlineHashError, StorageError
from onlinehash.streams import Consumer, SourceError, open_source


def run(place, collection, **options):
    with open_source(place) as source:
        return Consumer(source, collection, batch_size=7).run(**options)


def write(path, entries, mode="w"):
    with path.open(mode, errors="surrogateescape") as file:
        file.writelines(entry if isinstance(entry, str) else json.dumps(entry) + "\n" for entry in entries)
    return path


def break_off(monkeypatch, after):
    """Let a collection fail after so many batches."""
    left, real = [after], Collection.upsert

    def upsert(self, *arguments, **named):
        left[0] -= 1
        if left[0] < 0:
            raise StorageError("The disk is full.")
        real(self, *arguments, **named)

    monkeypatch.setattr(Collection, "upsert", upsert)


# ---------------------------------------------------------------------- JSON lines


def test_lines_are_applied_once_and_then_those_that_were_appended(tmp_path, collection):
    path = write(tmp_path / "a.jsonl", [item(i, i % 3) for i in range(20)])
    assert run(path, collection).stored == 20
    assert run(path, collection).received == 0
    write(path, [item(20, 1), "\n", {"id": 3, "deleted": True}], "a")
    stats = run(path, collection)
    assert (stats.stored, stats.deleted, stats.lag) == (1, 1, 0)
    assert collection.hasher.n_samples_seen_ == 21
    assert list(collection) == [i for i in range(21) if i != 3]


def test_a_run_that_was_cut_off_goes_on_where_it_stopped(tmp_path, collection, monkeypatch):
    path = write(tmp_path / "a.jsonl", [item(i, i % 3) for i in range(40)])
    with monkeypatch.context() as patch:
        break_off(patch, 3)
        with pytest.raises(StorageError):
            run(path, collection)
    assert len(collection) == 21
    assert run(path, collection).stored == 19
    assert collection.hasher.n_samples_seen_ == 40


def test_a_last_line_without_line_feed_counts_at_the_end(tmp_path, collection):
    path = write(tmp_path / "a.jsonl", [item(1, 1), json.dumps(item(2, 1))])
    assert run(path, collection).stored == 2
    write(path, ["\n", item(3, 1)], "a")
    assert run(path, collection).stored == 1


def test_a_byte_order_mark_and_windows_lines_do_not_matter(tmp_path, collection):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(item(1, 1)).encode() + b"\r\n" + json.dumps(item(2, 1)).encode())
    assert run(path, collection).stored == 2


def test_a_file_that_grows_is_followed(tmp_path, collection):
    path = write(tmp_path / "a.jsonl", [item(0, 0)])
    with open_source(path) as source:
        consumer = Consumer(source, collection)
        following = threading.Thread(target=lambda: consumer.run(follow=True))
        following.start()
        wait_until(lambda: len(collection) == 1)
        text = json.dumps(item(1, 0))
        write(path, [text[:10]], "a")  # half a line is not taken for one
        write(path, [text[10:] + "\n"], "a")
        wait_until(lambda: len(collection) == 2)
        consumer.stop()
        following.join()
        assert consumer.stats().dead_letters == 0


def test_a_file_that_changed_is_refused(tmp_path, collection):
    path = write(tmp_path / "a.jsonl", [item(i, 0) for i in range(9)])
    run(path, collection)
    whole = path.read_text()
    path.write_text(whole[:-20])
    with pytest.raises(SourceError, match=r"a.jsonl has changed: \d+ bytes of it are in the collection"):
        run(path, collection)
    path.write_text(whole.replace('"id": 0', '"id": 7'))
    with pytest.raises(SourceError, match="begins with something else"):
        run(path, collection)
    path.write_text(whole)
    assert run(path, collection).received == 0


def test_lines_that_cannot_be_applied_go_to_a_file(tmp_path, collection):
    path = write(tmp_path / "a.jsonl", [item(0, 0), "{bad\n", {"id": 1, "vectors": [1, 2]}, "\udcff\n", item(2, 0)])
    dead = tmp_path / "a.jsonl.dead.jsonl"
    dead.write_text('{"id": 99, "err')  # as a crash leaves it
    stats = run(path, collection)
    assert (stats.stored, stats.dead_letters) == (2, 3)
    letters = [json.loads(line) for line in dead.read_text().splitlines() if line.endswith("}")]
    assert sorted(letter["content"][:4] for letter in letters) == ["\\xff", '{"id', "{bad"]


def test_a_last_line_that_is_refused_is_not_read_again(tmp_path, collection):
    path = write(tmp_path / "a.jsonl", [item(0, 0), {"id": 1, "vectors": [1, 2]}])
    assert run(path, collection).dead_letters == 1
    assert run(path, collection).received == 0


def test_what_a_collection_exports_is_a_source_for_another(tmp_path, collection):
    collection.upsert(["a", "b", "c"], VECTORS[:3], [[1, 2], 3, None], [{"t": 1}, None, "text"])
    export_items(collection, tmp_path / "items.jsonl")
    with Collection.open(tmp_path / "other.oh", "hcoh") as other:
        assert run(tmp_path / "items.jsonl", other).stored == 3
        same = [(one.id, one.labels, one.payload, one.vectors.tolist()) for one in other.items()]
    assert same == [(one.id, one.labels, one.payload, one.vectors.tolist()) for one in collection.items()]


# ---------------------------------------------------------------------- what is no source


@pytest.mark.parametrize(
    ("place", "error", "said"),
    [
        ("nowhere.jsonl", DataNotFoundError, "There is no nowhere.jsonl"),
        ("http://localhost/items", InvalidInputError, "http://localhost/items is nothing that items come from"),
        ("redis://localhost:6379/items", InvalidInputError, "write redis://host:port/0/stream"),
        ("redis://localhost:x/0/items", InvalidInputError, "not an address"),
        ("redis:///0/items", InvalidInputError, "names no host"),
        ("redis://localhost/0/items?gruop=a", OnlineHashError, "Did you mean 'group'"),
        ("nats://localhost/a?ack_wait=soon", InvalidInputError, "ack_wait='soon'"),
        ("nats://localhost", InvalidInputError, "write nats://host:port/stream"),
        ("nats://localhost/a.b", InvalidInputError, "write nats://host:port/stream"),
        ("nats://localhost/a?ack_wait=0", InvalidInputError, "not a number of seconds above 0"),
        ("redis://me:secret@localhost:x/0/items", InvalidInputError, "not an address"),
    ],
)
def test_places_that_are_none_are_refused(place, error, said):
    with pytest.raises(error) as raised:
        open_source(place)
    assert said in str(raised.value)
    assert "secret" not in str(raised.value)


def test_files_of_other_kinds_are_refused(tmp_path):
    (tmp_path / "a.txt").write_text("a")
    with pytest.raises(InvalidInputError, match=r"a\.txt is nothing that items come from"):
        open_source(tmp_path / "a.txt")


# ---------------------------------------------------------------------- documents

TICKETS = [
    ("where is my card", "card"),
    ("the card is lost", "card"),
    ("money back please", "refund"),
    ("17", "refund"),
]


def test_documents_are_embedded_and_found(tmp_path):
    entries = [{"id": i, "document": text, "label": label} for i, (text, label) in enumerate(TICKETS)]
    path = tmp_path / "tickets.jsonl"
    write(path, [*entries, {"id": 2, "deleted": True}, {"id": 9, "document": 17}, {"id": 8}])
    with Collection.open(tmp_path / "tickets.oh", HCOH(8, random_state=0), embed="char_ngrams:64") as tickets:
        stats = run(path, tickets)
        assert (stats.stored, stats.deleted, stats.dead_letters) == (4, 1, 2)
        assert run(path, tickets).received == 0
        assert tickets[3].payload == {"document": "17"}
        assert tickets.search("my lost card", 1).ids[0] in (0, 1)
        direct = tmp_path / "direct.oh"
        with Collection.open(direct, HCOH(8, random_state=0), embed="char_ngrams:64") as plain:
            plain.upsert(range(4), documents=[text for text, _ in TICKETS], labels=[label for _, label in TICKETS])
            assert np.array_equal(tickets[0].vectors, plain[0].vectors)


def test_documents_without_an_embedder_end_the_run_and_come_again(tmp_path, collection):
    path = write(tmp_path / "a.jsonl", [{"id": 1, "document": "where is my card"}])
    with pytest.raises(InvalidInputError, match="has no embedder"):
        run(path, collection)
    assert not (tmp_path / "a.jsonl.dead.jsonl").exists()
    assert len(collection) == 0
