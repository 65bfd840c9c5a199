"""Consumers killed at random moments while messages flow: every message is stored and learned exactly once."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.skipif(sys.platform == "win32", reason="needs fork and SIGKILL"), pytest.mark.slow]


def kill(folder, server, url, n_messages, n_kills):
    program = Path(__file__).with_name("killing.py")
    command = [sys.executable, program, folder, server, "items", url, str(n_messages), str(n_kills)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert not run.returncode, run.stderr
    told = json.loads(run.stdout)
    assert told["stored"] == told["learned"] == n_messages
    assert told["same"]
    assert told["lag"] == told["dead"] == 0
    assert told["killed_while_flowing"] > n_kills // 2


def test_redis(tmp_path, redis_server):
    kill(tmp_path, redis_server.url("")[:-2], redis_server.url("items"), 20_000, 50)


def test_nats(tmp_path, nats_server):
    nats_server.make("items")
    kill(tmp_path, nats_server.url(""), nats_server.url("items") + "?ack_wait=0.3", 4000, 10)
