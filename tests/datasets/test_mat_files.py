"""The published MATLAB files load in both of MATLAB's formats."""

import sys

import h5py
import numpy as np
import pytest
import scipy.io

from onlinehash.datasets import load_dataset
from onlinehash.exceptions import FileFormatError, MissingExtraError

RNG = np.random.default_rng(0)
TRAIN, TEST = RNG.normal(size=(20, 4)).astype(np.float32), RNG.normal(size=(10, 4)).astype(np.float32)
TRAIN_Y, TEST_Y = np.arange(20) % 10, np.arange(10)


def write(path, version, **variables):
    """Write version 5 with SciPy, or version 7.3: HDF5 with a MATLAB header and transposed arrays."""
    if version == "5":
        scipy.io.savemat(path, variables)
        return
    with h5py.File(path, "w", userblock_size=512) as file:
        for name, array in variables.items():
            file[name] = np.atleast_2d(array).T
        file.create_group("#refs#")
    with path.open("r+b") as file:
        file.write(b"MATLAB 7.3 MAT-file".ljust(128))


versions = pytest.mark.parametrize("version", ["5", "7.3"])


@versions
@pytest.mark.parametrize("labels", [("trainLabels", "testLabels"), ("traininglabels", "testlabels")])
def test_the_features_of_cifar_load_train_rows_first(tmp_path, version, labels):
    variables = {"testCNN": TEST, "trainCNN": TRAIN, labels[1]: TEST_Y[:, None], labels[0]: TRAIN_Y[:, None]}
    write(tmp_path / "CIFAR10_VGG16_fc7.mat", version, **variables)
    data = load_dataset("cifar10_vgg16", data_dir=tmp_path)
    assert np.array_equal(data.X, np.concatenate([TRAIN, TEST]))
    assert np.array_equal(data.y, np.concatenate([TRAIN_Y, TEST_Y]))
    assert data.class_names[0] == "airplane"
    assert "not verified" in data.source


@versions
def test_the_features_of_places_load(tmp_path, version):
    write(tmp_path / "Places205_AlexNet_fc7_PCA128.mat", version, pca_feats=TRAIN, labels=TRAIN_Y[None] + 1)
    data = load_dataset("places205", data_dir=tmp_path)
    assert np.array_equal(data.X, TRAIN) and data.X.flags.c_contiguous
    assert np.array_equal(data.y, TRAIN_Y)
    assert data.class_names[0] == "1"


@versions
def test_other_variables_are_named_with_the_way_out(tmp_path, version):
    write(tmp_path / "CIFAR10_VGG16_fc7.mat", version, fea=TRAIN, gnd=TRAIN_Y)
    with pytest.raises(FileFormatError, match=r"holds fea, gnd, not the features.*numpy.savez"):
        load_dataset("cifar10_vgg16", data_dir=tmp_path)


@pytest.mark.parametrize("content", [b"", b"no matrix", b"MATLAB 7.3 MAT-file".ljust(600)])
def test_a_damaged_file_is_refused(tmp_path, content):
    (tmp_path / "CIFAR10_VGG16_fc7.mat").write_bytes(content)
    with pytest.raises(FileFormatError, match="damaged or not a MATLAB"):
        load_dataset("cifar10_vgg16", data_dir=tmp_path)


def test_without_h5py_the_command_that_installs_it_is_named(tmp_path, monkeypatch):
    write(tmp_path / "CIFAR10_VGG16_fc7.mat", "7.3", fea=TRAIN)
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(MissingExtraError, match=r"\[research\]"):
        load_dataset("cifar10_vgg16", data_dir=tmp_path)
