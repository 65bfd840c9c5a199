"""What an operator does: keys, several collections, a file that goes away, logs, proxies, requests sent again."""

import asyncio
import inspect
import json
import signal
import socket
import ssl
import time

import httpx
import numpy as np
import pytest
from tests.service.running import X, Y, make, make_certificate, running, serving_here

from onlinehash import HROH, Collection
from onlinehash.client import AsyncClient, Client, ServiceError
from onlinehash.service import ApiKeys, Limits, serve_in_thread

pytestmark = pytest.mark.slow

READ, WRITE, OTHER = "a-key-that-only-reads", "a-key-that-writes-too", "a-key-of-one-collection"


def bearer(key):
    return {"authorization": f"Bearer {key}"}


def test_a_change_sent_again_is_applied_once_even_after_a_restart(tmp_path):
    path = tmp_path / "items.oh"
    body = {"ids": list(range(100)), "vectors": X[:100].tolist(), "labels": Y[:100].tolist()}
    with Collection.open(path, HROH(n_bits=8, n_components=32, random_state=0), "manual"):
        pass
    for _ in range(2):
        with serving_here(path) as url, httpx.Client(base_url=f"{url}/api/v1") as http:
            for _ in range(2):
                answer = http.put("/items", json=body, headers={"idempotency-key": "one"})
                assert answer.json() == {"changed": 100, "n_items": 100}
            assert http.get("/stats").json()["n_learned"] == 100
            answer = http.put("/items", json=body | {"labels": None}, headers={"idempotency-key": "one"})
            assert answer.status_code == 422 and "another request" in answer.json()["detail"]
            assert http.put("/items", json=body, headers={"idempotency-key": "é".encode()}).status_code == 422
    with serving_here(path) as url, httpx.Client(base_url=f"{url}/api/v1") as http:
        for _ in range(2):  # deleted ids are known by the key, not by being there
            gone = http.post("/items/delete", json={"ids": [1, 2]}, headers={"idempotency-key": "two"})
            assert gone.json() == {"changed": 2, "n_items": 98}
            one = http.post("/items/delete", json={"ids": [3]}, headers={"idempotency-key": "three"})
            assert one.status_code == 200, one.text
            changed = http.patch("/items", json={"ids": [4], "labels": [2]}, headers={"idempotency-key": "four"})
            assert changed.json()["changed"] == 1
            http.put("/items", json={"ids": [3], "vectors": X[3:4].tolist()})
        n_learned = http.get("/stats").json()["n_learned"]
        for number in range(300):
            http.patch("/items", json={"ids": [4], "payload": [number]}, headers={"idempotency-key": f"n{number}"})
        assert http.get("/stats").json()["n_learned"] == n_learned
        first = {"json": {"ids": [4], "payload": [0]}, "headers": {"idempotency-key": "n0"}}
        assert http.patch("/items", **first).json() == {"changed": 1, "n_items": 98}  # long ago, and still known
        assert http.get("/items/4").json()["payload"] == 299
        other = http.post("/items/delete", json={"ids": [7]}, headers={"idempotency-key": "two"})
        assert other.status_code == 422 and http.get("/items/7").status_code == 200  # the key of another deletion
        same = http.put("/items", json={"ids": [4], "payload": [0]}, headers={"idempotency-key": "n0"})
        assert same.status_code == 422  # the same body, another method
        with pytest.MonkeyPatch.context() as patch:
            later = time.time() + 24 * 3600 + 60
            patch.setattr("onlinehash.collection.stores.sql.time.time", lambda: later)
            http.patch("/items", json={"ids": [4], "payload": [1]}, headers={"idempotency-key": "later"})
    with Collection.open(path) as collection:
        assert collection._store.query("SELECT key FROM requests") == [("later",)]
        assert collection.check().ok


class LosesAnswers(httpx.HTTPTransport):
    """Send every request, and lose the first answer to each."""

    seen = ()

    def handle_request(self, request):
        answer = super().handle_request(request)
        key = request.headers.get("idempotency-key")
        if key is not None and key not in self.seen:
            self.seen = (*self.seen, key)
            answer.close()
            raise httpx.ReadError("lost")
        return answer


def test_the_client_repeats_without_learning_again(path):
    with serving_here(make(path)) as url, Client(url, transport=LosesAnswers()) as client:
        client.upsert(range(100), X[:100], Y[:100])
        client.update(range(10), labels=Y[:10])
        client.delete([1, 2])
        assert (client.stats().n_learned, len(client)) == (110, 98)


def test_a_file_that_was_deleted_is_noticed(path):
    with serving_here(make(path, 20)) as url, httpx.Client(base_url=url) as http:
        assert http.get("/readyz").status_code == 200
        path.unlink()
        answer = http.put("/api/v1/items", json={"ids": [1], "vectors": X[:1].tolist(), "labels": [1]})
        assert answer.status_code == 503
        assert "moved, deleted or replaced" in answer.json()["detail"]
        assert http.get("/readyz").status_code == 503
        assert http.get("/healthz").status_code == 200


