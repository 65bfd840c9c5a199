import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from onlinehash.cli import app
from onlinehash.exceptions import FileFormatError, InvalidInputError, UnknownNameError
from onlinehash.experiments import load_plan, parse_plan, pending_runs, read_results, reproduce
from onlinehash.experiments.tables import markdown, measured, printed, table_rows

pytestmark = pytest.mark.slow

CONTENT = {
    "title": "Small",
    "dataset": "digits",
    "bits": [8, 16],
    "seeds": [0, 1],
    "methods": {
        "HCOH": {"codebook": "published"},
        "OSH (as released)": {"hasher": "osh", "variant": "as_released", "bits": [16]},
        "LSH": {"order": "sorted", "checkpoints": 5, "seeds": [0]},
    },
}
PLAN = """
dataset = "digits"
bits = [8]
seeds = [0, 1]
[methods.HCOH]
[methods.LSH]
"""


def without_times(path):
    environment, *runs = map(json.loads, path.read_text().splitlines())
    return environment, [{name: value for name, value in run.items() if name != "seconds"} for run in runs]


def test_a_plan_expands_into_runs_and_methods_override_it():
    runs = parse_plan("small", CONTENT).runs
    assert [(run.method, run.n_bits, run.seed) for run in runs] == [
        ("HCOH", 8, 0), ("HCOH", 8, 1), ("HCOH", 16, 0), ("HCOH", 16, 1),
        ("OSH (as released)", 16, 0), ("OSH (as released)", 16, 1),
        ("LSH", 8, 0), ("LSH", 16, 0),
    ]  # fmt: skip
    assert runs[4].params == {"variant": "as_released"}
    assert (runs[6].order, runs[6].checkpoints, runs[6].protocol) == ("sorted", 5, "online")
    assert len({run.key for run in runs}) == len(runs)


@pytest.mark.parametrize(
    "change, error",
    [
        ({"dataset": "digit"}, UnknownNameError),
        ({"methods": {"HCHO": {}}}, UnknownNameError),
        ({"order": "backwards"}, InvalidInputError),
        ({"protocol": "none"}, InvalidInputError),
        ({"colour": "red"}, FileFormatError),
    ],
)
def test_a_faulty_plan_is_refused(change, error):
    with pytest.raises(error):
        parse_plan("faulty", CONTENT | change)


HEAD = {"dataset": 'dataset = "digits"', "bits": "bits = [8]", "seeds": "seeds = [0]", "methods": "[methods.HCOH]"}


@pytest.mark.parametrize(
    "changed, words",
    [
        ({"bits": ""}, "The plan has no bits; write bits = [16, 32]."),
        ({"bits": "bits = 8"}, "bits=8 is not a list of integers of at least 1; write for example bits = [16, 32]."),
        ({"bits": "bits = []"}, "bits=[] is not a list"),
        ({"bits": "bits = [true]"}, "bits=[True] is not a list"),
        ({"seeds": "seeds = [-1]"}, "seeds=[-1] is not a list of integers of at least 0"),
        ({"dataset": "dataset = 3"}, "dataset=3 is not text"),
        ({"dataset": 'dataset = "digit"'}, "Unknown data set 'digit'. Did you mean 'digits'?"),
        ({"dataset": 'dataset = "digits"\ntitle = 3'}, "title=3 is not text"),
        ({"dataset": 'dataset = "digits"\nseed = 3'}, "Unknown setting of a plan 'seed'. Did you mean 'seeds'?"),
        ({"dataset": 'dataset = "digits"\nprotocol = []'}, "protocol=[] is not one of 'online', 'published'."),
        ({"dataset": 'dataset = "digits"\ncheckpoints = 2.5'}, "checkpoints=2.5 is not a number of points"),
        ({"dataset": 'dataset = "digits"\nprecision_at = 0'}, "precision_at=0 is not positive"),
        ({"dataset": 'dataset = "digits"\nlabels = "y"'}, "labels='y' is for a file of your own"),
        ({"methods": "methods = 3"}, "methods=3 is not a table of methods; write [methods.HCOH]."),
        ({"methods": "[methods]\nHCOH = 3"}, "Method 'HCOH': 3 is not a table of settings"),
        ({"methods": "[methods.HCHO]"}, "Method 'HCHO': Unknown hasher 'hcho'. Did you mean 'hcoh'?"),
        ({"methods": "[methods.HCOH]\nhasher = ['hcoh']"}, "Method 'HCOH': hasher=['hcoh'] is not text"),
        ({"methods": "[methods.HCOH]\nrate = 1"}, "Method 'HCOH': Unknown parameter of hcoh 'rate'."),
        ({"methods": "[methods.HCOH]\nn_bits = 4"}, "Method 'HCOH': n_bits=4 would replace what bits says; set bits."),
        ({"methods": "[methods.HCOH]\ngrid.init = 3"}, "Method 'HCOH': grid={'init': 3} does not list values"),
        ({"methods": "[methods.HCOH]\nlearning_rate = 'a'"}, "'HCOH', 8 bits: learning_rate='a' is not a number"),
        ({"methods": "[methods.HCOH]\nlearning_rate = -1"}, "'HCOH', 8 bits: learning_rate=-1 is not positive"),
        ({"methods": "[methods.AdaptHash]\nalpha = 'a'"}, "'AdaptHash', 8 bits: "),
        ({"methods": "[methods.ITQ]\nbits = [128]"}, "'ITQ', 128 bits: n_bits=128 is more than n_features=64"),
        ({"methods": "[methods.LSH]\nlabel_noise = nan"}, "Method 'LSH': label_noise=nan is not a share"),
        ({"methods": "[methods.LSH]\ndrift = 'rotation'\ndrift_angle = inf"}, "Method 'LSH': drift='rotation' and"),
        ({"methods": "[methods.LSH]\norder = 'groups'\ngroups = true"}, "Method 'LSH': order='groups' and groups=True"),
        (
            {"methods": "[methods.B]\nhasher = 'reference:sign'\nx = 3"},
            "Method 'B': Unknown parameter of reference:sign 'x'.",
        ),
        (
            {"methods": "[methods.B]\nhasher = 'reference:classifier'\nregularisation = 0"},
            "Method 'B', 4 bits: regularisation=0 is not positive",
        ),
        ({"seeds": "seeds = [0, 0]"}, "Method 'HCOH', 8 bits, seed 0 is there 2 times; leave out repeated bits and"),
        ({"seeds": "seeds 0"}, "is not a plan: Expected '=' after a key in a key/value pair (at line 3, column 7)"),
    ],
)
def test_a_plan_with_a_fault_gives_one_sentence_that_names_it(tmp_path, changed, words):
    path = tmp_path / "plan.toml"
    path.write_text("\n".join((HEAD | changed).values()))
    done = CliRunner().invoke(app, ["reproduce", str(path)])
    assert done.exit_code == 1, done.exception
    *notes, told = done.stderr.splitlines()
    assert told.startswith(f"error: {path}")
    assert words in told
    assert len(notes) <= 1
    assert list(tmp_path.iterdir()) == [path]


