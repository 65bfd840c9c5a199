"""What only HTTP shows: problem documents, arrays, health, metrics, headers."""

import asyncio
import io
import json
import re

import httpx
import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.service.running import X, make, serving_here

from onlinehash import Collection
from onlinehash.service import app, create_app

pytestmark = pytest.mark.slow


def npy(array, **rest):
    """Return an .npy file, followed by the rest of the request as JSON if there is any."""
    file = io.BytesIO()
    np.save(file, array, allow_pickle=array.dtype.hasobject)
    return file.getvalue() + (json.dumps(rest).encode() if rest else b"")


NPY = {"content-type": "application/x-npy"}


@pytest.fixture(scope="module")
def http(server):
    with httpx.Client(base_url=server.url) as http:
        yield http


def problem(answer, status):
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    found = answer.json()
    assert found["status"] == status
    assert found["detail"]
    return found


@pytest.mark.parametrize(
    "body, field, value, rule",
    [
        ({"vectors": [[1, 2]], "k": 0}, "k", "0", "expected `int` >= 1"),
        ({"vectors": [[1, "a"]]}, "vectors.0.1", "a", "expected `float`, got `str`"),
        ({"vectors": []}, "vectors", "[]", "length >= 1"),
        ({"vectors": [[1, 2], [1]]}, "vectors.1", "[1.0]", "one width"),
        ({"by_id": [True]}, "by_id.0", "true", "expected `int . str`, got `bool`"),
        ({"by_id": [1 << 70]}, "by_id.0", str(1 << 70), "<= 9223372036854775807"),
        ({"by_id": [1], "vectors": [[1]]}, "vectors", None, "one of them"),
        ({}, "vectors", None, "one of them"),
        ({"by_id": [1], "kk": 3}, "kk", "3", "unknown field"),
        ({"by_id": [1], "k": 5000}, "k", "5000", "more than 1000"),
        ({"by_id": [1], "radius": 1, "k": 5}, "radius", None, "goes without k"),
        ({"by_id": [1], "labels": []}, "labels", "[]", "length >= 1"),
        ({"by_id": ["a"]}, "ids", None, "ids of this collection are int"),
        ({"by_id": [1], "labels": [1, "a"]}, "labels", None, "only integers or only strings"),
        ({"by_id": list(range(10_001))}, "batch", "10001", "several smaller requests"),
        ({"vectors": [[0.0] * 65_537]}, "width", "65537", "--max-width"),
    ],
)
def test_problems_name_the_field_the_value_and_the_way_out(http, body, field, value, rule):
    found = problem(http.post("/api/v1/search", json=body), 422)
    assert found["errors"][0]["field"] == field
    assert found["errors"][0]["value"] == value
    assert re.search(rule, found["detail"]), found["detail"]


def test_other_problems(http):
    problem(http.get("/api/v1/items/nobody"), 404)
    assert "openapi" in problem(http.get("/nowhere"), 404)["detail"]
    answer = http.post("/api/v1/stats")
    problem(answer, 405)
    assert answer.headers["allow"] == "GET"
    found = problem(http.post("/api/v1/search", content=b"{}", headers={"content-type": "text/plain"}), 415)
    assert "send application/json or application/x-npy" in found["detail"]
    found = problem(http.post("/api/v1/search", content=b"?", headers={"content-type": "application/json"}), 422)
    assert found["detail"].startswith("body: JSON is malformed")
    found = problem(http.post("/api/v1/search", content=npy(X[:1], vectors=[[1]]), headers=NPY), 422)
    assert "send them once" in found["detail"]
    problem(http.post("/api/v1/search", content=npy(X[:1], q=3), headers=NPY), 422)


def test_vectors_come_as_npy_in_any_precision_and_order(http):
    wanted = http.post("/api/v1/search", json={"vectors": X[:3].tolist(), "k": 4}).json()
    for array in (X[:3], X[:3].astype(">f4"), X[:3].astype(np.float64), np.asfortranarray(X[:3])):
        assert http.post("/api/v1/search", content=npy(array, k=4), headers=NPY).json() == wanted
    assert http.post("/api/v1/search", content=npy(X[:1], radius=2, labels=[1]), headers=NPY).status_code == 200
    assert http.post("/api/v1/search", content=npy(X[:1]), headers=NPY).status_code == 200


