"""The published MATLAB files load in both of MATLAB's formats."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io

from onlinehash.datasets import load_dataset
from onlinehash.datasets._mat import MatFile
from onlinehash.exceptions import FileFormatError, MissingExtraError

RNG = np.random.default_rng(0)
TRAIN, TEST = RNG.normal(size=(20, 4)).astype(np.float32), RNG.normal(size=(10, 4)).astype(np.float32)
TRAIN_Y, TEST_Y = np.arange(20) % 10, np.arange(10)


def write(path: Path, version: str, **variables: Any) -> Path:
    """Write version 5 with SciPy, or version 7.3: HDF5 with a MATLAB header and transposed arrays."""
    if version == "5":
        scipy.io.savemat(path, variables)
        return path
    import h5py

    with h5py.File(path, "w", userblock_size=512) as file:
        for name, array in variables.items():
            file[name] = np.atleast_2d(array).T
        file.create_group("#refs#")
    with path.open("r+b") as file:
        file.write(b"MATLAB 7.3 MAT-file".ljust(128))
    return path


versions = pytest.mark.parametrize("version", ["5", "7.3"])


@versions
@pytest.mark.parametrize("labels", [("trainLabels", "testLabels"), ("traininglabels", "testlabels")])
def test_the_features_of_cifar_load_train_rows_first(tmp_path: Path, version: str, labels: Any) -> None:
    variables = {"testCNN": TEST, "trainCNN": TRAIN, labels[1]: TEST_Y[:, None], labels[0]: TRAIN_Y[:, None]}
    write(tmp_path / "CIFAR10_VGG16_fc7.mat", version, **variables)
    data = load_dataset("cifar10_vgg16", data_dir=tmp_path)
    assert np.array_equal(data.X, np.concatenate([TRAIN, TEST]))
    assert np.array_equal(data.y, np.concatenate([TRAIN_Y, TEST_Y]))
    assert data.class_names[0] == "airplane"
    assert "not verified" in data.source


@versions
def test_the_features_of_places_load(tmp_path: Path, version: str) -> None:
    write(tmp_path / "Places205_AlexNet_fc7_PCA128.mat", version, pca_feats=TRAIN, labels=TRAIN_Y[None] + 1)
    data = load_dataset("places205", data_dir=tmp_path)
    assert np.array_equal(data.X, TRAIN)
    assert np.array_equal(data.y, TRAIN_Y)
    assert data.class_names[0] == "1"
    assert data.X.flags.c_contiguous


@versions
def test_unknown_names_are_found_by_shape_and_test_rows_come_last(tmp_path: Path, version: str) -> None:
    path = write(tmp_path / "a.mat", version, A_test=TEST, B=TRAIN, u=TEST_Y, v=TRAIN_Y, note=np.ones((1, 1)))
    content = MatFile("a.mat").read(path)
    assert np.array_equal(content.X, np.concatenate([TRAIN, TEST]))
    assert np.array_equal(content.y, np.concatenate([TRAIN_Y, TEST_Y]))


def test_a_matrix_with_a_column_for_every_label_is_transposed(tmp_path: Path) -> None:
    path = write(tmp_path / "a.mat", "5", fea=TRAIN.T, gnd=TRAIN_Y)
    assert np.array_equal(MatFile("a.mat").read(path).X, TRAIN)


@pytest.mark.parametrize("scale", [1, 255])
def test_mnist_pixels_end_up_between_zero_and_one(tmp_path: Path, scale: int) -> None:
    pixels = np.linspace(0, 1, 80).reshape(20, 4)
    write(tmp_path / "mnist.mat", "5", fea=pixels * scale, gnd=TRAIN_Y)
    assert np.allclose(load_dataset("mnist", data_dir=tmp_path, download=False).X, pixels, atol=1e-6)


@versions
@pytest.mark.parametrize(
    "variables",
    [
        {"fea": TRAIN},
        {"fea": TRAIN, "gnd": TRAIN_Y, "split": TRAIN_Y},
        {"fea": TRAIN, "gnd": TRAIN_Y, "fea_test": TEST[:, :3], "gnd_test": TEST_Y},
        {"other": np.ones((1, 1))},
    ],
)
def test_what_cannot_be_told_apart_is_listed(tmp_path: Path, version: str, variables: dict[str, Any]) -> None:
    path = write(tmp_path / "a.mat", version, **variables)
    with pytest.raises(FileFormatError, match="Cannot tell features from labels") as caught:
        MatFile("a.mat").read(path)
    assert all(name in str(caught.value) for name in variables)


def test_labels_that_do_not_match_their_rows_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.mat", "5", pca_feats=TRAIN, labels=TEST_Y)
    with pytest.raises(FileFormatError, match=r"\(20, 4\) and labels of shape \(10,\)"):
        MatFile("a.mat").read(path)


@versions
def test_damaged_files_are_said_to_be(tmp_path: Path, version: str) -> None:
    path = write(tmp_path / "a.mat", version, pca_feats=TRAIN, labels=TRAIN_Y)
    path.write_bytes(path.read_bytes()[:600])
    with pytest.raises(FileFormatError, match="damaged"):
        MatFile("a.mat").read(path)


@pytest.mark.parametrize("content", [b"", b"not a MATLAB file " * 50])
def test_other_files_are_said_to_be_no_matlab_files(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.mat").write_bytes(content)
    with pytest.raises(FileFormatError, match="not a MATLAB file"):
        MatFile("a.mat").read(tmp_path / "a.mat")


def test_without_h5py_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "a.mat", "7.3", pca_feats=TRAIN, labels=TRAIN_Y)
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(MissingExtraError, match=r"pip install '\.\[mat\]'"):
        MatFile("a.mat").read(path)
