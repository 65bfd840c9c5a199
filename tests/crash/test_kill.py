"""A writer killed at random moments loses nothing that it acknowledged and leaves nothing half done."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

N_KILLS = 50  # of each kind: 200 in all


@pytest.mark.skipif(sys.platform == "win32", reason="needs fork and SIGKILL")
@pytest.mark.parametrize("kind", ["add", "update", "delete", "refresh"])
def test_a_killed_writer_loses_nothing(tmp_path, kind):
    program = Path(__file__).with_name("killing.py")
    run = subprocess.run(
        [sys.executable, program, tmp_path, kind, str(N_KILLS)], capture_output=True, text=True, check=False
    )
    assert not run.returncode, run.stderr
    told = json.loads(run.stdout)
    assert told["acknowledged"] > N_KILLS // 2
    assert told["cut_off"] or kind != "refresh"