def test_items_come_as_npy_and_json(path):
    items = npy(X[:2].astype(">f8"), ids=["a", "b"], labels=["cat", "dog"])
    columns = {
        "ids": ["b", "c", "d"],
        "vectors": X[1:4].tolist(),
        "labels": [["cat", "pet"], None, ["dog"]],
        "payload": [None, {"n": 1}, 2],
    }
    with serving_here(make(path)) as url, httpx.Client(base_url=url) as http:
        assert http.put("/api/v1/items", content=items, headers=NPY).json() == {"changed": 2, "n_items": 2}
        assert http.put("/api/v1/items", json=columns).json() == {"changed": 3, "n_items": 4}
        items = http.post("/api/v1/items/get", json={"ids": ["a", "b", "c", "d"]}).json()["items"]
        assert [item["labels"] for item in items] == ["cat", ["cat", "pet"], None, "dog"]
        assert [item["payload"] for item in items] == [None, None, {"n": 1}, 2]
        assert np.array_equal(np.float32([item["vectors"] for item in items]), X[:4])
        found = http.post("/api/v1/search", json={"by_id": ["c"], "include": ["labels", "payload"], "k": 1}).json()
        assert set(found) == {"version", "ids", "distances", "labels", "payload"}
        gone = {"ids": ["c"]}
        assert http.post("/api/v1/items/delete", json=gone).json() == {"changed": 1, "n_items": 3}
        problem(http.post("/api/v1/items/delete", json=gone), 404)
        classes = http.post("/api/v1/label_counts", json={}).json()
        assert classes["label_counts"] == [
            {"label": "cat", "n_items": 2},
            {"label": "dog", "n_items": 1},
            {"label": "pet", "n_items": 1},
        ]


@pytest.mark.parametrize(
    "content, headers, rule",
    [
        (npy(np.array([{}], object)), NPY, "one row of real numbers"),
        (npy(X[:2])[:-1], NPY, "does not fit"),
        (npy(X[:2]).replace(b"(2, 6)", b"(-2,6)"), NPY, "one row of real numbers"),
        (npy(X[:2]).replace(b"(2, 6)", b"(9**9)"), NPY, "cannot be read"),
        (npy(X[:2]), NPY, "missing required field `ids`"),
        (npy(X[0], ids=[1]), NPY, "one row of real numbers"),
        (npy(np.zeros((2, 6), "M8[s]"), ids=[1, 2]), NPY, "one row of real numbers"),
        (npy(np.zeros((0, 6)), ids=[1]), NPY, "one row of real numbers"),
        (npy(X[:2], ids=[1 << 63, 1]), NPY, "<= 9223372036854775807"),
        (npy(X[:2], ids=[0, 0]), NPY, "ids holds 0 twice"),
        (npy(X[:2], ids=[1, 2, 3]), NPY, "2 rows for 3 ids"),
    ],
    ids=range(11),
)
def test_arrays_that_are_none_are_refused(http, content, headers, rule):
    found = problem(http.put("/api/v1/items", content=content, headers=headers), 422)
    assert re.search(rule, found["detail"]), found["detail"]
    assert http.get("/api/v1/stats").json()["n_items"] == 100


def test_codes_are_told(http):
    found = http.post("/api/v1/encode", json={"vectors": X[:2].tolist()}).json()
    assert (found["n_bits"], found["version"]) == (12, 100)
    assert [len(code) for code in found["codes"]] == [4, 4]
    assert found == http.post("/api/v1/encode", content=npy(X[:2]), headers=NPY).json()


def test_state(http):
    stats, counts = http.get("/api/v1/stats").json(), http.post("/api/v1/label_counts", json={}).json()
    assert (stats["n_items"], stats["n_features"], stats["readonly"], stats["version"]) == (100, 6, False, 100)
    assert sum(one["n_items"] for one in counts["label_counts"]) == 100
    assert http.get("/api/v1/limits").json()["max_batch_size"] == 10_000
    assert http.post("/api/v1/refresh").json()["staleness"] == 0


