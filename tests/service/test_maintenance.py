"""Backup, check, compaction, change of hasher and checkpoints over HTTP, as a user would."""

import asyncio
import signal
import threading
import time
from functools import partial

import httpx
import numpy as np
import pytest
from tests.service.running import X, make, running, serving_here

from onlinehash import HCOH, HROH, Collection
from onlinehash.client import AsyncClient, Client, ServiceError
from onlinehash.exceptions import InvalidInputError, LockedError
from onlinehash.service import ApiKeys, serve_in_thread

pytestmark = pytest.mark.slow


@pytest.fixture
def served(path):
    with Collection.open(make(path, 150)) as collection, serve_in_thread(collection) as url, Client(url) as client:
        yield collection, url, client


def test_a_backup_is_the_collection(served, tmp_path):
    _, url, client = served
    seen = []
    client.backup(tmp_path / "copy.oh", progress=lambda done, total: seen.append(done / total))
    assert seen == sorted(seen)
    assert seen[-1] == 1.0
    client.delete(range(100))
    with Collection.open(tmp_path / "copy.oh") as copy:
        assert len(copy) == 150
        assert copy.search(X[0], 3).ids == [0, *copy.search(X[0], 3).ids[1:]]
    client.backup(tmp_path / "copy.oh")  # replaces an older one
    with Collection.open(tmp_path / "copy.oh", readonly=True) as copy:
        assert len(copy) == 50
    assert httpx.get(f"{url}/api/v1/backup").status_code == 409  # the client has deleted it
    assert not list(tmp_path.glob("**/.*-backup-*"))
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InvalidInputError, match="is not a collection"):
        client.backup(tmp_path / "notes.txt")
    assert not list(tmp_path.glob("*.part"))


def test_a_copy_that_a_killed_service_left_goes_with_the_next_backup(path):
    make(path, 150)

    def copies_after_a_backup(url):
        with httpx.Client(base_url=f"{url}/api/v1") as http:
            http.post("/backup")
            while http.get("/job").json()["state"] == "running":
                time.sleep(0.02)
            assert http.get("/backup").status_code == 200
        return set(path.parent.glob(".*-backup-*"))

    with running(path) as server:
        left = copies_after_a_backup(server.url)
        server.stop(signal.SIGKILL)
    with serving_here(path) as url:
        later = copies_after_a_backup(url)
    assert len(left) == len(later) == 1
    assert left != later


def test_a_backup_replaces_no_collection_in_use(served, tmp_path):
    _, _, client = served
    client.backup(tmp_path / "copy.oh")
    with Collection.open(tmp_path / "copy.oh") as copy:
        with pytest.raises(LockedError):
            client.backup(tmp_path / "copy.oh")
        copy.delete(range(100))
        log = (tmp_path / "copy.oh-wal").read_bytes()
    (tmp_path / "copy.oh-wal").write_bytes(log)  # as a process leaves it that was killed
    client.backup(tmp_path / "copy.oh")
    with Collection.open(tmp_path / "copy.oh") as copy:
        assert len(copy) == 150
        assert copy.check().ok
    assert not list(tmp_path.glob("*.part*"))


def test_check_compact_and_another_hasher(served):
    collection, url, client = served
    report = client.check(sample=150)
    assert (report.ok, report.n_items, report.n_encoded) == (True, 150, 150)
    client.upsert(range(1000, 3000), np.tile(X, (10, 1)))
    client.delete(range(1000, 3000))
    assert client.compact() > 0
    before = client.search(X[:5], 3)
    seen = []
    client.change_hasher(HROH(16, n_components=32, random_state=1), progress=lambda done, total: seen.append(done))
    assert (client.stats().method, client.stats().n_bits) == ("hroh", 16)
    assert seen == sorted(seen)
    refused = httpx.post(f"{url}/api/v1/change_hasher", json={"method": "hroh", "params": {"depth": 3}})
    assert (refused.status_code, "parameter of hroh 'depth'" in refused.json()["detail"]) == (422, True)
    with pytest.raises(InvalidInputError, match="16384"):
        client.change_hasher(HROH(n_components=10**6))
    client.change_hasher(HCOH(n_bits=12, random_state=0))
    client.change_hasher(8)
    assert client.stats().n_bits == 8
    client.change_hasher(HCOH(n_bits=12, random_state=0))
    assert client.search(X[:5], 3).ids == before.ids
    assert len(collection) == 150


