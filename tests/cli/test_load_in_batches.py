"""A load by the command line, walked the whole way: what is searched afterwards is as good as after one batch."""

import json
import subprocess
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

from onlinehash import Collection, load_dataset, mean_average_precision
from onlinehash.cli import app

pytestmark = pytest.mark.slow

HROH = ("--method", "hroh", "--bits", "16", "--set", "n_components=64")


@pytest.fixture(scope="module")
def split():
    return load_dataset("digits").split()


@pytest.fixture
def items(tmp_path, split):
    path = tmp_path / "items.npz"
    np.savez(path, features=split.stream.X[:1000], ids=np.arange(1000), labels=split.stream.y[:1000])
    return path


@pytest.fixture
def messages(tmp_path, split):
    path = tmp_path / "items.jsonl"
    rows = zip(split.stream.X[:1000].tolist(), split.stream.y[:1000].tolist(), strict=True)
    path.write_text("".join(json.dumps({"id": i, "vectors": x, "label": y}) + "\n" for i, (x, y) in enumerate(rows)))
    return path


def run(*words):
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == 0, result.stderr
    return result


def quality(path, split):
    with Collection.open(path, readonly=True) as collection:
        ids, codes, encoder = collection.codes_and_encoder()
        stats = collection.stats()
    found = mean_average_precision(encoder.encode(split.queries.X), split.queries.y, codes, split.stream.y[ids])
    return found, stats


def test_adding_in_batches_is_as_good_as_at_once(tmp_path, items, messages, split):
    found = {}
    for batch in (1000, 125, 10):
        path = tmp_path / f"added-{batch}.oh"
        run("collection", "create", path, *HROH)
        run("ingest", items, "--into", path, "--batch", batch)
        found[path.name], stats = quality(path, split)
        assert (stats.version, stats.pending) == (1000, False)
    for batch in (125, 20):
        path = tmp_path / f"streamed-{batch}.oh"
        run("ingest", messages, "--once", "--into", path, *HROH, "--batch", batch)
        found[path.name], stats = quality(path, split)
        assert (stats.version, stats.pending) == (1000, False)
    assert max(found.values()) - min(found.values()) < 0.01


def test_a_load_without_a_refresh_says_so_and_searches_warn(tmp_path, items, split, caplog):
    path = tmp_path / "items.oh"
    run("collection", "create", path, *HROH)
    run("ingest", items, "--into", path, "--batch", 100, "--no-wait")
    assert "Closed with codes that do not know" in caplog.text
    search = [sys.executable, "-m", "onlinehash", "collection", "search", path, "--by-id", "3"]
    found = subprocess.run(search, capture_output=True, text=True, check=True)
    assert "do not know" in found.stderr
    assert found.stdout
    stats = json.loads(run("collection", "stats", path, "--json").stdout)
    assert stats["pending"]
    assert stats["staleness"] >= 100
    run("collection", "refresh", path)
    assert quality(path, split)[1].version == 1000
    caplog.clear()
    run(*search[3:])
    assert "do not know" not in caplog.text


def test_a_collection_that_never_refreshes_is_left_alone(tmp_path, items):
    path = tmp_path / "items.oh"
    run("collection", "create", path, *HROH, "--refresh", "manual")
    run("ingest", items, "--into", path, "--batch", 500)
    with Collection.open(path, readonly=True) as collection:
        assert collection.stats().version == 500