def test_an_empty_collection_answers(path):
    with serving_here(make(path)) as url, httpx.Client(base_url=url) as http:
        assert http.post("/api/v1/search", json={"vectors": [[1, 2]]}).json() == {
            "version": None,
            "ids": [[]],
            "distances": [[]],
        }
        problem(http.post("/api/v1/encode", json={"vectors": [[1, 2]]}), 409)
        assert http.post("/api/v1/label_counts", json={}).json() == {"label_counts": [], "n_unlabelled": 0}
        assert http.post("/api/v1/refresh").json()["version"] is None
        http.put("/api/v1/items", json={"ids": ["a"], "vectors": [[1, 2]]}).raise_for_status()
        problem(http.post("/api/v1/refresh"), 409)


def test_health_and_metrics(http):
    assert http.get("/healthz").json() == http.get("/readyz").json() == {"status": "ok"}
    answer = http.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=")
    families = {family.name: family for family in text_string_to_metric_families(answer.text)}
    assert families["onlinehash_items"].type == "gauge" and families["onlinehash_items"].documentation
    values = {
        (sample.name, *sorted(sample.labels.items())): sample.value for f in families.values() for sample in f.samples
    }
    assert values["onlinehash_items",] == 100
    assert values["onlinehash_requests_active",] == 1
    route = ("route", "/healthz")
    assert values["onlinehash_requests_total", ("method", "GET"), route, ("status", "200")] >= 1
    assert (
        values["onlinehash_request_seconds_bucket", ("le", "+Inf"), route]
        == (values["onlinehash_request_seconds_count", route])
    )


def test_the_names_of_the_metrics_are_those_that_dashboards_know(http):
    families = {family.name for family in text_string_to_metric_families(http.get("/metrics").text)}
    names = """requests request_seconds requests_active items items_searchable instances_learned code_bits generation
        encoder_version staleness refreshing refresh_progress refresh_failed bits_recomputed file_bytes reading_waiting
        writing_waiting body_bytes"""
    assert {f"onlinehash_{name}" for name in names.split()} <= families


def test_pages_of_other_sites_get_nothing(server, http):
    own = server.url.partition("://")[2]
    assert http.get("/healthz", headers={"origin": server.url}).status_code == 200
    problem(http.get("/healthz", headers={"origin": "https://evil.example"}), 403)
    problem(http.get("/healthz", headers={"origin": "null"}), 403)
    problem(http.get("/healthz", headers={"host": "evil.example"}), 421)
    problem(http.get("/healthz", headers={"host": f"evil.example:{own.partition(':')[2]}"}), 421)
    answer = http.options("/api/v1/items", headers={"origin": "https://evil.example"})
    assert not [name for name in answer.headers if name.startswith("access-control")]


def test_every_answer_has_security_headers(http):
    for answer in (http.get("/healthz"), http.get("/nowhere"), http.get("/openapi.json")):
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert "server" not in answer.headers


def test_a_long_path_of_requests_touches_no_file(http):
    for name in ("/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/static/..%2f..%2fetc/passwd"):
        assert http.get(name).status_code == 404


def test_the_openapi_document_is_complete(http):
    document = http.get("/openapi.json").json()
    text = json.dumps(document)
    for reference in {part.split('"')[0] for part in text.split('"#/components/schemas/')[1:]}:
        assert reference in document["components"]["schemas"]
    assert "HTTPValidationError" not in text


def test_files_of_the_page_are_served_as_they_were_at_the_start(tmp_path, path, monkeypatch):
    folder = tmp_path / "page"
    (folder / "parts").mkdir(parents=True)
    (folder / "index.html").write_text("<p>hello")
    (folder / "parts" / "a.js").write_text("let a")
    monkeypatch.setattr(app, "STATIC", folder)
    with Collection.open(path, "hcoh") as collection:
        transport = httpx.ASGITransport(create_app(collection))
    (folder / "index.html").write_text("changed")
    (folder / "later.txt").write_text("secret")

    async def get(path):
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
            return await http.get(path)

    assert asyncio.run(get("/")).text == "<p>hello"
    script = asyncio.run(get("/parts/a.js"))
    assert (script.text, script.headers["content-type"].partition(";")[0]) == ("let a", "text/javascript")
    for name in ("/later.txt", "/parts", "/parts/../later.txt", "/index.html"):
        assert asyncio.run(get(name)).status_code == 404
