"""Answers with arrays: what JSON says, as .npy followed by the rest."""

import io
import json

import httpx
import numpy as np
import pytest
from tests.service.running import X, Y

from onlinehash import HCOH, Collection
from onlinehash.client import Client
from onlinehash.service import serve_in_thread

pytestmark = pytest.mark.slow
NPY = {"Accept": "application/x-npy, application/json"}


@pytest.fixture(scope="module", params=["float32", "float16"])
def served(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("served") / "items.oh"
    with Collection.open(path, HCOH(n_bits=12, random_state=0), vector_dtype=request.param) as collection:
        names = [f"é {i}\0" for i in range(100)]
        collection.upsert(names, X[:100], Y[:100].tolist(), [{"n": i, "text": "x" * i} for i in range(100)])
        collection.refresh()
        with serve_in_thread(collection) as url:
            yield collection, f"{url}/api/v1"


@pytest.mark.parametrize(
    "path, body",
    [
        ("/items/get", {"ids": ["é 3\0", "é 1\0"]}),
        ("/items/list", {"limit": 7}),
        ("/items/list", {"where": {"n": -1}}),
        ("/encode", {"vectors": X[:3].tolist()}),
        ("/search", {"vectors": X[:3].tolist(), "k": 4, "include": ["vectors", "labels", "payload"]}),
        ("/search", {"vectors": X[:3].tolist(), "radius": 0, "include": ["vectors"]}),
        ("/search", {"vectors": X[:3].tolist(), "k": 4}),
    ],
)
def test_an_array_says_what_json_says(served, path, body):
    _, url = served
    plain = httpx.post(f"{url}{path}", json=body, headers={"Accept": "*/*"})
    assert plain.headers["content-type"] == "application/json"
    whole, answer = plain.json(), httpx.post(f"{url}{path}", json=body, headers=NPY)
    if "include" not in body and path == "/search":
        assert answer.json() == whole
        return
    assert answer.headers["content-type"] == "application/x-npy"
    file = io.BytesIO(answer.content)
    array, rest = np.load(file), json.loads(file.read())
    if path == "/encode":
        expected = [list(bytes.fromhex(code)) for code in whole.pop("codes")]
    elif path == "/search":
        expected = [row for rows in whole.pop("vectors") for row in rows]
    else:
        expected = [item.pop("vectors") for item in whole["items"]]
    assert array.tolist() == expected
    assert rest == whole


def test_the_client_returns_what_the_collection_does(served):
    collection, url = served
    with Client(url.removesuffix("/api/v1")) as client:
        for ours, theirs in zip(client.items(), collection.items(), strict=True):
            assert (ours.id, ours.labels, ours.payload) == (theirs.id, theirs.labels, theirs.payload)
            assert ours.vectors.dtype == theirs.vectors.dtype
            assert np.array_equal(ours.vectors, theirs.vectors)
        assert list(client.items(where={"n": -1})) == []
        assert np.array_equal(client.encode(X[:5]), collection.encoder.encode(X[:5]))
        assert np.array_equal(client.encode(X[0]), collection.encoder.encode(X[:1])[0])
        ours, theirs = (
            one.search(X[:5], 200, include=["vectors", "labels"], where={"n": {"$lt": 30}})
            for one in (client, collection)
        )
        assert (ours.ids, ours.labels) == (theirs.ids, theirs.labels)
        assert all(np.array_equal(*pair) for pair in zip(ours.vectors, theirs.vectors, strict=True))
