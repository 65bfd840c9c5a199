"""Clients that send nonsense, too much, too slowly, or go away."""

import gc
import json
import random
import socket
import threading
import time

import httpx
import pytest
from tests.service.running import X, make, serving_here
from tests.service.test_routes import NPY, npy

from onlinehash import HCOH, Collection
from onlinehash.client import Client
from onlinehash.service import Limits, serve_in_thread, server
from onlinehash.service.problems import Problem

pytestmark = pytest.mark.slow

ROUTES = [
    ("PUT", "/api/v1/items"),
    ("PATCH", "/api/v1/items"),
    ("POST", "/api/v1/items/delete"),
    ("POST", "/api/v1/items/get"),
    ("POST", "/api/v1/search"),
    ("POST", "/api/v1/encode"),
    ("POST", "/api/v1/label_counts"),
]
SCRAPS = [None, True, -1, 0, 1.5, 1e308, 1 << 70, "", "\ud800", "é\0", [], [[]], {}, {"ids": [1]}, [None], [[[1]]]]


def spoiled(rng):
    """Return a body that no route can take, and its headers."""
    kind = rng.randrange(6)
    if kind == 0:
        return rng.randbytes(rng.randrange(200)), {"content-type": rng.choice(["application/json", "", "x/y"])}
    if kind == 1:  # JSON of a wrong shape
        fields = ["ids", "vectors", "labels", "payload", "by_id", "k", "radius", "missing", "wait", "x"]
        body = {name: rng.choice(SCRAPS) for name in rng.sample(fields, rng.randrange(1, 5))}
        return json.dumps(body | {"unknown": 1}).encode(), {"content-type": "application/json"}
    if kind == 2:  # JSON that breaks off
        whole = json.dumps({"ids": [500], "vectors": [[1.0] * 6], "by_id": [1]}).encode()
        return whole[: rng.randrange(1, len(whole))], {"content-type": "application/json"}
    if kind == 3:
        return b"[" * rng.randrange(1, 100_000), {"content-type": "application/json"}
    headers, whole = NPY, npy(X[:3], ids=[500, 501, 502], labels=[1, 2, 3], k=1)
    if kind == 4:
        return whole[: rng.randrange(len(whole) - 1)], headers
    broken = bytearray(whole)
    for _ in range(rng.randrange(1, 20)):
        broken[rng.randrange(min(len(broken), 128))] = rng.randrange(256)
    broken[:4] = b"\0\0\0\0"
    return bytes(broken), headers


def test_a_thousand_malformed_bodies(server, client):
    rng = random.Random(0)
    with httpx.Client(base_url=server.url) as http:
        for i in range(1000):
            method, path = ROUTES[i % len(ROUTES)]
            body, headers = spoiled(rng)
            answer = http.request(method, path, content=body, headers=headers)
            assert answer.status_code in (413, 415, 422), (i, path, answer.text)
            assert answer.headers["content-type"] == "application/problem+json"
            assert answer.json()["errors"][0]["field"]
        assert http.get("/metrics").text.count('status="500"') == 0
    assert len(client) == 100
    assert client.label_counts().keys() <= {0, 1, 2, 3}


def connect(url):
    host, port = url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=180)


def head(length, kind="application/json", path="/api/v1/search", method="POST"):
    return (
        f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n"
    ).encode()


def read_all(connection):
    with connection:
        return b"".join(iter(lambda: connection.recv(65536), b""))


@pytest.fixture
def tight(tmp_path, monkeypatch):
    """A service with small limits."""
    monkeypatch.setattr(server, "HEADER_SECONDS", 1)
    limits = Limits(
        max_body_bytes=10_000,
        body_timeout=1,
        max_memory_bytes=30_000,
        max_searches=2,
        max_changes=2,
        n_threads=1,
        max_k=5,
        max_batch_size=50,
        max_hits=60,
    )
    path = tmp_path / "items.oh"
    with (
        Collection.open(path, HCOH(n_bits=12, random_state=0)) as collection,
        serve_in_thread(collection, limits=limits) as url,
    ):
        collection.upsert(range(50), X[:50], [0, 1] * 25)
        yield url, collection


def test_what_is_too_large_is_refused(tight):
    url, collection = tight
    answer = httpx.put(f"{url}/api/v1/items", json={"ids": [1], "vectors": [[1] * 6], "payload": ["x" * 20_000]})
    assert answer.status_code == 413
    assert "the limit of this service; send smaller batches" in answer.json()["detail"]
    with connect(url) as connection:  # told before a byte of it is sent
        connection.sendall(head(1 << 40))
        assert connection.recv(1000).startswith(b"HTTP/1.1 413")
    chunked = httpx.put(
        f"{url}/api/v1/items", content=(b"x" * 1000 for _ in range(50)), headers={"content-type": "application/json"}
    )
    assert chunked.status_code == 413
    for body, name in (
        ({"by_id": list(range(51))}, "batch"),
        ({"by_id": [1], "k": 6}, "k"),
        ({"by_id": list(range(20)), "k": 5}, "k * queries"),
        ({"by_id": list(range(20)), "radius": 12}, "hits within radius"),
        ({"by_id": [1], "ids": list(range(51))}, "batch"),
    ):
        answer = httpx.post(f"{url}/api/v1/search", json=body)
        assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, name)
    assert len(collection) == 50


