"""What one client can do to the others: each attack leaves the service small and awake."""

import io
import json
import random
import re
import signal
import socket
import ssl
import threading
import time
from base64 import b64encode
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import httpx
import numpy as np
import pytest
from PIL import Image
from tests.servers import free_port
from tests.service.running import LimitedServer, Server, X, Y, make, make_certificate, serving_here
from tests.service.test_hostile import connect, head
from tests.thorough import times

from onlinehash import HROH, Collection
from onlinehash.client import Client
from onlinehash.exceptions import ServiceError
from onlinehash.service import ApiKeys, Limits, serve_in_thread, server
from onlinehash.service.requests import _count_values

pytestmark = pytest.mark.slow

MOST_BYTES, MOST_SECONDS = 150 << 20, 3.0
MIB = 1 << 20


@pytest.fixture(scope="module")
def heavy(tmp_path_factory):
    """A service of items with large payloads, in a process of its own."""
    path = make(tmp_path_factory.mktemp("heavy") / "items.oh")
    with Collection.open(path) as collection:
        for start in range(0, 240, 60):
            ids = np.arange(start, start + 60)
            collection.upsert(ids, X[ids % 200], Y[ids % 200], payload=[{"text": "x" * 60_000}] * 60)
    process = LimitedServer(path)
    yield process
    assert process.stop() == 0


def request(path, body, method="POST"):
    content = json.dumps(body).encode() if isinstance(body, dict) else body
    return head(len(content), path=f"/api/v1{path}", method=method) + content


def test_answers_that_nobody_reads(heavy):
    asked = request("/items/list", {"limit": 130, "include": ["payload"]})
    with heavy.watched(MOST_BYTES, MOST_SECONDS), ExitStack() as stack:
        for _ in range(60):
            connection = stack.enter_context(connect(heavy.url))
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.sendall(asked)
        time.sleep(5)
        found = httpx.post(f"{heavy.url}/api/v1/search", json={"vectors": X[:1].tolist()})
        assert found.status_code == 200, found.text  # others are answered


def test_a_client_that_does_not_read_is_disconnected(tmp_path, monkeypatch):
    monkeypatch.setattr(server, "STALLED_SECONDS", 1)
    with Collection.open(make(tmp_path / "items.oh")) as collection, serve_in_thread(collection) as url:
        collection.upsert(range(120), X[:120], payload=[{"text": "x" * 60_000}] * 120)
        asked = request("/items/list", {"limit": 120, "include": ["payload"]})
        with connect(url) as silent, connect(url) as slow:
            silent.sendall(asked)
            slow.sendall(asked)
            slow.settimeout(180)
            n_read = len(slow.recv(1 << 16))
            while n_read < 7_000_000:  # not at once, but all the time
                n_read += len(slow.recv(1 << 16))
                time.sleep(0.01)
            until = time.monotonic() + 180
            while "onlinehash_body_bytes 0.0\n" not in httpx.get(f"{url}/metrics").text and time.monotonic() < until:
                time.sleep(0.1)
            assert "onlinehash_body_bytes 0.0\n" in httpx.get(f"{url}/metrics").text
            with pytest.raises(ConnectionError):
                while silent.recv(1 << 20):
                    pass
                raise ConnectionError  # closed before the answer was complete


NESTED = {
    "wide": b'{"where": {"a": [' + b"[]," * (5 * MIB) + b"[]]}}",
    "deep": b'{"where": {"a": ' + b"[" * (7 * MIB) + b"]" * (7 * MIB) + b"}}",
    "objects": b'{"where": {"a": [' + b"{}," * (5 * MIB) + b"{}]}}",
    "payload": b'{"ids": [1], "vectors": [[1, 1, 1, 1, 1, 1]], "payload": [' + b"[]," * (5 * MIB) + b"[]]}",
    "open": b'{"where": "' + b'\\"' * (7 * MIB),
}


@pytest.mark.parametrize("kind", NESTED)
def test_bodies_of_brackets(heavy, kind):
    method, path = ("PUT", "/items") if kind == "payload" else ("POST", "/label_counts")

    def ask(_):
        return httpx.request(
            method,
            f"{heavy.url}/api/v1{path}",
            content=NESTED[kind],
            headers={"content-type": "application/json"},
            timeout=180,
        ).status_code

    with heavy.watched(MOST_BYTES, MOST_SECONDS), ThreadPoolExecutor(4) as pool:
        assert set(pool.map(ask, range(8))) <= {422, 503}


def test_lists_are_counted_outside_of_strings_only():
    few = Limits(max_values=100)
    text = json.dumps({"documents": ['a, [b], {c}, \\ " [[[[' * 100] * 3, "k": [1, [2]]})
    assert _count_values(bytearray(text.encode()), few) == 4 + 4  # lists and objects, and commas
    for depth, fits in ((60, True), (70, False)):
        nested = bytearray(b'{"where": ' + b"[" * depth + b"]" * depth + b"}")
        if fits:
            assert _count_values(nested, few) == depth + 1
        else:
            with pytest.raises(Exception, match="depth is 71, more than 64"):
                _count_values(nested, few)


