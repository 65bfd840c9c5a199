import json
import sys

import faiss
import numpy as np
import pyarrow.parquet as pq
import pytest

from onlinehash import HCOH, LSH, Collection, Encoder
from onlinehash.collection import export_codes
from onlinehash.exceptions import FileFormatError, InvalidInputError, MissingExtraError, NotLearnedError


@pytest.fixture(params=["int", "str"])
def filled(request, path, data):
    ids = [7 * i for i in range(40)] if request.param == "int" else [f"id {i:02}" for i in range(40)]
    with Collection.open(path, LSH(n_bits=12, random_state=0), "manual") as collection:
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
        assert sorted(zip(distances[row].tolist(), found, strict=True)) == sorted(
            zip(own.distances, own.ids, strict=True)
        )


def test_a_file_that_cannot_be_completed_leaves_the_old_one(filled, tmp_path, monkeypatch):
    export_codes(filled, tmp_path / "a.parquet")
    before = (tmp_path / "a.parquet").read_bytes()

    def fails(table, file):
        file.write(b"PAR1")
        raise OSError("the disk is full")

    monkeypatch.setattr(pq, "write_table", fails)
    with pytest.raises(OSError, match="the disk is full"):
        export_codes(filled, tmp_path / "a.parquet")
    assert (tmp_path / "a.parquet").read_bytes() == before
    assert sorted(path.name for path in tmp_path.glob("*a.*")) == ["a.encoder.oh", "a.parquet"]


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


@pytest.mark.parametrize(
    ("ending", "extra", "modules"),
    [
        ("faiss", "faiss", ["faiss"]),
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
        with pytest.raises(FileFormatError, match=r"use one of .faiss, .npz, .parquet"):
            export_codes(collection, tmp_path / "a.txt")
