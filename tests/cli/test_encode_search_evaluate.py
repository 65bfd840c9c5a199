from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from onlinehash import HROH, Collection, FlatIndex, OnlineHasher, load_hasher
from onlinehash.metrics import Ranking


@pytest.fixture
def codes(model, split):
    encoder = load_hasher(model).snapshot()
    return encoder.encode(split.database.X), encoder.encode(split.queries.X)


@pytest.fixture
def code_files(codes):
    np.save("d.npy", codes[0])
    np.save("q.npy", codes[1])


def found_in(result):
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert [line["query"] for line in lines] == list(range(len(lines)))
    return [line["ids"] for line in lines], [line["distances"] for line in lines]


# ---------------------------------------------------------------------- encode


@pytest.mark.parametrize("name", ["c.npy", "c.npz", "c.csv"])
def test_codes_of_every_format_search_alike(run, codes, code_files, model, name):
    run(f"encode {model} Q.npy --out {name}")
    assert found_in(run(f"search d.npy {name} --json")) == found_in(run("search d.npy q.npy --json"))


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


# ---------------------------------------------------------------------- search


def test_search_equals_the_index(run, codes, code_files):
    index = FlatIndex(32, ties="hash")
    index.upsert(codes[0])
    expected = index.search(codes[1], 7)
    ids, distances = found_in(run("search d.npy q.npy -k 7 --json"))
    assert ids == expected.ids.tolist()
    assert distances == expected.distances.tolist()


def test_a_model_encodes_features_on_either_side(run, code_files, model):
    expected = found_in(run("search d.npy q.npy --json"))
    for line in ("D.npy Q.npy", "d.npy Q.npy", "D.npy q.npy"):
        for options in ("", "--rescore none"):  # HCOH has no scores of classes
            assert found_in(run(f"search {line} --model {model} {options} --json")) == expected


@pytest.mark.parametrize("options", [{}, {"rescore": "l2"}, {"rescore": "cosine", "asymmetric": True}], ids=str)
def test_files_are_searched_by_the_ranking_rule_of_a_collection(run, folder, split, options):
    with Collection.open("c.oh", HROH(64, general_bits=32, n_components=64, random_state=0), "manual") as collection:
        collection.upsert(range(len(split.database.X)), split.database.X, split.database.y)
        collection.refresh()
        collection.encoder.save("model.oh")
        k = len(split.database.X) // 10 + 1  # so that all items are candidates, whatever the ties
        expected = collection.search(split.queries.X, k, **options)
    line = " ".join(f"--{name}" + ("" if value is True else f" {value}") for name, value in options.items())
    ids, distances = found_in(run(f"search D.npy Q.npy --model model.oh -k {k} {line} --json"))
    np.testing.assert_allclose(distances, expected.distances, atol=1e-4)
    assert [row[0] for row in ids] == [row[0] for row in expected.ids]
    assert np.mean(np.array(ids) == np.array(expected.ids)) > 0.99  # equal but for distances that rounding swaps


def test_a_ranking_that_needs_vectors_says_so(run, code_files, model):
    assert "needs --model, and the vectors" in run("search d.npy q.npy --rescore cosine", 2).stderr
    assert "give --model" in run("search d.npy q.npy --asymmetric", 2).stderr
    assert "has no scores of classes" in run(f"search D.npy Q.npy --model {model} --rescore learned", 1).stderr
    asymmetric = found_in(run(f"search d.npy Q.npy --model {model} --asymmetric --json"))[1]
    assert any(distance % 1 for row in asymmetric for distance in row)


def test_a_radius_finds_all_within_it(run, codes, code_files):
    index = FlatIndex(32, ties="hash")
    index.upsert(codes[0])
    expected = [matches.ids.tolist() for matches in index.range_search(codes[1], 2)]
    assert found_in(run("search d.npy q.npy --radius 2 --json"))[0] == expected
    run("search d.npy q.npy --radius 2 -k 3", 2)


def test_found_items_are_written_as_columns(run, codes, code_files):
    assert run("search d.npy q.npy -k 2 --out f.csv").stdout == ""
    table = np.loadtxt("f.csv", int, delimiter=",", skiprows=1)
    assert Path("f.csv").read_text().startswith("query,id,distance\n")
    index = FlatIndex(32, ties="hash")
    index.upsert(codes[0])
    assert table[:, 1].tolist() == index.search(codes[1], 2).ids.ravel().tolist()


def test_a_pipe_gets_fields_with_tabs(run, code_files):
    lines = run("search d.npy q.npy -k 2").stdout.splitlines()
    assert lines[0] == "query\tid\tdistance"
    assert len(lines) == 1 + 200 * 2


