from __future__ import annotations

import pytest

from onlinehash import HCOH
from onlinehash.collection import Collection


@pytest.fixture
def collection(tmp_path):
    with Collection.open(tmp_path / "items.oh", HCOH(16, random_state=0), "manual") as collection:
        yield collection


@pytest.fixture(scope="module")
def redis_server(tmp_path_factory):
    from tests.servers.redis import RedisServer

    server = RedisServer(tmp_path_factory.mktemp("redis"))
    yield server
    server.stop()


@pytest.fixture(scope="module")
def nats_server(tmp_path_factory):
    from tests.servers.nats import NatsServer

    server = NatsServer(tmp_path_factory.mktemp("nats"))
    yield server
    server.stop()