def test_headers_and_methods(path):
    with serving_here(make(path, 20)) as url, httpx.Client(base_url=url) as http:
        for name in ("/healthz", "/readyz"):
            assert http.head(name).status_code == 200
        for name, allowed in (("/api/v1/items", "PATCH, PUT"), ("/api/v1/items/1", "GET"), ("/", "GET, HEAD")):
            answer = http.request("OPTIONS", name)
            assert (answer.status_code, answer.headers["allow"]) == (405, allowed)
        host, port = url.removeprefix("http://").split(":")
        for extra in ("Host: evil.example", f"Origin: {url}\r\nOrigin: {url}"):
            with socket.create_connection((host, int(port))) as connection:
                connection.sendall(f"GET /healthz HTTP/1.1\r\nHost: localhost\r\n{extra}\r\n\r\n".encode())
                assert connection.recv(1000).startswith(b"HTTP/1.1 400")
        assert http.post("/api/v1/search", json={"by_id": [1], "radius": 1 << 70}).status_code == 422
        given = http.get("/healthz", headers={"x-request-id": "mine"}).headers["x-request-id"]
        made = [http.get("/healthz").headers["x-request-id"] for _ in range(2)]
        assert given == "mine" and len(set(made)) == 2


def test_a_failure_has_the_headers_too(path):
    with Collection.open(make(path, 20)) as collection, serve_in_thread(collection) as url:
        collection.label_counts = lambda where: 1 / 0
        answer = httpx.post(f"{url}/api/v1/label_counts", json={})
    assert answer.status_code == 500
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.json()["type"] == "urn:onlinehash:internal"


def test_wrong_keys_are_throttled_and_right_ones_are_not(path):
    keys, limits = ApiKeys.of(write=[WRITE]), Limits(max_wrong_keys=5)
    with (
        Collection.open(make(path, 20)) as collection,
        serve_in_thread(collection, keys=keys, limits=limits) as url,
        httpx.Client(base_url=url) as http,
    ):
        statuses = [http.get("/api/v1/stats", headers=bearer("wrong" * 5)).status_code for _ in range(8)]
        assert statuses[:5] == [401] * 5 and 429 in statuses  # a new minute may begin meanwhile
        assert http.get("/api/v1/stats", headers=bearer(WRITE)).status_code == 200


def test_a_follower_counts_labels_anew(path):
    with (
        Collection.open(make(path, 20)) as writer,
        Collection.open(path, readonly=True) as reader,
        serve_in_thread(reader) as url,
        Client(url) as client,
    ):
        before = client.label_counts()
        writer.update(0, labels=None)
        after = client.label_counts()
        assert after.pop(None) == 1
        assert sum(after.values()) == sum(before.values()) - 1
        for n in range(5):  # one search after the other sees what was written
            writer.upsert(1000 + n, X[100 + n], 1)
            found = client.search(X[100 + n], 25)
            assert 1000 + n in found.ids
            assert found.version == writer.encoder.version


def test_a_folder_of_collections_each_with_its_keys(tmp_path):
    make(tmp_path / "cats.oh", 20)
    make(tmp_path / "dogs.oh", 30)
    (tmp_path / "dogs.write-keys").write_text(OTHER)
    with running(tmp_path, "--access-log", env={"ONLINEHASH_READ_KEY": READ}) as server:
        with Client(server.url, READ, collection="cats") as cats, Client(server.url, OTHER, collection="dogs") as dogs:
            assert (len(cats), len(dogs)) == (20, 30)
            dogs.upsert(100, X[100], 1)
            with pytest.raises(ServiceError, match="only reads"):
                cats.upsert(100, X[100], 1)
            with Client(server.url, OTHER, collection="cats") as other, pytest.raises(ServiceError, match="401"):
                other.stats()
            with Client(server.url, READ, collection="birds") as birds, pytest.raises(ServiceError, match="404"):
                birds.stats()
        with httpx.Client(base_url=server.url, headers=bearer(OTHER)) as http:
            assert http.get("/api/v1/collections").json() == {
                "collections": [{"name": "dogs", "n_items": 31, "readonly": False}]
            }
            assert 'onlinehash_items{collection="dogs"} 31.0' in http.get("/metrics").text
            assert "/api/v1/collections/{collection}/search" in http.get("/openapi.json").json()["paths"]
            assert http.get("/api/v1/stats").status_code == 404
            (tmp_path / "dogs.write-keys").write_text(WRITE)
            server.process.send_signal(signal.SIGHUP)
            deadline = time.monotonic() + 180
            while http.get("/api/v1/collections").status_code == 200 and time.monotonic() < deadline:
                time.sleep(0.02)
            assert http.get("/api/v1/collections/dogs/stats", headers=bearer(WRITE)).status_code == 200
            assert http.get("/api/v1/collections/dogs/stats").status_code == 401
        assert server.stop() == 0
    lines = [json.loads(line) for line in server.said.splitlines()]
    assert {"time", "client", "method", "path", "status", "bytes", "ms", "request_id"} == lines[0].keys()
    assert ("/api/v1/collections", 200) in {(line["path"], line["status"]) for line in lines}


