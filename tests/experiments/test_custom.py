import json
import subprocess
import sys

import numpy as np
import pytest
import typer
from sklearn.decomposition import PCA
from typer.testing import CliRunner

from onlinehash import load_dataset, pack_signs
from onlinehash.cli import compare
from onlinehash.exceptions import InvalidCodesError, InvalidInputError, OnlineHashError, UnknownNameError
from onlinehash.experiments import Run, execute, open_runs, parse_plan, reproduce
from onlinehash.experiments.custom import load_class, make_custom

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
    def fit(self, X, y): ...

class Demanding:
    def __init__(self, secret): ...
    def fit(self, X): return self
    def transform(self, X): return X

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


def make(name, n_bits=8, classes=range(10), **settings):
    return make_custom(name, settings, n_bits=n_bits, seed=0, preprocess="running", classes=np.array(classes))


def metrics(hasher, n_bits=8, **params):
    run = Run("Own", hasher, "digits", "online", n_bits=n_bits, seed=0, params=params)
    return execute(run)["metrics"]["mean_average_precision"]


def compare_app():
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command("compare", cls=compare.ListOptions)(compare.run)
    app.command("other")(lambda: None)
    return app


def test_codes_bits_and_projections_are_the_same_method(own):
    values = {metrics("own_methods:Planes", kind=kind) for kind in ("packed", "bits", "values")}
    assert len(values) == 1
    assert 0.15 < values.pop() < 0.6


def test_our_own_hasher_by_its_module_gives_the_registered_result(own):
    assert metrics("onlinehash:HCOH", 16) == metrics("hcoh", 16)


def test_an_estimator_gets_the_bits_as_components_and_centred_rows():
    X = load_dataset("digits").split().stream.X[:200].astype(np.float64)
    encoder = make("sklearn.decomposition:PCA", n_bits=12).partial_fit(X, np.zeros(200, int)).snapshot()
    rows = np.array([X[i] - X[: i + 1].mean(axis=0) for i in range(200)])
    rows[1:] /= np.linalg.norm(rows[1:], axis=1, keepdims=True)
    theirs = PCA(12, random_state=0).fit(rows)
    asked = X - X.mean(axis=0)
    asked /= np.linalg.norm(asked, axis=1, keepdims=True)
    assert (encoder.encode(X) == pack_signs(theirs.transform(asked))).mean() > 0.99


def test_an_estimator_without_partial_fit_learns_from_all_rows_so_far():
    split = load_dataset("digits").split()
    X, y = split.stream.X, split.stream.y
    pieces = make("sklearn.linear_model:RidgeClassifier", n_bits=10)
    pieces.partial_fit(X[:500], y[:500]).partial_fit(X[500:], y[500:])
    whole = make("sklearn.linear_model:RidgeClassifier", n_bits=10).partial_fit(X, y)
    codes, others = whole.snapshot().encode(split.queries.X), pieces.snapshot().encode(split.queries.X)
    np.testing.assert_array_equal(codes, others)


def test_a_classifier_that_learns_online_is_told_all_classes_and_spared_missing_labels():
    split = load_dataset("digits").split()
    learner = make("sklearn.linear_model:SGDClassifier", n_bits=10)
    for start in range(0, 300, 3):  # never ten classes in one call
        y = split.stream.y[start : start + 3].astype(float)
        y[1] = np.nan
        learner.partial_fit(split.stream.X[start : start + 3], y)
    snapshot = learner.snapshot()
    before = snapshot.encode(split.queries.X)
    learner.partial_fit(*split.stream)
    np.testing.assert_array_equal(snapshot.encode(split.queries.X), before)
    assert (learner.snapshot().encode(split.queries.X) != before).any()


@pytest.mark.parametrize(
    "name, error, words",
    [
        ("no_such_module:Planes", UnknownNameError, "There is no module 'no_such_module'"),
        ("own_methods.deeper:Planes", UnknownNameError, "There is no module"),
        ("own_methods:Plane", UnknownNameError, "Did you mean 'Planes'"),
        ("own_methods:number", UnknownNameError, "Unknown class of own_methods 'number'"),
        ("own_methods:", UnknownNameError, "write module:Class"),
        ("own_methods:OnlyLearns", InvalidInputError, "has fit; it needs partial_fit and snapshot"),
        ("own_methods:Demanding", InvalidInputError, "needs secret"),
        ("own_methods:NoEncode", InvalidInputError, "has no encode"),
    ],
)
def test_a_class_that_cannot_be_used_is_refused_with_the_reason(own, name, error, words):
    with pytest.raises(error, match=words):
        metrics(name)


