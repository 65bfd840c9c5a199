"""One client cannot take the service down: memory stays, and /healthz answers, whatever is sent."""

import json
import signal
import socket
import threading
import time

import httpx
import numpy as np
import pytest
from tests.servers import wait_until
from tests.service.running import LimitedServer
from tests.service.test_routes import NPY, npy

from onlinehash import LSH, Collection

pytestmark = pytest.mark.slow

MB = 1 << 20
KEY = "a-key-that-is-long-enough"
OWN = {"authorization": f"Bearer {KEY}"}
JSON = {"content-type": "application/json", **OWN}
N_ITEMS = 5000


@pytest.fixture(scope="module", params=[60])
def server(request, tmp_path_factory):
    """A service whose searches may take so many seconds."""
    path = tmp_path_factory.mktemp("served") / "items.oh"
    with Collection.open(path, LSH(n_bits=16, random_state=0), "manual") as collection:
        rng = np.random.default_rng(0)
        collection.upsert(range(N_ITEMS), rng.standard_normal((N_ITEMS, 4)), rng.integers(0, 9, N_ITEMS))
        collection.refresh()
    limits = {
        "max_body_bytes": 8 * MB,
        "max_values": 200_000,
        "max_hits": 20_000,
        "timeout": request.param,
        "n_threads": 1,
    }
    server = LimitedServer(path, [KEY], **limits)
    yield server
    server.stop(signal.SIGTERM)
    assert "Traceback" not in server.said, server.said


@pytest.fixture
def http(server):
    with httpx.Client(base_url=server.url, headers=OWN, timeout=180) as http:
        wait_until(
            lambda: http.post("/api/v1/search", json={"vectors": [[1, 2, 3, 4]]}).is_success
        )  # as warm as it gets
        yield http


def connect(server):
    host, port = server.url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=180)


def pour(connection, content, n_bytes):
    """Send as much as the server takes; return how much that was."""
    sent = 0
    try:
        while sent < n_bytes:
            connection.sendall(content)
            sent += len(content)
    except OSError:
        pass
    return sent


HEAD = b"POST /api/v1/search HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\n"
LINES = b"".join(b"x-%d: y\r\n" % i for i in range(5000))


@pytest.mark.parametrize(
    "start, more",
    [(CHUNKED, LINES), (CHUNKED + b"x: ", b"y" * 60_000), (HEAD, LINES), (HEAD + b"x: " + b"y" * 70_000, b"z" * 1000)],
    ids=["trailers", "one-trailer", "headers", "one-header"],
)
def test_headers_and_trailers_are_counted(server, http, start, more):
    with server.watched(8 * MB), connect(server) as connection:
        connection.sendall(start)
        assert pour(connection, more, 100 * MB) < 20 * MB


def test_many_headers_in_one_write_are_refused(server, http):
    with connect(server) as connection:
        try:
            connection.sendall(HEAD + LINES + b"Content-Length: 2\r\n\r\n{}")
            assert connection.recv(1000).startswith(b"HTTP/1.1 400")
        except OSError:
            pass  # reset
    assert http.get("/healthz", headers={f"x-{i}": "y" for i in range(150)}).status_code == 200


def test_a_body_without_a_key_is_not_read(server, http):
    with server.watched(8 * MB), connect(server) as connection:
        connection.sendall(HEAD + b"Content-Length: 8000000\r\n\r\n")
        assert connection.recv(1000).startswith(b"HTTP/1.1 401")
        assert pour(connection, b"x" * 60_000, 100 * MB) < 20 * MB


