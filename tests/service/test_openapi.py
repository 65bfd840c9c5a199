"""The OpenAPI document holds: whatever it allows is answered as it says, and never with a failure."""

import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import httpx
import numpy as np
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)
from tests.service.running import X, make, running, serving_here
from tests.service.test_routes import NPY
from tests.thorough import times

from onlinehash import LSH, Collection
from onlinehash.service import create_app

pytestmark = pytest.mark.slow

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    unsupported_method,
]
N_ROUTES = 41


@schemathesis.serializer(NPY["content-type"])
def as_they_are(ctx, value):
    return value if isinstance(value, bytes) else str(value).encode(errors="replace")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server of vectors of width 1, which are often generated."""
    path = tmp_path_factory.mktemp("served") / "items.oh"
    with Collection.open(path, LSH(n_bits=8, random_state=0)) as collection:
        collection.upsert(range(-10, 50), np.linspace(-1, 1, 60)[:, None], [0, 1] * 30, [{"n": i} for i in range(60)])
    with running(path) as server:
        yield server
        assert server.stop() == 0
        assert "Traceback" not in server.said, server.said


@pytest.fixture(scope="module")
def operations(server):
    schema = schemathesis.openapi.from_url(f"{server.url}/openapi.json")
    return [found.ok() for found in schema.get_all_operations()]


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=lambda mode: mode.value)
@pytest.mark.parametrize("number", range(N_ROUTES))
def test_every_answer_is_in_the_document(operations, number, mode):
    assert len(operations) == N_ROUTES
    operation = operations[number]
    checks = CHECKS if mode is GenerationMode.POSITIVE else [*CHECKS, negative_data_rejection]
    if mode is GenerationMode.NEGATIVE and not (operation.body or operation.query):
        return  # nothing to be wrong

    @settings(
        max_examples=times(5, 40),
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(operation.as_strategy(generation_mode=mode))
    def holds(case):
        case.call_and_validate(checks=checks, timeout=180)

    holds()


def test_the_document_is_served(server):
    assert httpx.get(f"{server.url}/openapi.json").json()["openapi"].startswith("3.")


@pytest.fixture(scope="module")
def document(tmp_path_factory):
    with Collection.open(make(tmp_path_factory.mktemp("described") / "items.oh")) as collection:
        return create_app(collection).openapi()


def test_operations_have_short_ids_of_their_own(document):
    ids = [one["operationId"] for methods in document["paths"].values() for one in methods.values()]
    assert len(set(ids)) == len(ids) and {"upsert", "search", "classify", "stats"} <= set(ids)
    assert all(id.isidentifier() and len(id) <= 20 for id in ids)


def test_a_generated_client_writes_and_searches(document, tmp_path, monkeypatch):
    program = Path(sys.executable).with_name("openapi-python-client")
    (tmp_path / "openapi.json").write_text(json.dumps(document))
    command = [program, "generate", "--path", "openapi.json", "--meta", "none", "--output-path", "generated_client"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    monkeypatch.syspath_prepend(tmp_path)
    items, models = import_module("generated_client.api.items"), import_module("generated_client.models")
    ours, search = import_module("generated_client.client"), import_module("generated_client.api.search.search")
    upsert, update = (import_module(f"{items.__name__}.{name}") for name in ("upsert", "update"))
    big = (1 << 62) + 1
    with serving_here(make(tmp_path / "items.oh")) as url, ours.Client(base_url=url) as client:
        given = {"ids": [1, 2, big], "vectors": X[:3].tolist(), "labels": [0, 1, 0]}
        body = models.UpsertJsonItemsRequest.from_dict(given)
        for _ in range(2):
            done = upsert.sync(client=client, body=body, idempotency_key="one")
            assert (done.changed, done.n_items) == (3, 3)
        changed = models.UpdateJsonItemsRequest.from_dict({"ids": [2], "payload": [{"n": 1}]})
        assert update.sync(client=client, body=changed).changed == 1
        asked = models.SearchJsonSearchRequest.from_dict({"vectors": X[2:3].tolist(), "k": 1, "include": ["labels"]})
        found = search.sync(client=client, body=asked)
        assert found.ids == [[big]] and found.labels == [[0]]
