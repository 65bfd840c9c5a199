import json
import sys

import apsw
import faiss
import numpy as np
import pyarrow.parquet as pq
import pytest
import sqlite_vec
import usearch.index

from onlinehash import HCOH, LSH, Collection, Encoder
from onlinehash.collection import Never, export_codes
from onlinehash.exceptions import FileFormatError, InvalidInputError, MissingExtraError, NotLearnedError


@pytest.fixture(params=["int", "str"])
def filled(request, path, data):
    ids = [7 * i for i in range(40)] if request.param == "int" else [f"id {i:02}" for i in range(40)]
    with Collection.open(path, LSH(n_bits=12, random_state=0), Never()) as collection:
        collection.upsert(ids, data.take(40)[0])
        yield collection


def names(collection, found, beside):
    """Return the ids of ids."""
    if isinstance(next(iter(collection)), int):
        assert not beside.exists()
        return [int(i) for i in found]
    lines = [json.loads(line) for line in beside.read_text().splitlines()]
    return [lines[i] for i in found]


def test_faiss_finds_what_the_collection_finds(filled, tmp_path, data):
    queries = data.take(3)[0]
    assert export_codes(filled, tmp_path / "a.faiss") == 40
    index = faiss.read_index_binary(str(tmp_path / "a.faiss"))
    encoder = Encoder.load(tmp_path / "a.encoder.oh")
    distances, ids = index.search(encoder.encode(queries), 40)
    for row, own in enumerate(filled.search(queries, 40)):
        assert distances[row].tolist() == own.distances
        found = names(filled, ids[row], tmp_path / "a.ids.jsonl")
        assert sorted(zip(distances[row].tolist(), found, strict=True)) == list(
            zip(own.distances, own.ids, strict=True)
        )


def test_usearch_holds_the_same_codes(filled, tmp_path, data):
    query = data.take(1)[0]
    export_codes(filled, tmp_path / "a.usearch")
    index = usearch.index.Index.restore(tmp_path / "a.usearch")
    assert (len(index), index.ndim) == (40, 12)
    ids, codes, encoder = filled.codes_and_encoder()
    ids = ids if isinstance(ids[0], int) else range(40)
    assert all(np.array_equal(index.get(i), code) for i, code in zip(ids, codes, strict=True))
    found = index.search(encoder.encode(query)[0], 5)
    own = filled.search(query[0], 5)
    assert found.distances.tolist() == own.distances
    best = names(filled, found.keys[:1].tolist(), tmp_path / "a.ids.jsonl")[0]
    assert filled.search(query[0], 1, ids=[best]).distances == own.distances[:1]


def test_negative_ids_are_positions_in_usearch(path, tmp_path, data):
    with Collection.open(path, LSH(n_bits=8, random_state=0), Never()) as collection:
        collection.upsert([-3, 5], data.take(2)[0])
        export_codes(collection, tmp_path / "a.usearch")
    assert sorted(usearch.index.Index.restore(tmp_path / "a.usearch").keys) == [0, 1]
    assert (tmp_path / "a.ids.jsonl").read_text() == "-3\n5\n"


def test_arrays_are_the_codes(filled, tmp_path):
    export_codes(filled, tmp_path / "a.npz")
    ids, codes = filled.codes()
    with np.load(tmp_path / "a.npz") as arrays:
        assert arrays["ids"].tolist() == ids
        assert np.array_equal(arrays["codes"], codes)
        assert (arrays["n_bits"], arrays["version"]) == (12, 40)
    items = filled.get(ids)
    encoder = Encoder.load(tmp_path / "a.encoder.oh")
    assert np.array_equal(encoder.encode(np.array([item.vectors for item in items])), codes)


def nearest(filled, query):
    """Return distances and ids, ties by id."""
    found = filled.search(query, 40)
    return sorted(zip(found.distances, found.ids, strict=True))


def test_arrays_refuse_ids_that_they_would_change(path, tmp_path):
    with Collection.open(path, "hcoh") as collection:
        collection.upsert(["a", "a\0"], [[1.0, 0.5], [-1.0, 0.5]], [0, 1])
        with pytest.raises(InvalidInputError, match=r"end in a NUL.*\.parquet"):
            export_codes(collection, tmp_path / "a.npz")
        assert not (tmp_path / "a.npz").exists()


