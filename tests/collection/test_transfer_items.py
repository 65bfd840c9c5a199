import csv
import io
import json
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from onlinehash import HCOH, LSH, Collection, tables
from onlinehash.collection import export_items, import_items, maintenance
from onlinehash.exceptions import (
    DataNotFoundError,
    FileFormatError,
    InvalidFeaturesError,
    InvalidInputError,
    InvalidLabelsError,
)

FORMATS = [ending for ending in tables.FORMATS if ending != ".npy"]


def open_new(path, **settings):
    return Collection.open(path, LSH(n_bits=8, random_state=0), "manual", **settings)


def contents(collection):
    return [(item.id, item.vectors.tolist(), item.labels, item.payload) for item in collection.items()]


def fill(collection, data, ids):
    X, y = data.take(len(ids))
    labels = [*y[:-2].tolist(), None, [1, 2]]
    if isinstance(ids[0], str):
        labels = [
            ["a", "b"] if isinstance(some, list) else None if some is None else f"class {some}" for some in labels
        ]
    payload = [{"title": 'ä, "b"\n', "n": [1, None]}, "text", *[None] * (len(ids) - 2)]
    collection.upsert(ids, X, labels, payload)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("kind", ["int", "str"])
@pytest.mark.parametrize("ending", FORMATS)
def test_what_goes_out_comes_in_again(tmp_path, data, monkeypatch, ending, kind, dtype):
    monkeypatch.setattr(maintenance, "_ROWS_PER_READ", 7)
    ids = list(range(-5, 20)) if kind == "int" else [f"id,{i:02} ä" for i in range(25)]
    file = tmp_path / f"items{ending}"
    with (
        open_new(tmp_path / "a.oh", vector_dtype=dtype) as one,
        open_new(tmp_path / "b.oh", vector_dtype=dtype) as two,
    ):
        fill(one, data, ids)
        calls = []
        assert export_items(one, file, progress=lambda *call: calls.append(call)) == 25
        assert calls[-1] == (25, 25)
        assert len(calls) > 1
        calls.clear()
        assert import_items(two, file, batch=10, progress=lambda *call: calls.append(call)) == 25
        assert len(calls) == 3
        assert calls[-1][0] == calls[-1][1]
        assert contents(two) == contents(one)


def test_some_items_go_out(tmp_path, data, monkeypatch):
    monkeypatch.setattr(maintenance, "_ROWS_PER_READ", 7)
    X, _ = data.take(40)
    with open_new(tmp_path / "a.oh") as one, open_new(tmp_path / "b.oh") as two:
        one.upsert(range(40), X, [i % 4 for i in range(40)], [{"n": i} for i in range(40)])
        seen = []
        some = {"labels": [1, 2], "where": {"n": {"$gte": 8}}}
        assert export_items(one, tmp_path / "some.npz", **some, progress=lambda *call: seen.append(call)) == 16
        assert seen[-1] == (16, 16)
        assert len(seen) > 1
        import_items(two, tmp_path / "some.npz")
        assert contents(two) == [item for item in contents(one) if item[0] >= 8 and item[0] % 4 in (1, 2)]
        with pytest.raises(InvalidInputError, match="No item passes"):
            export_items(one, tmp_path / "none.npz", labels=7)
        with pytest.raises(InvalidInputError, match="leave out labels and where"):
            export_items(one, tmp_path / "none.npz", labels=1, skip_damaged=True)


@pytest.mark.parametrize("ending", FORMATS)
def test_an_export_shows_one_moment_while_items_come(tmp_path, data, monkeypatch, ending):
    X, y = data.take(60)
    with open_new(tmp_path / "a.oh") as one, open_new(tmp_path / "b.oh") as two:
        one.upsert(range(40), X[:40], y[:40])
        count = one.count

        def change_after(*given, **named):  # as another thread may
            n_items = count(*given, **named)
            one.upsert(range(40, 60), X[40:], y[40:])
            one.delete([0, 1])
            return n_items

        monkeypatch.setattr(one, "count", change_after)
        n_items = export_items(one, tmp_path / f"items{ending}")
        assert import_items(two, tmp_path / f"items{ending}") == n_items == len(two)
        assert contents(two) == contents(one)


