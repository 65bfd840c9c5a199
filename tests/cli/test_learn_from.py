"""Streams into a collection by the program itself."""

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

pytestmark = pytest.mark.slow

PROGRAM = (sys.executable, "-m", "onlinehash.cli")
VECTORS = np.random.default_rng(3).normal(size=(64, 16)).astype(np.float32)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def line(key):
    return json.dumps({"key": key, "vector": VECTORS[key % 64].tolist(), "label": key % 3}).encode()


def call(*arguments):
    done = subprocess.run([*PROGRAM, "learn", *arguments], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    return done.stderr


def holds(n_items, path="items.oh"):
    with Collection.open(path, readonly=True) as collection:
        return len(collection) == n_items == collection.stats().n_learned


def test_json_lines(run):
    Path("items.jsonl").write_bytes(b"\n".join(line(key) for key in range(100)) + b"\nbad\n")
    said = call("--from", "items.jsonl", "--into", "items.oh", "--method", "hcoh", "--bits", "16", "--batch", "30")
    assert "Stored 100 items, 1 sent to the dead letters; lag 0" in said
    assert said.endswith("items.oh holds 100.\n")
    assert "items.jsonl: 1 not applied; the first is" in said
    assert holds(100)
    again = run("learn --from items.jsonl --into items.oh").stderr
    assert again.startswith("Stored 0 items; lag 0")


def test_a_folder_of_tables(run):
    Path("tables").mkdir()
    for name, keys in {"b": range(50, 90), "a": range(60)}.items():
        columns = {"key": list(keys), "vector": [VECTORS[key % 64] for key in keys], "label": [0] * len(keys)}
        pyarrow.parquet.write_table(pyarrow.table(columns), f"tables/{name}.parquet")
    assert "Stored 100 items" in run("learn --from tables --into items.oh --seed 3").stderr
    with Collection.open("items.oh") as collection:
        assert (len(collection), collection.hasher.name, collection.hasher.random_state) == (90, "hcoh", 3)


@pytest.fixture(scope="module")
def redis_server(tmp_path_factory):
    from tests.servers.redis import RedisServer

    server = RedisServer(tmp_path_factory.mktemp("redis"))
    yield server
    server.stop()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")
def test_redis_until_sigterm(redis_server):
    command = [*PROGRAM, "learn", "--from", redis_server.url("items"), "--into", "items.oh", "--bits", "16"]
    with redis_server.client() as client, subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        for key in range(50):
            client.xadd("items", {"item": line(key)})
        try:
            wait_until(lambda: [(one["pending"], one["lag"]) for one in client.xinfo_groups("items")] == [(0, 0)])
            for key in range(50, 500):
                client.xadd("items", {"item": line(key)})
            process.terminate()
            _, said = process.communicate(timeout=60)
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
    assert "items.oh holds" in run("learn --from items.jsonl --into items.oh --follow").stderr
    assert signal.getsignal(signal.SIGINT) is before


def test_nats_once(tmp_path_factory):
    from tests.servers.nats import NatsServer

    server = NatsServer(tmp_path_factory.mktemp("nats"))
    try:
        server.make("items")
        server.publish("items", [line(key) for key in range(100)])
        place = f"{server.url('items')}?durable=photos&subject=items.new"
        assert "Stored 100 items; lag 0" in call("--from", place, "--into", "items.oh", "--once", "--method", "lsh")
        assert holds(100)
    finally:
        server.stop()


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ("--from items.jsonl", 2, "--from and --into go together"),
        ("--into items.oh", 2, "--from and --into go together"),
        ("--from items.jsonl --into items.oh --out m.oh", 2, "goes without"),
        ("X.npy --from items.jsonl --into items.oh", 2, "goes without"),
        ("--from items.jsonl --into items.oh --batch 0", 2, "--batch"),
        ("--from none.jsonl --into items.oh", 1, "There is no none.jsonl"),
        ("--from items.jsonl --into none/items.oh", 1, "There is no folder none"),
        ("--from items.jsonl --into items.oh --method hcho", 1, "Did you mean 'hcoh'?"),
        ("--from redis://127.0.0.1:1/0/items --into items.oh", 1, "does not answer"),
    ],
)
def test_mistakes_are_told(run, arguments, code, said):
    Path("items.jsonl").write_bytes(line(0))
    assert said in " ".join(run(f"learn {arguments}", code).stderr.replace("│", "").split())


def test_a_collection_keeps_its_hasher(run):
    Path("items.jsonl").write_bytes(line(0))
    run("learn --from items.jsonl --into items.oh --bits 16")
    run("learn --from items.jsonl --into items.oh --bits 16")
    assert "This collection learns with" in run("learn --from items.jsonl --into items.oh --bits 24", 1).stderr
