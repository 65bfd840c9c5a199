import numpy as np
import pytest
from tests.collection.places import EnginePlace, FilePlace

from onlinehash import HCOH, Collection

CENTRES = np.random.default_rng(7).normal(size=(4, 6)).astype(np.float32)


class Data:
    """Four classes of points around centres, in an endless stream."""

    def __init__(self, seed=0):
        self.rng = np.random.default_rng(seed)

    def take(self, n):
        y = self.rng.integers(0, 4, n)
        return (CENTRES[y] + 0.3 * self.rng.normal(size=(n, 6))).astype(np.float32), y


@pytest.fixture
def data():
    return Data()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "items.oh"


@pytest.fixture(scope="session")
def server():
    from tests.servers.postgres import postgres

    with postgres() as running:
        yield running


@pytest.fixture(params=["file", pytest.param("postgres", marks=pytest.mark.slow)])
def place(request, tmp_path):
    if request.param == "file":
        return FilePlace(tmp_path)
    return EnginePlace(request.getfixturevalue("server").url)


@pytest.fixture
def small(place, data):
    """A collection of 40 items with integer ids, and what is in it."""
    X, y = data.take(40)
    collection = place.open(HCOH(n_bits=12, random_state=0), "manual")
    collection.upsert(range(40), X, y)
    yield collection, X, y
    collection.close()


@pytest.fixture
def items(path, data):
    """A collection of 40 items in a file, which is open."""
    X, y = data.take(40)
    with Collection.open(path, HCOH(n_bits=12, random_state=0), "manual") as collection:
        collection.upsert(range(40), X, y)
        yield collection