@pytest.mark.parametrize("ending", FORMATS)
def test_items_with_nothing_but_vectors_are_numbered(tmp_path, data, ending):
    X, _ = data.take(12)
    file = tmp_path / f"items{ending}"
    with open_new(tmp_path / "a.oh") as one:
        one.upsert(range(12), X)
        export_items(one, file)
    file_without = without_ids(file, X)
    with open_new(tmp_path / "b.oh") as two:
        assert import_items(two, file_without, batch=5) == 12
        assert list(two) == list(range(12))
        with pytest.raises(InvalidInputError, match=r"has no ids, and this collection has items already.*Nothing was"):
            import_items(two, file_without)
        import_items(two, file_without, first_id=100, batch=5)
        assert list(two) == [*range(12), *range(100, 112)]
        assert np.array_equal(two.get(111)[0].vectors, X[11])


def without_ids(file, X):
    if file.suffix == ".npz":
        np.savez_compressed(file, X=X)
    elif file.suffix == ".parquet":
        import pyarrow.parquet as pq

        pq.write_table(pq.read_table(file).drop_columns(["id"]), file)
    elif file.suffix == ".arrow":
        with pa.ipc.open_file(file.read_bytes()) as whole:
            table = whole.read_all().drop_columns(["id"])
        with pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)
    elif file.suffix == ".csv":
        np.savetxt(file, X, delimiter=",", header="a,b,c,d,e,f", comments="")
    else:
        file.write_text("".join(json.dumps({"vectors": row}) + "\n" for row in X.tolist()))
    return file


def test_columns_have_names(tmp_path):
    (tmp_path / "a.csv").write_text('sku,kind,title,v\n007,shoe,Boot,"[1, 2.5]"\n7,hat,1984,"[3, 4]"\n')
    with open_new(tmp_path / "a.oh") as collection:
        import_items(collection, tmp_path / "a.csv", id="sku", labels="kind", payload="title", vectors="v")
        assert contents(collection) == [("007", [1, 2.5], "shoe", "Boot"), ("7", [3, 4], "hat", 1984)]
        with pytest.raises(InvalidInputError, match="has no column 'colour', but sku, kind, title, v"):
            import_items(collection, tmp_path / "a.csv", labels="colour")
    (tmp_path / "b.jsonl").write_text('{"k": 1, "vectors": [1], "c": 5}\n\n{"k": 2, "vectors": [2]}\n')
    with open_new(tmp_path / "b.oh") as collection:
        with pytest.raises(InvalidInputError, match="has no 'colour' in its first 2 rows"):
            import_items(collection, tmp_path / "b.jsonl", id="k", labels="colour")
        import_items(collection, tmp_path / "b.jsonl", id="k", labels="c")
        assert contents(collection) == [(1, [1], 5, None), (2, [2], None, None)]


def test_a_wide_parquet_file_is_read_by_its_columns_of_numbers(tmp_path):
    table = pa.table(
        {"id": ["a", "b"], "p": [1.0, 2.0], "q": [3, 4], "label": ["x", None], "payload": [{"n": 1}, None]}
    )
    pq.write_table(table, tmp_path / "a.parquet")
    with open_new(tmp_path / "a.oh") as collection:
        import_items(collection, tmp_path / "a.parquet")
        assert contents(collection) == [("a", [1, 3], "x", {"n": 1}), ("b", [2, 4], None, None)]


def test_arrays_by_column_and_files_elsewhere_are_read(tmp_path, data):
    X, y = data.take(7)
    np.savez(tmp_path / "a.npz", features=np.asfortranarray(X), y=y.astype(np.int32))
    np.save(tmp_path / "X.npy", np.asfortranarray(X))
    np.save(tmp_path / "elsewhere.npy", y)
    with open_new(tmp_path / "a.oh") as one, open_new(tmp_path / "b.oh") as two:
        import_items(one, tmp_path / "a.npz", batch=3)
        import_items(two, tmp_path / "X.npy", labels=str(tmp_path / "elsewhere.npy"), batch=3)
        assert contents(one) == contents(two) == [(i, X[i].tolist(), y[i], None) for i in range(7)]


