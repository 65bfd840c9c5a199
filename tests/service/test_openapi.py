"""The OpenAPI document holds: whatever it allows is answered as it says, and never with a failure."""

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
from tests.service.running import running
from tests.service.test_routes import NPY
from tests.thorough import times

from onlinehash import LSH, Collection

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
        case.call_and_validate(checks=checks, timeout=60)

    holds()


def test_the_document_is_served(server):
    assert httpx.get(f"{server.url}/openapi.json").json()["openapi"].startswith("3.")
