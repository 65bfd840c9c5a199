"""The whole API through the client, beside a collection that is used directly."""

import inspect
import json
from enum import IntEnum
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import ClassVar

import httpx
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy.sparse import csr_array
from tests.service.running import X, Y, make, serving_here

from onlinehash import HCOH, Collection
from onlinehash.client import Client, ServiceError
from onlinehash.exceptions import InvalidInputError, UnknownIdError
from onlinehash.service import Limits, serve_in_thread
from onlinehash.service.requests import SearchRequest

pytestmark = pytest.mark.slow


class Colour(IntEnum):
    RED = 5


@pytest.fixture
def twins(tmp_path):
    """A client of a served collection, and a collection that shall be its equal."""
    with (
        serving_here(make(tmp_path / "served.oh")) as url,
        Client(url, retries=0) as client,
        Collection.open(tmp_path / "plain.oh", HCOH(n_bits=12, random_state=0), "manual") as plain,
    ):
        yield client, plain


def assert_same(client, plain):
    assert len(client) == len(plain)
    ids = list(plain)
    for ours, theirs in zip(client.get(ids), plain.get(ids), strict=True):
        assert (ours.id, ours.labels, ours.payload, ours.version) == (
            theirs.id,
            theirs.labels,
            theirs.payload,
            theirs.version,
        )
        assert np.array_equal(ours.vectors, theirs.vectors)
    stats, theirs = client.stats(), plain.stats()
    assert (stats.n_learned, stats.version, stats.staleness) == (theirs.n_learned, theirs.version, theirs.staleness)


def test_a_served_collection_is_a_collection(twins):
    client, plain = twins
    for one in twins:
        one.upsert(range(100), X[:100], Y[:100])
        one.upsert(7, X[100], 2, {"title": "seven"})
        one.upsert([200, 201, 202], X[100:103].tolist(), [None, [0, 3], 1], [None, [1, "é"], "x"])
        one.upsert([203, 204], X[103:105].astype(np.float64), np.array([1.0, np.nan]))
        one.upsert(205, X[105])
        one.update([3, 4], X[110:112])
        one.update(5, labels=[1, 2])
        one.update([6, 200], labels=None, payload=["a", None])
        one.delete([8, 9])
        one.delete([8, 10], missing="ignore")
    assert_same(client, plain)
    for one in twins:
        one.refresh()
    assert_same(client, plain)
    queries = X[120:123]
    for options in (
        {},
        {"k": 3, "rescore": "l2"},
        {"k": 3, "rescore": "cosine", "labels": [1, 2]},
        {"k": 4, "labels": 3, "asymmetric": True},
        {"k": 2, "ids": [1, 2, 3, 9999]},
        {"k": 5, "asymmetric": True},
    ):
        ours, theirs = client.search(queries, **options), plain.search(queries, **options)
        assert (ours.ids, ours.distances) == (theirs.ids, theirs.distances)
    ours, theirs = client.search(queries[0].tolist(), 4), plain.search(queries[0], 4)
    assert (ours.ids, ours.distances) == (theirs.ids, theirs.distances)
    ours, theirs = client.range_search(queries, 2), plain.range_search(queries, 2)
    assert (ours.ids, ours.distances) == (theirs.ids, theirs.distances)
    assert client.range_search(queries, 1, labels=2).ids == plain.range_search(queries, 1, labels=2).ids
    counts = {}
    for item in plain.items():
        for label in item.labels if isinstance(item.labels, tuple) else (item.labels,):
            counts[label] = counts.get(label, 0) + 1
    assert client.label_counts() == plain.label_counts() == counts
    assert None in counts


def test_string_ids_and_labels(twins):
    names = [f"é {i}/{i}" for i in range(50)] + ["ends in zero\0", ""]
    labels = ["cat", "dog"] * 26
    for one in twins:
        one.upsert(names, X[:52], labels)
        one.update(["", "é 3/3"], labels=["", "cat"])
        one.delete("é 1/1")
    assert_same(*twins)
    client, plain = twins
    assert client.search(X[60], labels="dog").ids == plain.search(X[60], labels="dog").ids
    assert "é 3/3" in client
    assert 3 not in client
    found = httpx.get(f"{str(client._http.base_url).rstrip('/')}/api/v1/items/%C3%A9%203%2F3").json()
    assert found["labels"] == "cat"


def test_more_than_a_batch_is_sent_in_several(twins):
    client, _ = twins
    client.upsert(range(2500), np.tile(X, (13, 1))[:2500], np.arange(2500) % 5)
    assert len(client) == 2500


