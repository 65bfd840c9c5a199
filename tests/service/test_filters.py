"""Filters and lists over HTTP: what a client gets is what the collection gives."""

import asyncio

import httpx
import numpy as np
import pytest
from tests.service.running import X, Y

from onlinehash import HCOH, Collection
from onlinehash.client import AsyncClient, Client
from onlinehash.exceptions import InvalidInputError
from onlinehash.service import Limits, serve_in_thread

pytestmark = pytest.mark.slow
WHERE = {"price": {"$lt": 20}, "brand": {"$in": ["größe", "b"]}}


@pytest.fixture
def served(path):
    """A client and the collection that it is served from."""
    limits = Limits(max_batch_size=100, max_hits=150)
    with (
        Collection.open(path, HCOH(n_bits=12, random_state=0), "manual") as collection,
        serve_in_thread(collection, limits=limits) as url,
        Client(url, retries=0) as client,
    ):
        payload = [{"price": i % 40, "brand": ["größe", "a"][i % 2]} for i in range(100)]
        client.upsert(range(100), X[:100], [[int(y), 7] for y in Y[:100]], payload)
        yield client, collection


def test_a_client_filters_lists_counts_and_deletes(served):
    client, collection = served
    assert client.search(X[:2], 5, where=WHERE).ids == collection.search(X[:2], 5, where=WHERE).ids
    assert client.range_search(X[0], 4, where=WHERE).ids == collection.range_search(X[0], 4, where=WHERE).ids
    assert client.count(WHERE) == collection.count(WHERE) == 30
    assert client.count() == len(client) == 100
    assert client.label_counts(WHERE) == collection.label_counts(WHERE)
    for options in ({}, {"where": WHERE}, {"where": WHERE, "after": 41, "limit": 5}, {"limit": 7, "chunk": 3}):
        ours, theirs = list(client.items(**{"chunk": 9} | options)), list(collection.items(**options))
        assert [(item.id, item.labels, item.payload) for item in ours] == [
            (item.id, item.labels, item.payload) for item in theirs
        ]
    assert client[3].payload == collection[3].payload
    assert client.delete(where={"price": 3}) == 3
    assert client.delete([5, 1000], missing="ignore") == 1
    assert client.count() == 96


def test_results_carry_what_is_included(served):
    client, collection = served
    options = {"where": WHERE, "include": ["labels", "payload", "vectors"]}
    ours, theirs = client.search(X[0], 4, **options), collection.search(X[0], 4, **options)
    assert (ours.ids, ours.labels, ours.payload) == (theirs.ids, theirs.labels, theirs.payload)
    assert np.array_equal(ours.vectors, theirs.vectors)
    assert client.search(X[0], 100, where=WHERE).ids == collection.search(X[0], 100, where=WHERE).ids
    body = {"by_id": [3, 4], "k": 4, "include": ["payload"]}
    like = httpx.post(f"{client._http.base_url}/api/v1/search", json=body).json()
    assert [len(row) for row in like["payload"]] == [4, 4]
    assert like["payload"][0] == [item.payload for item in collection.get(like["ids"][0])]


def test_indexes_are_made_and_dropped(served):
    client, collection = served
    client.create_index("price")
    client.create_index("a/b.größe")
    assert client.indexes() == collection.indexes() == ["a/b.größe", "price"]
    client.drop_index("a/b.größe")
    assert client.indexes() == ["price"]
    assert client.count(WHERE) == 30


def test_what_is_wrong_is_refused_with_the_rule(served):
    client, _ = served
    for call, said in (
        (lambda: client.search(X[0], where={"a": {"$near": 1}}), "unknown operator"),
        (lambda: client.count({}), "has no condition"),
        (lambda: list(client.items(after="x", chunk=10)), "ids holds str"),
        (lambda: client.search(X[0], include=["code"]), "include"),
        (client.delete, "ids or where"),
        (lambda: client.drop_index("b"), "no index of 'b'"),
    ):
        with pytest.raises(InvalidInputError, match=said):
            call()
    url, many = f"{client._http.base_url}/api/v1", {"vectors": X[:60].tolist(), "k": 2, "include": ["vectors"]}
    for route, body in (("items/list", {"limit": 101}), ("search", many)):
        answer = httpx.post(f"{url}/{route}", json=body)
        assert answer.status_code == 422 and "limit of this service" in answer.json()["detail"]
    deep = "[" * 10_000
    for route in ("items/count", "items/list", "label_counts", "search"):
        body = f'{{"where": {{"$and": {deep}}}}}'
        assert httpx.post(f"{url}/{route}", content=body).status_code in (415, 422)


def test_a_filter_may_be_long(served):
    client, collection = served
    long = {"brand": {"$in": ["größe", *(f"brand {i}" * 10 for i in range(9000))]}}
    assert client.count(long) == collection.count(long) == 50
    assert sum(client.label_counts(long).values()) == 100
    assert len(list(client.items(where=long, chunk=20))) == 50


def test_concurrent_searches_keep_their_filters_and_parts(served):
    client, collection = served
    kinds = [
        {},
        {"where": WHERE},
        {"include": ["labels", "payload", "vectors"]},
        {"labels": [int(Y[0])]},
        {"asymmetric": True},
    ]
    asked = [(X[i % 50], options) for i, options in enumerate(kinds * 20)]

    async def ask():
        async with AsyncClient(str(client._http.base_url)) as several:
            listed = [item.id async for item in several.items(where=WHERE, chunk=7)]
            return listed, await asyncio.gather(*(several.search(x, 3, **options) for x, options in asked))

    listed, found = asyncio.run(ask())
    assert listed == [item.id for item in collection.items(where=WHERE)]
    for (x, options), ours in zip(asked, found, strict=True):
        theirs = collection.search(x, 3, **options)
        for name in ("ids", "distances", "labels", "payload", "version"):
            assert getattr(ours, name) == getattr(theirs, name), (name, options)


def test_several_queries_carry_their_parts_and_limits_hold(served):
    client, collection = served
    options = {"where": WHERE, "include": ["labels", "payload", "vectors"]}
    ours, theirs = client.search(X[:20], 3, **options), collection.search(X[:20], 3, **options)
    assert (ours.ids, ours.labels, ours.payload) == (theirs.ids, theirs.labels, theirs.payload)
    assert all(np.array_equal(a, b) for a, b in zip(ours.vectors, theirs.vectors, strict=True))
    body = {"vectors": X[:2].tolist(), "radius": 12, "include": ["vectors"]}
    answer = httpx.post(f"{client._http.base_url}/api/v1/search", json=body)
    assert answer.status_code == 422 and "limit of this service" in answer.json()["detail"]
    within = client.range_search(X[:2], 12, include=["vectors"])  # one query at a time
    assert within.ids == collection.range_search(X[:2], 12).ids
