"""The process: told to stop, killed, or out of disk, it keeps what it has acknowledged."""

import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from uuid import uuid4

import httpx
import numpy as np
import pytest
from tests.service.running import X, Y, make, running, serving_here
from tests.thorough import times
from typer.testing import CliRunner

from onlinehash import Collection
from onlinehash.cli import app
from onlinehash.client import Client, ServiceError

pytestmark = pytest.mark.slow


class Load:
    """Threads that write and search until the service goes away, and note what was acknowledged."""

    def __init__(self, url, n_writers=3):
        self.url, self.acknowledged, self.failed, self.n_searches = url, {}, [], 0
        self.n_written, self.begun, self.run = 0, {}, uuid4().hex
        self.threads = [threading.Thread(target=self.write, args=(i,)) for i in range(n_writers)]
        self.threads.append(threading.Thread(target=self.search))
        for thread in self.threads:
            thread.start()

    def write(self, writer):
        rng = np.random.default_rng(writer)
        with suppress(httpx.TransportError), httpx.Client(base_url=self.url, timeout=180) as http:
            for number in range(100_000):
                ids = (writer * 1000 + rng.choice(50, 5, replace=False)).tolist()
                payload = f"{self.run} {number}"
                self.begun[writer] = payload, ids
                body = {"ids": ids, "vectors": X[rng.integers(0, 200, 5)].tolist(), "payload": [payload] * 5}
                answer = http.put("/api/v1/items", json=body | {"labels": [0, 1, 2, 3, None]})
                if answer.status_code != 200:
                    self.failed.append(answer)
                    return
                for id in ids:
                    self.acknowledged[id] = payload
                self.n_written += 1

    def search(self):
        with suppress(httpx.TransportError), httpx.Client(base_url=self.url, timeout=180) as http:
            while True:
                answer = http.post("/api/v1/search", json={"vectors": X[:3].tolist()})
                if answer.status_code != 200:
                    self.failed.append(answer)
                    return
                self.n_searches += 1

    def last(self, seconds):
        """Wait until both have begun, and then a little."""
        deadline = time.monotonic() + 180
        while not (self.n_written > 3 and self.n_searches) and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(seconds)

    def end(self):
        for thread in self.threads:
            thread.join(60)
        assert self.n_written > 3
        assert self.n_searches


def check_kept(path, load):
    """Demand items as last acknowledged, but for writes that have begun: each is there whole or not at all."""
    with Collection.open(path) as collection:
        kept = {item.id: item.payload for item in collection.items()}
        assert len(collection.search(X[0], 1000)) == len(kept)
    in_flight = set()
    for payload, ids in load.begun.values():
        applied = [kept.get(id) == payload for id in ids]
        assert all(applied) or not any(applied)
        in_flight.update(ids if all(applied) else ())
    for id, payload in load.acknowledged.items():
        assert kept[id] == payload or id in in_flight


@pytest.mark.parametrize("number", times([signal.SIGTERM], [signal.SIGTERM, signal.SIGINT]))
def test_told_to_stop_it_finishes_what_has_begun(path, number):
    with running(make(path)) as server:
        load = Load(server.url)
        load.last(0.3)
        assert server.stop(number) == 0
        load.end()
        assert not server.said
    assert all(answer.status_code == 503 for answer in load.failed)
    check_kept(path, load)


def test_killed_it_loses_nothing_acknowledged(path):
    make(path)
    rng = np.random.default_rng(1)
    for _ in range(times(1, 4)):
        with running(path) as server:
            load = Load(server.url)
            load.last(0.3 * rng.random())
            server.stop(signal.SIGKILL)
            load.end()
        assert not load.failed
        check_kept(path, load)


def test_a_full_disk_refuses_and_loses_nothing(path):
    with running(make(path, 20), max_file_bytes=600_000) as server, Client(server.url, retries=0) as client:
        added = 20
        with pytest.raises(ServiceError, match="cannot be written") as refused:
            while added < 20_000:
                client.upsert(range(added, added + 50), np.tile(X[:50], 1), Y[:50], payload=["x" * 500] * 50)
                added += 50
        assert refused.value.status == 503
        assert "make room" in refused.value.problem["detail"]
        assert str(path.parent) not in str(refused.value)
        assert len(client) == added
        assert len(client.search(X[0], 5)) == 5
        assert client.get(added - 1)[0].payload == "x" * 500
        assert server.stop() == 0
    with Collection.open(path) as collection:
        assert len(collection) == added
        collection.upsert(range(added, added + 50), X[:50], Y[:50])


def test_a_reader_follows_the_writer(path):
    with (
        serving_here(make(path, 20)) as url,
        running(path, "--readonly") as follower,
        Client(url) as writer,
        Client(follower.url) as reader,
    ):
        writer.upsert(500, X[100], 1)
        assert reader.get(500)[0].labels == 1
        assert 500 in reader.search(X[100], 3).ids
        with pytest.raises(ServiceError, match="only reads"):
            reader.upsert(1, X[0])


def test_what_cannot_be_served_is_told_in_one_line(path, tmp_path):
    def said(*options):
        result = CliRunner().invoke(app, ["serve", *map(str, options)])
        assert result.exit_code
        return result.stderr

    assert said(path, "--port", 0).startswith(f"error: There is no collection {path}")
    path.write_bytes(b"no collection at all, but a text")
    assert "not a collection" in said(path, "--port", 0)
    assert "one of the two" in said(path, "--demo")
    assert "Unknown hasher" in said(tmp_path / "new.oh", "--method", "none", "--port", 0)
    with Collection.open(tmp_path / "other.oh", "hcoh"):
        assert "is open for writing already" in said(tmp_path / "other.oh", "--port", 0)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert "cannot be listened on: Address already in use. Choose another --port" in said(path, "--port", port)
    assert "--host '0.0.0.0' can be reached from other machines, and there are no API keys. Set" in said(
        path, "--host", "0.0.0.0"
    )
    new, text = tmp_path / "another.oh", tmp_path / "text.pem"
    text.write_text("no certificate")
    assert "--keyfile" in (error := said(new, "--method", "hcoh", "--certfile", text, "--keyfile", text))
    assert "cannot be used for TLS" in error and "Serving" not in error
    assert "does not begin with '/'" in said(new, "--method", "hcoh", "--root-path", "items")
    for wrong in ("blah", "127.0.0.1,blah", "10.0.0.1/8", "127.0.0.1,"):
        error = said(new, "--method", "hcoh", "--trusted-proxies", wrong)
        assert f"--trusted-proxies {wrong!r} cannot be used" in error and "such as 127.0.0.1" in error
    text.write_bytes(b"\xff\xfe")
    assert f"The key file {text} cannot be read: it is not text" in said(new, "--method", "hcoh", "--read-keys", text)
    assert not new.exists()


def test_the_package_does_not_import_the_service():
    program = (
        "import sys, onlinehash, onlinehash.cli; print({'starlette', 'msgspec', 'uvicorn', 'httpx'} & set(sys.modules))"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout == "set()\n"
