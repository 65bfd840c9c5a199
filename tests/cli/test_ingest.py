"""Files, folders and streams into a collection, by the program itself."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from tests.servers import wait_until

from onlinehash import Collection

PROGRAM = (sys.executable, "-m", "onlinehash.cli")
VECTORS = np.random.default_rng(3).normal(size=(64, 16)).astype(np.float32)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def line(id):
    return json.dumps({"id": id, "vectors": VECTORS[id % 64].tolist(), "label": id % 3}).encode()


def holds(n_items, path="items.oh"):
    with Collection.open(path, readonly=True) as collection:
        return len(collection) == n_items == collection.stats().n_learned


def test_json_lines_as_a_stream_are_applied_once(run, caplog):
    Path("items.jsonl").write_bytes(b"\n".join(line(id) for id in range(100)) + b"\nbad\n")
    done = run("ingest items.jsonl --once --into items.oh --method hcoh --bits 16 --batch 30")
    assert done.stdout == ""
    said = done.stderr
    assert "Stored 100 items, 1 sent to the dead-letter file; lag 0" in said
    assert said.endswith("items.oh holds 100.\n")
    assert "items.jsonl: 1 not applied; the first is" in caplog.text  # Python prints warnings
    assert holds(100)
    again = run("ingest items.jsonl --into items.oh --once").stderr
    assert again.startswith("Stored 0 items; lag 0")


def test_a_file_that_cannot_be_read_creates_no_collection(run):
    Path("a.csv").write_text("id,x,y\n1,2,none\n")
    assert "not a number" in run("ingest a.csv --into items.oh --method hcoh", 1).stderr
    assert not list(Path().glob("items.oh*"))
    Path("d.csv").write_text("id,x,y\n1,2,3\n2,2,none\n")
    assert "The item before was added" in run("ingest d.csv --into d.oh --method hcoh --batch 1", 1).stderr
    assert run("collection items d.oh --count").stdout == "1\n"


def test_a_folder_of_tables(run):
    Path("tables").mkdir()
    for name, ids in {"b": range(50, 90), "a": range(60)}.items():
        columns = {"id": list(ids), "vectors": [VECTORS[id % 64] for id in ids], "label": [0] * len(ids)}
        pyarrow.parquet.write_table(pyarrow.table(columns), f"tables/{name}.parquet")
    assert "Added 100 items" in run("ingest tables --into items.oh --set n_components=32 --seed 3").stderr
    with Collection.open("items.oh") as collection:
        assert (len(collection), collection.hasher.name, collection.hasher.random_state) == (90, "hroh", 3)


@pytest.fixture(scope="module")
def redis_server(tmp_path_factory):
    from tests.servers.redis import RedisServer

    server = RedisServer(tmp_path_factory.mktemp("redis"))
    yield server
    server.stop()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")
def test_redis_until_sigterm(redis_server):
    command = [*PROGRAM, "ingest", redis_server.url("items"), "--into", "items.oh", "--method", "hcoh", "--bits", "16"]
    with redis_server.client() as client, subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        for id in range(50):
            client.xadd("items", {"item": line(id)})
        try:
            wait_until(lambda: [(one["pending"], one["lag"]) for one in client.xinfo_groups("items")] == [(0, 0)])
            for id in range(50, 500):
                client.xadd("items", {"item": line(id)})
            process.terminate()
            _, said = process.communicate(timeout=180)
        finally:
            process.kill()
        assert process.returncode == 0, said
        with Collection.open("items.oh") as collection:
            stored = len(collection)
            assert collection.hasher.n_samples_seen_ == stored
        (group,) = client.xinfo_groups("items")
        assert (group["pending"], group["lag"]) == (0, 500 - stored)  # what was taken was finished and acknowledged
        assert f"Stored {stored} items; lag {500 - stored}" in said


def test_ctrl_c_ends_following_a_file(run):
    Path("items.jsonl").write_bytes(line(0) + b"\n")
    before = signal.getsignal(signal.SIGINT)

    def press():
        wait_until(lambda: signal.getsignal(signal.SIGINT) is not before)
        signal.raise_signal(signal.SIGINT)

    threading.Thread(target=press).start()
    assert "items.oh holds" in run("ingest items.jsonl --into items.oh --method hcoh --follow").stderr
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.slow
def test_nats_once(run, tmp_path_factory):
    from tests.servers.nats import NatsServer

    server = NatsServer(tmp_path_factory.mktemp("nats"))
    try:
        server.make("items")
        server.publish("items", [line(id) for id in range(100)])
        place = f"{server.url('items')}?durable=photos&subject=items.new"
        assert "Stored 100 items; lag 0" in run(f"ingest '{place}' --into items.oh --once --method lsh").stderr
        assert holds(100)
    finally:
        server.stop()


def test_a_file_is_read_as_a_table_and_creates_the_collection(run):
    Path("items.csv").write_text("sku,kind,a,b\n1,hat,1,2\n2,hat,0,1\n3,shoe,4,1\n")
    said = run("ingest items.csv --into items.oh --id sku --labels kind --set n_components=32 --dtype float16").stderr
    assert (
        "Created items.oh, which learns with HROH(general_bits=32, n_bits=64, n_components=32, random_state=0).\n"
        in said
    )
    assert "items.csv: id: sku; labels: kind; vectors: a, b; payload: none\n" in said
    assert said.endswith("Added 3 items, 3 with labels; items.oh holds 3.\n")
    assert holds(3)
    assert "Added 3 items" in run("ingest items.csv --into items.oh --id sku --labels kind").stderr


def test_the_quality_along_the_way_is_kept(run):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 3000)
    np.savez("rows.npz", ids=np.arange(3000), vectors=np.eye(3, 8)[y] + 0.1 * rng.normal(size=(3000, 8)), labels=y)
    run("ingest rows.npz --into items.oh --set n_components=32")
    with Collection.open("items.oh", readonly=True) as collection:
        quality = collection.history().quality
    assert len(quality) >= 1
    assert quality[-1].precision > 0.9


def test_a_collection_has_the_hasher_of_python_unless_another_is_chosen(run):
    Path("items.jsonl").write_text('{"id": 1, "vectors": [1, 2]}\n')  # without a label: nothing is learned
    run("ingest items.jsonl --into items.oh")
    run("collection create other.oh")
    run("collection create short.oh --bits 16")
    run("collection create named.oh --method hroh")
    Collection.open("python.oh").close()
    for path, n_bits, n_general in (
        ("items.oh", 64, 32),
        ("other.oh", 64, 32),
        ("python.oh", 64, 32),
        ("short.oh", 16, 8),
        ("named.oh", 32, 0),
    ):
        with Collection.open(path, readonly=True) as collection:
            hasher = collection.hasher
            assert (hasher.name, hasher.n_bits, hasher.general_bits) == ("hroh", n_bits, n_general)
    assert "--bits 0 is not positive" in run("collection create none.oh --bits 0", 1).stderr


def test_items_that_cannot_be_searched_are_warned_of(run):
    Path("items.jsonl").write_text('{"id": 1, "vectors": [1, 2]}\n')
    for more, done in (("", "Added 1 item, 0 with labels; items.oh holds 1."), ("--once", "Stored 1 item; lag 0")):
        said = run(f"ingest items.jsonl --into items.oh {more}").stderr
        assert done in said and "warning: 0 of 1 items are searchable" in said


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ("items.jsonl", 2, "--into"),
        ("--into items.oh", 2, "SOURCE"),
        ("items.jsonl --into items.oh --batch 0", 1, "--batch 0 is not positive"),
        ("none.jsonl --into items.oh", 1, "There is no file none.jsonl"),
        ("none.jsonl --into items.oh --follow", 1, "There is no none.jsonl"),
        ("bad.jsonl --into items.oh", 1, "bad.jsonl, line 1: not JSON"),
        ("items.txt --into items.oh", 1, "items.txt has the extension '.txt'; use one of .npy"),
        ("items.jsonl --into none/items.oh", 1, "There is no folder none"),
        ("items.jsonl --into items.oh --method hcho", 1, "Did you mean 'hcoh'?"),
        ("items.jsonl --into items.oh --set slop=3", 1, "Unknown parameter of hroh 'slop'"),
        ("items.jsonl --into items.oh --refresh often", 2, "'often' is not auto, manual or a number"),
        ("items.jsonl --into items.oh --dtype int8", 1, "--dtype 'int8' is not one of"),
        ("kafka://host/items --into items.oh", 1, "is nothing that items come from"),
        ("redis://host/0/items --into items.oh --id sku", 2, "--id is for a file"),
        ("nats://host/items --into items.oh --first-id 0", 2, "--first-id is for a file"),
        ("tables --into items.oh --once", 2, "--once is for a stream or a .jsonl file"),
        ("tables --into items.oh", 2, "tables holds no .parquet files"),
        ("items.jsonl --into items.oh --follow --no-header", 2, "--no-header is for a file"),
        ("items.csv --into items.oh --follow", 2, "--follow is for a stream or a .jsonl file"),
    ],
)
def test_mistakes_are_told_before_anything_is_made(run, arguments, code, said):
    Path("items.jsonl").write_bytes(line(0))
    Path("bad.jsonl").write_text("{\n")
    Path("items.txt").touch()
    Path("tables").mkdir()
    assert said in " ".join(run(f"ingest {arguments}", code).stderr.replace("│", "").split())
    assert not Path("items.oh").exists()


def test_a_server_that_does_not_answer_is_an_error(run):
    assert "does not answer" in run("ingest redis://127.0.0.1:1/0/items --into items.oh", 1).stderr


def test_a_file_without_ids_is_not_added_twice(run):
    np.save("X.npy", VECTORS)
    run("ingest X.npy --into items.oh --method lsh")
    assert "has no ids, and this collection has items already" in run("ingest X.npy --into items.oh", 1).stderr


def test_a_collection_keeps_its_hasher(run):
    Path("items.jsonl").write_bytes(line(0))
    for options in ("--method hcoh --bits 16", "--method hcoh --bits 16 --seed 0", ""):
        run(f"ingest items.jsonl --into items.oh {options}")
    for options in (
        "--bits 24",
        "--bits 16",
        "--method hcoh",
        "--method hroh",
        "--seed 1",
        "--method hroh --bits 16",
        "--set balance=1",
    ):
        error = run(f"ingest items.jsonl --into items.oh {options} --refresh manual", 1).stderr
        assert "learns with HCOH(n_bits=16, random_state=0), not " in error
    with Collection.open("items.oh") as collection:
        assert collection._settings["refresh"] != "manual"
    run("ingest items.jsonl --into items.oh --refresh manual")
    with Collection.open("items.oh") as collection:
        assert collection._settings["refresh"] == "manual"
