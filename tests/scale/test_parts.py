"""What learning in parts asks of HROH and of files; no Ray."""

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onlinehash import HROH
from onlinehash.exceptions import (
    DataNotFoundError,
    FileFormatError,
    InvalidFeaturesError,
    InvalidInputError,
    InvalidLabelsError,
)
from onlinehash.scale.partitions import find_files, partitions_of, read, read_labelled


def stream(n, d=6, n_classes=30, seed=0, dtype=np.float32):
    rng = np.random.default_rng(seed)
    y = np.minimum(rng.integers(0, n_classes, n), 3 + np.arange(n) // 40)  # more and more of them
    return (rng.normal(size=(n_classes, d))[y] + 0.7 * rng.normal(size=(n, d))).astype(dtype), y


def make(**params):
    return HROH(8, **{"n_components": 16, "random_state": 0} | params)


def write(path, table, **kwargs):
    pq.write_table(pa.table(table), path, **kwargs)
    return path


def vectors(rows, kind=None):
    return pa.array(rows, kind or pa.list_(pa.float32()))


# ---------------------------------------------------------------------- where a stream may be cut


@settings(max_examples=60, deadline=None)
@given(
    n_before=st.integers(0, 1500),
    n_rows=st.integers(1, 5000),
    bandwidth=st.sampled_from([None, 0.8]),
    flushed=st.booleans(),
    seed=st.integers(0, 9),
)
def test_parts_merged_at_the_cuts_equal_the_stream_in_order(n_before, n_rows, bandwidth, flushed, seed):
    X, y = stream(n_before + n_rows)
    whole = make(bandwidth=bandwidth)
    if n_before:
        whole.partial_fit(X[:n_before], y[:n_before])
        if flushed:  # the number of rows summed is then no multiple of a block
            whole.merge(whole.empty_clone().partial_fit(X[:7], y[:7]))
    one = HROH.load(whole.to_bytes()).partial_fit(X[n_before:], y[n_before:])
    rng = np.random.default_rng(seed)

    X, y = X[n_before:], y[n_before:]
    cuts = whole.split_points(n_rows)
    assert cuts == sorted(set(cuts))
    if cuts[0]:
        whole.partial_fit(X[: cuts[0]], y[: cuts[0]])
    for start, stop in pairwise(cuts):
        some = np.unique([start, *rng.integers(start, stop, 3), stop])
        parts = [whole.empty_clone().partial_fit(X[a:b], y[a:b]) for a, b in pairwise(some)]
        for part in parts[1:]:
            parts[0].merge(part)
        whole.merge(parts[0])
    if cuts[-1] < n_rows:
        whole.partial_fit(X[cuts[-1] :], y[cuts[-1] :])
    assert_same(whole, one)


def assert_same(merged, one):
    assert merged.classes_.tolist() == one.classes_.tolist()
    assert merged._classes.settled == one._classes.settled
    assert np.array_equal(merged.codewords_, one.codewords_)
    for name in ("n_samples_seen_", "n_unlabelled_", "n_features_in_", "seed_"):
        assert getattr(merged, name) == getattr(one, name)
    if one._head is not None:
        return
    assert (merged._sums.n_summed, merged._sums.n_waiting) == (one._sums.n_summed, one._sums.n_waiting)
    n_waiting = one._sums.n_waiting
    assert np.array_equal(merged._sums._block[:n_waiting], one._sums._block[:n_waiting])
    mine, theirs = merged._sums.statistics, one._sums.statistics
    np.testing.assert_allclose(mine.gram, theirs.gram, rtol=0, atol=1e-9 * theirs.gram.diagonal().min())
    np.testing.assert_allclose(mine.sums, theirs.sums, rtol=0, atol=1e-9 * np.abs(theirs.sums).max(initial=0.0))
    for name in ("counts", "total", "squares"):
        np.testing.assert_allclose(getattr(mine, name), getattr(theirs, name), rtol=1e-9)


def test_cuts_are_where_classes_settle_and_where_rows_begin_to_wait():
    assert make().split_points(100) == [100]
    assert make().split_points(256) == [256]
    assert make().split_points(1023) == [256, 768]
    assert make().split_points(5000) == [256, 1024, 2048, 4096, 4864]
    X, y = stream(300)
    assert make().partial_fit(X[:100], y[:100]).split_points(2000) == [156, 924, 1948]
    assert make().partial_fit(X, y).split_points(2000) == [212, 724, 1748]


def test_a_merged_hasher_settles_as_one_that_learned_all_rows():
    X, y = stream(1500, n_classes=12)
    first = make().partial_fit(X[:700], y[:700])
    second = first.empty_clone().partial_fit(X[700:], y[700:])
    assert not first._classes.settled
    assert len(first.merge(second)._classes.settled) == 12


def test_a_sibling_keeps_width_and_precision():
    X, y = stream(600)
    first = make().partial_fit(X[:300], y[:300])
    second = first.empty_clone().partial_fit(X[300:].astype(np.float64), y[300:])
    assert second.snapshot().weights.dtype == np.float32
    with pytest.raises(InvalidFeaturesError, match="X has 5 features, but HROH is expecting 6"):
        first.empty_clone().partial_fit(X[:, :5], y)
    with pytest.raises(InvalidFeaturesError, match="too large for float32"):
        first.empty_clone().partial_fit(np.full((2, 6), 1e300), [0, 1])


# ---------------------------------------------------------------------- files


def test_files_come_in_the_order_given_and_those_of_a_folder_by_name(tmp_path):
    for name in ("b.parquet", "a.parquet", "day=1/x.parquet", "notes.txt"):
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / name).touch()
    (tmp_path / "z.pq").touch()
    found = find_files([tmp_path / "z.pq", str(tmp_path / "in")])
    names = ["z.pq", "in/a.parquet", "in/b.parquet", "in/day=1/x.parquet"]
    assert found == [tmp_path / name for name in names]
    assert find_files(tmp_path / "z.pq") == [tmp_path / "z.pq"]
    with pytest.raises(DataNotFoundError, match=r"There is no file .*no\.parquet"):
        find_files(tmp_path / "no.parquet")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataNotFoundError, match=r"There is no \.parquet file in .*empty"):
        find_files([tmp_path / "empty"])
    with pytest.raises(InvalidInputError, match="paths is empty"):
        find_files([])


