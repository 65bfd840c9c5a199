"""The file of results, and when a run in it is stale."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from onlinehash.cli import app
from onlinehash.exceptions import FileFormatError
from onlinehash.experiments import load_plan, parse_plan, pending_runs, read_results, reproduce
from onlinehash.experiments.results import EPOCH, add_results, environment, is_stale

pytestmark = pytest.mark.slow

PLAN = """
dataset = "digits"
bits = [8]
seeds = [0, 1]
[methods.LSH]
[methods."Sign of features"]
hasher = "reference:sign"
"""


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def runs_of(*methods, seeds=(0,)):
    content = {"dataset": "digits", "bits": [8], "seeds": list(seeds), "methods": {name: {} for name in methods}}
    return parse_plan("small", content).runs


def made(run, value=0.5, **about):
    return {
        "config": run.config(), "n_instances": 1500, "metrics": {"mean_average_precision": value}, "curve": None,
        "seconds": {}, "environment": {"python": "3.11"}, "epoch": EPOCH,
    } | about  # fmt: skip


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """Give a plan and its results."""
    folder = tmp_path_factory.mktemp("done")
    (folder / "plan.toml").write_text(PLAN)
    reproduce(load_plan(folder / "plan.toml").runs, folder / "results" / "plan.jsonl")
    return folder


@pytest.fixture
def folder(done, tmp_path):
    """Give a copy of the plan and its results."""
    (tmp_path / "results").mkdir()
    for name in ("plan.toml", "results/plan.jsonl"):
        (tmp_path / name).write_bytes((done / name).read_bytes())
    return tmp_path


def command(folder, *options):
    return CliRunner().invoke(app, ["reproduce", str(folder / "plan.toml"), "--workers", "1", *options])


def test_a_file_has_its_environment_once_and_sorted_runs_one_per_line(folder):
    head, *runs = lines(folder / "results" / "plan.jsonl")
    assert head == {"environment": 0} | environment()
    keys = [(run["config"]["method"], run["config"]["n_bits"], run["config"]["seed"]) for run in runs]
    assert keys == [("LSH", 8, 0), ("LSH", 8, 1), ("Sign of features", 64, 0), ("Sign of features", 64, 1)]
    assert {run["environment"] for run in runs} == {0}
    assert list((folder / "results").iterdir()) == [folder / "results" / "plan.jsonl"]


def test_every_run_names_the_environment_that_made_it(tmp_path):
    path = tmp_path / "small.jsonl"
    first, second, third = runs_of("LSH", seeds=(0, 1, 2))
    add_results(path, [made(third, environment={"python": "3.12"}), made(first)])
    add_results(path, [made(second, environment={"python": "3.12"})])
    assert lines(path)[:2] == [{"environment": 0, "python": "3.11"}, {"environment": 1, "python": "3.12"}]
    assert [result["environment"]["python"] for result in read_results(path, [first, second, third])] == [
        "3.11", "3.12", "3.12",
    ]  # fmt: skip


def test_the_order_in_which_runs_finish_does_not_show(tmp_path):
    results = [made(run, 0.1 * i) for i, run in enumerate(runs_of("LSH", "HCOH", "ITQ", seeds=(0, 1)))]
    add_results(tmp_path / "a.jsonl", results)
    for result in reversed(results):
        add_results(tmp_path / "b.jsonl", [result])
    assert (tmp_path / "a.jsonl").read_bytes() == (tmp_path / "b.jsonl").read_bytes()


def test_a_result_replaces_that_of_the_same_run(tmp_path):
    path = tmp_path / "small.jsonl"
    (run,) = runs_of("LSH")
    add_results(path, [made(run, 0.25)])
    add_results(path, [made(run, 1 / 3)])
    (result,) = read_results(path, [run])
    assert result["metrics"]["mean_average_precision"] == 1 / 3


@pytest.mark.parametrize(
    "damage, number, words",
    [
        (lambda text: text[:-40], 5, ""),
        (lambda text: text[:-40] + "\n", 5, ""),
        (lambda text: text + text.splitlines()[1] + "\n", 6, "an earlier line has the same run"),
        (lambda text: text.replace('"metrics"', '"measures"', 1), 2, "it has no metrics"),
        (lambda text: text.replace('"environment":0,"epoch"', '"environment":1,"epoch"', 1), 2, "there is no 1"),
        (lambda text: text.replace("\n", "\n[]\n", 1), 2, ""),
        (lambda text: "<<<<<<< ours\n" + text, 1, ""),
        (lambda text: text.replace("LSH", "L\xffH", 1).encode("latin-1"), 2, ""),
    ],
)
def test_a_damaged_line_is_named_and_nothing_is_overwritten(folder, damage, number, words):
    path = folder / "results" / "plan.jsonl"
    text = damage(path.read_text())
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    before = path.read_bytes()
    with pytest.raises(FileFormatError, match=rf"plan\.jsonl, line {number} is damaged: .*{words}.* delete the line"):
        read_results(path, load_plan(folder / "plan.toml").runs)
    assert path.read_bytes() == before


def test_the_command_reports_a_half_written_line(folder, monkeypatch):
    path = folder / "results" / "plan.jsonl"
    path.write_text(path.read_text()[:-40])
    monkeypatch.chdir(folder)
    done = CliRunner().invoke(app, ["reproduce", "plan.toml"])
    assert done.exit_code == 1
    assert done.stderr.startswith("error: plan.toml: results/plan.jsonl, line 5 is damaged: ")


def test_a_deleted_line_is_a_missing_run(folder):
    path = folder / "results" / "plan.jsonl"
    whole = lines(path)
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))
    again = command(folder)
    assert "plan: 4 runs, 1 missing, 0 stale." in again.stderr
    assert [line.get("metrics") for line in lines(path)] == [line.get("metrics") for line in whole]


def test_stale_runs_are_counted_shown_and_repeated_on_demand(folder):
    path = folder / "results" / "plan.jsonl"
    runs = load_plan(folder / "plan.toml").runs
    old = [result for result in read_results(path, runs) if result["config"]["method"] == "LSH"]
    for result in old:
        add_results(path, [result | {"epoch": EPOCH - 1, "metrics": result["metrics"] | {"precision": 0}}])
    before = path.read_bytes()

    plain = command(folder, "--report", str(folder / "report.html"))
    assert plain.exit_code == 0, plain.output
    assert "plan: 4 runs, 0 missing, 2 stale (in the tables until they are repeated with --stale)." in plain.stderr
    assert "| LSH | .000 ± .000 |" in plain.stdout
    assert path.read_bytes() == before
    assert "Stale runs, made before measured values changed: 2." in (folder / "report.html").read_text()

    repeated = command(folder, "--stale", "--report", str(folder / "report.html"))
    assert repeated.exit_code == 0, repeated.output
    assert "| LSH | .000 ± .000 |" not in repeated.stdout
    assert "Stale" not in (folder / "report.html").read_text()
    new = read_results(path, runs)
    assert not any(map(is_stale, new))
    assert [result["metrics"] for result in new if result["config"]["method"] == "LSH"] == [
        result["metrics"] for result in old
    ]
    again = command(folder).stderr
    assert "plan: 4 runs, 0 missing, 0 stale." in again
    assert "Shown from stored results; nothing was run." in again
    assert "nothing was run" not in repeated.stderr


def test_results_without_an_epoch_are_stale(tmp_path):
    (run,) = runs_of("LSH")
    result = made(run)
    del result["epoch"]
    add_results(tmp_path / "old.jsonl", [result])
    assert [is_stale(result) for result in read_results(tmp_path / "old.jsonl", [run])] == [True]


def test_a_changed_plan_or_a_changed_file_of_a_plan_is_a_missing_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = "\n".join(f"{i % 7},{i % 3},{'ab'[i % 2]}" for i in range(40))
    data = tmp_path / "mine.csv"
    data.write_text(f"x,y,label\n{rows}\n")
    content = {"dataset": "mine.csv", "bits": [8], "seeds": [0], "methods": {"LSH": {}}}
    path = tmp_path / "mine.jsonl"
    reproduce(parse_plan("mine", content).runs, path)
    assert not pending_runs(parse_plan("mine", content).runs, path, stale=True)
    assert len(pending_runs(parse_plan("mine", content | {"label_noise": 0.1}).runs, path)) == 1
    data.write_text(f"x,y,label\n5,5,a\n{rows}\n")
    assert len(pending_runs(parse_plan("mine", content).runs, path)) == 1


COMMITTED = sorted((Path(__file__).parents[2] / "experiments").glob("*.toml"))


@pytest.mark.parametrize("plan", COMMITTED, ids=lambda path: path.stem)
def test_committed_results_are_complete_and_current(plan):
    assert not pending_runs(load_plan(plan).runs, plan.parent / "results" / f"{plan.stem}.jsonl", stale=True)
