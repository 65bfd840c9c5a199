"""Whatever a user gives: exit code 1, one line that says what is wrong, no traceback, nothing written."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

from onlinehash import FlatIndex
from onlinehash.tables.npy import read


def refused(run, line, *words):
    before = sorted(Path().iterdir())
    result = run(line, 1)
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert "Traceback" not in result.stderr
    for word in words:
        assert word in result.stderr
    assert sorted(Path().iterdir()) == before


LEARN = "learn {} y.npy --out new.oh"


def test_a_missing_file_is_named(folder, run):
    refused(run, LEARN.format("nope.npy"), "There is no file nope.npy")
    refused(run, "learn X.npy nope.npy --out new.oh", "There is no file nope.npy")
    refused(run, "encode nope.oh X.npy --out c.npy", "There is no file nope.oh")
    refused(run, "learn X.npy y.npy --resume nope.oh --out new.oh", "There is no file nope.oh")


@pytest.mark.parametrize(
    "line",
    [
        "encode . X.npy --out c.npy",
        "learn X.npy y.npy --resume . --out new.oh",
        "evaluate --model . --queries Q.npy --database D.npy",
        "onnx . new.onnx",
        "collection restore . new.oh",
        "collection check .",
    ],
)
def test_a_folder_in_place_of_a_file_is_named(folder, run, line):
    refused(run, line, ". is a folder; name a file.")


def test_the_demo_refuses_a_file_as_its_folder_before_it_learns(folder, run):
    assert "--out" in run("demo --out X.npy", 2).stderr


def test_commands_of_a_collection_refuse_other_files(folder, run, model):
    refused(run, "collection restore nope.oh new.oh", "There is no file nope.oh")
    refused(run, "collection restore model.oh new.oh", "model.oh is a hasher; use: onlinehash encode")
    refused(run, "collection check model.oh", "model.oh is a hasher; use: onlinehash encode")
    refused(run, "collection create model.oh", "model.oh is a hasher; use: onlinehash encode")
    refused(run, "ingest model.oh --into new.oh", "model.oh has the extension '.oh'")


def test_a_missing_module_is_named(folder, run):
    refused(run, "datasets --import nope", "There is no module 'nope'")


def test_an_empty_file_becomes_a_collection(folder, run):
    for line in ("collection create empty.oh --method hcoh", "ingest D.npy --into empty.oh --method hcoh"):
        Path("empty.oh").write_bytes(b"")
        run(line)
        assert Path("empty.oh").stat().st_size


def test_an_unknown_extension_is_refused(folder, run, model):
    Path("X.feather").write_bytes(b"ARROW1")
    refused(run, LEARN.format("X.feather"), ".feather", ".npy, .npz, .parquet, .csv, .jsonl")
    refused(run, "encode model.oh X.npy --out c.pkl", ".pkl")


@pytest.mark.parametrize(
    "bad", ["objects.npy", "pickle.npy", "garbage.npy", "short.npy", "objects.npz", "garbage.npz", "array.npz"]
)
def test_pickles_and_damaged_arrays_are_never_read(folder, run, bad):
    objects = np.array([{"a": 1}, 2], object)
    np.save("objects.npy", objects)
    np.savez("objects.npz", X=objects)
    Path("pickle.npy").write_bytes(pickle.dumps(objects))
    Path("garbage.npy").write_bytes(b"not an array")
    Path("garbage.npz").write_bytes(b"PK not an archive")
    Path("array.npz").write_bytes(Path("X.npy").read_bytes())
    Path("short.npy").write_bytes(Path("X.npy").read_bytes()[:1000])
    labels = "y.npy" if bad.endswith(".npy") else ""
    refused(run, f"learn {bad} {labels} --out new.oh", bad, "damaged", "a pickle")


def test_labels_as_python_objects_are_refused(folder, run):
    np.save("labels.npy", np.array(["a"] * 1500, object))
    refused(run, "learn X.npy labels.npy --out new.oh", "labels.npy", "a pickle")


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_nan_and_infinity_are_found(folder, run, model, split, value):
    X = split.stream.X.copy()
    X[700, 3] = value
    np.save("bad.npy", X)
    refused(run, LEARN.format("bad.npy"), "bad.npy", "row 700, feature 3")
    refused(run, "encode model.oh bad.npy --out c.npy", "bad.npy", "row 700, feature 3")


def test_a_bad_row_of_a_later_chunk_is_located(folder, run, split, monkeypatch):
    monkeypatch.setattr("onlinehash.tables.npy.read", lambda path, columns, _: read(path, columns, 500))
    X = split.stream.X.copy()
    X[1100, 3] = np.nan
    np.save("bad.npy", X)
    refused(run, LEARN.format("bad.npy"), "bad.npy, counted from row 1000", "row 100, feature 3")


def test_a_wrong_width_is_named(folder, run, model):
    np.save("narrow.npy", np.zeros((1500, 63), np.float32))
    for line in (
        "learn narrow.npy y.npy --resume model.oh --out new.oh",
        "encode model.oh narrow.npy --out c.npy",
        "evaluate --model model.oh --queries narrow.npy --database D.npy",
    ):
        refused(run, line, "narrow.npy", "63", "64")


def test_shapes_that_are_no_table_are_refused(folder, run):
    np.save("flat.npy", np.zeros(1500))
    np.save("empty.npy", np.zeros((0, 64)))
    np.save("nothing.npy", np.zeros(0))
    refused(run, LEARN.format("flat.npy"), "flat.npy", "2D")
    refused(run, "learn empty.npy nothing.npy --out new.oh", "empty.npy has no rows")


@pytest.mark.parametrize("labels", ["dy.npy", "X.npy"])
def test_labels_that_do_not_fit_are_refused(folder, run, labels):
    refused(run, f"learn X.npy {labels} --out new.oh")


def test_features_without_labels_are_refused(folder, run, split):
    np.savez("only.npz", X=split.stream.X)
    refused(run, "learn X.npy --out new.oh", "without labels")
    refused(run, "learn only.npz --out new.oh", "without labels")


def test_an_npz_file_with_other_arrays_lists_them(folder, run, split):
    np.savez("other.npz", a=split.stream.X, b=split.stream.X)
    refused(run, "learn other.npz --out new.oh", "no array 'vectors'", "a, b")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "empty"),
        ("a,b\n", "no rows"),
        ("1,2\n3,4\n", "The first line of t.csv is all numbers: names or a row? Use --header or --no-header."),
        ("a,b\n1,2\n3,x\n", "t.csv, line 3: 'x' in column 'b' is not a number"),
        ("a,b\n1,2\n3\n", "t.csv, line 3: 1 fields; the header has 2"),
    ],
)
def test_a_csv_file_that_is_no_table_is_refused(folder, run, text, words):
    Path("t.csv").write_text(text)
    refused(run, "learn t.csv --method lsh --out new.oh", "t.csv", words)


def test_a_csv_file_without_a_header_has_numbered_columns(folder, run):
    Path("t.csv").write_text("1,2\n3,x\n")
    refused(run, "learn t.csv --no-header --out new.oh", "t.csv, line 2: 'x' in column '2' is not a number")
    Path("t.csv").write_text("1,2\n3\n")
    refused(run, "learn t.csv --no-header --out new.oh", "t.csv, line 2: 1 fields; the first line has 2")


def test_a_csv_file_with_nan_is_refused(folder, run):
    Path("t.csv").write_text("a,b\n1,2\n3,nan\n")
    refused(run, "learn t.csv --method lsh --out new.oh", "t.csv", "NaN")


@pytest.mark.parametrize("column", ["digit", "0", "4"])
def test_an_unknown_label_column_is_refused(folder, run, column):
    Path("t.csv").write_text("a,b,c\n1,2,3\n")
    refused(run, f"learn t.csv {column} --out new.oh", "no column")


def test_a_damaged_model_is_refused(folder, run, model):
    content = Path(model).read_bytes()
    Path("cut.oh").write_bytes(content[:-10])
    Path("garbage.oh").write_bytes(b"\x00" * 100)
    Path("pickle.oh").write_bytes(pickle.dumps({"weights": 1}))
    for bad in ("cut.oh", "garbage.oh", "pickle.oh", "X.npy"):
        refused(run, f"encode {bad} X.npy --out c.npy", bad, "damaged")
        refused(run, f"learn X.npy y.npy --resume {bad} --out new.oh", bad, "damaged")
        refused(run, f"evaluate --model {bad} --queries Q.npy --database D.npy", bad, "damaged")


def test_a_file_of_another_kind_is_refused(folder, run, model):
    FlatIndex(32).save("i.ohi")
    refused(run, "encode i.ohi X.npy --out c.npy", "i.ohi is an index")
    refused(run, "encode model.oh model.oh --out c.npy", "model.oh has the extension '.oh'; use one of .npy")


def test_features_in_place_of_codes_ask_for_a_model(folder, run):
    refused(run, "evaluate --queries Q.npy --query-labels qy.npy --database D.npy --database-labels dy.npy", "--model")


def test_codes_of_different_widths_are_refused(folder, run):
    np.save("a.npy", np.zeros((5, 2), np.uint8))
    np.save("b.npy", np.zeros((5, 4), np.uint8))
    np.save("l.npy", np.zeros(5, int))
    refused(run, "evaluate --queries a.npy --query-labels l.npy --database b.npy --database-labels l.npy", "bytes")


def test_names_that_are_unknown_are_answered_with_the_known(folder, run, model):
    refused(run, "compare my:Own --dataset digit", "Did you mean 'digits'?")
    refused(run, "compare my:Own --protocol onlin", "not one of 'online', 'published'")
    refused(run, "evaluate --model model.oh --queries Q.npy --database D.npy --ties none", "expected")


def test_values_out_of_range_are_refused(folder, run, model):
    refused(run, "learn X.npy y.npy --out new.oh --bits 0", "--bits 0 is not positive; use at least 1.")
    refused(run, "learn X.npy y.npy --out new.oh --method hcoh --set learning_rate=-1", "learning_rate=-1")
    refused(run, "learn X.npy y.npy --out new.oh --set preprocess=maybe", "preprocess='maybe'")
    run("ingest D.npy --into d.oh --method itq")
    assert run("collection search d.oh Q.npy -k 0", 1).stderr.startswith("error: -k 0 is not positive")
    assert run("collection search d.oh Q.npy --radius -1", 1).stderr.startswith("error: --radius -1")


def test_a_place_that_cannot_be_written_is_refused_before_the_work(folder, run, model):
    refused(run, "learn X.npy y.npy --out no/new.oh", "no folder no")
    refused(run, "encode model.oh X.npy --out no/c.npy", "no folder no")
    Path("here.npy").mkdir()
    refused(run, "encode model.oh X.npy --out here.npy", "here.npy is a folder")


def test_a_data_set_that_is_not_here_says_where_to_put_it(folder, run, monkeypatch):
    monkeypatch.setenv("ONLINEHASH_DATA", str(folder))
    Path("my.py").write_text("class Own:\n    partial_fit = snapshot = None.__init__\n")
    refused(run, "compare my:Own --dataset places205", "places205", "ONLINEHASH_DATA")
