import json

import numpy as np
import pytest
from typer.testing import CliRunner

from onlinehash import HROH
from onlinehash.cli import app
from onlinehash.exceptions import FileFormatError, InvalidInputError
from onlinehash.experiments.runbook import (
    ENGINES,
    SMALL_RUNBOOK,
    CollectionEngine,
    load_runbook,
    parse_runbook,
    run_runbook,
)

pytest.importorskip("faiss")


class Recording:
    """Remember all that happens, and find everything."""

    def __init__(self):
        self.calls, self.items = [], {}

    def insert(self, ids, X, y):
        self.calls.append(("insert", ids.tolist(), X.copy()))
        self.items.update(zip(ids.tolist(), y.tolist(), strict=True))

    def delete(self, ids):
        self.calls.append(("delete", ids.tolist()))
        for id in ids.tolist():
            del self.items[id]

    def relabel(self, ids, y):
        self.calls.append(("relabel", ids.tolist()))
        self.items.update(zip(ids.tolist(), y.tolist(), strict=True))

    def train(self):
        self.calls.append(("train",))

    def search(self, x, k):
        return list(self.items)[:k]

    def bytes_per_item(self):
        return 1.0

    def close(self):
        self.calls.append(("close",))


def runbook(*steps, **settings):
    return parse_runbook("test", {"dataset": "digits", **settings, "steps": list(steps)})


def test_what_happens_follows_from_the_runbook_alone():
    small = load_runbook(SMALL_RUNBOOK)
    first, second = Recording(), Recording()
    found = [list(run_runbook(small, engine)) for engine in (first, second)]
    assert [(at.step, at.n_items, at.precision) for at in found[0]] == [
        (at.step, at.n_items, at.precision) for at in found[1]
    ]
    for one, other in zip(first.calls, second.calls, strict=True):
        assert one[:2] == other[:2]
    assert first.calls[-1] == ("close",) and len(first.items) == found[0][-1].n_items


def test_classes_deletes_relabels_and_drift_do_what_they_say():
    engine = Recording()
    steps = [
        {"do": "insert", "n": 60, "classes": [1, 2]},
        {"do": "delete", "n": 5, "classes": [1]},
        {"do": "relabel", "from": 1, "to": 7},
        {"do": "drift", "degrees": 90},
        {"do": "insert", "n": 10, "classes": [7]},
        {"do": "delete", "classes": [2]},
        {"do": "train"},
        {"do": "search", "n": 5},
    ]
    (found,) = run_runbook(runbook(*steps), engine)
    assert set(engine.items.values()) == {7} and found.precision == 1.0
    assert len(engine.calls[1][1]) == 5 and found.n_items == len(engine.items)
    assert found.after.startswith("insert 60 of classes 1, 2; delete 5 of classes 1; relabel 1 as 7")
    inserted = [call for call in engine.calls if call[0] == "insert"]
    assert not set(inserted[0][1]) & set(inserted[1][1])  # no row twice
    assert inserted[1][2].min() < 0 <= inserted[0][2].min()  # pixels that were turned


def test_a_collection_beats_cosine_where_labels_help_and_engines_delete():
    steps = [
        {"do": "insert", "n": 400},
        {"do": "train"},
        {"do": "delete", "n": 100},
        {"do": "search", "n": 60},
    ]
    engines = {
        "collection": CollectionEngine(HROH(32, n_components=200, random_state=0)),
        **{name: make() for name, make in ENGINES.items()},
    }
    found = {name: next(iter(run_runbook(runbook(*steps), engine))) for name, engine in engines.items()}
    assert found["collection"].precision > found["faiss-flat"].precision
    assert found["river"].precision == pytest.approx(found["faiss-flat"].precision, abs=0.02)
    assert found["faiss-ivf"].precision > 0.5
    assert (found["collection"].bytes_per_item, found["faiss-flat"].bytes_per_item) == (4.0, 256.0)
    assert all(at.n_items == 300 and at.median_ms > 0 and at.change_seconds >= 0 for at in found.values())


def test_the_command_prints_a_line_per_search(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(
        'dataset = "digits"\n[[steps]]\ndo = "insert"\nn = 200\n[[steps]]\ndo = "search"\nn = 20\n', encoding="utf-8"
    )
    result = CliRunner().invoke(
        app,
        [
            "runbook",
            str(path),
            "--engine",
            "collection",
            "--engine",
            "faiss-flat",
            "--method",
            "hcoh",
            "--bits",
            "16",
            "--json",
        ],
    )
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout)
    assert [row["engine"] for row in rows] == ["collection (hcoh, 16 bits)", "faiss-flat"]
    assert np.isfinite([row["precision"] for row in rows]).all() and rows[0]["bytes_per_item"] == 2


@pytest.mark.parametrize(
    "step, said",
    [
        ({"do": "inset", "n": 5}, "Did you mean 'insert'"),
        ({"do": "insert"}, "needs n"),
        ({"do": "search", "n": 5, "classes": [1]}, "search does not take classes"),
        ({"do": "delete"}, "needs n or classes"),
        ({"do": "relabel", "from": 1}, "needs from and to"),
        ({"do": "insert", "n": 0}, "n=0"),
    ],
)
def test_a_faulty_step_is_refused_with_its_number(step, said):
    with pytest.raises((FileFormatError, InvalidInputError), match=f"Step 2: .*{said}"):
        runbook({"do": "insert", "n": 5}, step)


def test_what_the_data_set_does_not_have_is_refused():
    with pytest.raises(InvalidInputError, match="rows of the data set are left"):
        list(run_runbook(runbook({"do": "insert", "n": 99999}), Recording()))
    with pytest.raises(InvalidInputError, match="items are stored"):
        list(run_runbook(runbook({"do": "insert", "n": 5}, {"do": "delete", "n": 6}), Recording()))
    with pytest.raises(FileFormatError, match="There is no runbook"):
        load_runbook(SMALL_RUNBOOK.parent / "none.toml")