# ---------------------------------------------------------------------- evaluate


@pytest.mark.parametrize("ties", ["expected", "stable"])
def test_evaluate_equals_the_metrics(run, codes, split, model, ties):
    options = f"--map-at 50 --precision-at 20 --radius 1 --ties {ties} --json"
    got = json.loads(run(f"evaluate --model {model} --dataset digits {options}").stdout)
    ranking = Ranking(codes[1], split.queries.y, codes[0], split.database.y, ties=ties)
    within = ranking.precision_within(1)
    found = got.pop("retrievability")
    assert found["k"] == 10 and 0 < found["self_recall"] <= found["coverage"] <= 1
    assert got == {
        "n_queries": 200,
        "n_items": 1597,
        "ties": ties,
        "map": ranking.mean_average_precision(),
        "map_at": {
            "k": 50,
            "possible": ranking.mean_average_precision(50),
            "found": ranking.mean_average_precision(50, denominator="found"),
        },
        "precision_at": {"k": 20, "precision": ranking.precision_at(20)},
        "recall_at": {"k": 20, "recall": ranking.recall_at(20)},
        "within_radius": {"radius": 1, "precision": within.precision, "empty_rate": within.empty_rate},
    }


def test_evaluate_takes_features_codes_or_npz_alike(run, codes, code_files, split, model):
    labels = "--query-labels qy.npy --database-labels dy.npy --json"
    np.savez("Q.npz", X=split.queries.X, y=split.queries.y)
    np.savez("d.npz", codes=codes[0], y=split.database.y)
    results = {
        run(f"evaluate --model {model} --dataset digits --precision-at 100 --json").stdout,
        run(f"evaluate --model {model} --queries Q.npy --database D.npy {labels}").stdout,
        run(f"evaluate --queries q.npy --database d.npy {labels}").stdout,
        run(f"evaluate --model {model} --queries Q.npz --database d.npz --json").stdout,
    }
    measured = [json.loads(result) for result in results]
    assert {"retrievability" in one for one in measured} == {True, False}  # which needs vectors of the database
    assert len({json.dumps({**one, "retrievability": None}) for one in measured}) == 1


def test_a_ranking_longer_than_the_database_is_named_by_its_true_length(run, model):
    assert "Precision@1597\t" in run(f"evaluate --model {model} --dataset digits --precision-at 9999").stdout


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
        "--dataset digits",
        "--queries q.npy",
        "--model model.oh --dataset digits --queries Q.npy",
        "--model model.oh --dataset digits --radius -1",
        "--model model.oh --dataset digits --map-at 0",
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
    run("search D.npy Q.npy --model model.oh --json")
    run("evaluate --model model.oh --dataset digits")


def test_a_hasher_saved_without_an_encoder_makes_one(folder, run, model):
    Path("bare.oh").write_bytes(load_hasher(model).to_bytes())
    run("encode bare.oh D.npy --out bare.npy")
    run(f"encode {model} D.npy --out c.npy")
    np.testing.assert_array_equal(np.load("bare.npy"), np.load("c.npy"))


@pytest.mark.parametrize(
    "line, code, said",
    [
        ("encode damaged.oh nope.npy --out c.npy", 1, "There is no file nope.npy"),
        ("search D.npy nope.npy --model damaged.oh", 1, "There is no file nope.npy"),
        ("search D.npy Q.npy -k 0 --model damaged.oh", 1, "-k 0"),
        ("search D.npy Q.npy --radius -1 --model damaged.oh", 1, "--radius -1"),
        ("search D.npy damaged.oh --model damaged.oh", 1, "extension '.oh'"),
        ("encode damaged.oh damaged.oh --out c.npy", 1, "extension '.oh'"),
        ("evaluate --model damaged.oh --dataset digits --ties odd", 1, "--ties 'odd'"),
        ("evaluate --model damaged.oh --queries Q.npy", 2, "--database"),
        ("evaluate --model damaged.oh --queries Q.npy --database nope.npy", 1, "There is no file nope.npy"),
        ("evaluate --model damaged.oh --queries Q.npy --database damaged.oh", 1, "extension '.oh'"),
        ("evaluate --model damaged.oh --dataset mnits", 1, "Did you mean 'mnist'?"),
        ("evaluate --model damaged.oh --dataset digits --protocol odd", 1, "Unknown protocol 'odd'"),
        ("evaluate --model damaged.oh --dataset digits --query-labels qy.npy", 2, "--dataset"),
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