def test_what_exceeds_a_limit_of_the_service_is_asked_for_in_smaller_parts(path):
    limits = Limits(max_hits=150, max_values=600, max_batch_size=60)
    with (
        Collection.open(make(path, 150)) as collection,
        serve_in_thread(collection, limits=limits) as url,
        Client(url) as client,
    ):
        assert [item.id for item in client.get(range(150))] == list(range(150))
        assert [item.id for item in client.items(limit=130)] == list(range(130))
        assert client.search(X, 10).ids == collection.search(X, 10).ids
        assert client.range_search(X, 0).ids == collection.range_search(X, 0).ids
        with pytest.raises(InvalidInputError, match="more than 150"):
            client.search(X[:2], 151)


def test_changes_are_sent_in_as_small_batches_as_the_service_takes(path):
    with (
        Collection.open(make(path)) as collection,
        serve_in_thread(collection, limits=Limits(max_batch_size=60)) as url,
        Client(url, retries=0) as client,
    ):
        client.upsert(range(200), X, Y, checkpoint={"a": 1})
        client.update(range(200), payload=[{"n": i} for i in range(200)], checkpoint={"b": 2})
        assert [item.payload["n"] for item in collection.get(range(200))] == list(range(200))
        assert np.array_equal([item.vectors for item in collection.get(range(200))], X)
        assert (collection.checkpoint("a"), collection.checkpoint("b")) == (1, 2)
        assert client.delete(range(130)) == 130
        assert list(collection) == list(range(130, 200))


def test_stored_items_do_not_find_themselves(client):
    alone = client.search_by_id(5, 3)
    assert 5 not in alone.ids
    assert len(alone) == 3
    assert alone.ids == [id for id in client.search(X[5], 4).ids if id != 5][:3]
    assert [len(hits) for hits in client.search_by_id([1, 2], 2, rescore="l2", labels=0)] == [2, 2]


def test_errors_are_those_of_a_collection(client):
    with pytest.raises(UnknownIdError, match="no item with id 555"):
        client.get([1, 555])
    with pytest.raises(UnknownIdError):
        client.delete([1, 555])
    with pytest.raises(InvalidInputError, match="vectors has 3 features, but this collection is expecting 6"):
        client.search([1.0, 2.0, 3.0])
    with pytest.raises(InvalidInputError, match="k is 1001, more than 1000"):
        client.search(X[0], 1001)
    with pytest.raises(InvalidInputError, match="labels holds str; the labels of this collection are int"):
        client.upsert(1, X[0], "cat")
    with pytest.raises(InvalidInputError, match="cannot be written as JSON"):
        client.upsert(1, X[0], payload={1, 2})
    with pytest.raises(InvalidInputError, match="NaN"):
        client.upsert(1, X[0] * np.nan)
    with pytest.raises(InvalidInputError, match="http://"):
        Client("127.0.0.1:8000")
    assert len(client) == 100


@pytest.mark.parametrize(
    "call",
    [
        lambda items: items.upsert({1, 2}, X[:2]),
        lambda items: items.update({1, 2}, X[:2]),
        lambda items: items.upsert([1, 2, 1], X[:3]),
        lambda items: items.upsert([1, "2"], X[:2]),
        lambda items: items.upsert("a\ud800", X[0]),
        lambda items: items.upsert(2**63, X[0]),
        lambda items: items.delete({1: 2}),
        lambda items: items.get(3.5),
        lambda items: items.get([True]),
        lambda items: items.get([*range(1500), 0]),
        lambda items: items.search(X[0], ids=b"1"),
        lambda items: items.search(X[0], labels=[]),
        lambda items: items.upsert([1, 2], X[:3]),
        lambda items: items.upsert([1, 2], X[:2], [1]),
        lambda items: items.upsert([1, 2], X[:2], 5),
        lambda items: items.upsert([1, 2], X[:2], "ab"),
        lambda items: items.upsert([1, 2], X[:2], {1, 2}),
        lambda items: items.upsert([1, 2], X[:2], csr_array(np.eye(2))),
        lambda items: items.upsert([1, 2], X[:2], payload=["a"]),
        lambda items: items.upsert([1, 2], X[:2], payload="ab"),
    ],
)
def test_input_is_refused_as_by_a_collection(twins, call):
    errors = []
    for items in twins:
        with pytest.raises(InvalidInputError) as error:
            call(items)
        errors.append((error.type, str(error.value)))
    assert errors[0] == errors[1]
    assert not len(twins[0])


