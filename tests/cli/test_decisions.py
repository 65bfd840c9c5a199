"""What rows are, which labels are wrong and what to label next, from the command line."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from onlinehash import Collection
from onlinehash.cli import app


@pytest.fixture(scope="module")
def made(split, tmp_path_factory):
    """A file of 600 labelled digits and 100 without a label; one label is wrong."""
    X, y = split.stream
    labels = [int(label) if row < 600 else None for row, label in enumerate(y[:700])]
    labels[7] = (labels[7] + 1) % 10
    path = tmp_path_factory.mktemp("made") / "digits.oh"
    created = CliRunner().invoke(app, ["collection", "create", str(path), "--set", "n_components=128"])
    assert created.exit_code == 0, created.output
    with Collection.open(path) as collection:
        collection.upsert(range(700), X[:700], labels)
        collection.refresh()
    return path


@pytest.fixture
def digits(folder, split, made):
    """A collection of its own for each test, and a table of 50 rows."""
    shutil.copy(made, "digits.oh")
    rows = [[f"n{i}", *row] for i, row in enumerate(split.queries.X[:50].tolist())]
    with Path("new.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["id", *(f"x{i}" for i in range(64))], *rows])
    return "digits.oh"


def test_rows_of_a_file_are_classified_as_by_python(run, split, digits):
    result = run(f"classify new.csv --in {digits} --max-error .05 --output out.csv")
    with Collection.open(digits, readonly=True) as collection:
        expected = collection.classify(split.queries.X[:50].astype(np.float64), max_error=0.05)
    rows = list(csv.DictReader(Path("out.csv").read_text().splitlines()))
    assert [row["id"] for row in rows] == [f"n{i}" for i in range(50)]
    assert [row["label"] for row in rows] == ["" if one.label is None else str(one.label) for one in expected]
    assert [float(row["score"]) for row in rows] == pytest.approx([one.score for one in expected])
    assert [row["known"] for row in rows] == [str(one.known) for one in expected]
    assert [label for label, _ in json.loads(rows[0]["alternatives"])] == [
        label for label, _ in expected[0].alternatives
    ]
    n_open = sum(one.label is None for one in expected)
    assert "new.csv: id: id; labels: none; vectors: x0 to x63 (64 columns)" in result.stderr
    assert f"{50 - n_open} rows got a label; {n_open} left to a person.\n" in result.stderr
    assert result.stdout == ""
    shown = run(f"classify new.csv --in {digits} --max-error .05").stdout.splitlines()
    assert shown[0] == "id\tlabel\tscore\tknown" and len(shown) == 51
    lines = run(f"classify new.csv --in {digits} --max-error .05 --unknown-share .2 --json").stdout.splitlines()
    assert sum(json.loads(line)["label"] is None for line in lines) >= n_open


def test_documents_are_classified_by_their_text(run, folder):
    texts = ["my card is lost", "the card was lost", "a refund, please", "I want a refund"] * 5
    Path("tickets.jsonl").write_text(
        "".join(json.dumps({"id": i, "text": t, "label": t.split()[1]}) + "\n" for i, t in enumerate(texts))
    )
    run("ingest tickets.jsonl --into tickets.oh --documents text --embed char_ngrams --set n_components=64")
    Path("new.jsonl").write_text('{"text": "I lost my card"}\n{"text": "give me a refund"}\n')
    lines = run("classify new.jsonl --in tickets.oh --documents text --max-error .2 --json").stdout.splitlines()
    best = [json.loads(line)["alternatives"][0][0] for line in lines]
    assert best[0] == "card" and [json.loads(line)["id"] for line in lines] == [0, 1]
    shown = run("classify new.jsonl --in tickets.oh --documents text --max-error .2").stdout.splitlines()
    assert shown[0] == "id\tlabel\tscore\tknown\tdocument"
    assert [row.split("\t")[-1] for row in shown[1:]] == ["I lost my card", "give me a refund"]
    one = json.loads(run("classify 'I lost my card' --in tickets.oh --max-error .2 --json").stdout)
    assert one == json.loads(lines[0])
    assert "There is no file other.csv" in run("classify other.csv --in tickets.oh", 1).output


def test_listed_items_show_their_text(run, folder):
    texts = ["my card is lost", "the card\twas lost", "a refund, please", "I want a refund"] * 5 + ["refund " * 40] * 2
    Path("tickets.jsonl").write_text(
        "".join(
            json.dumps({"id": i, "text": t, "label": "card" if "card" in t else "refund"}) + "\n"
            for i, t in enumerate(texts[:-1])
        )
        + json.dumps({"id": 21, "text": texts[-1]})
        + "\n"
    )
    run("ingest tickets.jsonl --into tickets.oh --documents text --embed char_ngrams --set n_components=64")
    with Collection.open("tickets.oh") as tickets:
        tickets.update(3, labels="card")  # a wrong label
        tickets.refresh()
    (wrong,) = run("suspects tickets.oh -n 1").stdout.splitlines()[1:]
    assert wrong.split("\t")[::4] == ["3", "I want a refund"]
    (unsure,) = run("review tickets.oh --by unknown").stdout.splitlines()[1:]
    assert unsure.split("\t")[0] == "21" and unsure.endswith("refund refund ...") and len(unsure) < 130
    header, best = run("collection search tickets.oh 'the lost card' -k 1").stdout.splitlines()
    assert header == "query\tid\tdistance\tlabels\tdocument" and best.split("\t")[-1] == "the card was lost"
    assert run(f"collection search tickets.oh '{'a lost card ' * 100}' -k 1").stdout.count("\n") == 2


def test_wrong_labels_and_what_to_label_next_are_listed(run, digits):
    with Collection.open(digits, readonly=True) as collection:
        wrong, unsure = collection.suspects(5), collection.review(5, by="diverse")
    lines = run(f"suspects {digits} -n 5").stdout.splitlines()
    assert lines[0] == "id\tlabel\tsuggested\tmargin"
    assert [line.split("\t")[0] for line in lines[1:]] == [str(one.id) for one in wrong]
    assert "7" in [line.split("\t")[0] for line in lines]
    only = run(f"suspects {digits} --label {wrong[0].label} -n 1 --json").stdout
    assert json.loads(only)["label"] == wrong[0].label
    lines = run(f"review {digits} -n 5 --by diverse --json").stdout.splitlines()
    assert [json.loads(line)["id"] for line in lines] == [one.id for one in unsure]
    assert run(f"review {digits} -n 1").stdout.startswith("id\tsuggested\tscore\tknown\n")
    header, *rows = run(f"review {digits} -n 5 --by unknown").stdout.splitlines()
    assert header == "id\tsuggested\tscore\tknown\tgroup" and all(row.count("\t") == 4 for row in rows)


def test_items_are_linked_and_labels_are_merged_and_renamed(run, digits):
    assert (
        "2 items and all that they were linked with have the label -1000000001."
        in run(f"collection link {digits} 600 601").stderr
    )
    run(f"collection unlink {digits} 601")
    assert "label 9 instead of 8." in run(f"collection merge-labels {digits} 8 9").stderr
    run(f"collection rename-label {digits} 9 89")
    with Collection.open(digits, readonly=True) as collection:
        counts = collection.label_counts()
        assert collection[601].labels is None and collection[600].labels < 0
    assert {8, 9}.isdisjoint(counts) and counts[89] > 100
    assert run(f"collection rename-label {digits} 9 90", 1).stderr == "error: No item has the label 9.\n"


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        ("classify new.csv --in digits.oh --max-error 1.5", 1, "--max-error 1.5 is not a number between 0 and 1."),
        ("classify new.csv --in nope.oh", 1, "There is no collection nope.oh"),
        ("classify nope.csv --in digits.oh", 1, "There is no file nope.csv."),
        ("classify X.npy --in empty.oh", 1, "has learned nothing yet; upsert items with labels first."),
        ("classify X.npy --in lsh.oh", 1, "'lsh' has no scores of classes"),
        ("classify y.npy --in digits.oh", 1, "y.npy"),
        ("review digits.oh --by chance", 1, "--by 'chance' is not one of"),
        ("suspects lsh.oh", 1, "'lsh' has no scores of classes"),
        ("suspects digits.oh -n 0", 1, "-n 0 is not positive"),
        ("suspects digits.oh --label x", 2, "is not an integer"),
        ("collection link digits.oh 1", 1, "link takes at least two ids."),
        ("collection link digits.oh 1 9999", 1, "There is no item with id 9999"),
    ],
)
def test_what_cannot_be_decided_is_said_in_one_sentence(run, digits, line, code, words):
    run("collection create empty.oh")
    run("ingest X.npy --into lsh.oh --method lsh")
    assert words in " ".join(run(line, code).stderr.split())
