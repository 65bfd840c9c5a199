import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from onlinehash.cli import app
from onlinehash.exceptions import FileFormatError, InvalidInputError, UnknownNameError
from onlinehash.experiments import load_plan, open_runs, parse_plan, read_results, reproduce
from onlinehash.experiments.tables import markdown, measured, printed

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
    result = json.loads(path.read_text())
    return result["config"], result["metrics"], result["curve"]


def test_a_plan_expands_into_runs_and_methods_override_it():
    runs = parse_plan("small", CONTENT).runs
    assert [(run.method, run.n_bits, run.seed) for run in runs] == [
        ("HCOH", 8, 0), ("HCOH", 8, 1), ("HCOH", 16, 0), ("HCOH", 16, 1),
        ("OSH (as released)", 16, 0), ("OSH (as released)", 16, 1),
        ("LSH", 8, 0), ("LSH", 16, 0),
    ]  # fmt: skip
    assert runs[4].params == {"variant": "as_released"}
    assert (runs[6].order, runs[6].checkpoints, runs[6].protocol) == ("sorted", 5, "online")
    assert len({run.file_name for run in runs}) == len(runs)


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


def test_results_carry_what_made_them_and_are_not_made_twice(tmp_path):
    runs = parse_plan("small", CONTENT).runs
    reproduce(runs, tmp_path)
    results = read_results(tmp_path, runs)
    assert len(results) == len(runs)
    assert {"python", "numpy", "processor"} <= set(results[0]["made_with"])
    assert {"learning", "encoding", "evaluation"} == set(results[0]["seconds"])
    assert results[-1]["curve"]["instances"][-1] == 1500
    assert open_runs(runs, tmp_path) == []
    changed = parse_plan("small", CONTENT | {"protocol": "published"}).runs
    assert len(open_runs(changed, tmp_path)) == len(runs)


def test_an_interrupted_reproduction_ends_in_the_same_files(tmp_path):
    (tmp_path / "plan.toml").write_text(PLAN)
    runs = load_plan(tmp_path / "plan.toml").runs
    reproduce(runs[:1], tmp_path / "a")
    reproduce(runs, tmp_path / "a")
    reproduce(runs, tmp_path / "b", n_workers=2)
    names = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert names == sorted(path.name for path in (tmp_path / "b").iterdir())
    for name in names:
        assert without_times(tmp_path / "a" / name) == without_times(tmp_path / "b" / name)


def test_tables_show_the_mean_over_seeds_beside_the_printed_value():
    results = [
        {"config": {"method": method, "n_bits": 16}, "metrics": {"precision": value}}
        for method, value in [("HCOH", 0.7), ("HCOH", 0.8), ("OSH", 0.5), ("OSH (as released)", 0.1)]
    ]
    table = markdown(measured(results, "precision"), printed("mnist", "precision"))
    assert "| HCOH | .750 (.801) |" in table
    assert "| OSH | .500 |" in table
    assert "| OSH (as released) | .100 (.171) |" in table


def test_the_command_runs_a_plan_and_prints_its_tables(tmp_path):
    (tmp_path / "plan.toml").write_text(PLAN)
    done = CliRunner().invoke(app, ["reproduce", str(tmp_path / "plan.toml"), "--workers", "1"])
    assert done.exit_code == 0
    assert "| HCOH |" in done.stdout
    assert len(list((tmp_path / "results" / "plan").iterdir())) == 4
    missing = subprocess.run(
        [sys.executable, "-m", "onlinehash.cli", "reproduce", "none.toml"], capture_output=True, text=True, check=False
    )
    assert (missing.returncode, missing.stderr) == (1, "error: There is no plan none.toml.\n")


@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
def test_workers_end_when_the_reproduction_is_killed(tmp_path):
    (tmp_path / "plan.toml").write_text(PLAN.replace("seeds = [0, 1]", "seeds = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]"))
    command = [sys.executable, "-m", "onlinehash.cli", "reproduce", str(tmp_path / "plan.toml"), "--workers", "2"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        until(lambda: len(children.read_text().split()) >= 2)
        workers = children.read_text().split()
        process.kill()
    until(lambda: not any(Path(f"/proc/{worker}/exe").exists() for worker in workers))


def until(condition, seconds=30):
    for _ in range(10 * seconds):
        if condition():
            return
        time.sleep(0.1)
    raise AssertionError("it did not happen in time")
