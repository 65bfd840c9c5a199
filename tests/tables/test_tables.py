"""Files of ids, vectors, labels and payloads, with no collection in sight."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from onlinehash import tables
from onlinehash.exceptions import DataNotFoundError, FileFormatError, InvalidInputError
from onlinehash.tables import Chunk, Columns

IDS = ["a", "b", "c", "d", "e"]
VECTORS = np.arange(10, dtype=np.float32).reshape(5, 2) / 3
LABELS = ["x", None, ("x", "y"), "y", "x"]
WRITTEN = [ending for ending in tables.FORMATS if ending != ".npy"]
PAYLOADS = [{"n": 1}, None, "text", [1, 2], None]


def chunks():
    for rows in (slice(0, 3), slice(3, 5)):
        yield Chunk(IDS, VECTORS, LABELS, PAYLOADS, range(5))[rows]


@pytest.mark.parametrize("ending", WRITTEN)
def test_every_format_reads_in_batches_what_it_wrote(tmp_path, ending):
    path = tmp_path / f"a{ending}"
    tables.write(path, chunks(), n_rows=5, label_type="str")
    parts = list(tables.read(path, batch_size=2))
    assert max(map(len, parts)) == 2
    assert parts[-1].done == parts[-1].total
    assert [place for part in parts for place in part.places] == list(range(1, 6) if ending != ".csv" else range(2, 7))
    whole = tables.read_all(path)
    assert whole.ids == IDS
    np.testing.assert_array_equal(whole.vectors.astype(np.float32), VECTORS)
    several = [some if isinstance(some, list) else [some] if some else [] for some in whole.labels]
    assert several == [["x"], [], ["x", "y"], ["y"], ["x"]]
    assert whole.payloads == PAYLOADS
    assert whole.n_labelled == 4


@pytest.mark.parametrize("ending", WRITTEN)
def test_one_format_becomes_another(tmp_path, ending):
    tables.write(tmp_path / "a.jsonl", chunks(), n_rows=5, label_type="str")
    tables.write(tmp_path / f"b{ending}", tables.read(tmp_path / "a.jsonl", batch_size=2), n_rows=5, label_type="str")
    np.testing.assert_allclose(tables.read_all(tmp_path / f"b{ending}").vectors, VECTORS)


def test_the_layout_of_an_arrow_file_is_that_of_parquet(tmp_path):
    for name in ("a.arrow", "a.parquet"):
        tables.write(tmp_path / name, chunks(), n_rows=5, label_type="str")
        layout = tables.layout(tmp_path / name, Columns(ignore=["payload"]))
        assert str(layout) == "id: id; labels: labels; vectors: vectors; payload: none; not used: payload"


def test_what_cannot_be_read_or_written_is_named(tmp_path):
    (tmp_path / "a.arrow").write_bytes(b"ARROW1 and no more")
    with pytest.raises(FileFormatError, match=r"a\.arrow is not an Arrow file, or damaged"):
        list(tables.read(tmp_path / "a.arrow"))
    with pa.ipc.new_file(tmp_path / "b.arrow", pa.schema({"vectors": pa.list_(pa.float32())})) as writer:
        writer.write_table(pa.table({"vectors": pa.array([[1, 2], [3]], pa.list_(pa.float32()))}))
    with pytest.raises(FileFormatError, match=r"b\.arrow, row 2: 'vectors' has 1 numbers; the first row has 2"):
        list(tables.read(tmp_path / "b.arrow"))
    with pytest.raises(DataNotFoundError, match="There is no file"):
        tables.read(tmp_path / "none.csv")
    with pytest.raises(FileFormatError, match=r"use one of \.npy, \.npz, \.parquet, \.csv, \.jsonl, \.arrow"):
        tables.write(tmp_path / "a.xlsx", chunks(), n_rows=5)
    with pytest.raises(FileFormatError, match=r"write an \.npz archive"):
        tables.write(tmp_path / "a.npy", chunks(), n_rows=5)
    with pytest.raises(InvalidInputError, match="no rows to write"):
        tables.write(tmp_path / "a.csv", [], n_rows=0)
    assert not (tmp_path / "a.csv").exists()


def test_text_that_ends_in_a_nul_is_kept(tmp_path):
    rows = Chunk(["a", "a\0"], VECTORS[:2], ["x\0", "x"])
    tables.write(tmp_path / "a.npz", [rows], n_rows=2, label_type="str")
    read = tables.read_all(tmp_path / "a.npz")
    assert (read.ids, read.labels) == (rows.ids, rows.labels)


def test_long_fields_of_csv_are_read(tmp_path):
    (tmp_path / "a.csv").write_text(f'id,vectors,payload\n1,"[{"1," * 99_999}1]",{"long " * 40_000}\n')
    chunk = tables.read_all(tmp_path / "a.csv")
    assert chunk.vectors.shape == (1, 100_000) and len(chunk.payloads[0]) == 200_000
    (documents,) = tables.read(tmp_path / "a.csv", Columns(documents="payload"))
    assert documents.documents == chunk.payloads
    (tmp_path / "b.csv").write_text(f"x\n1\n{'1' * (1 << 24)}2\n")
    with pytest.raises(FileFormatError, match=r"b\.csv, line 3: field larger than field limit \(16777216\)"):
        tables.read_all(tmp_path / "b.csv")


def test_documents_and_vectors_in_csv_mean_the_same_beside_them(tmp_path):
    rows = ["7,1,true", "-8,,3.5", 'x,"[1, 2]",{', ",cat,"]
    (tmp_path / "a.csv").write_text("\n".join(["id,label,payload,z", *(f"{row},1" for row in rows)]))
    (chunk,) = tables.read(tmp_path / "a.csv")
    (documents,) = tables.read(tmp_path / "a.csv", Columns(documents="z"))
    assert (documents.labels, documents.payloads) == (chunk.labels, chunk.payloads)
    assert documents.payloads == [True, 3.5, "{", None]
    assert documents.ids == ["7", "-8", "x", None]


def test_labels_of_a_numpy_file_are_one_per_row_or_an_indicator_matrix(tmp_path):
    path = tmp_path / "a.npz"
    for y, labels in (([[7], [8]], [7, 8]), ([[1, 0, 1], [0, 0, 0]], [[0, 2], []]), ([[0.0, 1.0]] * 2, [[1], [1]])):
        np.savez(path, X=np.eye(2), y=y)
        assert tables.read_all(path).labels == labels
    np.savez(path, X=np.eye(2), y=[[3, 4], [5, 6]])
    with pytest.raises(FileFormatError, match=r"labels of shape \(2, 2\)"):
        tables.read_all(path)


@pytest.mark.parametrize("ending", [".csv", ".jsonl", ".parquet", ".arrow"])
@pytest.mark.parametrize("payload", [["price", "size"], "*i?e", "price:size"])
def test_several_columns_are_a_payload_by_name(tmp_path, ending, payload):
    path = tmp_path / f"a{ending}"
    rows = {"id": [1, 2], "x": [0.5, 1.5], "price": [7, 8], "size": ["L", "01"]}
    if ending == ".csv":
        path.write_text("id,x,price,size\n1,0.5,7,L\n2,1.5,8,01\n")
    elif ending == ".jsonl":
        entries = [dict(zip(rows, row, strict=True)) for row in zip(*rows.values(), strict=True)]
        path.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    elif ending == ".parquet":
        pq.write_table(pa.table(rows), path)
    else:
        with pa.ipc.new_file(path, pa.table(rows).schema) as writer:
            writer.write_table(pa.table(rows))
    columns = Columns(payload=payload)
    assert str(tables.layout(path, columns)) == "id: id; labels: none; vectors: x; payload: price, size"
    chunk = tables.read_all(path, columns)
    assert chunk.payloads == [{"price": 7, "size": "L"}, {"price": 8, "size": "01"}]
    assert chunk.vectors.tolist() == [[0.5], [1.5]]


def test_text_in_a_column_of_text_stays_text(tmp_path):
    pq.write_table(pa.table({"x": [1.0], "year": ["1984"], "big": [2**53 + 1]}), tmp_path / "a.parquet")
    chunk = tables.read_all(tmp_path / "a.parquet", Columns(payload=["year", "big"]))
    assert chunk.payloads == [{"year": "1984", "big": 2**53 + 1}]


def test_documents_are_read_from_every_table_and_not_from_arrays(tmp_path):
    pq.write_table(pa.table({"text": ["a", None], "label": [1, 2]}), tmp_path / "a.parquet")
    columns = Columns(documents="text")
    assert str(tables.layout(tmp_path / "a.parquet", columns)) == (
        "id: row number; labels: label; documents: text; payload: none"
    )
    with pytest.raises(FileFormatError, match=r"a\.parquet, row 2: there is no 'text'"):
        list(tables.read(tmp_path / "a.parquet", columns))
    np.save(tmp_path / "a.npy", VECTORS)
    with pytest.raises(FileFormatError, match=r"documents come in \.csv"):
        list(tables.read(tmp_path / "a.npy", columns))
