"""A writer killed at random moments loses nothing that it acknowledged and leaves nothing half done."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.servers.postgres import postgres
from tests.thorough import times

N_KILLS = times(8, 75)  # of each of four kinds
N_KILLS_IN_POSTGRES = times(4, 16)

pytestmark = [pytest.mark.skipif(sys.platform == "win32", reason="needs fork and SIGKILL"), pytest.mark.slow]


def run_program(name, *arguments):
    program = [sys.executable, "-m", f"tests.crash.{name}", *arguments]
    run = subprocess.run(program, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2])
    assert not run.returncode, run.stderr
    return json.loads(run.stdout)


def test_a_killed_writer_loses_nothing(tmp_path):
    told = run_program("killing", tmp_path, "add,update,delete,refresh", str(N_KILLS))
    assert min(each["acknowledged"] for each in told.values()) > N_KILLS // 2
    assert told["refresh"]["cut_off"]


@pytest.fixture(scope="module")
def server():
    with postgres(settings={}) as running:
        yield running


def test_a_killed_writer_loses_nothing_in_postgres(tmp_path, server):
    told = run_program("killing", tmp_path, "any", str(N_KILLS_IN_POSTGRES), server.url)
    assert told["any"]["acknowledged"] > N_KILLS_IN_POSTGRES // 2


def test_a_killed_migration_loses_nothing(tmp_path):
    told = run_program("migrating", tmp_path, "4")
    assert told["changes"] and told["cut_off"]


def test_a_killed_migration_loses_nothing_in_postgres(tmp_path, server):
    assert run_program("migrating", tmp_path, "2", server.url)["cut_off"]
