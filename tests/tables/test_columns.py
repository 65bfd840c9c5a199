"""Which columns of a file become what: by their usual names, as asked for, or refused where it is not clear."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from onlinehash import LSH, Collection
from onlinehash.collection import import_items
from onlinehash.collection.transfer import import_chunks
from onlinehash.exceptions import FileFormatError, InvalidInputError
from onlinehash.tables import Columns, layout, read_all

ROWS = {"id": ["b1", "h1"], "label": ["boot", "hat"], "x0": [1.0, -1.0], "x1": [2.0, 3.0]}


def write(path, columns):
    """Write a table in the format that the path says."""
    rows = list(zip(*columns.values(), strict=True))
    if path.suffix == ".parquet":
        pq.write_table(pa.table(columns), path)
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(dict(zip(columns, row, strict=True))) + "\n" for row in rows))
    else:
        lines = [",".join(columns), *(",".join(map(str, row)) for row in rows)]
        path.write_text("\n".join(lines) + "\n")
    return path


def imported(path, **columns):
    with Collection.open(path.with_suffix(".oh"), LSH(n_bits=8, random_state=0), "manual") as collection:
        import_items(collection, path, **columns)
        return [(item.id, item.labels, item.vectors.tolist()) for item in collection.items()]


formats = pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])


@formats
@pytest.mark.parametrize("name", ["id", "ids", "_id", "id", "ids", "ID"])
def test_an_id_column_is_known_by_its_name_and_no_feature(tmp_path, ending, name):
    columns = {name if column == "id" else column: values for column, values in ROWS.items()}
    path = write(tmp_path / f"a.{ending}", columns)
    assert imported(path) == [("b1", "boot", [1, 2]), ("h1", "hat", [-1, 3])]
    assert str(layout(path, Columns())) == f"id: {name}; labels: label; vectors: x0, x1; payload: none"


@formats
def test_two_columns_that_may_be_the_ids_are_refused(tmp_path, ending):
    path = write(tmp_path / f"a.{ending}", {"key": [7, 8], **ROWS})
    with pytest.raises(InvalidInputError, match=r"columns key, id, and each may be the ids; .* with ignore="):
        imported(path)
    assert imported(path, ignore=["id"])[0] == (7, "boot", [1, 2])
    path.with_suffix(".oh").unlink()
    assert imported(path, id="id", ignore=["key"])[0] == ("b1", "boot", [1, 2])


@pytest.mark.parametrize(
    ("ending", "name"), [("csv", ""), ("csv", "Unnamed: 0"), ("parquet", "__index_level_0__"), ("jsonl", "")]
)
def test_an_index_of_pandas_is_refused_until_it_is_named(tmp_path, ending, name):
    path = write(
        tmp_path / f"a.{ending}", {name: [5, 6], "label": ["boot", "hat"], "x0": [1.0, -1.0], "x1": [2.0, 3.0]}
    )
    with pytest.raises(InvalidInputError, match=r"column without a name.*id='.*' if it holds the ids, or ignore='"):
        imported(path)
    assert imported(path, id=name) == [(5, "boot", [1, 2]), (6, "hat", [-1, 3])]
    path.with_suffix(".oh").unlink()
    assert imported(path, ignore=[name]) == [(0, "boot", [1, 2]), (1, "hat", [-1, 3])]


@formats
@pytest.mark.parametrize("vectors", ["x*", "x0:x1", "x?"])
def test_vectors_are_columns_by_a_pattern_or_a_range(tmp_path, ending, vectors):
    path = write(tmp_path / f"a.{ending}", ROWS)
    assert imported(path, vectors=vectors)[1] == ("h1", "hat", [-1, 3])


def test_a_pattern_that_fits_nothing_and_a_range_that_runs_backwards_are_refused(tmp_path):
    path = write(tmp_path / "a.csv", ROWS)
    with pytest.raises(InvalidInputError, match=r"has no column 'f\*', but id, label, x0, x1"):
        imported(path, vectors="f*")
    with pytest.raises(InvalidInputError, match="column 'x0' before 'x1'; turn 'x1:x0' around"):
        imported(path, vectors="x1:x0")
    with pytest.raises(InvalidInputError, match="has no column 'colour'"):
        imported(path, ignore=["colour"])


@formats
def test_ignored_columns_are_nothing_and_are_named(tmp_path, ending):
    path = write(tmp_path / f"a.{ending}", {**ROWS, "year": [1999, 2001], "width": [5, 6]})
    assert imported(path, ignore=["year", "w*"])[0] == ("b1", "boot", [1, 2])
    assert layout(path, Columns(ignore=["year", "w*"])).unused == ("year", "width")


def test_text_that_is_no_number_names_the_way_out(tmp_path):
    path = write(tmp_path / "a.csv", {**ROWS, "title": ["Boot", "Hat"]})
    with pytest.raises(FileFormatError, match=r"a.csv, line 2: 'Boot' in column 'title' .* use ignore='title'"):
        imported(path)


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_an_only_column_of_lists_is_the_vector_and_numbers_beside_it_are_not(tmp_path, ending):
    path = write(tmp_path / f"a.{ending}", {"id": [1, 2], "emb": [[1.0, 2.0], [3.0, 4.0]], "year": [1999, 2001]})
    assert imported(path) == [(1, None, [1, 2]), (2, None, [3, 4])]
    assert str(layout(path, Columns())) == "id: id; labels: none; vectors: emb; payload: none; not used: year"
    path = write(tmp_path / f"b.{ending}", {"a": [[1.0], [2.0]], "b": [[1.0], [2.0]]})
    with pytest.raises(InvalidInputError, match="columns a, b, and each may be the vector"):
        imported(path)


def test_a_table_without_a_header_loses_no_row(tmp_path):
    (tmp_path / "a.csv").write_text("1.5,2.5\n3.5,4.5\n")
    assert imported(tmp_path / "a.csv", header=False) == [(0, None, [1.5, 2.5]), (1, None, [3.5, 4.5])]
    (tmp_path / "b.csv").write_text("7,cat,1,2\n8,dog,3,4\n")
    assert imported(tmp_path / "b.csv", id="1", labels="2", header=False) == [(7, "cat", [1, 2]), (8, "dog", [3, 4])]


def test_a_header_that_may_be_numbers_is_not_guessed(tmp_path):
    (tmp_path / "a.csv").write_text("0,1,2\n5,6,7\n")
    with pytest.raises(InvalidInputError, match=r"all numbers: names or a row.*header=True or header=False"):
        imported(tmp_path / "a.csv")
    assert len(imported(tmp_path / "a.csv", header=True)) == 1
    (tmp_path / "a.oh").unlink()
    assert len(imported(tmp_path / "a.csv", header=False)) == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id;x;y\n1;2;3\n", "has ';' between its fields; write it with commas"),
        ("x,x\n1,2\n", "has two columns 'x'"),
        ("\xff\xfe", "not a CSV file"),
    ],
)
def test_tables_of_another_make_are_named(tmp_path, text, message):
    (tmp_path / "a.csv").write_bytes(text.encode("latin-1"))
    with pytest.raises((FileFormatError, InvalidInputError), match=message):
        imported(tmp_path / "a.csv")


def test_chunks_say_how_many_rows_have_labels(tmp_path):
    path = write(tmp_path / "a.jsonl", {"vectors": [[1.0]] * 4, "label": ["a", None, ["b", "c"], []]})
    with Collection.open(tmp_path / "a.oh", LSH(n_bits=8, random_state=0)) as collection:
        assert [chunk.n_labelled for chunk in import_chunks(collection, path, Columns(), batch=2)] == [1, 1]


def test_reading_whole_equals_reading_in_parts(tmp_path):
    path = write(tmp_path / "a.csv", {"id": range(3), "x": [1.0, 2.0, 3.0], "label": [4, 5, 4]})
    rows = read_all(path, Columns())
    assert (rows.ids, rows.labels) == ([0, 1, 2], [4, 5, 4])
    np.testing.assert_array_equal(rows.vectors, [[1], [2], [3]])
    (tmp_path / "b.csv").write_text("id,x\n")
    with pytest.raises(FileFormatError, match="has no rows"):
        read_all(tmp_path / "b.csv", Columns())