def test_a_id_that_comes_again_replaces_whatever_the_batch(tmp_path):
    (tmp_path / "a.jsonl").write_text("".join(f'{{"id": {i % 3}, "vectors": [{i}.0]}}\n' for i in range(8)))
    for batch in (2, 100):
        with open_new(tmp_path / f"{batch}.oh") as collection:
            assert import_items(collection, tmp_path / "a.jsonl", batch=batch) == 8
            assert [item.vectors.tolist() for item in collection.items()] == [[6], [7], [5]]


def test_coordinates_are_not_taken_for_labels(tmp_path):
    (tmp_path / "a.csv").write_text("X,y\n1,2\n3,4\n")
    with open_new(tmp_path / "a.oh") as collection:
        import_items(collection, tmp_path / "a.csv")
        assert contents(collection) == [(0, [1, 2], None, None), (1, [3, 4], None, None)]


def test_labels_of_a_text_are_integers_only_if_all_are(tmp_path):
    (tmp_path / "a.csv").write_text("id,label,x\na,1,0\nb,01,0\nc,,0\n")
    (tmp_path / "b.csv").write_text('id,label,x\n3,1,0\n4,"[2, 3]",0\n')
    with open_new(tmp_path / "a.oh") as one, open_new(tmp_path / "b.oh") as two:
        import_items(one, tmp_path / "a.csv")
        assert [item.labels for item in one.items()] == ["1", "01", None]
        import_items(two, tmp_path / "b.csv")
        assert [(item.id, item.labels) for item in two.items()] == [(3, 1), (4, (2, 3))]