def test_a_checkpoint_is_small(tmp_path):
    with serving_here(make(tmp_path / "items.oh", 10)) as url:
        answer = httpx.put(f"{url}/api/v1/checkpoints/queue", json={"value": "x" * (1 << 20)})
        assert answer.status_code == 422 and "at most 1048576" in answer.json()["detail"]
        assert httpx.get(f"{url}/api/v1/checkpoints/queue").json() == {"value": None}


def test_a_filter_with_a_list_in_a_list_is_refused(tmp_path):
    with serving_here(make(tmp_path / "items.oh", 10)) as url:
        for values in ([1, [2]], [[1]], [{}]):
            answer = httpx.post(f"{url}/api/v1/label_counts", json={"where": {"n": {"$in": values}}})
            assert answer.status_code == 422, answer.text


IMAGES = """
import sys, numpy as np
from onlinehash import Collection
from onlinehash.embedders import Embedder
from onlinehash.service import Limits, create_app, server, ApiKeys
small = lambda images: np.array([np.asarray(image.resize((8, 8))).mean((0, 1)) for image in images])
embed = Embedder("mean", small, takes="image")
with (
    Collection.open(sys.argv[1], "lsh", embed=embed) as collection,
    server.listen("127.0.0.1", 0, ApiKeys()) as listening,
):
    collection.upsert(range(20), np.random.default_rng(0).uniform(0, 255, (20, 3)))
    collection.refresh()
    print("Serving on", server.url_of(listening), file=sys.stderr, flush=True)
    server.run(create_app(collection), listening, Limits())
"""


def png(side, mode="1"):
    content = io.BytesIO()
    Image.new(mode, (side, side)).save(content, "PNG")
    return content.getvalue()


@pytest.mark.parametrize(("side", "statuses"), [(5790, {422}), (2040, {200, 422, 503})])
def test_small_files_of_large_images(tmp_path, side, statuses):
    class ImageServer(LimitedServer):
        def __init__(self, path):
            self.start([server.sys.executable, "-c", IMAGES, str(path)], {})

    process = ImageServer(tmp_path / "images.oh")
    body = {"images": [b64encode(png(side)).decode()], "k": 3}
    try:
        with process.watched(MOST_BYTES, MOST_SECONDS), ThreadPoolExecutor(60) as pool:
            asked = pool.map(
                lambda _: httpx.post(f"{process.url}/api/v1/search", json=body, timeout=180).status_code, range(60)
            )
            assert set(asked) <= statuses
    finally:
        process.stop(signal.SIGKILL)


