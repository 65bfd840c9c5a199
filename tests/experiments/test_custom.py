import json
import re
import subprocess
import sys

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from onlinehash.cli import app, experiments
from onlinehash.exceptions import InvalidCodesError, InvalidInputError, OnlineHashError, UnknownNameError
from onlinehash.experiments import Run, parse_plan, pending_runs, reproduce, run
from onlinehash.experiments.custom import load_class
from onlinehash.experiments.results import EPOCH

pytestmark = pytest.mark.slow

MODULE = """
import numpy as np

class Planes:
    '''Random hyperplanes; the snapshot returns what `kind` says.'''

    def __init__(self, n_bits=8, kind="packed", random_state=0):
        self.n_bits, self.kind, self.random_state = n_bits, kind, random_state

    def partial_fit(self, X, y=None):
        self.weights = np.random.default_rng(self.random_state).normal(size=(X.shape[1], self.n_bits))
        self.mean = X.mean(axis=0)
        return self

    def snapshot(self):
        return self

    def encode(self, X):
        values = (X - self.mean) @ self.weights
        bits = values >= 0
        kinds = {
            "values": values,
            "bits": bits,
            "packed": np.packbits(bits, axis=1, bitorder="little"),
            "narrow": values[:, 1:],
            "nan": values * np.nan,
        }
        return kinds[self.kind]

class NoEncode:
    def partial_fit(self, X, y): ...
    def snapshot(self): return object()

class OnlyLearns:
    def partial_fit(self, X, y): ...

class Demanding(Planes):
    def __init__(self, secret): ...

class FailsToStart(Planes):
    def __init__(self, n_bits=8, size=3):
        raise ValueError(f"size={size} is odd")

class FailsToLearn(Planes):
    def partial_fit(self, X, y=None):
        return np.linalg.inv(np.zeros((2, 2)))

class FailsToFreeze(Planes):
    def snapshot(self):
        return {}["frozen"]

class FailsToEncode(Planes):
    def encode(self, X):
        return self.no_such_weights

class Leaves(Planes):
    def partial_fit(self, X, y=None):
        raise SystemExit(0)

number = 3
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A folder with a module of a user; nothing of it stays imported."""
    (tmp_path / "own_methods.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    sys.modules.pop("own_methods", None)


def metrics(hasher, n_bits=8, **params):
    own = Run("Own", hasher, "digits", "online", n_bits=n_bits, seed=0, params=params)
    return run(own)["metrics"]["mean_average_precision"]


def compare_app():
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command("compare")(experiments.compare)
    app.command("other")(lambda: None)
    return app


def test_codes_bits_and_projections_are_the_same_method(own):
    values = {metrics("own_methods:Planes", kind=kind) for kind in ("packed", "bits", "values")}
    assert len(values) == 1
    assert 0.15 < values.pop() < 0.6


def test_our_own_hasher_by_its_module_gives_the_registered_result(own):
    assert metrics("onlinehash:HCOH", 16) == metrics("hcoh", 16)


@pytest.mark.parametrize(
    "name, error, words",
    [
        ("no_such_module:Planes", UnknownNameError, "There is no module 'no_such_module'"),
        ("own_methods.deeper:Planes", UnknownNameError, "There is no module"),
        ("own_methods:Plane", UnknownNameError, "Did you mean 'Planes'"),
        ("own_methods:number", UnknownNameError, "Unknown class of own_methods 'number'"),
        ("own_methods:", UnknownNameError, "write module:Class"),
        ("own_methods:OnlyLearns", InvalidInputError, "has no snapshot; it needs partial_fit"),
        ("own_methods:Demanding", InvalidInputError, "missing 1 required positional argument: 'secret'"),
        ("own_methods:NoEncode", InvalidInputError, "has no encode"),
    ],
)
def test_a_class_that_cannot_be_used_is_refused_with_the_reason(own, name, error, words):
    with pytest.raises(error, match=words):
        metrics(name)


@pytest.mark.parametrize(
    "content, words",
    [
        ("import no_such_dependency", ["ModuleNotFoundError: No module named 'no_such_dependency'", "line 1"]),
        ("\ndef (", ["SyntaxError: invalid syntax", "line 2"]),
        ("\n\nraise RuntimeError('no device')", ["RuntimeError: no device", "line 3"]),
        ("import sys\nsys.exit(0)", ["SystemExit: 0", "line 2"]),
        ("from own_methods import Gone", ["ImportError: cannot import name 'Gone'", "line 1"]),
    ],
)
def test_a_module_that_cannot_be_imported_is_named_with_the_reason_and_the_line(own, content, words):
    (own / "broken_methods.py").write_text(content)
    with pytest.raises(InvalidInputError, match="The module 'broken_methods' cannot be imported") as raised:
        load_class("broken_methods:Anything")
    for word in [*words, "broken_methods.py", "python -c 'import broken_methods'"]:
        assert word in str(raised.value)


def test_a_module_without_classes_is_told_apart(own):
    (own / "empty_methods.py").write_text("x = 1")
    with pytest.raises(UnknownNameError, match="'empty_methods' has no class"):
        load_class("empty_methods:Anything")


@pytest.mark.parametrize(
    "name, workers, words",
    [
        ("FailsToLearn", 2, [".partial_fit failed", "LinAlgError: Singular matrix"]),
        ("FailsToStart", 1, ["own_methods:FailsToStart failed", "ValueError: size=3 is odd"]),
        ("FailsToLearn", 1, [".partial_fit failed", "LinAlgError: Singular matrix"]),
        ("FailsToFreeze", 1, [".snapshot failed", "KeyError: 'frozen'"]),
        ("FailsToEncode", 1, ["The snapshot of own_methods:FailsToEncode failed", "AttributeError"]),
        ("Leaves", 1, [".partial_fit failed", "SystemExit: 0"]),
    ],
)
def test_a_class_that_fails_ends_the_command_with_one_sentence_and_its_line(own, name, workers, words):
    line = f"compare own_methods:{name} --bits 8 --seeds 2 --against lsh --workers {workers}"
    done = CliRunner().invoke(app, line.split())
    assert done.exit_code == 1
    assert done.stderr.count("\n") == 2
    told = done.stderr.splitlines()[1]
    assert told.startswith(f"error: Method 'own_methods:{name}', 8 bits, seed ")
    line_number = MODULE.splitlines().index(f"class {name}(Planes):") + 3
    for word in [*words, f"(own_methods.py, line {line_number})"]:
        assert word in told


def test_output_of_the_wrong_shape_or_without_signs_is_refused(own):
    with pytest.raises(InvalidCodesError, match=r"Planes returns an array of shape \(200, 7\); 8 bits of 200 rows"):
        metrics("own_methods:Planes", kind="narrow")
    with pytest.raises(InvalidCodesError, match="no sign"):
        metrics("own_methods:Planes", kind="nan")


def test_a_parameter_that_the_class_does_not_take_is_named(own):
    content = {"dataset": "digits", "bits": [8], "seeds": [0]}
    with pytest.raises(UnknownNameError, match="Did you mean 'kind'"):
        parse_plan("typo", content | {"methods": {"Own": {"hasher": "own_methods:Planes", "kinds": 1}}})


def test_other_code_makes_old_results_no_answer(own, tmp_path):
    content = {"dataset": "digits", "bits": [8], "seeds": [0], "methods": {"Own": {"hasher": "own_methods:Planes"}}}
    runs = parse_plan("own", content).runs
    reproduce(runs, tmp_path / "results.jsonl")
    assert pending_runs(runs, tmp_path / "results.jsonl") == []
    (own / "own_methods.py").write_text(MODULE + "\n# changed\n")
    assert len(pending_runs(runs, tmp_path / "results.jsonl")) == 1


def test_the_command_shows_one_table_and_keeps_results(own):
    line = "compare own_methods:Planes --bits 8 --bits 16 --seeds 2 --set kind=values --against hcoh"
    line += " --against reference:sign --results kept.jsonl"
    done = CliRunner().invoke(compare_app(), line.split(), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    rows = [row.split("\t") for row in done.stdout.splitlines()]
    assert rows[0][:3] == ["method", "bits", "mAP"]
    assert [row[:2] for row in rows[1:]] == [
        ["own_methods:Planes", "8"], ["own_methods:Planes", "16"],
        ["HCOH", "8"], ["HCOH", "16"], ["reference:sign", "64"],
    ]  # fmt: skip
    assert len((own / "kept.jsonl").read_text().splitlines()) == 1 + 10
    again = CliRunner().invoke(compare_app(), [*line.split(), "--json"], catch_exceptions=False)
    table = json.loads(again.stdout)
    assert table["rows"][2]["mean_average_precision"] == pytest.approx(float(rows[3][2].split()[0]), abs=1e-3)
    assert "own_methods:Planes on digits: 10 runs, 0 missing, 0 stale." in again.stderr


def test_the_table_shows_the_spread_over_seeds_and_recall(own):
    line = "compare own_methods:Planes --bits 8 --seeds 3 --against lsh --k 40 --results kept.jsonl"
    table = CliRunner().invoke(app, line.split(), catch_exceptions=False).stdout
    header, *rows = [row.split("\t") for row in table.splitlines()]
    assert header[2:5] == ["mAP", "precision@40", "recall@40"]
    result = json.loads(CliRunner().invoke(app, [*line.split(), "--json"], catch_exceptions=False).stdout)
    assert (result["seeds"], result["k"]) == (3, 40)
    _, *kept = map(json.loads, (own / "kept.jsonl").read_text().splitlines())
    for row, shown in zip(result["rows"], rows, strict=True):
        for i, measure in enumerate(("mean_average_precision", "precision", "recall")):
            values = [run["metrics"][measure] for run in kept if run["config"]["method"] == row["method"]]
            assert len(values) == 3
            assert row[measure] == pytest.approx(np.mean(values))
            assert row[f"{measure}_std"] == pytest.approx(np.std(values, ddof=1))
            assert row[f"{measure}_std"] > 0
            assert shown[2 + i] == f"{row[measure]:.3f} ± {row[f'{measure}_std']:.3f}"


def test_one_seed_has_no_spread_and_a_reader_sees_it_beside_the_mean(own):
    line = ["compare", "own_methods:Planes", "--bits", "8", "--against", "lsh", "--seeds"]
    one = json.loads(CliRunner().invoke(app, [*line, "1", "--json"], catch_exceptions=False).stdout)["rows"][0]
    assert (one["mean_average_precision_std"], one["recall_std"]) == (None, None)
    assert "±" not in CliRunner().invoke(app, [*line, "1"], catch_exceptions=False).stdout
    shown = CliRunner().invoke(app, [*line, "2"], catch_exceptions=False).stdout
    assert re.search(r"own_methods:Planes\t8\t0\.\d{3} ± 0\.\d{3}\t", shown)


def test_a_comparison_repeats_stale_runs(own, monkeypatch):
    line = [
        "compare",
        "own_methods:Planes",
        "--bits",
        "8",
        "--seeds",
        "1",
        "--against",
        "lsh",
        "--results",
        "kept.jsonl",
    ]
    CliRunner().invoke(app, line, catch_exceptions=False)
    monkeypatch.setattr("onlinehash.experiments.results.EPOCH", EPOCH + 1)
    assert "2 runs, 0 missing, 2 stale." in CliRunner().invoke(app, line, catch_exceptions=False).stderr


@pytest.mark.parametrize(
    "line, code",
    [
        ("compare own_methods:Planes --against hcho", None),
        ("compare Planes", None),
        ("compare own_methods:Planes --dataset digit", None),
        ("compare own_methods:Planes --labels y.npy", None),
        ("compare own_methods:Planes --set n_bits=3", None),
        ("compare own_methods:Planes --set kind", 2),
        ("compare own_methods:Planes --set order=sorted", 2),
        ("compare own_methods:Planes --bits", 2),
        ("compare own_methods:Planes --results kept", None),
    ],
)
def test_a_faulty_command_is_refused(own, line, code):
    done = CliRunner().invoke(compare_app(), line.split())
    if code is None:
        assert isinstance(done.exception, OnlineHashError)
    else:
        assert done.exit_code == code


def test_a_fresh_process_looks_in_the_current_folder(own):
    script = (
        "import typer\nfrom onlinehash.cli import experiments\napp = typer.Typer()\n"
        "app.command()(experiments.compare)\nif __name__ == '__main__':\n    app()\n"
    )
    np.savez(own / "mine.npz", X=np.random.default_rng(0).normal(size=(90, 4)), y=np.arange(90) % 3)
    command = [sys.executable, "-P", "-c", script, "own_methods:Planes", "--bits", "8", "--seeds", "1"]
    done = subprocess.run(
        [*command, "--dataset", "mine.npz", "--against", "lsh", "--json"],
        cwd=own,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert [row["method"] for row in json.loads(done.stdout)["rows"]] == ["own_methods:Planes", "LSH"]