def test_one_job_at_a_time_while_searches_go_on(served, monkeypatch):
    _, url, client = served
    go_on, check = threading.Event(), Collection.check

    def slow(self, *, sample, progress):
        while not go_on.wait(0.01):
            progress(1, 4)
        return check(self, sample=sample, progress=progress)

    monkeypatch.setattr(Collection, "check", slow)
    checking = threading.Thread(target=client.check)
    checking.start()
    while (state := httpx.get(f"{url}/api/v1/job").json())["progress"] != 0.25:
        time.sleep(0.01)
    assert (state["job"], state["state"]) == ("check", "running")
    with Client(url) as other:
        with pytest.raises(ServiceError, match=r"409.*check is running"):
            other.compact()
        with pytest.raises(ServiceError, match=rf"as job {state['number']} \(25%\).*answer was lost, GET /job"):
            other.check()  # as one that has not got the answer to its first try
        assert other.search(X[0], 1).ids
        other.upsert(500, X[0], 1)
    go_on.set()
    checking.join()
    assert httpx.get(f"{url}/api/v1/job").json()["state"] == "done"
    go_on.clear()
    httpx.post(f"{url}/api/v1/check", json={})  # ended when the service stops: nobody waits for it


def test_too_little_memory_is_said_with_the_way_out(served, monkeypatch):
    def exhausted(self, *args, **kwargs):
        raise MemoryError

    _, url, client = served
    for name in ("count", "upsert", "compact"):
        monkeypatch.setattr(Collection, name, exhausted)
    for answer in (
        httpx.post(f"{url}/api/v1/items/count", json={}),
        httpx.put(f"{url}/api/v1/items", json={"ids": [1], "vectors": [X[0].tolist()]}),
    ):
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        assert "too little memory for this request now; send fewer items" in answer.json()["detail"]
    with pytest.raises(ServiceError, match="does not have the memory for this; give it more"):
        client.compact()


def test_a_failed_job_says_why(served, monkeypatch):
    _, _, client = served
    monkeypatch.setattr(Collection, "compact", lambda self, progress: 1 // 0)
    with pytest.raises(ServiceError, match="its log has the reason"):
        client.compact()


def test_checkpoints_are_committed_with_changes(served):
    collection, _, client = served
    assert client.checkpoint("queue/é") is None
    client.upsert(range(1000, 2500), np.tile(X, (8, 1))[:1500], checkpoint={"queue/é": {"offset": 7}})
    assert client.checkpoint("queue/é") == collection.checkpoint("queue/é") == {"offset": 7}
    client.update(1000, labels=1, checkpoint={"queue/é": 8})
    client.delete(range(1000, 2500), checkpoint={"queue/é": 9})
    assert client.checkpoint("queue/é") == 9
    client.upsert([], [], checkpoint={"queue/é": 10})
    client.delete([], checkpoint={"other": [1]})
    assert (client.checkpoint("queue/é"), client.checkpoint("other")) == (10, [1])
    with pytest.raises(InvalidInputError, match=r"checkpoint has \d+ characters of JSON; at most 1048576"):
        client.upsert([], [], checkpoint={"queue/é": "x" * (1 << 20)})
    assert client.checkpoint("queue/é") == 10


def test_keys(path, tmp_path):
    keys = ApiKeys.of(read=["reader" * 3], write=["writer" * 3])
    with Collection.open(make(path, 20)) as collection, serve_in_thread(collection, keys=keys) as url:
        with Client(url, "reader" * 3) as reader:
            copying = partial(reader.backup, tmp_path / "copy.oh")  # which has deleted items, too
            for refused in (copying, reader.check, reader.compact, lambda: reader.change_hasher(8)):
                with pytest.raises(ServiceError, match="only reads"):
                    refused()
            with httpx.Client(base_url=f"{url}/api/v1", headers={"authorization": f"Bearer {'reader' * 3}"}) as http:
                assert [http.request(method, "/backup").status_code for method in ("GET", "HEAD", "DELETE")] == [
                    403
                ] * 3
        with Client(url, "writer" * 3) as writer:
            writer.backup(tmp_path / "copy.oh")
            assert writer.check().ok


def test_from_an_event_loop(served, tmp_path):
    _, url, _ = served

    async def maintain():
        async with AsyncClient(url) as client:
            await client.upsert(900, X[0], 1, checkpoint={"queue": 1})
            await client.backup(tmp_path / "copy.oh")
            await client.change_hasher(8)
            await client.refresh()
            return await client.checkpoint("queue"), (await client.check()).ok, await client.compact()

    assert asyncio.run(maintain())[:2] == (1, True)
    with Collection.open(tmp_path / "copy.oh", readonly=True) as copy:
        assert len(copy) == 151
