"""The command line as a program of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from tests.servers import wait_until
from typer.testing import CliRunner

import onlinehash
import onlinehash.cli

pytestmark = pytest.mark.slow

PROGRAM = (sys.executable, "-m", "onlinehash.cli")


def call(*arguments, **options):
    return subprocess.run([*PROGRAM, *arguments], capture_output=True, text=True, timeout=300, check=False, **options)


def test_a_program_is_silent_but_for_results(folder):
    done = call("learn", "X.npy", "y.npy", "--method", "hcoh", "--out", "m.oh")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.count("\n") == 1
    assert not {"\x1b", "%"} & set(done.stderr)


def test_errors_end_with_1_and_wrong_calls_with_2(folder):
    missing = call("encode", "nope.oh", "X.npy", "--out", "c.npy")
    assert (missing.returncode, missing.stdout) == (1, "")
    assert missing.stderr == "error: There is no file nope.oh.\n"
    wrong = call("encode")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "Traceback" not in wrong.stderr


def test_a_reader_that_leaves_early_sees_no_traceback(folder):
    call("ingest", "D.npy", "--into", "c.oh", "--method", "itq")
    command = [*PROGRAM, "collection", "search", "c.oh", "D.npy", "-k", "100"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"query\tid\tdistance\tlabels\n"
        process.stdout.close()
        assert process.stderr.read() == b""


def heed_ctrl_c():
    """Undo what a child inherits where the tests run in the background: Ctrl-C ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


terminal = pytest.mark.skipif(os.name == "nt", reason="Windows has no such signals")


@terminal
def test_ctrl_c_leaves_nothing_behind(folder):
    np.lib.format.open_memmap("long.npy", "w+", np.float32, (2_000_000, 512))  # sparse on disk, a minute to learn
    np.save("labels.npy", np.zeros(2_000_000, np.int8))
    command = [*PROGRAM, "learn", "long.npy", "labels.npy", "--bits", "256", "--out", "m.oh"]
    before = sorted(folder.iterdir())
    with subprocess.Popen(command, stderr=subprocess.PIPE, preexec_fn=heed_ctrl_c) as process:
        learning = Path(f"/proc/{process.pid}/maps")  # where there is one
        wait_until(lambda: "long.npy" in learning.read_text() if learning.exists() else time.sleep(5) is None)
        process.send_signal(signal.SIGINT)
        try:
            _, said = process.communicate(timeout=180)
        finally:
            process.kill()
    assert (process.returncode, said) == (130, b"interrupted.\n")
    assert sorted(folder.iterdir()) == before


@terminal
def test_ctrl_c_in_a_callback_from_c_is_not_lost():
    code = """
import ctypes, time
from onlinehash.cli._errors import keep_interrupts

@ctypes.CFUNCTYPE(None)
def callback():
    raise KeyboardInterrupt

keep_interrupts()
try:
    callback()
    for _ in range(100):
        time.sleep(0.05)
except KeyboardInterrupt:
    print("stopped")
"""
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False, preexec_fn=heed_ctrl_c)
    assert (done.stdout, done.stderr) == ("stopped\n", "")


def test_help_is_quick_because_it_imports_nothing_heavy():
    code = "import sys, onlinehash.cli; print(*{'sklearn', 'scipy', 'numba', 'matplotlib'} & set(sys.modules))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "\n"


def test_help_names_the_program_on_a_terminal_without_block_characters():
    done = call("--help", env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0
    assert done.stdout.isascii()
    for command in ("demo", "ingest", "learn", "encode", "evaluate", "datasets"):
        assert command in done.stdout
        assert "Usage: onlinehash" in done.stdout


def test_the_package_is_a_program_too():
    command = [sys.executable, "-m", "onlinehash", "--version"]
    assert subprocess.check_output(command, text=True) == f"onlinehash {onlinehash.__version__}\n"


def test_the_shell_completes_commands_and_options(tmp_path):
    shell = {**os.environ, "_ONLINEHASH_COMPLETE": "complete_bash"}
    for words, completed in (("onlinehash coll", "collection"), ("onlinehash collection search --resc", "--rescore")):
        typed = {**shell, "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
        assert call(env=typed).stdout.split() == [completed]
    # Typer would look for the shell that has started the tests, which need not be one.
    home = {**os.environ, "HOME": str(tmp_path), "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    assert "completion installed" in call("--install-completion", "bash", env=home).stdout
    assert "onlinehash" in (tmp_path / ".bashrc").read_text()


@pytest.fixture(scope="module")
def foreign(tmp_path_factory):
    """A folder with a collection whose ids and labels are not ASCII."""
    folder = tmp_path_factory.mktemp("foreign")
    (folder / "a.csv").write_text("id,label,x\nä1,日本,1\nä2,日本,2\n", "utf-8")
    line = ("ingest", folder / "a.csv", "--into", folder / "a.oh", "--method", "hcoh", "--bits", "8")
    assert CliRunner().invoke(onlinehash.cli.app, [str(word) for word in line]).exit_code == 0
    return folder


TWO_CALLS = """
import sys
from contextlib import suppress
from onlinehash.cli import main

search = ["onlinehash", "collection", "search", "a.oh", "--by-id", "ä1", "-k", "1"]
for sys.argv in (search, [*search, "--json"]):
    with suppress(SystemExit):
        main()
"""


def test_labels_of_any_script_are_printed_whatever_standard_output_takes(foreign):
    plain = {**os.environ, "PYTHONIOENCODING": "ascii"}
    command = [sys.executable, "-c", TWO_CALLS]
    *table, line = subprocess.check_output(command, cwd=foreign, env=plain).decode("ascii").splitlines()
    assert json.loads(line)["labels"] == ["日本"]
    assert json.loads(line)["ids"] == ["ä1"]
    shown = 'ä1\t0\t"日本"'.encode("ascii", "backslashreplace").decode("ascii")
    assert table[1] == f"0\t{shown}"


def test_a_note_is_a_line_of_its_own_above_a_spinner():
    code = """
from io import StringIO
from rich.console import Console
from onlinehash.cli._screen import note
console = Console(file=StringIO(), force_terminal=True)
with console.status("Loading ..."):
    note("Compiling")
print(repr(console.file.getvalue()))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == ""  # it goes where the spinner is drawn, which is cleared first
    assert "Compiling\\n" in done.stdout
    assert "Loading ...Compiling" not in done.stdout