def test_connections_count_before_their_handshake(tmp_path, monkeypatch):
    monkeypatch.setattr(server, "HEADER_SECONDS", 2)
    tls, limits, keys = server.read_certificate(*make_certificate(tmp_path)), Limits(max_connections=10), ApiKeys()
    trusted = ssl.create_default_context(cafile=tmp_path / "cert.pem")
    with (
        Collection.open(make(tmp_path / "items.oh", 20)) as collection,
        server.listen("127.0.0.1", 0, keys) as listening,
    ):
        running = server._server(server.create_app(collection, limits=limits), limits, tls)
        thread = threading.Thread(target=running.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            url = server.url_of(listening, tls=True)
            with httpx.Client(base_url=url, verify=trusted) as http:
                assert [http.get("/healthz").status_code for _ in range(3)] == [200] * 3
                assert len(http.post("/api/v1/search", json={"by_id": [1]}).json()["ids"][0]) == 10
                with ExitStack() as stack:
                    silent = [stack.enter_context(connect(url.replace("https", "http"))) for _ in range(40)]
                    deadline = time.monotonic() + 180
                    while len(running.server_state.connections) < 20 and time.monotonic() < deadline:
                        time.sleep(0.05)
                    assert len(running.server_state.connections) == 20  # and no more
                    assert http.get("/healthz").status_code == 503  # on a connection that was there before
                    for connection in silent:  # the others are closed at once, and these soon
                        with pytest.raises(ConnectionError):
                            raise ConnectionError if connection.recv(1) == b"" else AssertionError
                assert httpx.get(f"{url}/healthz", verify=trusted).status_code == 200
        finally:
            running.should_exit = True
            thread.join()


def test_names_of_other_collections_are_secret(tmp_path):
    read, other = "a-key-for-cats-only", "a-key-for-all-of-them"
    keys = {"cats": ApiKeys.of(read=[read, other]), "dogs": ApiKeys.of(read=[other])}
    with ExitStack() as stack:
        several = {name: stack.enter_context(Collection.open(make(tmp_path / f"{name}.oh", 10))) for name in keys}
        url = stack.enter_context(serve_in_thread(several, keys=keys))
        http = stack.enter_context(httpx.Client(base_url=url, headers={"authorization": f"Bearer {read}"}))
        dogs, birds = (http.get(f"/api/v1/collections/{name}/stats") for name in ("dogs", "birds"))
        assert (dogs.status_code, dogs.json()) == (birds.status_code, birds.json()) and dogs.status_code == 401
        assert "dogs" not in http.get("/metrics").text and 'collection="cats"' in http.get("/metrics").text
        assert httpx.get(f"{url}/api/v1/collections/birds/stats").json() == dogs.json()
        every = {"authorization": f"Bearer {other}"}
        assert http.get("/api/v1/collections/birds/stats", headers=every).status_code == 404
        assert 'collection="dogs"' in http.get("/metrics", headers=every).text


def test_insight_that_waits_for_a_change_keeps_no_search_waiting(tmp_path):
    path = tmp_path / "items.oh"
    hasher = HROH(12, n_components=32, random_state=0)
    with Collection.open(path, hasher) as collection, serve_in_thread(collection) as url:
        collection.upsert(range(100), X[:100], Y[:100])
        with ThreadPoolExecutor(8) as pool, httpx.Client(base_url=f"{url}/api/v1", timeout=180) as http:
            with collection._changes:  # as a change of hasher does, for a long time
                asked = [pool.submit(http.post, "/suspects", json={}) for _ in range(8)]
                time.sleep(0.5)
                found = http.post("/search", json={"vectors": X[:1].tolist(), "labels": [1]})
                assert found.status_code == 200 and not any(one.done() for one in asked)
                assert http.get("/stats").status_code == 200
            assert {one.result().status_code for one in asked} == {200}


def test_kills_make_no_client_learn_twice(tmp_path):
    """Four writers repeat what was not answered; the hasher learns from each item once."""
    path, rng, n_each = tmp_path / "items.oh", random.Random(0), 100_000
    with Collection.open(path, HROH(8, n_components=16, random_state=0), "manual"):
        pass
    number = free_port()
    process = Server(path, "--port", number)
    n_kills, n_done, over = times(3, 60), [0] * 4, threading.Event()

    def write(writer):
        with Client(f"http://127.0.0.1:{number}", retries=100_000) as client:  # a busy machine may take minutes
            while not over.is_set() and n_done[writer] < n_each:
                ids = [f"{writer}-{n_done[writer] + i}" for i in range(10)]
                client.upsert(ids, X[:10], Y[:10])
                n_done[writer] += 10

    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(4) as pool:
        patch.setattr("onlinehash.client.transport._LONGEST_PAUSE", 0.5)
        written = [pool.submit(write, writer) for writer in range(4)]
        try:
            for _ in range(n_kills):
                n_before = sum(n_done)
                while sum(n_done) == n_before:  # on a busy machine, else, nothing would be written between two kills
                    time.sleep(0.01)
                    assert not any(one.done() for one in written)
                time.sleep(rng.uniform(0.0, 1.0))
                process.stop(signal.SIGKILL)
                process = Server(path, "--port", number)
        finally:
            over.set()
            for one in written:
                one.result()
    process.stop()
    with Collection.open(path) as collection:
        stats = collection.stats()
        assert stats.n_learned == stats.n_items == sum(n_done) > 0
        assert collection.check().ok


def test_files_of_the_page_are_small_and_kept(tmp_path):
    with serving_here(make(tmp_path / "items.oh", 10)) as url, httpx.Client(base_url=url) as http:
        page = http.get("/")
        assert page.headers["content-encoding"] == "gzip" and page.headers["cache-control"] == "no-cache"
        again = http.get("/", headers={"if-none-match": page.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
        parts = re.findall(r'(?:src|href)="([\w.]+[.](?:js|css|svg))"', page.text)
        assert {"app.js", "style.css"} <= {*parts}
        for part in parts:
            found = http.get(part)
            assert (found.status_code, found.headers["cache-control"]) == (200, "no-cache")
            assert http.get(part, headers={"if-none-match": found.headers["etag"]}).status_code == 304
            plain = http.get(part, headers={"accept-encoding": "identity"})
            assert plain.content == found.content and "content-encoding" not in plain.headers
        assert http.get("/openapi.json").headers["cache-control"] == "no-store"


def test_a_read_key_gets_no_backup(tmp_path):
    keys = ApiKeys.of(read=["reader" * 3], write=["writer" * 3])
    with Collection.open(make(tmp_path / "items.oh", 20)) as collection, serve_in_thread(collection, keys=keys) as url:
        with Client(url, "writer" * 3) as writer:
            writer._job("/backup", None, lambda done, total: None)
        with Client(url, "reader" * 3) as reader, pytest.raises(ServiceError, match="only reads"):
            reader.backup(tmp_path / "copy.oh")
        answer = httpx.get(f"{url}/api/v1/backup", headers={"authorization": f"Bearer {'reader' * 3}"})
        assert answer.status_code == 403