def test_parquet_holds_the_same_codes(filled, tmp_path):
    export_codes(filled, tmp_path / "a.parquet")
    table = pq.read_table(tmp_path / "a.parquet")
    ids, codes = filled.codes()
    assert table.column("id").to_pylist() == ids
    assert table.column("code").to_pylist() == [code.tobytes() for code in codes]
    assert table.schema.metadata[b"onlinehash.n_bits"] == b"12"


@pytest.mark.slow
def test_lancedb_finds_what_the_collection_finds(filled, tmp_path, data):
    import lancedb  # takes seconds

    query = data.take(1)[0]
    for _ in range(2):  # the second replaces the first
        assert export_codes(filled, tmp_path / "codes.lance") == 40
    table = lancedb.connect(tmp_path).open_table("codes")
    assert table.count_rows() == 40
    code = Encoder.load(tmp_path / "codes.encoder.oh").encode(query)[0]
    found = table.search(code, vector_column_name="code").distance_type("hamming").limit(40).to_arrow()
    listed = zip(found["_distance"].to_pylist(), found["id"].to_pylist(), strict=True)
    assert sorted(listed) == nearest(filled, query[0])


def test_sqlite_vec_finds_what_the_collection_finds(filled, tmp_path, data):
    query = data.take(1)[0]
    for _ in range(2):
        assert export_codes(filled, tmp_path / "a.sqlite") == 40
    connection = apsw.Connection(str(tmp_path / "a.sqlite"))
    connection.enable_load_extension(True)
    connection.load_extension(sqlite_vec.loadable_path())
    code = Encoder.load(tmp_path / "a.encoder.oh").encode(query)[0].tobytes()
    found = connection.execute(
        "SELECT distance, id FROM codes WHERE code MATCH vec_bit(?) ORDER BY distance LIMIT 40", (code,)
    ).fetchall()
    assert sorted(found) == nearest(filled, query[0])
    assert dict(connection.execute("SELECT * FROM about").fetchall())["method"] == "lsh"
    connection.close()
    assert sorted(path.name for path in tmp_path.glob("a.*")) == ["a.encoder.oh", "a.sqlite"]


def test_a_sqlite_file_that_cannot_be_completed_leaves_the_old_one(filled, tmp_path, monkeypatch):
    export_codes(filled, tmp_path / "a.sqlite")
    before = (tmp_path / "a.sqlite").read_bytes()
    ids, codes, encoder = filled.codes_and_encoder()
    monkeypatch.setattr(filled, "codes_and_encoder", lambda: ([*ids[:-1], ids[0]], codes, encoder))
    with pytest.raises(apsw.Error, match="UNIQUE"):
        export_codes(filled, tmp_path / "a.sqlite")
    assert (tmp_path / "a.sqlite").read_bytes() == before
    assert sorted(path.name for path in tmp_path.glob("a.*")) == ["a.encoder.oh", "a.sqlite"]


@pytest.mark.parametrize(
    ("ending", "extra", "modules"),
    [
        ("faiss", "faiss", ["faiss"]),
        ("usearch", "usearch", ["usearch", "usearch.index"]),
        ("parquet", "arrow", ["pyarrow", "pyarrow.parquet"]),
        ("lance", "lancedb", ["lancedb"]),
        ("sqlite", "sqlite-vec", ["sqlite_vec"]),
    ],
)
def test_a_missing_extra_is_named(filled, tmp_path, monkeypatch, ending, extra, modules):
    for module in modules:
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=rf"pip install '\.\[{extra}\]'"):
        export_codes(filled, tmp_path / f"a.{ending}")
    assert not list(tmp_path.glob("a.*"))


def test_no_codes_are_not_exported(path, tmp_path, data):
    with Collection.open(path, HCOH(n_bits=8)) as collection:
        collection.upsert([1, 2], data.take(2)[0])
        assert collection.codes_and_encoder()[2] is None
        with pytest.raises(NotLearnedError, match="no codes yet; add items with labels first"):
            export_codes(collection, tmp_path / "a.npz")
        with pytest.raises(FileFormatError, match=r"use one of .faiss, .usearch, .npz"):
            export_codes(collection, tmp_path / "a.txt")