@pytest.mark.parametrize(
    "labels",
    [
        pd.Series(["a", "b", "a"]),
        pd.Series(["a", "b", "a"], dtype="category"),
        pd.Series([1, None, 3]),
        pd.Series([1, None, 3], dtype="Int64"),
        pa.array(["a", None, "b"]),
        np.array([["a"], ["b"], ["c"]]),
        np.array([[1, 0], [0, 1], [0, 0]]),  # an indicator matrix
        pd.DataFrame({"a": [True, False, True], "b": [False, True, True]}),
    ],
)
def test_labels_may_be_of_any_type_that_a_collection_takes(twins, labels):
    for items in twins:
        items.upsert(range(3), X[:3], labels)
        items.update([2, 1, 0], labels=labels)
    assert_same(*twins)


def test_ids_may_be_of_any_type_that_a_collection_takes(twins):
    for items in twins:
        items.upsert(pd.Series([1, 2]), X[:2], Y[:2])
        items.upsert(np.array([3, 4], np.uint8), X[2:4], Y[2:4])
        items.upsert(Colour.RED, X[5], Y[5])
        items.upsert((id for id in [7, 8]), X[7:9], Y[7:9])
        assert items.delete({7, 8}) == 2
        assert sorted(items.search(X[0], ids=[1, 1, 2]).ids) == [1, 2]
    assert_same(*twins)


def test_a_key_is_one_id(twins):
    for items in twins:
        items.upsert([1, 2], X[:2], Y[:2])
        assert 1 in items
        assert [1] not in items
        with pytest.raises(TypeError, match="use get for several"):
            items[[1, 2]]


def test_a_service_that_is_not_there_is_named():
    with (
        Client("http://127.0.0.1:9", retries=1) as client,
        pytest.raises(ServiceError, match="no answer after 2 tries"),
    ):
        client.stats()


class Flaky(BaseHTTPRequestHandler):
    """Do what is asked, but lose or refuse every answer but the last."""

    seen: ClassVar = []

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.seen.append((self.headers["Idempotency-Key"], body))
        if len(self.seen) == 1:
            self.connection.close()
            return
        status = 503 if len(self.seen) == 2 else 200
        self.send_response(status)
        self.end_headers()
        self.wfile.write(b'{"detail": "later"}' if status == 503 else b"{}")

    def log_message(self, *args):
        pass


def test_a_request_is_sent_again_until_it_is_answered():
    with HTTPServer(("127.0.0.1", 0), Flaky) as flaky:
        Thread(target=flaky.serve_forever).start()
        try:
            with Client(f"http://127.0.0.1:{flaky.server_port}") as client:
                client.delete([1, 2])
        finally:
            flaky.shutdown()
    key, body = Flaky.seen[0]
    assert key and body["ids"] == [1, 2]
    assert Flaky.seen == [(key, body)] * 3  # by the key, the service knows a change that it has applied


def test_a_collection_is_served_from_a_thread(path):
    with Collection.open(path, HCOH(n_bits=8, random_state=0)) as collection, serve_in_thread(collection) as url:
        httpx.put(f"{url}/api/v1/items", json={"ids": [1], "vectors": [[1.0]], "labels": [3]}).raise_for_status()
        assert len(collection) == 1
    with pytest.raises(httpx.ConnectError):
        httpx.get(url)


def test_what_is_no_service_is_told_in_one_sentence():
    class Page(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(404 if "items" in self.path else 200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write(b"<html>\n<h1>Please log in</h1>\n</html>")

        def log_message(self, *args):
            pass

    with HTTPServer(("127.0.0.1", 0), Page) as page:
        Thread(target=page.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{page.server_port}"
        for place, status in ((url, 200), (f"{url}/items", 404)):
            with Client(place, retries=0) as client, pytest.raises(ServiceError) as caught:
                client.stats()
            assert caught.value.status == status
            assert f"{place}/api/v1/stats answers with text/html, not with JSON" in str(caught.value)
            assert "<" not in str(caught.value) and "\n" not in str(caught.value)
        page.shutdown()


def test_the_options_of_a_search_have_one_name_everywhere():
    fields = set(SearchRequest.__struct_fields__)
    ours, theirs = (set(inspect.signature(kind.search).parameters) for kind in (Client, Collection))
    assert theirs - ours == {"wait", "max_payload_bytes"}
    assert ours - {"self"} <= fields
    assert fields - ours == {"radius", "documents", "images", "by_id"}