def test_a_body_that_never_fits_into_the_memory_is_not_told_to_wait(tmp_path):
    limits = Limits(max_memory_bytes=10_000)
    with (
        Collection.open(tmp_path / "items.oh", "hcoh") as collection,
        serve_in_thread(collection, limits=limits) as url,
    ):
        answer = httpx.put(f"{url}/api/v1/items", json={"ids": [1], "vectors": [[1] * 6], "payload": ["x" * 20_000]})
        assert answer.status_code == 413
        assert "send smaller batches" in answer.json()["detail"]


def test_too_many_requests_are_told_to_come_back(tight):
    url, collection = tight
    release, answers = threading.Event(), []
    collection.get = lambda ids: [] if release.wait(120) else None

    def ask():
        answers.append(httpx.post(f"{url}/api/v1/items/get", json={"ids": [1]}, timeout=180))

    askers = [threading.Thread(target=ask) for _ in range(3)]
    for asker in askers:
        asker.start()
    deadline = time.monotonic() + 180
    while not answers and time.monotonic() < deadline:
        time.sleep(0.01)
    (refused,) = answers  # two may wait
    assert refused.status_code == 429
    assert refused.headers["retry-after"] == "1"
    assert "wait a moment" in refused.json()["detail"]
    assert httpx.get(f"{url}/healthz").status_code == 200
    httpx.put(f"{url}/api/v1/items", json={"ids": [7], "vectors": [[1.0] * 6]}).raise_for_status()  # another line
    release.set()
    for asker in askers:
        asker.join()
    assert [answer.status_code for answer in answers] == [429, 200, 200]
    assert httpx.get(f"{url}/api/v1/stats").status_code == 200


def test_slow_bodies_and_headers_end(tight):
    url, _ = tight
    slow_body = connect(url)
    slow_body.sendall(head(100) + b"{")  # at once: headers may take a second
    slow_head, silent, endless = (connect(url) for _ in range(3))
    slow_head.sendall(b"GET /healthz HTTP/1.1\r\nHost: lo")
    endless.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n")
    with pytest.raises(OSError):
        for _ in range(100_000):
            endless.sendall(b"X-More: " + b"x" * 1000 + b"\r\n")
    endless.close()
    assert read_all(slow_body).startswith(b"HTTP/1.1 408")
    assert read_all(slow_head) == b""
    assert read_all(silent) == b""
    assert httpx.get(f"{url}/healthz").status_code == 200


def test_clients_that_go_away_leave_nothing_behind(tight):
    url, collection = tight
    for _ in range(20):
        connection = connect(url)
        connection.sendall(head(5000, path="/api/v1/items", method="PUT") + b"{" * 3000)
        connection.close()
    for _ in range(20):  # the answer has nobody to go to
        connection = connect(url)
        body = json.dumps({"by_id": [1], "k": 5}).encode()
        connection.sendall(head(len(body)) + body)
        connection.close()
    with connect(url) as connection:
        connection.sendall(b"\x16\x03\x01 this is not HTTP\r\n\r\n")
        assert connection.recv(1000).startswith(b"HTTP/1.1 400")
    deadline = time.monotonic() + 180
    while "onlinehash_body_bytes 0.0\n" not in httpx.get(f"{url}/metrics").text and time.monotonic() < deadline:
        time.sleep(0.05)
    assert "onlinehash_body_bytes 0.0\n" in httpx.get(f"{url}/metrics").text
    assert len(collection) == 50
    with Client(url) as client:
        assert len(client.search(X[0], 5)) == 5


@pytest.mark.parametrize(("method", "path"), [("POST", "search"), ("POST", "items/get"), ("PUT", "items")])
def test_a_refused_body_is_released_at_once(tmp_path, method, path):
    """Not only when the garbage collector finds it: until then, refused bodies would exceed the limit on memory."""
    with serving_here(make(tmp_path / "items.oh", 10)) as url:
        gc.collect()
        gc.disable()
        try:
            body = b"[" + b"," * (5 << 20)
            answer = httpx.request(
                method, f"{url}/api/v1/{path}", content=body, headers={"content-type": "application/json"}
            )
            assert answer.status_code == 422
            end = time.monotonic() + 180
            while (left := [some for some in gc.get_objects() if type(some) is Problem]) and time.monotonic() < end:
                del left
                time.sleep(0.05)
            assert not left
        finally:
            gc.enable()