def test_a_module_that_imports_a_missing_one_keeps_its_own_error(own):
    (own / "broken_methods.py").write_text("import no_such_dependency\n")
    with pytest.raises(ModuleNotFoundError, match="no_such_dependency"):
        load_class("broken_methods:Anything")


def test_output_of_the_wrong_shape_or_without_signs_is_refused(own):
    with pytest.raises(InvalidCodesError, match=r"Planes returns an array of shape \(200, 7\); 8 bits of 200 rows"):
        metrics("own_methods:Planes", kind="narrow")
    with pytest.raises(InvalidCodesError, match="no sign"):
        metrics("own_methods:Planes", kind="nan")
    with pytest.raises(InvalidCodesError, match=r"\(200, 10\); 16 bits of 200 rows are \(200, 16\)"):
        metrics("sklearn.linear_model:RidgeClassifier", 16)


def test_a_parameter_that_the_class_does_not_take_is_named(own):
    content = {"dataset": "digits", "bits": [8], "seeds": [0]}
    with pytest.raises(UnknownNameError, match="Did you mean 'kind'"):
        parse_plan("typo", content | {"methods": {"Own": {"hasher": "own_methods:Planes", "kinds": 1}}})


def test_other_code_makes_old_results_no_answer(own, tmp_path):
    content = {"dataset": "digits", "bits": [8], "seeds": [0], "methods": {"Own": {"hasher": "own_methods:Planes"}}}
    runs = parse_plan("own", content).runs
    reproduce(runs, tmp_path / "results")
    assert open_runs(runs, tmp_path / "results") == []
    (own / "own_methods.py").write_text(MODULE + "\n# changed\n")
    assert len(open_runs(runs, tmp_path / "results")) == 1


def test_the_command_shows_one_table_and_keeps_results(own):
    line = "compare own_methods:Planes --bits 8 16 --seeds 2 --set kind=values --against hcoh bound:sign --results kept"
    done = CliRunner().invoke(compare_app(), line.split(), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    rows = [row.split("\t") for row in done.stdout.splitlines()]
    assert rows[0][:3] == ["method", "bits", "mAP"]
    assert [row[:2] for row in rows[1:]] == [
        ["own_methods:Planes", "8"], ["own_methods:Planes", "16"], ["HCOH", "8"], ["HCOH", "16"], ["bound:sign", "64"],
    ]  # fmt: skip
    assert len(list((own / "kept").glob("*.json"))) == 10
    again = CliRunner().invoke(compare_app(), [*line.split(), "--json"], catch_exceptions=False)
    table = json.loads(again.stdout)
    assert table["rows"][2]["mean_average_precision"] == pytest.approx(float(rows[3][2]), abs=1e-3)
    assert "10 runs on digits, 0 to do." in again.stderr


@pytest.mark.parametrize(
    "line, code",
    [
        ("compare own_methods:Planes --against hcho", None),
        ("compare Planes", None),
        ("compare own_methods:Planes --dataset digit", None),
        ("compare own_methods:Planes --set kind", 2),
        ("compare own_methods:Planes --set order=sorted", 2),
        ("compare own_methods:Planes --bits", 2),
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
        "import typer\nfrom onlinehash.cli import compare\napp = typer.Typer()\n"
        "app.command(cls=compare.ListOptions)(compare.run)\nif __name__ == '__main__':\n    app()\n"
    )
    command = [sys.executable, "-P", "-c", script, "own_methods:Planes", "--bits", "8", "--seeds", "1"]
    done = subprocess.run(
        [*command, "--against", "lsh", "--json"], cwd=own, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert [row["method"] for row in json.loads(done.stdout)["rows"]] == ["own_methods:Planes", "LSH"]
