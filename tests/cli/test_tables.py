"""Files with columns: every command reads them alike and says what became what."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from onlinehash import Collection, load_hasher

NAMES = ["zero", "one", "two", "three", "four", "five", "six", "seven", "acht ä", "nine"]


@pytest.fixture
def tables(folder, split):
    """300 digits with text ids and labels: digits.csv, digits.jsonl and digits.parquet, and the same without labels."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    X, y = split.stream.X[:300], split.stream.y[:300]
    ids, labels = [f"d{i}" for i in range(300)], [NAMES[label] for label in y]
    for name, named in (("digits", True), ("bare", False)):
        with Path(f"{name}.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["id", *(["label"] if named else []), *(f"x{i}" for i in range(64))])
            writer.writerows(
                [id, *([label] if named else []), *row] for id, label, row in zip(ids, labels, X.tolist(), strict=True)
            )
    with Path("digits.jsonl").open("w") as file:
        for id, label, row in zip(ids, labels, X.tolist(), strict=True):
            file.write(json.dumps({"id": id, "label": label, "vectors": row}) + "\n")
    pq.write_table(pa.table({"id": ids, "label": labels, "vectors": X.tolist()}), "digits.parquet")
    return folder


FORMATS = ["csv", "jsonl", "parquet"]


# ---------------------------------------------------------------------- what became what


@pytest.mark.parametrize("ending", FORMATS)
def test_ingest_says_which_column_became_what_and_how_many_have_labels(run, tables, split, ending):
    run("collection create a.oh --method hcoh --bits 16")
    said = run(f"ingest digits.{ending} --into a.oh").stderr
    vector = "x0 to x63 (64 columns)" if ending == "csv" else "vectors"
    assert f"digits.{ending}: id: id; labels: label; vectors: {vector}; payload: none\n" in said
    assert "Added 300 items, 300 with labels; a.oh holds 300.\n" in said
    assert "warning" not in said
    with Collection.open("a.oh", readonly=True) as collection:
        assert collection.n_features == 64
        assert collection.get("d8")[0].labels == NAMES[split.stream.y[8]]


def test_an_index_of_pandas_is_refused_with_the_options_that_help(run, folder):
    Path("a.csv").write_text(",x,y\n0,1,2\n1,3,4\n")
    run("collection create a.oh --method lsh")
    error = run("ingest a.csv --into a.oh", 1).stderr
    assert "a column without a name" in error
    assert "Use --id '' if it holds the ids, or --ignore '' to leave it out." in error
    assert (
        "id: row number; labels: none; vectors: x, y; payload: none; not used: ''"
        in run("ingest a.csv --into a.oh --ignore ''").stderr
    )


def test_columns_are_left_out_or_chosen_by_pattern_and_range(run, folder):
    Path("a.csv").write_text("id,year,x0,x1,x2\n7,1999,1,2,3\n8,2001,4,5,6\n")
    for i, options in enumerate(("--ignore year", "--vectors 'x*'", "--vectors x0:x2")):
        run(f"collection create {i}.oh --method lsh")
        assert (
            "vectors: x0, x1, x2; payload: none; not used: year" in run(f"ingest a.csv --into {i}.oh {options}").stderr
        )
        with Collection.open(f"{i}.oh", readonly=True) as collection:
            assert collection.get(8)[0].vectors.tolist() == [4, 5, 6]


def test_a_header_of_numbers_is_not_guessed(run, folder):
    Path("a.csv").write_text("0,1,2\n5,6,7\n")
    run("collection create a.oh --method lsh")
    assert "all numbers: names or a row? Use --header or --no-header." in run("ingest a.csv --into a.oh", 1).stderr
    assert "Added 1 item," in run("ingest a.csv --into a.oh --header").stderr
    assert "Added 2 items" in run("ingest a.csv --into a.oh --no-header --first-id 5").stderr


@pytest.mark.parametrize("options", ["--payload price --payload name", "--payload '[pn]*'", "--payload price:name"])
def test_several_columns_become_the_payload(run, folder, options):
    Path("a.csv").write_text("id,x,price,name\n7,1,2.5,boot\n8,2,,hat\n")
    said = run(f"ingest a.csv --into a.oh --method lsh {options}").stderr
    assert "vectors: x; payload: price, name\n" in said
    with Collection.open("a.oh", readonly=True) as collection:
        assert [item.payload for item in collection.items()] == [
            {"price": 2.5, "name": "boot"},
            {"price": None, "name": "hat"},
        ]


# ---------------------------------------------------------------------- items that cannot be found


def test_items_without_labels_under_a_supervised_hasher_are_warned_of(run, tables):
    run("collection create a.oh --method hroh --set n_components=64")
    warning = "warning: 0 of 300 items are searchable: hroh learns from labels, and none has one."
    said = run("ingest bare.csv --into a.oh --quiet").stderr
    assert said.startswith(warning)
    assert "--labels COLUMN" in said
    assert "--method itq" in said
    assert warning in run("collection stats a.oh").stderr
    assert warning in run("collection search a.oh digits.csv").stderr
    run("ingest digits.csv --into a.oh")
    assert "warning" not in run("collection search a.oh digits.csv").stderr
    run("collection create b.oh --method itq")
    assert "warning" not in run("ingest bare.csv --into b.oh").stderr


def test_rows_without_labels_are_counted_while_learning(run, folder):
    Path("a.jsonl").write_text(
        '{"vectors": [1, 2], "label": "a"}\n{"vectors": [2, 1]}\n{"vectors": [0, 1], "label": "b"}\n'
    )
    assert "1 of 3 rows have no label; hroh does not learn from them" in run("learn a.jsonl --out m.oh --bits 8").stderr
    assert load_hasher("m.oh").n_samples_seen_ == 2


# ---------------------------------------------------------------------- every command reads every file


@pytest.mark.parametrize("ending", FORMATS)
def test_all_commands_take_tables(run, tables, split, ending):
    np.save("first.npy", split.stream.X[:300])
    np.save("labels.npy", np.array([NAMES[label] for label in split.stream.y[:300]]))
    run("learn first.npy labels.npy --out a.oh --method hcoh --bits 16")
    run(f"learn digits.{ending} --out b.oh --method hcoh --bits 16")
    run("encode a.oh first.npy --out a.npy")
    run(f"encode b.oh digits.{ending} --out b.npy")
    np.testing.assert_array_equal(np.load("a.npy"), np.load("b.npy"))
    run(f"ingest digits.{ending} --into c.oh --method hcoh")
    found = json.loads(
        run(f"collection search c.oh digits.{ending} --rescore cosine -k 1 --json").stdout.splitlines()[7]
    )
    assert (found["ids"], round(found["distances"][0], 6)) == (["d7"], 0)
    files = f"--queries digits.{ending} --database digits.{ending}"
    measured = json.loads(run(f"evaluate --model b.oh {files} --json").stdout)
    assert (measured["n_queries"], measured["n_items"]) == (300, 300)
    assert measured["map"] > 0.5
    run(f"evaluate --model b.oh {files} --query-labels label --database-labels label --json")


# ---------------------------------------------------------------------- an order that looks right


def test_searches_order_items_of_one_code_by_their_vectors(run, tables):
    run("collection create a.oh --method hroh --bits 16 --set n_components=64")
    run("ingest digits.csv --into a.oh")
    ids, plain = (
        json.loads(run(f"collection search a.oh --by-id d7 -k 5 --json {options}").stdout)
        for options in ("", "--rescore none")
    )
    assert ids["ids"][0] == "d7"
    assert len(ids["ids"]) == 5
    assert ids["distances"] == sorted(ids["distances"])
    assert all(isinstance(distance, int) for distance in plain["distances"])
    assert json.loads(run("collection search a.oh --by-id d7 -k 5 --json --rescore learned").stdout) == ids


def test_an_item_finds_itself_first_among_hundreds_with_its_code(run, folder):
    rng = np.random.default_rng(0)
    np.savez("a.npz", X=rng.normal([5, 5, 0, 0], 0.1, (400, 4)), y=np.zeros(400, int))
    run("collection create a.oh --bits 8 --set n_components=64")
    run("ingest a.npz --into a.oh")
    by_code, by_vector = (
        json.loads(run(f"collection search a.oh --by-id 399 -k 1 --json {options}").stdout)["ids"]
        for options in ("--rescore none", "")
    )
    assert by_code != [399]
    assert by_vector == [399]
