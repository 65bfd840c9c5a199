"""Commands on collections that live in an store."""

import json
from itertools import count

import pytest
from tests.servers.postgres import postgres

from onlinehash import Collection

pytestmark = pytest.mark.slow

_NUMBERS = count()


@pytest.fixture(scope="module")
def server():
    with postgres() as running:
        yield running


@pytest.fixture
def place(server):
    return f"{server.url}#items_{next(_NUMBERS)}"


def test_a_collection_in_an_engine_is_used_like_a_file(run, folder, place):
    run(f"collection create {place} --method hcoh --bits 16")
    run(f"ingest X.npy --into {place} --labels y.npy")
    run(f"collection delete {place} 3 4")
    found = json.loads(run(f"collection search {place} --by-id 7 -k 3 --json").stdout)
    assert found["ids"][0] == 7
    stats = json.loads(run(f"collection stats {place} --json").stdout)
    assert (stats["n_bits"], stats["index"]) == (16, "memory")
    run(f"collection refresh {place}")
    run(f"collection export {place} items.npz")
    store, _, name = place.rpartition("#")
    with Collection.open(name, store=store) as collection:
        assert len(collection) == stats["n_items"]
        assert 3 not in collection


def test_what_is_wrong_with_a_place_is_said(run, place):
    assert "'onlinehash ingest' and 'onlinehash collection create'" in run(f"collection stats {place}", code=1).stderr
    run(f"collection create {place}")
    assert "exists already" in run(f"collection create {place}", code=2).stderr
    assert "names no" in run(f"collection stats {place.rpartition('#')[0]}", code=2).stderr
    assert "is not a name" in run(f"collection create {place}-and-more", code=1).stderr
