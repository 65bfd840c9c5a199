from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from onlinehash import Collection, OnlineHasher, load_hasher
from onlinehash.cli._arrays import codes_of, read_rows
from onlinehash.metrics import Ranking
from onlinehash.tables import Columns


@pytest.fixture
def codes(model, split):
    encoder = load_hasher(model).snapshot()
    return encoder.encode(split.database.X), encoder.encode(split.queries.X)


@pytest.fixture
def code_files(codes):
    np.save("d.npy", codes[0])
    np.save("q.npy", codes[1])


# ---------------------------------------------------------------------- encode


@pytest.mark.parametrize("name", ["c.npy", "c.npz", "c.csv"])
def test_codes_of_every_format_are_read_alike(run, codes, model, name):
    run(f"encode {model} Q.npy --out {name}")
    np.testing.assert_array_equal(codes_of(read_rows(Path(name), Columns()), None, Path(name)), codes[1])


def test_packed_codes_equal_the_python_api(run, codes, model):
    run(f"encode {model} D.npy --out c.npy")
    written = np.load("c.npy")
    assert written.dtype == np.uint8
    np.testing.assert_array_equal(written, codes[0])


def test_a_saved_encoder_encodes_like_its_hasher(run, model):
    load_hasher(model).snapshot().save("encoder.oh")
    run(f"encode {model} Q.npy --out a.npy")
    run("encode encoder.oh Q.npy --out b.npy")
    assert Path("a.npy").read_bytes() == Path("b.npy").read_bytes()


def test_a_collection_encodes_like_its_encoder(run, folder):
    run("collection create items.oh --method hcoh")
    assert "items.oh has no encoder yet" in run("encode items.oh Q.npy --out c.npy", 1).stderr
    run("ingest X.npy --into items.oh --labels y.npy --first-id 0")
    run("encode items.oh Q.npy --out c.npy")
    with Collection.open("items.oh", readonly=True) as items:
        np.testing.assert_array_equal(np.load("c.npy"), items.encoder.encode(np.load("Q.npy")))


