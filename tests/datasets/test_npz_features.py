"""Features in NumPy archives load, whoever made them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onlinehash.datasets import load_dataset
from onlinehash.datasets._origin import NpzFile
from onlinehash.datasets.files import file_sha256
from onlinehash.exceptions import FileFormatError


def archive(**changes: Any) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    arrays = {
        "Xq": rng.integers(-128, 128, (6, 3), dtype=np.int8),
        "scale": np.array([0.5, 0.25, 2], np.float32),
        "power": np.float32(1),
        "y": np.array([0, 1, 2, 0, 1, 2], np.int16),
        "classes": np.array(["cat", "dog", "owl"]),
    }
    return {name: value for name, value in (arrays | changes).items() if value is not None}


def save(path: Path, **arrays: Any) -> Path:
    np.savez(path, **arrays)
    return path


def test_quantised_features_are_scaled_by_column(tmp_path: Path) -> None:
    arrays = archive()
    content = NpzFile("f.npz").read(save(tmp_path / "f.npz", **arrays))
    assert content.X.dtype == np.float32
    assert np.array_equal(content.X, arrays["Xq"].astype(np.float32) * arrays["scale"])
    assert content.y.tolist() == [0, 1, 2, 0, 1, 2]
    assert content.class_names == ("cat", "dog", "owl")


def test_quantised_features_are_raised_to_their_power(tmp_path: Path) -> None:
    Xq = np.arange(18, dtype=np.uint8).reshape(6, 3)
    path = save(tmp_path / "f.npz", **archive(Xq=Xq, scale=np.float32(0.1), power=np.float32(2)))
    assert np.allclose(NpzFile("f.npz").read(path).X, (Xq * 0.1) ** 2)


def test_plain_features_load_with_labels_that_count_from_one(tmp_path: Path) -> None:
    X = np.random.default_rng(0).normal(size=(4, 2))
    content = NpzFile("f.npz").read(save(tmp_path / "f.npz", X=X, y=np.array([1, 3, 2, 1])))
    assert np.array_equal(content.X, X.astype(np.float32))
    assert content.y.tolist() == [0, 2, 1, 0]
    assert content.class_names == ("1", "2", "3")


def test_plain_features_load_with_string_or_column_labels(tmp_path: Path) -> None:
    X = np.ones((3, 2))
    strings = NpzFile("f.npz").read(save(tmp_path / "f.npz", X=X, y=np.array(["b", "a", "b"])))
    assert strings.y.tolist() == [1, 0, 1]
    column = NpzFile("f.npz").read(save(tmp_path / "f.npz", X=X, y=np.array([[2.0], [0.0], [2.0]])))
    assert column.y.tolist() == [1, 0, 1]


def test_the_source_tells_the_reference_file_from_another_without_naming_a_folder(tmp_path: Path) -> None:
    path = save(tmp_path / "f.npz", **archive())
    digest = file_sha256(path)
    assert NpzFile("f.npz", sha256=digest).read(path).source == "f.npz, the reference file"
    other = NpzFile("f.npz", sha256="0" * 64).read(path).source
    assert other == f"f.npz, sha256 {digest}: not the reference file"


def test_a_users_own_features_load_under_the_name_of_the_data_set(tmp_path: Path) -> None:
    save(tmp_path / "cifar10.npz", X=np.ones((20, 5)), y=np.arange(20) % 10)
    data = load_dataset("cifar10", data_dir=tmp_path)
    assert data.X.shape == (20, 5)
    assert data.class_names[3] == "cat"
    assert "not the reference file" in data.source


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"y": None}, "it needs Xq, scale, power, y and classes, or X and y"),
        ({"scale": None}, "holds Xq, classes, power, y"),
        ({"scale": np.ones(7)}, "scale is one number or one per feature"),
        ({"power": np.ones(2)}, "power is one number"),
        ({"y": np.zeros(5, int)}, r"features of shape \(6, 3\) and labels of shape \(5,\)"),
        ({"y": np.full(6, 3)}, "from 0 to 2"),
        ({"y": np.full(6, -1)}, "from 0 to 2"),
        ({"y": np.full(6, 0.5)}, "whole numbers or strings"),
        ({"y": np.full(6, np.nan)}, "whole numbers or strings"),
        ({"Xq": np.zeros((0, 3), np.int8), "y": np.zeros(0, int)}, "are needed"),
        ({"Xq": np.array([["a"] * 3] * 6)}, "scale is one number"),
        ({"Xq": np.full((6, 3), -1, np.int8), "power": np.float32(0.5)}, "NaN or infinite"),
        ({"X": np.full((6, 3), 1e300)}, "NaN or infinite"),
        ({"X": np.full((6, 3), 1j)}, "real numbers are needed"),
    ],
)
def test_what_breaks_the_schema_is_said(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    path = save(tmp_path / "f.npz", **archive(**changes))
    with pytest.raises(FileFormatError, match=message) as caught:
        NpzFile("f.npz").read(path)
    assert str(path) in str(caught.value)


def test_a_pickled_array_is_refused(tmp_path: Path) -> None:
    path = save(tmp_path / "f.npz", **archive(classes=np.array(["a", 1, None], dtype=object)))
    with pytest.raises(FileFormatError, match="damaged or not a NumPy archive"):
        NpzFile("f.npz").read(path)


def test_damaged_archives_are_said_to_be(tmp_path: Path) -> None:
    path = save(tmp_path / "f.npz", **archive())
    whole = path.read_bytes()
    middle = len(whole) // 4
    for damaged in (
        b"",
        b"no archive",
        whole[: len(whole) // 2],
        whole[:middle] + b"?" * 40 + whole[middle + 40 :],
    ):
        path.write_bytes(damaged)
        with pytest.raises(FileFormatError, match=r"f\.npz"):
            NpzFile("f.npz").read(path)


def test_a_single_array_is_not_an_archive(tmp_path: Path) -> None:
    path = tmp_path / "f.npz"
    with path.open("wb") as file:
        np.save(file, np.zeros(3))
    with pytest.raises(FileFormatError, match="not a NumPy archive"):
        NpzFile("f.npz").read(path)
