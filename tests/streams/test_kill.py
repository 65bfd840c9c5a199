"""Consumers killed at random moments while messages flow: every message is stored and learned exactly once."""

import json
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from tests.thorough import times

pytestmark = [pytest.mark.skipif(sys.platform == "win32", reason="needs fork and SIGKILL"), pytest.mark.slow]

N_MESSAGES = {"redis": times(3000, 20_000), "nats": times(1500, 4000)}
N_KILLS = {"redis": times(8, 50), "nats": times(5, 10)}
PROGRAM = [sys.executable, Path(__file__).with_name("killing.py")]


@pytest.fixture(scope="module")
def runs(request, tmp_path_factory):
    """The programs that kill consumers, of each server that there is: side by side, because they mostly wait."""
    addresses = {}
    with suppress(pytest.skip.Exception):
        server = request.getfixturevalue("redis_server")
        addresses["redis"] = server.url("")[:-2], "items", server.url("items")
    with suppress(pytest.skip.Exception):
        server = request.getfixturevalue("nats_server")
        server.make("items")
        addresses["nats"] = server.url(""), "items", server.url("items") + "?ack_wait=0.3"
    started = {}
    for name, address in addresses.items():
        command = [*PROGRAM, tmp_path_factory.mktemp(name), *address, str(N_MESSAGES[name]), str(N_KILLS[name])]
        started[name] = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    yield started
    for run in started.values():
        with run:
            run.kill()


def check(name, run):
    output, errors = run.communicate()
    assert not run.returncode, errors
    told = json.loads(output)
    assert told["stored"] == told["learned"] == N_MESSAGES[name]
    assert told["same"]
    assert told["lag"] == told["dead"] == 0
    assert told["killed_while_flowing"] > N_KILLS[name] // 2


def test_redis(redis_server, runs):
    check("redis", runs["redis"])


def test_nats(nats_server, runs):
    check("nats", runs["nats"])
