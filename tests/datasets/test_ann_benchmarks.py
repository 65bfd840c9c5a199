import h5py
import numpy as np
import pytest

from onlinehash import FlatIndex
from onlinehash.datasets import load_hamming_set
from onlinehash.exceptions import DataNotFoundError, FileFormatError, InvalidInputError
from onlinehash.indexes.engines import FaissIndex


@pytest.fixture
def bits():
    rng = np.random.default_rng(0)
    return rng.integers(0, 2, (300, 37)).astype(bool), rng.integers(0, 2, (20, 37)).astype(bool)


def write(path, train, test, neighbors=None, distance="hamming"):
    """Write a file in the layout of ann-benchmarks."""
    away = (test[:, None, :].astype(int) != train[None].astype(int)).sum(axis=2)
    order = np.argsort(away, axis=1, kind="stable")[:, :10]
    with h5py.File(path, "w") as file:
        file.attrs["type"], file.attrs["distance"], file.attrs["point_type"] = "dense", distance, "bit"
        file.attrs["dimension"] = train.shape[1]
        file["train"], file["test"] = train, test
        file["neighbors"] = order.astype("i4") if neighbors is None else neighbors
        file["distances"] = np.take_along_axis(away, order, axis=1).astype("f4")
    return path


@pytest.mark.parametrize("index", [FlatIndex, FaissIndex])
def test_exact_indexes_find_all_true_neighbours(tmp_path, bits, index):
    found = load_hamming_set(write(tmp_path / "random-37-hamming.hdf5", *bits))
    assert (found.n_bits, found.codes.shape, found.queries.shape) == (37, (300, 5), (20, 5))
    searched = index(found.n_bits)
    searched.upsert(found.codes)
    assert found.recall(searched.search(found.queries, k=10).distances, k=10) == 1.0


def test_recall_counts_what_is_as_near_as_the_last_true_neighbour(tmp_path, bits):
    found = load_hamming_set(write(tmp_path / "a.hdf5", *bits))
    index = FlatIndex(found.n_bits)
    index.upsert(found.codes[:150], ids=range(150))  # half of the items
    away = (bits[1][:, None, :] != bits[0][None]).sum(axis=2)
    tenth, half = np.sort(away, axis=1)[:, 9], np.sort(away[:, :150], axis=1)[:, :10]
    assert found.recall(index.search(found.queries, k=10).distances) == (half <= tenth[:, None]).mean()
    with pytest.raises(InvalidInputError, match="neighbours per query"):
        found.recall(half, k=11)
    with pytest.raises(InvalidInputError, match="shape"):
        found.recall(half[:, :3])


def test_bits_may_be_numbers(tmp_path, bits):
    train, test = bits
    as_bool = load_hamming_set(write(tmp_path / "a.hdf5", train, test))
    as_bytes = load_hamming_set(write(tmp_path / "b.hdf5", train.astype("u1"), test.astype("f4")))
    assert np.array_equal(as_bool.codes, as_bytes.codes) and np.array_equal(as_bool.queries, as_bytes.queries)


def test_other_files_are_refused(tmp_path, bits):
    train, test = bits
    with pytest.raises(DataNotFoundError):
        load_hamming_set(tmp_path / "none.hdf5")
    (tmp_path / "text.hdf5").write_text("no HDF5")
    with pytest.raises(FileFormatError, match="not an HDF5 file"):
        load_hamming_set(tmp_path / "text.hdf5")
    with pytest.raises(FileFormatError, match="'angular'"):
        load_hamming_set(write(tmp_path / "angular.hdf5", train, test, distance="angular"))
    with pytest.raises(FileFormatError, match="other than 0 and 1"):
        load_hamming_set(write(tmp_path / "floats.hdf5", train * 3, test))
    with pytest.raises(FileFormatError, match="outside of train"):
        load_hamming_set(write(tmp_path / "rows.hdf5", train, test, neighbors=np.full((20, 10), 300)))
    with h5py.File(tmp_path / "empty.hdf5", "w") as file:
        file["train"] = train
    with pytest.raises(FileFormatError, match="no 'test'"):
        load_hamming_set(tmp_path / "empty.hdf5")