def test_a_plan_that_is_not_text_is_refused(tmp_path):
    (tmp_path / "plan.toml").write_text(PLAN, encoding="utf-16")
    with pytest.raises(FileFormatError, match="not UTF-8 text"):
        load_plan(tmp_path / "plan.toml")


def test_an_error_in_a_run_names_plan_method_and_seed(tmp_path):
    path = tmp_path / "plan.toml"
    path.write_text("\n".join((HEAD | {"methods": "[methods.LSH]\nunseen = 0.99"}).values()))
    done = CliRunner().invoke(app, ["reproduce", str(path), "--workers", "1"])
    assert done.exit_code == 1
    assert done.stderr.splitlines()[1].startswith(
        f"error: {path}: Method 'LSH', 8 bits, seed 0: unseen=0.99 of 10 classes leaves none to learn from"
    )


def test_results_carry_what_made_them_and_are_not_made_twice(tmp_path):
    runs = parse_plan("small", CONTENT).runs
    path = tmp_path / "small.jsonl"
    reproduce(runs, path)
    results = read_results(path, runs)
    assert len(results) == len(runs)
    assert {"python", "numpy", "processor"} <= set(results[0]["environment"])
    assert {"learning", "encoding", "evaluation"} == set(results[0]["seconds"])
    assert results[-1]["curve"]["instances"][-1] == 1500
    assert pending_runs(runs, path, stale=True) == []
    changed = parse_plan("small", CONTENT | {"protocol": "published"}).runs
    assert len(pending_runs(changed, path)) == len(runs)


def test_an_interrupted_reproduction_ends_in_the_same_file(tmp_path):
    (tmp_path / "plan.toml").write_text(PLAN)
    runs = load_plan(tmp_path / "plan.toml").runs
    reproduce(runs[2:3], tmp_path / "a.jsonl")
    reproduce(runs, tmp_path / "a.jsonl")
    reproduce(runs, tmp_path / "b.jsonl", n_workers=2)
    assert without_times(tmp_path / "a.jsonl") == without_times(tmp_path / "b.jsonl")


def test_tables_show_the_mean_over_seeds_beside_the_printed_value():
    results = [
        {"config": {"method": method, "n_bits": 16}, "metrics": {"precision": value}}
        for method, value in [("HCOH", 0.7), ("HCOH", 0.8), ("OSH", 0.5), ("OSH (as released)", 0.1)]
    ]
    table = markdown(table_rows(measured(results, "precision"), printed("mnist", "precision")))
    assert "| HCOH | .750 (.801) |" in table
    assert "| OSH | .500 |" in table
    assert "| OSH (as released) | .100 (.171) |" in table


def test_the_command_runs_a_plan_and_prints_its_tables(tmp_path):
    (tmp_path / "plan.toml").write_text(PLAN)
    done = CliRunner().invoke(app, ["reproduce", str(tmp_path / "plan.toml"), "--workers", "1"])
    assert done.exit_code == 0
    assert "| HCOH |" in done.stdout
    assert len((tmp_path / "results" / "plan.jsonl").read_text().splitlines()) == 1 + 4
    missing = CliRunner().invoke(app, ["reproduce", "none.toml"])
    assert (missing.exit_code, missing.stderr) == (1, "error: There is no plan none.toml.\n")