def items(**columns):
    """Return a body of 4 MiB, of columns that are repeated."""
    return b"{" + b",".join(f'"{name}":['.encode() + text * (4 * MB // len(text)) for name, text in columns.items())


@pytest.mark.parametrize(
    "path, body",
    [
        ("items", items(ids=b"null,")),
        ("items", items(ids=b"null,")[:100_000] + b"1]}"),
        ("items", b'{"ids":[1],"vectors":[[1,1,1,1]],"labels":[' + b"[[]]," * 150_000 + b"1]}"),
        ("items", b'{"ids":[1],"vectors":[[1,1,1,1]],"payload":[' + b"[]," * 190_000 + b"1]}"),
        ("items/get", items(ids=b"1,")),
        ("search", b'{"by_id":[1],"labels":[' + b"1," * 190_000 + b"1]}"),
        ("search", b'{"by_id":[1],"ids":[' + b"1," * 190_000 + b"1]}"),
        ("search", b'{"by_id":[1],"labels":[' + b"[]," * 1_000_000 + b"1]}"),
        ("search", b"[" * 4 * MB),
    ],
    ids=range(9),
)
def test_wrong_json_is_refused_at_the_first_error(server, http, path, body):
    method = "PUT" if path == "items" else "POST"
    with server.watched(60 * MB):
        start = server.seconds()
        answer = http.request(method, f"/api/v1/{path}", content=body, headers=JSON)
        assert server.seconds() - start < 2
    assert answer.status_code == 422
    assert len(answer.content) < 2000


def test_results_are_counted_before_they_are_made(server, http):
    queries = np.random.default_rng(1).standard_normal((1000, 4)).astype(np.float32)
    with server.watched(40 * MB):
        start = server.seconds()
        answer = http.post("/api/v1/search", content=npy(queries, radius=16), headers=NPY)
        assert server.seconds() - start < 2
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "hits within radius")
    assert len(http.post("/api/v1/search", content=npy(queries[:5], radius=0), headers=NPY).json()["ids"]) == 5
    answer = http.post("/api/v1/search", content=npy(queries, radius=10**20), headers=NPY)
    assert answer.status_code == 422


@pytest.mark.parametrize("server", [1], indirect=True)
def test_a_search_ends_at_its_deadline_and_operations_do_not_wait(server, http):
    body = json.dumps({"by_id": list(range(5)), "rescore": "l2", "k": 1000, "include": ["payload"]}).encode()
    long = json.dumps({"by_id": list(range(1000)), "rescore": "l2", "k": 20}).encode()
    answers = []

    def ask():
        answers.append(httpx.post(f"{server.url}/api/v1/search", content=long, headers=JSON, timeout=180))

    askers = [threading.Thread(target=ask) for _ in range(12)]  # more than any machine answers in a second
    with server.watched(100 * MB):
        first = server.seconds()
        for asker in askers:
            asker.start()
        time.sleep(0.2)
        for path in ("/healthz", "/readyz", "/metrics", "/api/v1/stats", "/api/v1/limits"):
            start = server.seconds()
            assert http.get(path).status_code == 200
            assert server.seconds() - start < 1, path
        for asker in askers:
            asker.join()
    statuses = {answer.status_code for answer in answers}
    assert statuses <= {200, 422, 503} and statuses & {422, 503}, statuses
    assert server.seconds() - first < 5
    wait_until(lambda: http.post("/api/v1/search", content=body, headers=JSON).status_code == 200)


@pytest.mark.parametrize("server", [1], indirect=True)
def test_searches_whose_client_left_give_up_their_place(server, http):
    long = json.dumps({"by_id": list(range(1000)), "rescore": "l2", "k": 20}).encode()
    for _ in range(20):
        connection = connect(server)
        connection.sendall(HEAD + f"Authorization: Bearer {KEY}\r\nContent-Length: {len(long)}\r\n\r\n".encode() + long)
        connection.close()
    start = server.seconds()
    wait_until(lambda: http.post("/api/v1/search", json={"by_id": [1], "k": 3}).status_code == 200)
    assert server.seconds() - start < 1.5
    while "onlinehash_reading_waiting 0.0" not in http.get("/metrics").text:
        assert server.seconds() - start < 1.5
