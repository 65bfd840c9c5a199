"""A file of a user in the place of a data set."""

import json
import sys
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

from onlinehash.cli import app
from onlinehash.exceptions import DataNotFoundError, FileFormatError, InvalidInputError, InvalidLabelsError
from onlinehash.experiments import Run, load_plan, pending_runs, reproduce, run
from onlinehash.experiments.own_data import find_dataset, load_own

pytestmark = pytest.mark.slow

NAMES = np.array(["ant", "bee", "cat"])
MODULE = """
import numpy as np

class Signs:
    def partial_fit(self, X, y):
        self.mean = X.mean(axis=0)

    def snapshot(self):
        return self

    def encode(self, X):
        return np.hstack([X, X]) - np.tile(self.mean, 2)
"""


@pytest.fixture
def rows(tmp_path, monkeypatch):
    """Three classes of 30 rows of 4 features, in an empty folder with a module of the user."""
    (tmp_path / "own_signs.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    rng = np.random.default_rng(0)
    y = rng.permutation(np.repeat([0, 1, 2], 30))
    yield (rng.normal(size=(3, 4))[y] + rng.normal(size=(90, 4)) / 2).astype(np.float32), y
    sys.modules.pop("own_signs", None)


def write(name, X, y):
    """Write rows as a user would, under usual names or others; return the options of the command."""
    if name == "mine.npz":
        np.savez(name, X=X, y=NAMES[y])
    elif name == "mine.npy":
        np.save(name, X)
        np.save("names.npy", NAMES[y])
        return "--labels names.npy"
    elif name == "mine.csv":
        lines = (",".join([*map(repr, row), label]) for row, label in zip(X.tolist(), NAMES[y], strict=True))
        Path(name).write_text("\n".join(["a,b,c,d,animal", *lines, ""]))
        return "--labels animal"
    elif name == "mine.jsonl":
        items = zip(X.tolist(), NAMES[y].tolist(), strict=True)
        Path(name).write_text("".join(json.dumps({"vector": row, "label": label}) + "\n" for row, label in items))
    else:
        pyarrow.parquet.write_table(pyarrow.table({"vector": list(X), "labels": NAMES[y]}), name)
    return ""


def compare(line, code=0):
    done = CliRunner().invoke(app, f"compare own_signs:Signs --bits 8 --json {line}".split())
    assert done.exit_code == code, (done.output, done.exception)
    return done


def test_every_kind_of_file_gives_the_same_table(rows):
    tables = []
    for name in ("mine.npz", "mine.npy", "mine.csv", "mine.jsonl", "mine.parquet"):
        done = compare(f"--dataset {name} {write(name, *rows)} --against lsh --against reference:sign")
        assert done.stderr.splitlines() == [
            f"{name}: 90 rows of 4 features, 3 classes. For every seed, 18 rows (6 per class) are queries; the other "
            "72 are learned and searched.",
            f"own_signs:Signs on {name}: 9 runs, 9 missing, 0 stale.",
        ]
        result = json.loads(done.stdout)
        assert result["k"] == 24  # all that a class has in the database: precision and recall can reach 1
        tables.append([{k: v for k, v in row.items() if "seconds" not in k} for row in result["rows"]])
    assert [row["n_bits"] for row in tables[0]] == [8, 8, 4]
    assert tables[0][0]["mean_average_precision"] > 0.6
    assert all(table == tables[0] for table in tables)


def test_a_plan_may_name_a_file(rows, tmp_path):
    write("mine.csv", *rows)
    (tmp_path / "plan.toml").write_text(
        'dataset = "mine.csv"\nlabels = "animal"\nbits = [8]\nseeds = [0, 1]\n[methods.HCOH]\n[methods.LSH]\n'
    )
    done = CliRunner().invoke(app, ["reproduce", "plan.toml", "--workers", "1"])
    assert done.exit_code == 0, done.output
    assert "mAP, mine.csv" in done.stdout
    _, *lines = (tmp_path / "results" / "plan.jsonl").read_text().splitlines()
    configs = [json.loads(line)["config"] for line in lines]
    assert [(config["dataset"], config["method"], config["seed"]) for config in configs] == [
        ("mine.csv", "HCOH", 0), ("mine.csv", "HCOH", 1), ("mine.csv", "LSH", 0), ("mine.csv", "LSH", 1),
    ]  # fmt: skip


def test_other_data_makes_old_results_no_answer_and_is_read_again(rows, tmp_path):
    X, y = rows
    write("mine.npz", X, y)
    (tmp_path / "plan.toml").write_text('dataset = "mine.npz"\nbits = [8]\nseeds = [0]\n[methods.LSH]\n')
    runs = load_plan(tmp_path / "plan.toml").runs
    reproduce(runs, tmp_path / "kept.jsonl")
    assert pending_runs(runs, tmp_path / "kept.jsonl") == []
    before = run(runs[0])["metrics"]
    write("mine.npz", X[::-1], y)
    assert len(pending_runs(runs, tmp_path / "kept.jsonl")) == 1
    assert run(runs[0])["metrics"] != before


@pytest.mark.parametrize(
    "counts, per_class, k",
    [((2, 2), 1, 1), ((4, 40), 1, 3), ((25, 25), 5, 20), ((1000, 1000), 100, 100), ((30,) * 2500, 4, 26)],
)
def test_small_and_large_files_get_counts_that_fit(tmp_path, counts, per_class, k):
    y = np.repeat(np.arange(len(counts)), counts)
    np.savez(tmp_path / "mine.npz", X=np.zeros((len(y), 1), np.float32), y=y)
    data = load_own(str(tmp_path / "mine.npz"))
    split = data.split(seed=3)
    assert (data.sizes.queries_per_class, data.sizes.precision_at) == (per_class, k)
    assert len(split.queries.y) == per_class * len(counts)
    assert len(split.stream.y) == len(split.database.y) == len(y) - len(split.queries.y)
    assert set(split.queries.y) == set(split.database.y)


def test_a_ranking_longer_than_the_database_is_cut_and_named_so(rows):
    write("mine.npz", *rows)
    assert json.loads(compare("--dataset mine.npz --seeds 1 --k 5000").stdout)["k"] == 72
    long = Run("LSH", "lsh", "mine.npz", "online", n_bits=8, seed=0, precision_at=5000)
    assert run(long)["metrics"]["recall"] == 1.0


@pytest.mark.parametrize(
    "change, error, words",
    [
        (
            lambda X, y: {"X": X, "y": np.where(np.arange(90) == 7, 3, y)},
            InvalidLabelsError,
            "one row of the class '3'",
        ),
        (lambda X, y: {"X": X, "y": y * 0}, InvalidLabelsError, "has one class only, '0'"),
        (lambda X, y: {"X": X}, InvalidLabelsError, "comes without labels"),
        (lambda X, y: {"X": X, "y": y[:80]}, FileFormatError, "90 vectors, but 80 rows of labels"),
        (lambda X, y: {"X": X, "y": y + 0.5}, InvalidLabelsError, "labels are integers or strings"),
        (
            lambda X, y: {"X": np.where(np.isin(X, X[3, 1]), np.nan, X), "y": y},
            InvalidInputError,
            "nan at row 3, feature 1",
        ),
        (lambda X, y: {"X": X * 1e300, "y": y}, InvalidInputError, "too large for float32"),
        (lambda X, y: {"X": X[:, 0], "y": y}, FileFormatError, "use a 2D array"),
        (lambda X, y: {"X": X[:0], "y": y[:0]}, FileFormatError, "has no rows"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_with_the_reason(rows, change, error, words):
    X, y = rows
    np.savez("mine.npz", **change(X.astype(np.float64), y))
    with pytest.raises(error, match=words) as raised:
        load_own("mine.npz")
    assert "mine.npz" in str(raised.value)
    done = compare("--dataset mine.npz", 1)
    assert done.stderr == f"error: {' '.join(str(raised.value).split())}\n"


def test_rows_with_no_label_or_several_are_named_by_their_line(rows, tmp_path):
    lines = ['{"vector": [1.0], "label": "a"}', '{"vector": [2.0], "label": ["a"]}', '{"vector": [3.0]}']
    (tmp_path / "mine.jsonl").write_text("\n".join(lines))
    with pytest.raises(InvalidLabelsError, match=r"mine.jsonl, line 3 has no labels; every row needs one here"):
        find_dataset("mine.jsonl")
    (tmp_path / "mine.jsonl").write_text("\n".join([*lines[:2], '{"vector": [3.0], "label": ["a", "b"]}']))
    with pytest.raises(InvalidLabelsError, match=r"mine.jsonl, line 3 has 2 labels"):
        find_dataset("mine.jsonl")


def test_a_missing_file_column_or_kind_is_named(rows):
    write("mine.csv", *rows)
    write("mine.npy", *rows)
    for name, labels, error, words in [
        ("none.csv", None, DataNotFoundError, "There is no file none.csv"),
        ("mine.npy", "none.npy", DataNotFoundError, "There is no file none.npy"),
        ("own_signs.py", None, FileFormatError, "extension '.py'; use one of .npy, .npz, .parquet, .csv, .jsonl"),
        ("mine.csv", "plant", InvalidInputError, "has no column 'plant', but a, b, c, d, animal"),
        ("mine.csv", None, FileFormatError, "in column 'animal' is not a number.*If a column holds the labels"),
    ]:
        with pytest.raises(error, match=words):
            find_dataset(name, labels)


def test_queries_are_drawn_from_all_rows_where_classes_are_rare(rows):
    rng = np.random.default_rng(0)
    y = np.repeat(["many", "some", "two", "one"], [80, 20, 2, 1])
    np.savez("tail.npz", X=rng.normal(size=(len(y), 4)), y=y)
    with pytest.raises(InvalidLabelsError, match=r"one row of the class 'one'.*--queries"):
        load_own("tail.npz")
    split = load_own("tail.npz", n_queries=30).split(seed=0)
    assert len(split.queries.y) == 30
    assert set(split.database.y) == {0, 1, 2, 3}  # every class can be found
    assert 15 < np.sum(split.queries.y == 0) < 30  # the largest class has most of the queries
    done = compare("--dataset tail.npz --queries 30 --seeds 1 --against lsh --report tail.csv")
    assert json.loads(done.stdout)["k"] == 10
    assert "30 rows (drawn from all) are queries; the other 73" in done.stderr
    assert Path("tail.csv").read_text().startswith("plan,data,measure")
    assert "use 1 to 99" in compare("--dataset tail.npz --queries 100 --seeds 1", 1).stderr
