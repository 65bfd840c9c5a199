"""ApiKeys: who may read, who may write, and where the service listens without any."""

import httpx
import pytest
from tests.service.running import X, make, running

from onlinehash import Collection
from onlinehash.client import Client, ServiceError
from onlinehash.exceptions import DataNotFoundError, InvalidInputError
from onlinehash.service import ApiKeys, Limits, serve_in_thread

pytestmark = pytest.mark.slow

READ, WRITE = "a-key-that-only-reads", "a-key-that-writes-too"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("keys")
    (folder / "write.txt").write_text(f"{WRITE}\n{WRITE}-2\n")
    options = ("--host", "0.0.0.0", "--write-keys", folder / "write.txt")
    with running(make(folder / "items.oh", 20), *options, env={"ONLINEHASH_READ_KEY": READ}) as server:
        server.url = server.url.replace("0.0.0.0", "127.0.0.1")
        yield server


def test_a_key_opens_what_it_is_for(server):
    with Client(server.url, READ) as reader, Client(server.url, f"{WRITE}-2") as writer:
        writer.upsert(100, X[100], 1)
        assert reader.get(100)[0].labels == 1
        assert len(writer.search(X[0], 3)) == 3
        for change in (
            lambda: reader.upsert(100, X[100]),
            lambda: reader.update(100, labels=3),
            lambda: reader.delete(100),
            reader.refresh,
        ):
            with pytest.raises(ServiceError, match="only reads") as refused:
                change()
            assert refused.value.status == 403
        assert reader.get(100)[0].labels == 1


@pytest.fixture(scope="module")
def patient(tmp_path_factory):
    """The address of a service that counts no wrong keys."""
    path, keys = make(tmp_path_factory.mktemp("patient") / "items.oh", 20), ApiKeys.of([READ], [WRITE])
    with Collection.open(path) as items, serve_in_thread(items, limits=Limits(max_wrong_keys=10**6), keys=keys) as url:
        yield url


@pytest.mark.parametrize("key", [None, "wrong", READ[:-1], f"{READ}x", "é" * 20])
def test_nobody_else_gets_anything(patient, key):
    headers = {} if key is None else {"authorization": f"Bearer {key}".encode()}
    document = httpx.get(f"{patient}/openapi.json").json()
    for path, methods in document["paths"].items():
        for method in methods:
            answer = httpx.request(method, f"{patient}{path}", headers=headers)
            assert answer.status_code == (200 if path in ("/healthz", "/readyz") else 401), path
            assert path in ("/healthz", "/readyz") or answer.headers["www-authenticate"] == "Bearer"


def test_with_keys_any_name_of_the_machine_will_do(server):
    assert httpx.get(f"{server.url}/healthz", headers={"host": "search.example"}).status_code == 200


def test_keys_are_checked_when_they_are_made(tmp_path):
    with pytest.raises(InvalidInputError, match="A key has 5 characters; use at least 16"):
        ApiKeys.of(read=["short"])
    with pytest.raises(DataNotFoundError, match="There is no key file"):
        ApiKeys.gather({}, read=tmp_path / "none")
    (tmp_path / "empty").write_text("\n")
    with pytest.raises(InvalidInputError, match="holds no key"):
        ApiKeys.gather({}, write=tmp_path / "empty")
    assert not ApiKeys.gather({"ONLINEHASH_READ_KEY": ""})
    assert READ not in repr(ApiKeys.of(read=[READ]))


def test_a_service_without_a_key_to_write_only_reads(path):
    with (
        Collection.open(make(path, 20)) as collection,
        serve_in_thread(collection, keys=ApiKeys.of(read=[READ])) as url,
    ):
        with Client(url, READ) as client, pytest.raises(ServiceError, match="only reads"):
            client.upsert(1, X[0])
        with Client(url, WRITE) as client, pytest.raises(ServiceError, match="missing or wrong"):
            client.stats()
