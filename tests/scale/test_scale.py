"""Learning and encoding with Ray: one Ray of two workers for all of it."""

import doctest
import os
import re
import signal
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import ray
from tests.scale.test_parts import assert_same

from onlinehash import HCOH, HROH, scale
from onlinehash.exceptions import (
    DataNotFoundError,
    FileFormatError,
    InvalidFeaturesError,
    InvalidInputError,
    InvalidLabelsError,
    MissingExtraError,
)

pytestmark = pytest.mark.slow

N, D = 40_000, 24


@pytest.fixture(scope="module", autouse=True)
def workers():
    assert not ray.is_initialized()
    before = set(Path.cwd().iterdir())
    with scale.cluster(n_workers=2) as found:
        ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import this file
        yield found
    assert not ray.is_initialized()
    assert set(Path.cwd().iterdir()) == before


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Three files: classes come one after the other, some rows have no label, and a row group has none at all."""
    rng = np.random.default_rng(0)
    y = np.minimum(rng.integers(0, 60, N), 5 + np.arange(N) // 500)
    X = (rng.normal(size=(60, D))[y] + rng.normal(size=(N, D))).astype(np.float32)
    labelled = rng.random(N) > 0.05
    labelled[9_000:12_000] = False
    folder = tmp_path_factory.mktemp("data")
    for start, stop, size in ((0, 15_000, 3_000), (15_000, 16_000, 200), (16_000, N, 20_000)):
        rows = slice(start, stop)
        table = {
            "id": pa.array(np.arange(start, stop) * 3),
            "vectors": pa.FixedSizeListArray.from_arrays(X[rows].ravel(), D),
            "label": pa.array(y[rows], mask=~labelled[rows]),
            "name": pa.array([f"item {i}" for i in range(start, stop)]),
        }
        pq.write_table(pa.table(table), folder / f"{start:05d}.parquet", row_group_size=size)
    return folder, X, np.where(labelled, y, np.nan)


def make(kind=HROH, **params):
    return kind(16, **{"n_components": 64, "random_state": 0} | params)


@pytest.fixture(scope="module")
def single(data):
    _, X, y = data
    return make().partial_fit(X, y)


@pytest.fixture(scope="module")
def learned(data):
    calls = []
    hasher = scale.learn(data[0], make(), progress=lambda *numbers: calls.append(numbers))
    return hasher, calls


# ---------------------------------------------------------------------- learning


def test_the_hasher_is_the_one_that_a_single_process_learns(data, single, learned):
    hasher, _ = learned
    assert_same(hasher, single)
    assert len(single._classes.settled) == 60
    assert np.array_equal(hasher.snapshot().encode(data[1]), single.snapshot().encode(data[1]))
    assert hasher.snapshot().version == single.snapshot().version


def test_progress_counts_rows_with_a_label(data, learned):
    n = int(np.isfinite(data[2]).sum())
    done = [done for done, _ in learned[1]]
    assert {total for _, total in learned[1]} == {n}
    assert done == sorted(done)
    assert (len(done) > 8, done[-1]) == (True, n)


def test_the_number_of_workers_changes_not_a_bit(data, learned):
    again = scale.learn(data[0], make(), n_workers=1)
    assert again.to_bytes() == learned[0].to_bytes()


class Fragile(HROH):
    """A hasher of whose siblings one kills its process in the middle of its work."""

    def empty_clone(self):
        twin = super().empty_clone()
        twin.doom = self.marker
        return twin

    def partial_fit(self, X, y=None, sample_weight=None):
        if hasattr(self, "doom") and hasattr(self, "n_samples_seen_"):
            die_once(self.doom)
        return super().partial_fit(X, y, sample_weight)


def die_once(marker):
    if not marker.exists():
        marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)


def test_a_worker_that_is_killed_changes_nothing(data, learned, tmp_path):
    hasher = make(Fragile)
    hasher.marker = tmp_path / "killed"
    again = scale.learn(data[0], hasher)
    assert hasher.marker.exists()
    assert again.to_bytes() == learned[0].to_bytes()


class Own(HROH):
    name = "own"


def test_a_method_from_outside_that_merges_is_learned_in_parts(data, learned):
    again = scale.learn(data[0], make(Own))
    assert type(again) is Own
    assert again.version_ == learned[0].version_
    assert np.array_equal(again.transform(data[1]), learned[0].transform(data[1]))


def test_a_hasher_that_has_learned_goes_on_and_is_left_as_it_is(data):
    folder, X, y = data
    first = make().partial_fit(X[:700], y[:700])
    before = first.to_bytes()
    both = scale.learn(sorted(folder.glob("*"))[::-1], first)
    assert first.to_bytes() == before
    order = np.concatenate([np.arange(700), np.arange(16_000, N), np.arange(15_000, 16_000), np.arange(15_000)])
    assert_same(both, make().partial_fit(X[order], y[order]))


@pytest.mark.parametrize(
    "params", [{"assignment": "arrival"}, {"features": "none", "general_bits": 4}, {"bandwidth": 0.9}], ids=str
)
def test_few_rows_several_labels_and_strings_are_learned(params, tmp_path):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(1_500, 5))
    labels = [[f"class {i}" for i in rng.permutation(20)[:n]] for n in rng.integers(0, 3, len(X))]
    table = pa.table({"v": list(X), "tags": labels})
    for n in (100, 1_500):
        pq.write_table(table[:n], tmp_path / "a.parquet", row_group_size=400)
        found = scale.learn(tmp_path / "a.parquet", make(**params), vectors="v", labels="tags")
        assert_same(found, make(**params).partial_fit(X[:n], labels[:n]))


def test_only_what_adds_up_can_be_learned_in_parts(data, tmp_path):
    with pytest.raises(InvalidInputError, match=r"HCOH learns row after row; only methods with merge\(\) can be"):
        scale.learn(data[0], HCOH(16))
    with pytest.raises(InvalidInputError, match=r"With decay=0\.99"):
        scale.learn(data[0], make(decay=0.99))
    with pytest.raises(InvalidInputError, match="belongs to one stream"):
        scale.learn(data[0], make(preprocess="running"))
    with pytest.raises(InvalidInputError, match="n_workers=0 is not positive"):
        scale.learn(data[0], make(), n_workers=0)


def test_faulty_files_are_named(data, tmp_path):
    def write(name, vectors, labels):
        pq.write_table(pa.table({"vectors": vectors, "label": labels}), tmp_path / name, row_group_size=300)
        return tmp_path / name

    good = write("good.parquet", [[1.0, 2.0]] * 600, [1, 2] * 300)
    wide = write("wide.parquet", [[1.0, 2.0, 3.0]], [1])
    text = write("text.parquet", [[1.0, 2.0]], ["a"])
    bare = write("bare.parquet", [[1.0, 2.0]], pa.array([None], pa.int64()))
    for name, vectors in (("nan", [np.nan, 1.0]), ("ragged", [1.0])):
        write(f"{name}.parquet", [[1.0, 2.0]] * 500 + [vectors], [1] * 501)
    with pytest.raises(DataNotFoundError, match=r"There is no file .*none\.parquet"):
        scale.learn(tmp_path / "none.parquet", make())
    with pytest.raises(InvalidInputError, match=r"good\.parquet has no column 'x', but vectors, label\."):
        scale.learn(good, make(), labels="x")
    with pytest.raises(InvalidFeaturesError, match=r"wide\.parquet, row group 0: X has 3 features, but HROH"):
        scale.learn([good, wide], make())
    with pytest.raises(InvalidLabelsError, match=r"text\.parquet, row group 0: y holds str labels"):
        scale.learn([good, text], make())
    with pytest.raises(InvalidLabelsError, match="No row has a label in column 'label'"):
        scale.learn([bare], make())
    with pytest.raises(InvalidFeaturesError, match=r"nan\.parquet, row group 1: X contains NaN or inf: nan at row 200"):
        scale.learn([good, tmp_path / "nan.parquet"], make())
    with pytest.raises(FileFormatError, match=r"ragged\.parquet, row group 1: row 201: 'vectors' has 1 numbers"):
        scale.learn([good, tmp_path / "ragged.parquet"], make())
    with pytest.raises(InvalidLabelsError, match=r"text\.parquet, row group 0: y holds str labels"):
        scale.learn([text], make().partial_fit([[1.0, 2.0]], [1]))
    assert scale.learn([bare, good], make()).n_unlabelled_ == 1


def test_a_missing_ray_says_how_to_get_it(data, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"pip install '\.\[ray\]'"):
        scale.learn(data[0], make())


def test_the_example_of_the_package_runs():
    assert doctest.testmod(scale) == (0, 8)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # Ray's own
def test_the_page_on_scaling_runs_as_printed(data, tmp_path):
    page = Path(__file__).parents[2] / "docs" / "scaling.md"
    (block,) = re.findall(r"```py\n(.*?)```", page.read_text(), flags=re.DOTALL)
    (tmp_path / "vectors").mkdir()
    (tmp_path / "vectors" / "part.parquet").symlink_to(data[0] / "15000.parquet")
    names = {}
    block = block.replace(', address="auto"', "")  # the Ray that runs, whose workers are in other folders
    block = block.replace('"vectors/"', f'"{tmp_path}/vectors/"').replace('"codes/"', f'"{tmp_path}/codes/"')
    exec(compile(block, str(page), "exec"), names)
    table = pq.read_table(tmp_path / "codes").sort_by("id")
    assert b"".join(table["code"].to_pylist()) == names["hasher"].transform(data[1][15_000:16_000]).tobytes()