def test_an_interrupted_command_leaves_the_old_file_and_no_other(run, model, monkeypatch):
    run(f"encode {model} Q.npy --out c.npy")
    before, names = Path("c.npy").read_bytes(), sorted(Path().iterdir())

    def interrupt(file, array):
        file.write(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(np, "save", interrupt)
    run(f"encode {model} D.npy --out c.npy", 130)
    assert Path("c.npy").read_bytes() == before
    assert sorted(Path().iterdir()) == names


# ---------------------------------------------------------------------- evaluate

FILES = "--queries Q.npy --query-labels qy.npy --database D.npy --database-labels dy.npy"


@pytest.mark.parametrize("ties", ["expected", "stable"])
def test_evaluate_equals_the_metrics(run, codes, split, model, ties):
    options = f"--map-at 50 --precision-at 20 --radius 1 --ties {ties} --json"
    got = json.loads(run(f"evaluate --model {model} {FILES} {options}").stdout)
    ranking = Ranking(codes[1], split.queries.y, codes[0], split.database.y, ties=ties)
    within = ranking.precision_within(1)
    assert 0 < got.pop("self_recall") <= got.pop("coverage") <= 1
    assert got == {
        "n_queries": 200,
        "n_items": 1597,
        "ties": ties,
        "map": ranking.mean_average_precision(),
        "map_k": 50,
        "map_at_k_of_possible": ranking.mean_average_precision(50),
        "map_at_k_of_found": ranking.mean_average_precision(50, denominator="found"),
        "precision_k": 20,
        "precision_at_k": ranking.precision_at(20),
        "recall_at_k": ranking.recall_at(20),
        "radius": 1,
        "precision_within_radius": within.precision,
        "empty_rate": within.empty_rate,
    }


def test_evaluate_takes_features_codes_or_npz_alike(run, codes, code_files, split, model):
    labels = "--query-labels qy.npy --database-labels dy.npy --json"
    np.savez("Q.npz", X=split.queries.X, y=split.queries.y)
    np.savez("d.npz", codes=codes[0], y=split.database.y)
    results = {
        run(f"evaluate --model {model} --queries Q.npy --database D.npy {labels}").stdout,
        run(f"evaluate --queries q.npy --database d.npy {labels}").stdout,
        run(f"evaluate --model {model} --queries Q.npz --database d.npz --json").stdout,
    }
    assert len(results) == 1


def test_a_ranking_longer_than_the_database_is_named_by_its_true_length(run, model):
    assert "precision_k\t1597\n" in run(f"evaluate --model {model} {FILES} --precision-at 9999").stdout


def test_queries_without_relevant_items_give_null(folder, run):
    np.save("a.npy", np.zeros((1, 1), np.uint8))
    np.save("b.npy", np.ones((1, 1), np.uint8))
    np.save("a.labels.npy", ["x"])
    np.save("b.labels.npy", ["y"])
    line = "evaluate --queries a.npy --database b.npy --json"
    assert json.loads(run(line).stdout)["map"] is None


@pytest.mark.parametrize(
    "line",
    [
        "",
        "--queries q.npy",
        "--model model.oh --queries Q.npy",
        f"--model model.oh {FILES} --radius -1",
        f"--model model.oh {FILES} --map-at 0",
    ],
)
def test_evaluate_called_wrongly_ends_with_code_2(run, model, line):
    run(f"evaluate {line}", 2)


def test_evaluate_without_labels_is_refused(run, code_files):
    assert "without labels" in run("evaluate --queries q.npy --database d.npy", 1).stderr


# ---------------------------------------------------------------------- the encoder in the file of a hasher


def test_learn_saves_the_encoder_which_other_commands_use(folder, run, monkeypatch):
    run("learn X.npy y.npy --bits 16 --set n_components=64 --out model.oh")
    encoder = load_hasher("model.oh").snapshot()

    def refuse(hasher):
        raise AssertionError("the encoder was made again")

    monkeypatch.setattr(OnlineHasher, "snapshot", refuse)
    run("encode model.oh D.npy --out c.npy")
    np.testing.assert_array_equal(np.load("c.npy"), encoder.encode(np.load("D.npy")))
    run(f"evaluate --model model.oh {FILES}")


def test_a_hasher_saved_without_an_encoder_makes_one(folder, run, model):
    Path("bare.oh").write_bytes(load_hasher(model).to_bytes())
    run("encode bare.oh D.npy --out bare.npy")
    run(f"encode {model} D.npy --out c.npy")
    np.testing.assert_array_equal(np.load("bare.npy"), np.load("c.npy"))


@pytest.mark.parametrize(
    "line, code, said",
    [
        ("encode damaged.oh nope.npy --out c.npy", 1, "There is no file nope.npy"),
        ("encode damaged.oh damaged.oh --out c.npy", 1, "extension '.oh'"),
        (f"evaluate --model damaged.oh {FILES} --ties odd", 1, "--ties 'odd'"),
        ("evaluate --model damaged.oh --queries Q.npy", 2, "--database"),
        ("evaluate --model damaged.oh --queries Q.npy --database nope.npy", 1, "There is no file nope.npy"),
        ("evaluate --model damaged.oh --queries Q.npy --database damaged.oh", 1, "extension '.oh'"),
    ],
)
def test_arguments_are_checked_before_a_model_is_loaded(folder, run, line, code, said):
    Path("damaged.oh").write_bytes(b"not a model")
    assert said in run(line, code).stderr


def test_several_labels_per_row_are_evaluated_as_in_python(run, codes, code_files, split):
    columns = np.eye(10, dtype=int)
    sides = [columns[side.y] | columns[side.y // 3] for side in (split.queries, split.database)]
    np.save("ql.npy", sides[0])
    np.save("dl.npy", sides[1])
    result = run("evaluate --queries q.npy --query-labels ql.npy --database d.npy --database-labels dl.npy --json")
    expected = Ranking(codes[1], sides[0], codes[0], sides[1]).mean_average_precision()
    assert json.loads(result.stdout)["map"] == pytest.approx(expected)


def test_a_missing_file_of_labels_is_named(run, code_files):
    files = "--queries q.npy --database d.npy --query-labels qy.npy --database-labels nope.npy"
    assert "There is no file nope.npy" in run(f"evaluate {files}", 1).stderr


def test_a_database_row_without_a_label_is_named_with_its_file(run, code_files, split):
    np.save("gaps.npy", np.where(np.arange(len(split.database.y)) == 4, np.nan, split.database.y))
    result = run("evaluate --queries q.npy --query-labels qy.npy --database d.npy --database-labels gaps.npy", 1)
    assert "d.npy: y has no label in row 4" in result.stderr