GOOD = '{"id": 1, "vectors": [1, 2]}\n{"id": 2, "vectors": [3, 4]}\n'


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.jsonl", GOOD + "{nothing\n", r"a.jsonl, line 3: not JSON: .* The 2 items before were added and stay"),
        ("a.jsonl", GOOD + "[1, 2]\n", r"line 3: not a JSON object"),
        ("a.jsonl", GOOD + '{"id": 3}\n', r"line 3: there is no 'vectors', but id"),
        ("a.jsonl", GOOD + '{"id": 3, "vectors": [1, "2"]}\n', r"line 3: 'vectors' is not a list of numbers"),
        ("a.jsonl", GOOD + '{"id": 3, "vectors": [[1], [2]]}\n', r"line 3: 'vectors' is not a list of numbers"),
        ("a.jsonl", GOOD + '{"id": 3, "vectors": [1]}\n', r"line 3: 'vectors' has 1 numbers; the first row has 2"),
        ("a.jsonl", GOOD + '{"id": "3", "vectors": [1, 2]}\n', r"line 3: ids holds str; the ids of this .* are int"),
        ("a.jsonl", GOOD + '{"id": [3], "vectors": [1, 2]}\n', r"line 3: ids holds list"),
        ("a.jsonl", GOOD + '{"vectors": [1, 2]}\n', r"has no ids, and this collection has items"),
        ("a.jsonl", GOOD + '{"id": 3, "vectors": [1, NaN]}\n', r"line 3: vectors .*NaN"),
        ("a.jsonl", GOOD + '{"id": 3, "vectors": [1, 2], "label": 1.5}\n', r"line 3: .*label"),
        ("a.csv", "id,x,y\n1,2,3\n2,3,4\n3,4\n", r"a.csv, line 4: 2 fields; the header has 3\. The 2 items"),
        ("a.csv", "id,x,z\n1,2,3\n2,3,4\n3,4,five\n", r"a.csv, line 4: 'five' in column 'z' is not a number"),
        ("a.csv", "id,vectors\n1,[2]\n2,[3]\n3,four\n", r"a.csv, line 4: 'vectors' is not a list of numbers"),
        ("a.csv", "id\n1\n2\n", r"a.csv has no column of numbers; .* Nothing was added"),
        ("a.csv", "", r"a.csv is empty. Nothing was added"),
        ("a.jsonl", "", r"a.jsonl is empty. Nothing was added"),
        ("a.parquet", "PAR", r"a.parquet is not a Parquet file, or damaged"),
        ("a.npz", "PK", r"a.npz is damaged"),
        ("a.npy", "x", r"a.npy is damaged"),
        ("a.txt", "x", r"has the extension '.txt'; use one of .npy, .npz"),
    ],
)
def test_errors_name_the_place_and_say_what_stays(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with open_new(tmp_path / "a.oh") as collection:
        with pytest.raises((InvalidInputError, FileFormatError), match=f"(?s){message}"):
            import_items(collection, tmp_path / name, batch=2)
        assert len(collection) == (2 if "line" in message or "has no ids" in message else 0)
        with pytest.raises(DataNotFoundError, match="There is no file"):
            import_items(collection, tmp_path / "none.csv")


def test_rows_of_binary_files_are_named_too(tmp_path, data):
    X, _ = data.take(6)
    X[4, 2] = np.nan
    np.savez(tmp_path / "a.npz", X=X)
    np.savez(tmp_path / "b.npz", X=X, ids=np.arange(5))
    np.savez(tmp_path / "c.npz", X=np.array([[{}]], object))
    with open_new(tmp_path / "a.oh") as collection:
        with pytest.raises(InvalidFeaturesError, match=r"a.npz, row 5: .*The 4 items before were added"):
            import_items(collection, tmp_path / "a.npz", batch=2)
        with pytest.raises(FileFormatError, match="has 6 vectors, but 5 rows of id"):
            import_items(collection, tmp_path / "b.npz")
        with pytest.raises(FileFormatError, match="pickle"):
            import_items(collection, tmp_path / "c.npz")
        for vectors, message in (
            ([[1.0] * 6, [1.0] * 6, [1.0]], "row 3: 'vectors' has 1 numbers; the first row has 6"),
            ([[1.0] * 6, None], "row 2: 'vectors' has 0 numbers"),
            (["a"], "column 'vectors' holds string, not lists of numbers"),
            ([["a"]], "column 'vectors' holds list.*string.*, not lists of numbers"),
        ):
            pq.write_table(pa.table({"id": range(10, 10 + len(vectors)), "vectors": vectors}), tmp_path / "a.parquet")
            with pytest.raises(FileFormatError, match=f"a.parquet, {message}"):
                import_items(collection, tmp_path / "a.parquet", batch=2)


def test_an_array_shorter_than_it_says_is_damaged(tmp_path, data):
    content = io.BytesIO()
    np.save(content, data.take(10)[0])
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("X.npy", content.getvalue()[:-100])
    with open_new(tmp_path / "a.oh") as collection:
        with pytest.raises(FileFormatError, match=r"a.npz is damaged.*Nothing was added"):
            import_items(collection, tmp_path / "a.npz", batch=4)
        assert len(collection) == 0


def test_what_only_the_hasher_refuses_names_the_rows(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"id": 1, "vectors": [1], "label": 1}\n{"id": 2, "vectors": [2], "label": 5}\n')
    words = {1: np.ones(4), 2: -np.ones(4)}
    with Collection.open(tmp_path / "a.oh", HCOH(4, codebook=words)) as collection:
        with pytest.raises(InvalidLabelsError, match=r"a.jsonl, lines 1 to 2: .*5"):
            import_items(collection, tmp_path / "a.jsonl")
        assert len(collection) == 0


def test_first_id_and_ids_do_not_go_together(tmp_path):
    (tmp_path / "a.jsonl").write_text(GOOD)
    with open_new(tmp_path / "a.oh") as collection:
        with pytest.raises(InvalidInputError, match="has ids of its own"):
            import_items(collection, tmp_path / "a.jsonl", first_id=3)
        with pytest.raises(InvalidInputError, match="empty; there is nothing to write"):
            export_items(collection, tmp_path / "b.jsonl")


def test_a_csv_file_is_one_that_others_read(tmp_path, data):
    with open_new(tmp_path / "a.oh") as collection:
        fill(collection, data, list(range(10)))
        export_items(collection, tmp_path / "a.csv")
    with (tmp_path / "a.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["id", "labels", "payload", *(f"x{i}" for i in range(6))]
    assert rows[9]["labels"] == "[1, 2]"
    assert rows[8]["labels"] == ""