@pytest.mark.parametrize(
    "kind",
    [pa.list_(pa.float32()), pa.large_list(pa.float64()), pa.list_(pa.float16(), 3), pa.list_(pa.int8())],
    ids=str,
)
def test_lists_of_any_numbers_are_read_a_few_at_a_time(kind, tmp_path, monkeypatch):
    monkeypatch.setattr("onlinehash.scale.partitions.ROWS_PER_BATCH", 4)
    rows = np.arange(33).reshape(11, 3)
    numbers = rows.astype(np.float16).tolist() if kind.value_type == pa.float16() else rows.tolist()
    path = write(tmp_path / "a.parquet", {"v": vectors(numbers, kind), "k": range(11)}, row_group_size=6)
    found = partitions_of(path, "v", "k")
    assert [part.n_rows for part in found] == [6, 5]
    read_back = [list(read(part, "v", "k")) for part in found]
    assert [len(X) for batches in read_back for _, X, _ in batches] == [4, 2, 4, 1]
    assert np.array_equal(np.vstack([X for batches in read_back for _, X, _ in batches]), rows)
    assert [place.split(", ", 1)[1] for place, _, _ in read_back[1]] == [
        "row group 1",
        "row group 1, counted from row 4",
    ]


@pytest.mark.parametrize(
    "labels",
    [
        pa.array([1, None, 2, 3, None, 4, 5]),
        pa.array([1.0, np.nan, 2.0, 3.0, None, 4.0, 5.0]),
        pa.array(["a", None, "b", "a", None, "c", "d"]),
        pa.array(["a", None, "b", "a", None, "c", "d"]).dictionary_encode(),
        pa.array([[1, 2], [], [2], [3], None, [4], [5, 1]]),
    ],
    ids=lambda value: str(value.type).split("<")[0],
)
def test_rows_without_a_label_are_passed_over(labels, tmp_path, monkeypatch):
    monkeypatch.setattr("onlinehash.scale.partitions.ROWS_PER_BATCH", 2)
    path = write(tmp_path / "a.parquet", {"v": vectors([[i, i] for i in range(7)]), "label": labels}, row_group_size=3)
    found = partitions_of(path, "v", "label")
    assert [part.n_labelled for part in found] == [2, 2, 1]
    for start, stop in [(0, 5), (0, 2), (1, 4), (2, 4), (4, 5)]:
        parts = list(read_labelled(found, "v", "label", start, stop))
        assert [int(x) for _, X, _ in parts for x in X[:, 0]] == [0, 2, 3, 5, 6][start:stop]
        assert all(len(X) == len(y) for _, X, y in parts)


@pytest.mark.parametrize(
    "column, error, message",
    [
        (vectors([[1, 2], [1, 2, 3]]), FileFormatError, "row group 0: row 2: 'v' has 3 numbers; the first row has 2"),
        (vectors([[1, 2], None]), FileFormatError, "row group 0: row 2: 'v' has 0 numbers"),
        (vectors([[1, 2], None], pa.list_(pa.float32(), 2)), FileFormatError, "row 2: 'v' has 0 numbers"),
        (vectors([[1, 2], [np.nan, 1]]), InvalidFeaturesError, "row group 0: X contains NaN or inf: nan at row 1"),
        (vectors([[1, 2], [None, 1]]), InvalidFeaturesError, "row group 0: X contains NaN or inf: nan at row 1"),
        (vectors([[], [1, 2]]), FileFormatError, "row group 0: row 1: 'v' has 0 numbers"),
        (pa.array(["a", "b"]), FileFormatError, "column 'v' holds string, not lists of numbers"),
        (pa.array([["a"], ["b"]]), FileFormatError, "not lists of numbers"),
    ],
)
def test_faulty_vectors_are_named_by_file_and_row_group(column, error, message, tmp_path):
    path = write(tmp_path / "faulty.parquet", {"v": column, "k": [1, 2]})
    with pytest.raises(error, match=rf"faulty\.parquet.*{message}"):
        for part in partitions_of(path, "v", "k"):
            list(read(part, "v", "k"))


def test_faulty_files_columns_and_labels_are_named(tmp_path):
    path = write(tmp_path / "a.parquet", {"v": vectors([[1, 2]]), "label": [b"x"]})
    with pytest.raises(InvalidInputError, match=r"a\.parquet has no column 'w', but v, label"):
        partitions_of(path, "w", "label")
    with pytest.raises(InvalidInputError, match="has no column 'id', but v, label"):
        partitions_of(path, "v", "id")
    with pytest.raises(InvalidLabelsError, match=r"a\.parquet"):
        partitions_of(path, "v", "label")
    (tmp_path / "b.parquet").write_bytes(b"PAR1 but no more")
    with pytest.raises(FileFormatError, match=r"b\.parquet is not a Parquet file, or damaged"):
        partitions_of(tmp_path / "b.parquet", "v", "label")


def test_a_file_without_rows_has_no_partitions(tmp_path):
    path = write(tmp_path / "a.parquet", {"v": vectors([]), "k": pa.array([], pa.int64())})
    assert partitions_of(path, "v", "k") == []
