from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from onlinehash import HCOH, LSH, load_hasher
from onlinehash.tables.npy import read

pytestmark = pytest.mark.usefixtures("folder")


def codes_of(path, split):
    return load_hasher(path).transform(split.queries.X)


def test_learning_a_file_equals_the_python_api(run, split):
    run("learn X.npy y.npy --out a.oh --method hcoh --bits 24 --set learning_rate=0.3 --set batch_size=2 --seed 5")
    hasher = HCOH(24, learning_rate=0.3, batch_size=2, random_state=5).partial_fit(*split.stream)
    np.testing.assert_array_equal(codes_of("a.oh", split), hasher.transform(split.queries.X))


def test_resuming_equals_learning_in_one_go(run, split):
    np.savez("first.npz", X=split.stream.X[:701], y=split.stream.y[:701])
    np.savez("rest.npz", X=split.stream.X[701:], y=split.stream.y[701:])
    run("learn first.npz --out a.oh --method hcoh --set batch_size=4")
    run("learn rest.npz --resume a.oh --out b.oh")
    run("learn X.npy y.npy --out whole.oh --method hcoh --set batch_size=4")
    resumed, whole = load_hasher("b.oh"), load_hasher("whole.oh")
    assert resumed.n_samples_seen_ == whole.n_samples_seen_ == 1500
    np.testing.assert_allclose(resumed.weights_, whole.weights_, atol=1e-5)
    np.testing.assert_array_equal(codes_of("b.oh", split), codes_of("whole.oh", split))


def test_the_size_of_chunks_makes_no_difference(run, split, monkeypatch):
    run("learn X.npy y.npy --out a.oh --method hcoh")
    monkeypatch.setattr("onlinehash.tables.npy.read", lambda path, columns, _: read(path, columns, 100))
    run("learn X.npy y.npy --out b.oh --method hcoh")
    np.testing.assert_array_equal(codes_of("a.oh", split), codes_of("b.oh", split))


@pytest.mark.parametrize(("header", "column"), [(True, "digit"), (False, "65")])
def test_a_csv_file_may_hold_its_labels_in_a_column(run, split, header, column):
    names = ",".join([f"f{i}" for i in range(64)] + ["digit"]) if header else ""
    table = np.column_stack([split.stream.X, split.stream.y])
    np.savetxt("t.csv", table, fmt="%.9g", delimiter=",", header=names, comments="")
    run(f"learn t.csv {column} --method hcoh --out a.oh" + " --no-header" * (not header))
    learned = load_hasher("a.oh")
    assert learned.n_samples_seen_ == 1500
    assert learned.classes_.tolist() == HCOH().partial_fit(*split.stream).classes_.tolist()


def test_text_labels_in_a_csv_without_header_are_not_taken_for_one(run):
    Path("t.csv").write_text("1,2,cat\n3,4,dog\n5,7,cat\n")
    run("learn t.csv 3 --no-header --out a.oh --set n_components=64")
    assert load_hasher("a.oh").classes_.tolist() == ["cat", "dog"]
    assert load_hasher("a.oh").n_samples_seen_ == 3


def test_set_passes_any_parameter_as_json_or_text(run):
    run("learn X.npy y.npy --out a.oh --method hcoh --set fit_bias=true --set n_bits=12 --set preprocess=none")
    hasher = load_hasher("a.oh")
    assert (hasher.fit_bias, hasher.n_bits, hasher.preprocess) == (True, 12, "none")


def test_an_unknown_parameter_is_named_with_the_known_ones(run):
    error = run("learn X.npy y.npy --out a.oh --method hcoh --set learning_rat=1", 1).stderr
    assert error.startswith("error: Unknown parameter of hcoh 'learning_rat'. Did you mean 'learning_rate'?")
    assert "Known: batch_size" in error


def test_an_unknown_method_is_answered_with_a_hint(run):
    assert "Did you mean 'hcoh'?" in run("learn X.npy y.npy --out a.oh --method hcho", 1).stderr


@pytest.mark.parametrize("option", ["--bits 8", "--method hcoh", "--set n_bits=8", "--set preprocess=none"])
def test_resume_refuses_parameters_that_the_file_has(run, model, option):
    run(f"learn X.npy y.npy --resume {model} --out b.oh {option}", 2)


@pytest.mark.parametrize(
    "line",
    [
        "learn --out a.oh",
        "learn X.npy y.npy",
        "learn X.npy y.npy --out a.oh --set n_bits",
        "learn X.npy y.npy --out a.oh --bits many",
    ],
)
def test_wrong_calls_end_with_code_2(run, line):
    run(line, 2)


def test_methods_without_labels_need_none(run, split):
    run("learn X.npy --method lsh --out a.oh")
    hasher = LSH(32, random_state=0).partial_fit(split.stream.X)
    np.testing.assert_array_equal(codes_of("a.oh", split), hasher.transform(split.queries.X))


def test_hroh_with_its_own_settings_is_learned_unless_another_method_is_chosen(run):
    run("learn X.npy y.npy --set n_components=64 --out a.oh")
    hasher = load_hasher("a.oh")
    assert (hasher.name, hasher.n_bits, hasher.preprocess) == ("hroh", 32, "unit")


@pytest.mark.parametrize("files", ["both.npz", "X.npy matrix.npy"])
def test_an_indicator_matrix_in_a_file_means_its_columns(run, split, files):
    X, y = split.stream
    matrix = np.column_stack([y % 2 == 0, y % 2 == 1]).astype(np.int8)  # two columns: each row also looks like 0 and 1
    np.savez("both.npz", X=X, y=matrix)
    np.save("matrix.npy", matrix)
    run(f"learn {files} --out a.oh --method hcoh")
    hasher = HCOH(random_state=0).partial_fit(X, matrix)
    np.testing.assert_array_equal(codes_of("a.oh", split), hasher.transform(split.queries.X))


@pytest.mark.parametrize("files", ["gaps.npz", "X.npy gaps.npy"])
def test_rows_without_labels_in_an_array_are_counted_in_a_warning(run, split, files):
    X, y = split.stream
    gaps = np.where(np.arange(len(y)) < 5, np.nan, y)
    np.savez("gaps.npz", X=X, y=gaps)
    np.save("gaps.npy", gaps)
    result = run(f"learn {files} --out a.oh --method hcoh")
    assert f"5 of {len(y)} rows have no label" in result.stderr
    assert load_hasher("a.oh").n_samples_seen_ == len(y) - 5