def test_keys_that_cannot_be_read_again_stay_as_they_are(tmp_path):
    make(tmp_path / "cats.oh", 20)
    keys = tmp_path / "cats.write-keys"
    keys.write_text(WRITE)
    with running(tmp_path) as server:
        for spoil, reason in (
            (lambda: keys.write_bytes(b"\xff\xfe"), "it is not text"),
            (keys.unlink, "everyone may read"),
        ):
            spoil()
            server.process.send_signal(signal.SIGHUP)
            deadline = time.monotonic() + 180
            while reason not in server._output.read_text() and time.monotonic() < deadline:
                time.sleep(0.02)
            with httpx.Client(base_url=f"{server.url}/api/v1/collections/cats") as http:
                assert http.get("/stats").status_code == 401
                assert http.get("/stats", headers=bearer(WRITE)).status_code == 200
        assert server.stop() == 0
    assert [line.split(": ")[1] for line in server.said.splitlines()] == ["The API keys stay as they are"] * 2


def test_behind_a_proxy_and_with_tls(tmp_path):
    certificate, key = make_certificate(tmp_path)
    tls = ("--certfile", certificate, "--keyfile", key)
    proxy = ("--root-path", "/items", "--trusted-proxies", "127.0.0.1", "--access-log")
    with running(make(tmp_path / "items.oh", 20), *tls, *proxy) as server:
        assert server.url.startswith("https://")
        trusted = ssl.create_default_context(cafile=certificate)
        with Client(server.url, verify=trusted) as client:
            assert len(client) == 20
        with httpx.Client(base_url=server.url, verify=trusted) as http:
            assert http.get("/openapi.json").json()["servers"] == [{"url": "/items"}]
            http.get("/healthz", headers={"x-forwarded-for": "192.0.2.7"})
        server.stop()
    assert '"client": "192.0.2.7"' in server.said


def test_the_documentation_page_loads_nothing_from_elsewhere(path):
    with serving_here(make(path, 20)) as url, httpx.Client(base_url=url) as http:
        page = http.get("/docs")
        assert page.headers["content-type"].startswith("text/html")
        assert "http://" not in page.text and "https://" not in page.text
        assert http.get("/docs.js").status_code == 200


def test_both_clients_have_the_same_methods():
    for name in set(dir(Client)) | set(dir(AsyncClient)):
        if not name.startswith("_"):
            ours, theirs = (inspect.signature(getattr(kind, name)).parameters for kind in (Client, AsyncClient))
            assert ours == theirs, name


def test_an_async_client_is_a_client(path):
    async def use(url):
        async with AsyncClient(url, retries=0) as client:
            await client.upsert(range(150), X[:150], Y[:150])
            await client.update(3, labels=[1, 2])
            await client.delete([5])
            await client.refresh()
            found = await asyncio.gather(*(client.search(X[i], 3) for i in range(40)))
            near = await client.range_search(X[:2], 2)
            alone = await client.search_by_id(7, 2)
            items, counts = await client.get([3, 4]), await client.label_counts()
            return found, near, alone, items, counts, await client.stats(), await client.encode(X[:3])

    with serving_here(make(path)) as url, Client(url) as client:
        found, near, alone, items, counts, stats, codes = asyncio.run(use(url))
        assert [one.ids for one in found] == client.search(X[:40], 3).ids
        assert near.ids == client.range_search(X[:2], 2).ids
        assert alone.ids == client.search_by_id(7, 2).ids
        assert (items[0].labels, counts, stats.n_items) == ((1, 2), client.label_counts(), 149)
        assert np.array_equal(codes, client.encode(X[:3])) and codes.dtype == np.uint8


def test_the_client_sends_every_call_in_batches(path):
    with serving_here(make(path)) as url, Client(url) as client:
        n = 2500
        client.upsert(range(n), np.tile(X, (13, 1))[:n], np.arange(n) % 4)
        client.update(range(n), payload=[{"n": i} for i in range(n)])
        assert [item.payload["n"] for item in client.get(range(n))] == list(range(n))
        found = client.search(np.tile(X, (13, 1))[:n], 1)
        assert len(found) == n and found.version == client.stats().version
        assert len(client.search_by_id(range(n), 100)) == n
        assert client.encode(np.tile(X, (13, 1))).shape == (2600, 2)
        client.delete(range(n))
        assert len(client) == 0


def test_the_client_encodes_in_as_small_batches_as_the_service_takes(path):
    with (
        Collection.open(make(path, 200)) as collection,
        serve_in_thread(collection, limits=Limits(max_batch_size=60)) as url,
        Client(url) as client,
    ):
        assert np.array_equal(client.encode(X), collection.encoder.encode(X))
