"""Errors name options and commands, never Python; the same options everywhere; output that stays a table."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import typer

from onlinehash import Collection
from onlinehash.cli import app

pytestmark = pytest.mark.usefixtures("folder")


def commands():
    def below(names, command):
        for name, one in getattr(command, "commands", {}).items():
            yield " ".join((*names, name))
            yield from below((*names, name), one)

    return ["", *below((), typer.main.get_command(app))]


@pytest.mark.parametrize("command", commands())
def test_help_is_short_or_long_and_flags_have_no_type(run, command):
    said = run(f"{command} -h").stdout
    assert said == run(f"{command} --help").stdout
    assert "<bool>" not in said
    assert command in ("", "collection") or ("--quiet" in said and "--verbose" in said)


def test_help_fills_the_lines_of_a_narrow_terminal(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    lines = [line.strip() for line in run("compile --help").stdout.splitlines()]
    first = next(i for i, line in enumerate(lines) if line.startswith("Otherwise"))
    last = next(i for i, line in enumerate(lines) if i > first and not line) - 1
    assert last - first > 3
    assert min(map(len, lines[first:last])) > 60


def test_help_cuts_no_word_on_a_narrow_terminal(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    cut = [
        command
        for command in commands()
        if "\N{HORIZONTAL ELLIPSIS} \N{BOX DRAWINGS LIGHT VERTICAL}" in run(f"{command} -h").stdout
    ]
    assert cut == []


def test_quiet_says_nothing_but_results(run):
    assert run("learn X.npy y.npy --method hcoh --out m.oh").stderr != ""
    assert run("learn X.npy y.npy --method hcoh --out m.oh --quiet").stderr == ""
    assert run("learn nope.npy y.npy --out m.oh -q", 1).stderr == "error: There is no file nope.npy.\n"


def test_verbose_shows_where_an_error_comes_from(run):
    assert "Traceback" not in run("encode nope.oh X.npy --out c.npy", 1).stderr
    assert "Traceback" in run("encode nope.oh X.npy --out c.npy --verbose", 1).stderr


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("learn X.npy y.npy --out a.oh --bits -3", "--bits -3 is not positive"),
        ("learn X.npy y.npy --out a.oh --method sketchhash --set sketch_size=33", "sketch_size=33 is odd"),
        ("learn X.npy y.npy --out a.oh --bits 1000000000", "a code has at most 16384 bits"),
        ("learn X.npy y.npy --out a.oh --bits 99999999999999999999999", "a code has at most 16384 bits"),
        ("ingest X.npy --into c.oh", "name the column with --id, or number the rows from --first-id on"),
        ("ingest X.npy --into c.oh --batch 0", "--batch 0 is not positive"),
        ("collection delete c.oh 3 --unlearn", "--unlearn, but HCOH(random_state=0) cannot unlearn"),
        ("serve nope.oh", "There is no collection nope.oh"),
        ("collection search nope.oh X.npy", "onlinehash collection create"),
        ("ingest a.jsonl --into c.oh --bits 12 --once", "not HROH(general_bits=6, n_bits=12, random_state=0)"),
        ("collection stats .", ". is a folder"),
        ("collection stats Q.npy", "Q.npy"),
    ],
)
def test_errors_name_options_and_no_python(run, line, words):
    run("ingest X.npy --into c.oh --labels y.npy --method hcoh")
    Path("a.jsonl").write_text('{"id": 1, "vectors": [1, 2]}\n')
    error = run(line, 1).stderr
    assert words in error
    assert error.count("\n") == 1
    for python in ("Traceback", "readonly=", "id=", "partial_fit", "pass a hasher"):
        assert python not in error


def test_a_second_writer_is_refused(run):
    with Collection.open("a.oh", "lsh"):
        error = run("ingest X.npy --into a.oh", 1).stderr
    assert "one writer at a time" in error


def test_a_bug_is_one_line_and_says_so(run, monkeypatch):
    monkeypatch.setattr("onlinehash.cli._arrays.read_chunks", lambda *given: 1 / 0)
    error = run("learn X.npy y.npy --method hcoh --out m.oh", 1).stderr
    assert error.startswith("error: ZeroDivisionError: division by zero (a bug in onlinehash; ")
    assert error.count("\n") == 1


def test_a_file_of_another_kind_is_named_with_the_command_that_takes_it(run, model):
    run("collection create items.oh")
    error = run("learn X.npy y.npy --resume items.oh --out b.oh", 1).stderr
    assert "items.oh is a collection; use: onlinehash collection search items.oh ..." in error
    hasher = "model.oh is a hasher; use: onlinehash encode model.oh ..."
    for line in (
        "collection stats model.oh",
        "ingest X.npy --into model.oh",
        "serve model.oh",
        "ingest a.jsonl --into model.oh --once",
    ):
        Path("a.jsonl").touch()
        assert hasher in run(line, 1).stderr


def test_a_collection_is_not_overwritten(run):
    run("collection create items.oh")
    before = Path("items.oh").read_bytes()
    assert "items.oh is a collection, which is not overwritten" in run("learn X.npy y.npy --out items.oh", 1).stderr
    assert Path("items.oh").read_bytes() == before


def test_tabs_newlines_and_other_scripts_stay_in_their_column(run):
    ids, labels = ["tab\there", "line\nbreak", "[red]ä", "\x1b[31mred"], ["Größe", "日本", "日本", "Größe"]
    with Path("a.jsonl").open("w") as file:
        for i, (id, label) in enumerate(zip(ids, labels, strict=True)):
            file.write(json.dumps({"id": id, "label": label, "vectors": [1.0, i]}) + "\n")
    run("ingest a.jsonl --into a.oh --method hcoh --bits 8")
    np.save("q.npy", np.array([[1.0, 1.0]]))
    lines = run("collection search a.oh q.npy").stdout.splitlines()
    assert [line.count("\t") for line in lines] == [3] * 5
    shown = dict(line.split("\t")[1::2] for line in lines[1:])
    assert shown == {
        "tab\\there": '"Größe"', "line\\nbreak": '"日本"', "[red]ä": '"日本"', "\\x1b[31mred": '"Größe"'
    }  # fmt: skip
    found = json.loads(run("collection search a.oh q.npy --json").stdout)
    assert sorted(found["ids"]) == sorted(ids)
    assert "Größe" in run("collection search a.oh q.npy --json").stdout