SLOW = """
import time
from pathlib import Path
from onlinehash import LSH

class Slow(LSH):
    def partial_fit(self, X, y=None):
        if self.random_state and not Path("quick").exists():
            time.sleep(100)
        return super().partial_fit(X, y)
"""
KILLED = """
import os, signal
from onlinehash import LSH

class Killed(LSH):
    def partial_fit(self, X, y=None):
        os.kill(os.getpid(), signal.SIGKILL)
"""
SLOW_PLAN = """
dataset = "mine.npz"
bits = [8]
seeds = [0, 1, 2]
[methods.Slow]
hasher = "slow:Slow"
"""


@pytest.fixture
def slow(tmp_path):
    """A folder with a plan whose second run does not end; its data are not those of scikit-learn, a long import."""
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "mine.npz", X=rng.normal(size=(90, 4)), y=np.arange(90) % 3)
    (tmp_path / "slow.py").write_text(SLOW)
    (tmp_path / "plan.toml").write_text(SLOW_PLAN)
    return tmp_path


def heed_ctrl_c():
    """Undo what a child inherits where the tests run in the background: Ctrl-C ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
@pytest.mark.parametrize("moment", ["workers start", "a run is done"])
def test_ctrl_c_ends_workers_at_once_and_keeps_what_is_done(slow, monkeypatch, moment):
    command = [sys.executable, "-m", "onlinehash.cli", "reproduce", "plan.toml", "--workers", "2"]
    with subprocess.Popen(
        command, cwd=slow, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        preexec_fn=heed_ctrl_c,
    ) as process:  # fmt: skip
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        until(lambda: len(children.read_text().split()) >= 2)
        if moment == "a run is done":
            until((slow / "results" / "plan.jsonl").exists)
        workers = children.read_text().split()
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to all processes
        output, errors = process.communicate(timeout=60)  # and not the 100 s of a run
    assert process.returncode == 130
    assert output == ""
    told = "Stopped. Finished runs are kept; run the same command again to do the others."
    assert errors.splitlines() == ["plan: 3 runs, 3 missing, 0 stale.", told]
    assert not any(Path(f"/proc/{worker}/exe").exists() for worker in workers)
    if moment == "workers start":
        return
    assert len((slow / "results" / "plan.jsonl").read_text().splitlines()) == 1 + 1
    (slow / "quick").touch()
    monkeypatch.chdir(slow)
    monkeypatch.syspath_prepend(slow)
    again = CliRunner().invoke(app, ["reproduce", "plan.toml", "--workers", "1"])
    sys.modules.pop("slow", None)
    assert again.exit_code == 0, again.stderr
    assert "plan: 3 runs, 2 missing, 0 stale." in again.stderr
    assert "| Slow |" in again.stdout


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")
def test_a_worker_that_is_killed_is_told_in_one_sentence(tmp_path, monkeypatch):
    (tmp_path / "killed.py").write_text(KILLED)
    (tmp_path / "plan.toml").write_text(SLOW_PLAN.replace("slow:Slow", "killed:Killed").replace("mine.npz", "digits"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    done = CliRunner().invoke(app, ["reproduce", "plan.toml", "--workers", "1"])
    sys.modules.pop("killed", None)
    assert done.exit_code == 1
    assert done.stderr.splitlines()[1:] == [
        "error: plan.toml: A worker process ended before its run was done, possibly out of memory. Use fewer workers; "
        "finished runs are kept."
    ]


@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
def test_a_reproduction_that_is_killed_keeps_finished_runs_and_its_workers_end(slow):
    command = [sys.executable, "-m", "onlinehash.cli", "reproduce", "plan.toml", "--workers", "2"]
    path = slow / "results" / "plan.jsonl"
    with subprocess.Popen(command, cwd=slow, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        until(path.exists)
        workers = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        process.kill()
    assert len(workers) >= 2
    until(lambda: not any(Path(f"/proc/{worker}/exe").exists() for worker in workers))
    assert [json.loads(line)["config"]["seed"] for line in path.read_text().splitlines()[1:]] == [0]


def until(condition):
    for _ in range(6000):
        if condition():
            return
        time.sleep(0.02)
    raise AssertionError("it did not happen in time")


@pytest.mark.parametrize(
    "method, row", [("lsh", "among items of unseen classes, digits, unseen 0.5"), ("reference:float", "| 2048 bits |")]
)
def test_the_command_shows_all_that_a_plan_measures(tmp_path, method, row):
    path = tmp_path / "plan.toml"
    settings = 'title = "t"\ndataset = "digits"\nbits = [8]\nseeds = [0]\nunseen = 0.5\n'
    path.write_text(f'{settings}[methods.A]\nhasher = "{method}"\n')
    done = CliRunner().invoke(app, ["reproduce", str(path), "--workers", "1"])
    assert done.exit_code == 0, done.output
    assert row in done.stdout
    assert done.stdout.count("| A | .") == 5
