"""Lists, counts and single items over HTTP, as the console asks for them."""

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
LABELS = [[int(y), 7] if i % 5 == 0 else int(y) for i, y in enumerate(Y[:100])]


@pytest.fixture
def served(path):
    """A client and the collection that it is served from."""
    limits = Limits(max_batch_size=100, max_payload_bytes=20_000)
    with (
        Collection.open(path, HCOH(n_bits=12, random_state=0), "manual") as collection,
        serve_in_thread(collection, limits=limits) as url,
        Client(url, retries=0) as client,
    ):
        client.upsert(np.random.default_rng(0).permutation(100), X[:100], LABELS, [{"row": i} for i in range(100)])
        yield client, collection, url


def test_a_client_lists_by_label_and_order(served):
    client, collection, url = served
    client.create_index("$labels")
    for options in (
        {"labels": 7},
        {"labels": [1, 7], "order": "arrival"},
        {"order": "arrival", "descending": True},
        {"labels": 2, "where": {"row": {"$gt": 30}}, "descending": True},
    ):
        expected = [item.id for item in collection.items(**options)]
        assert expected
        assert [item.id for item in client.items(**options, chunk=9)] == expected
        counted = {name: options[name] for name in ("labels", "where") if name in options}
        assert client.count(**counted) == len(expected)
        first = client.page(**options, limit=4)
        client.delete(first.items[-1].id)
        second = client.page(**options, limit=4, cursor=first.cursor)
        assert [item.id for item in second.items] == expected[4:8]

    async def both():
        async with AsyncClient(url) as other:
            page = await other.page(labels=7, limit=3)
            return [item.id async for item in other.items(labels=7, chunk=10)], page, await other.count(labels=7)

    ids, page, n_items = asyncio.run(both())
    assert ids == [item.id for item in collection.items(labels=7)]
    assert [item.id for item in page.items] == ids[:3]
    assert n_items == len(ids)


def test_a_list_has_what_is_included(served):
    _, collection, url = served
    body = {"limit": 2, "include": ["labels"], "order": "arrival"}
    answer = httpx.post(f"{url}/api/v1/items/list", json=body).json()
    assert [set(item) for item in answer["items"]] == [{"id", "version", "labels"}] * 2
    assert [item["id"] for item in answer["items"]] == [item.id for item in collection.items(order="arrival", limit=2)]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"cursor": "id:1", "after": 3}, "cursor"),
        ({"cursor": "arrival:1"}, "cursor"),
        ({"cursor": "-id:1"}, "cursor"),
        ({"cursor": "id:[1]"}, "cursor"),
        ({"cursor": "id:" + "[" * 10_000}, "cursor"),
        ({"cursor": "id:99999999999999999999"}, "ids"),
        ({"cursor": 'id:"text"'}, "ids"),
        ({"order": "arrival", "after": 1000}, "ids"),
        ({"order": "price"}, "order"),
        ({"labels": "text"}, "labels"),
        ({"labels": []}, "labels"),
        ({"labels": list(range(101))}, "batch"),
        ({"include": ["code"]}, "include.0"),
        ({"limit": 101}, "limit"),
    ],
)
def test_a_list_that_cannot_be_is_refused(served, body, field):
    answer = httpx.post(f"{served[2]}/api/v1/items/list", json=body)
    assert answer.status_code in (404, 422), answer.text
    assert answer.json()["errors"][0]["field"] == field


def test_an_item_has_its_code(served):
    client, collection, url = served
    item = httpx.get(f"{url}/api/v1/items/42").json()
    ids, codes = collection.codes([42])
    assert ids == [42]
    assert item["code"] == codes[0].tobytes().hex()
    assert item["generation"] == client.stats().generation == 1
    with_code, everything = collection.codes([3, 1000, 2])[0], dict(zip(*collection.codes(), strict=True))
    assert with_code == [3, 2]
    assert (everything[42] == codes[0]).all()


def test_an_item_waits_for_its_code(path):
    with Collection.open(path, HCOH(n_bits=12)) as collection, serve_in_thread(collection) as url:
        collection.upsert("a/b", X[0])  # without a label there is nothing to learn
        item = httpx.get(f"{url}/api/v1/items/a/b").json()
        assert (item["code"], item["generation"], item["version"]) == (None, 0, None)


def test_payloads_of_an_answer_are_bounded(served):
    client, _, url = served
    client.upsert(range(1000, 1010), X[:10], LABELS[:10], ["x" * 3000] * 10)
    few, many = list(range(1000, 1006)), list(range(1000, 1007))
    assert len(client.get(few)) == 6
    assert len(client.search(X[0], 6, ids=few, include=["payload"]).payload) == 6
    for call in (
        lambda: client.search(X[0], 10, ids=many, include=["payload"]),
        lambda: client.range_search(X[0], 12, ids=many, include=["payload"]),
    ):
        with pytest.raises(InvalidInputError, match=r"payload is .* more than 20000, the limit of this service"):
            call()
    for route, body in (
        ("items/get", {"ids": many}),
        ("items/list", {"after": 999, "limit": 50}),
        ("search", {"vectors": X[:7].tolist(), "k": 1, "ids": many[:1], "include": ["payload"]}),  # once per query
        ("search", {"vectors": X[:7].tolist(), "ids": many[:1], "include": ["labels", "payload"]}),
    ):
        answer = httpx.post(f"{url}/api/v1/{route}", json=body)
        assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "payload")
    # The client asks for less at a time.
    assert [item.id for item in client.get(many)] == many
    assert [item.id for item in client.items(after=999, chunk=50)] == list(range(1000, 1010))
    assert client.search(X[:7], 1, ids=many[:1], include=["payload"]).payload == [["x" * 3000]] * 7
    assert [item.id for item in client.items(after=999, chunk=3)] == list(range(1000, 1010))


def test_indexes_that_are_changed_twice_by_one_request_answer_as_the_first_time(served):
    url, key = f"{served[2]}/api/v1/indexes", {"Idempotency-Key": "one"}
    made = httpx.post(url, json={"path": "row"}, headers={"Idempotency-Key": "made"})
    assert made.json() == httpx.post(url, json={"path": "row"}, headers={"Idempotency-Key": "made"}).json()
    assert made.json() == {"indexes": ["row"]}
    for _ in range(3):
        answer = httpx.delete(f"{url}/row", headers=key)
        assert (answer.status_code, answer.json()) == (200, {"indexes": []})
    assert httpx.delete(f"{url}/row").status_code == 422
    assert httpx.delete(f"{url}/other", headers=key).status_code == 422  # another request with the same key
