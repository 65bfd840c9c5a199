"""A writer killed at random moments loses nothing that it acknowledged and leaves nothing half done."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.servers.postgres import postgres

N_KILLS = 50  # of each kind: 200 in all
N_KILLS_IN_POSTGRES = 16

pytestmark = [pytest.mark.skipif(sys.platform == "win32", reason="needs fork and SIGKILL"), pytest.mark.slow]


def kill(folder, kind, n_kills, *store):
    return run_program("killing.py", folder, kind, str(n_kills), *store)


def run_program(name, *arguments):
    program = [sys.executable, Path(__file__).with_name(name), *arguments]
    run = subprocess.run(program, capture_output=True, text=True, check=False)
    assert not run.returncode, run.stderr
    return json.loads(run.stdout)


@pytest.mark.parametrize("kind", ["add", "update", "delete", "refresh"])
def test_a_killed_writer_loses_nothing(tmp_path, kind):
    told = kill(tmp_path, kind, N_KILLS)
    assert told["acknowledged"] > N_KILLS // 2
    assert told["cut_off"] or kind != "refresh"


@pytest.fixture(scope="module")
def server():
    with postgres(settings={}) as running:
        yield running


def test_a_killed_writer_loses_nothing_in_postgres(tmp_path, server):
    assert kill(tmp_path, "any", N_KILLS_IN_POSTGRES, server.url)["acknowledged"] > N_KILLS_IN_POSTGRES // 2


def test_a_killed_migration_loses_nothing(tmp_path):
    told = run_program("migrating.py", tmp_path, "6")
    assert told["changes"] and told["cut_off"]


def test_a_killed_migration_loses_nothing_in_postgres(tmp_path, server):
    assert run_program("migrating.py", tmp_path, "3", server.url)["cut_off"]
