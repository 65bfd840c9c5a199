from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from onlinehash import Collection, Encoder

pytestmark = pytest.mark.usefixtures("folder")


@pytest.fixture
def items(folder, run, split):
    """A collection of the first 300 digits, with integer ids and labels."""
    np.save("X.npy", split.stream.X[:300])
    np.save("X.labels.npy", split.stream.y[:300])
    run("collection create items.oh --method hcoh --bits 16 --refresh manual")
    run("ingest X.npy --into items.oh")
    return "items.oh"


def test_create_takes_method_parameters_and_policy(run):
    options = "--bits 24 --set n_anchors=50 --seed 3 --refresh 500 --dtype float16"
    run(f"collection create a.oh --method hmoh {options}")
    with Collection.open("a.oh") as collection:
        hasher = collection.hasher
        assert (hasher.name, hasher.n_bits, hasher.n_anchors, hasher.random_state) == ("hmoh", 24, 50, 3)
        assert collection._settings["refresh"] == 500
    result = run("collection create a.oh", code=2)
    assert "exists already" in result.stderr


def test_ingesting_a_file_learns_and_stores(run, items, split):
    with Collection.open(items) as collection:
        assert len(collection) == collection.hasher.n_samples_seen_ == 300
        assert collection._settings["refresh"] == "manual"
        assert collection.get(7)[0].labels == split.stream.y[7]
    result = run(f"ingest X.npy --into {items} --first-id 1000 --batch 64")
    assert "Added 300 items, 300 with labels; items.oh holds 600." in result.stderr


def test_ingesting_names_columns(run):
    Path("a.csv").write_text("sku,kind,x,y\nb1,boot,1,2\nh1,hat,-1,3\n")
    run("ingest a.csv --into a.oh --method hcoh --bits 8 --id sku --labels kind")
    found = json.loads(run("collection search a.oh --by-id h1 -k 1 --rescore none --json").stdout)
    assert found == {"query": 0, "ids": ["h1"], "distances": [0], "labels": ["hat"], "payload": [None]}


def test_search_equals_the_python_api(run, items, split):
    queries = split.queries.X[:3]
    np.save("Q3.npy", queries)
    with Collection.open(items, readonly=True) as collection:
        plain, filtered = collection.search(queries, 4), collection.search(queries, 4, labels=[3, 8], rescore="cosine")
        within = collection.range_search(queries, 2)
    result = run(f"collection search {items} Q3.npy -k 4 --rescore none --json")
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert [line["ids"] for line in lines] == plain.ids
    assert [line["distances"] for line in lines] == plain.distances
    table = run(f"collection search {items} Q3.npy -k 4 --label 3 --label 8 --rescore cosine").stdout.splitlines()
    assert table[0] == "query\tid\tdistance\tlabels"
    assert [int(line.split("\t")[1]) for line in table[1:]] == [id for ids in filtered.ids for id in ids]
    assert {line.split("\t")[3] for line in table[1:]} <= {"3", "8"}
    table = run(f"collection search {items} Q3.npy --radius 2").stdout.splitlines()
    assert [int(line.split("\t")[1]) for line in table[1:]] == [id for ids in within.ids for id in ids]


def test_search_goes_on_while_another_writes(run, items):
    with Collection.open(items):
        run(f"collection search {items} --by-id 3 --asymmetric")
        result = run(f"collection delete {items} 3", code=1)
    assert result.stderr.startswith("error: ")
    assert "Traceback" not in result.output


def test_delete_takes_ids_all_or_none(run, items):
    run(f"collection delete {items} 1 2")
    assert "Deleted 1 item;" in run(f"collection delete {items} 3").stderr
    result = run(f"collection delete {items} 4 3", code=1)
    assert "There is no item with id 3" in result.stderr
    assert "Deleted 2 items" in run(f"collection delete {items} 3 4 5 --ignore-missing").stderr
    assert "'x' is not an integer" in run(f"collection delete {items} x", code=2).stderr
    with Collection.open(items) as collection:
        assert list(collection)[:3] == [0, 6, 7]


def test_refresh_makes_codes_anew_and_changes_their_length(run, items):
    assert "version 300" in run(f"collection refresh {items}").stderr
    result = run(f"collection refresh {items} --bits 24")
    assert "Codes of 300 items have 24 bits" in result.stderr
    with Collection.open(items) as collection:
        assert collection.encoder.n_bits == collection.hasher.n_bits == 24


def test_stats_are_a_table_or_json(run, items):
    values = json.loads(run(f"collection stats {items} --json").stdout)
    assert values["n_items"] == values["n_searchable"] == 300
    assert (values["method"], values["n_bits"]) == ("hcoh", 16)
    lines = dict(line.split("\t") for line in run(f"collection stats {items}").stdout.splitlines())
    assert lines["n_items"] == "300"
    assert lines["refresh_error"] == "-"


def test_export_writes_items_and_codes(run, items):
    assert "Wrote 300 items to a.jsonl" in run(f"collection export {items} a.jsonl").stderr
    run("collection create b.oh --method hcoh --bits 16 --refresh manual")
    run("ingest a.jsonl --into b.oh")
    one, two = Collection.open(items), Collection.open("b.oh")
    with one, two:
        assert [(i.id, i.labels, i.vectors.tolist()) for i in one.items()] == [
            (i.id, i.labels, i.vectors.tolist()) for i in two.items()
        ]
        codes = one.codes()[1]
    run(f"collection export {items} c.npz --codes")
    labels = [json.loads(line)["labels"] for line in Path("a.jsonl").read_text().splitlines()]
    wanted = str(labels[0] if not isinstance(labels[0], list) else labels[0][0])
    n_wanted = sum(label in (labels[0], [labels[0]]) for label in labels)
    assert f"Wrote {n_wanted} items" in run(f"collection export {items} b.jsonl --label {wanted}").stderr
    run(f"collection export {items} c.npz --codes --label {wanted}", 2)
    with np.load("c.npz") as arrays:
        assert np.array_equal(arrays["codes"], codes)
    assert Encoder.load("c.encoder.oh").n_bits == 16
    for _ in range(2):  # an earlier export is replaced
        assert "Wrote 300 codes to c.faiss" in run(f"collection export {items} c.faiss").stderr


@pytest.mark.parametrize(
    ("line", "code", "message"),
    [
        ("stats none.oh", 1, "There is no collection none.oh; 'onlinehash ingest'"),
        ("stats X.npy", 1, "not a collection"),
        ("search items.oh", 2, "give a file of queries or --by-id"),
        ("search items.oh X.npy --radius 3 -k 2", 2, "--radius finds all items within"),
        ("search items.oh wide.npy", 1, "has 3 features"),
        ("search items.oh --by-id 9999", 1, "There is no item with id 9999"),
        ("search items.oh X.npy --rescore dot", 1, "--rescore 'dot' is not one of"),
        ("delete items.oh", 2, "give ids or --where"),
        ("refresh items.oh --bits 0", 1, "--bits 0 is not positive"),
        ("export items.oh a.txt", 1, "has the extension '.txt'; use one of ."),
        ("export items.oh none/a.csv", 1, "There is no folder none"),
        ("create new.oh --method hchoh", 1, "Did you mean 'hcoh'?"),
        ("create new.oh --refresh often", 2, "'often' is not auto, manual or a number"),
        ("create new.oh --set slop=3", 1, "Unknown parameter of hroh 'slop'"),
        ("create new.oh --dtype int8", 1, "--dtype 'int8' is not one of"),
    ],
)
def test_mistakes_are_one_line(run, items, line, code, message):
    Path("bad.jsonl").write_text("{\n")
    np.save("wide.npy", np.zeros((1, 3)))
    result = run(f"collection {line}", code=code)
    said = " ".join(result.stderr.replace("│", " ").split())
    assert message in said
    assert "Traceback" not in result.output
    assert not Path("new.oh").exists()


def test_a_collection_is_checked_backed_up_restored_and_compacted(run, items):
    sound = "Sound: 300 items, 300 codes, of which 300 were computed again.\n"
    assert run(f"collection check {items}").stdout == sound
    assert "Wrote b.oh, and checked it." in run(f"collection backup {items} b.oh").stderr
    run(f"collection delete {items} {' '.join(map(str, range(1, 290)))}")
    assert "fewer than before" in run(f"collection compact {items}").stderr
    assert "pass --overwrite to replace it" in run(f"collection restore b.oh {items}", 1).stderr
    assert f"Restored {items} from b.oh." in run(f"collection restore b.oh {items} --overwrite").stderr
    assert run(f"collection check {items}").stdout == sound
    content = Path(items).read_bytes()
    with Collection.open(items, readonly=True) as collection:
        vector = collection.get(7)[0].vectors.tobytes()
    assert content.count(vector) == 1
    Path(items).write_bytes(content.replace(vector, vector[::-1]))
    damaged = "the vector of item 7 does not match its checksum"
    assert run(f"collection check {items}", 1).stdout == f"1 problem:\n- {damaged}\n"
    assert json.loads(run(f"collection check {items} --json", 1).stdout)["problems"] == [damaged]
    assert damaged in run(f"collection export {items} items.npz", 1).stderr
    assert "Wrote 299 items" in run(f"collection export {items} items.npz --skip-damaged").stderr


def test_items_are_listed_counted_searched_and_deleted_by_their_payload(run):
    rows = [{"id": f"i{i}", "vectors": [i % 3, 1.0], "label": i % 2, "payload": {"price": i}} for i in range(8)]
    Path("a.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    run("ingest a.jsonl --into a.oh --method hcoh --bits 8")
    cheap = '\'{"price": {"$lt": 5}}\''
    listed = [json.loads(line) for line in run(f"collection items a.oh --where {cheap} --after i1").stdout.splitlines()]
    assert listed == [{"id": f"i{i}", "labels": i % 2, "payload": {"price": i}} for i in (2, 3, 4)]
    assert run(f"collection items a.oh --where {cheap} --count").stdout == "5\n"
    assert len(run("collection items a.oh --limit 2 --vectors").stdout.splitlines()) == 2
    found = json.loads(run(f"collection search a.oh --by-id i7 --where {cheap} --label 1 --json").stdout)
    assert sorted(found["ids"]) == ["i1", "i3"]
    assert "price" in run("collection index a.oh price").stdout
    assert "price" in run("collection index a.oh").stdout
    assert "Deleted 5 items; a.oh holds 3." in run(f"collection delete a.oh --where {cheap}").stderr
    assert "price" not in run("collection index a.oh price --drop").stdout
    assert "not JSON" in run("collection items a.oh --where {price", code=2).stderr
    assert "unknown operator '$near'" in run('collection items a.oh --where \'{"a": {"$near": 1}}\'', code=1).stderr
    assert "one of the two" in run(f"collection delete a.oh i7 --where {cheap}", code=2).stderr
