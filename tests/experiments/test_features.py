"""Feature files from public data, of the forms in which these are published."""

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

from onlinehash import load_dataset
from onlinehash.embedders import Embedder, make_embedder

SCRIPT = Path(__file__).parents[2] / "experiments" / "features" / "make.py"
spec = importlib.util.spec_from_file_location("make_features", SCRIPT)
make = importlib.util.module_from_spec(spec)
spec.loader.exec_module(make)

COLOURS = Embedder("colours", lambda images: np.stack([make.pixels(image).mean(axis=(1, 2)) for image in images]))


def write_image(path, colour):
    image = pytest.importorskip("PIL.Image")
    path.parent.mkdir(parents=True, exist_ok=True)
    image.new("RGB", (9, 7), colour).save(path, quality=95)


def test_cifar10_is_read_from_its_binary_version(tmp_path, monkeypatch):
    pytest.importorskip("PIL")
    names = [f"class{i}" for i in range(10)]
    (tmp_path / "batches.meta.txt").write_text("\n".join(names) + "\n\n")
    for place, file in enumerate([*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"]):
        records = np.zeros((20, 3073), np.uint8)
        records[:, 0] = np.arange(20) % 10
        records[:, 1:1025] = 12 * (np.arange(20) % 10)[:, np.newaxis]  # red
        records[:, 2049:] = place
        records.tofile(tmp_path / file)
    data = make.cifar10(tmp_path)
    assert data.documents.shape == (120, 32, 32, 3)
    assert tuple(data.documents[105, 3, 4]) == (60, 0, 5)
    arrays = make.features(data, COLOURS, None)
    np.savez(tmp_path / "cifar10.npz", **arrays)
    loaded = load_dataset("cifar10", data_dir=tmp_path)
    assert loaded.class_names == tuple(names)
    np.testing.assert_allclose(loaded.X[:, 0], 12 * loaded.y / 127.5 - 1, rtol=1e-5)


def test_folders_of_images_give_their_classes(tmp_path):
    for colour, name in ((255, "a/abbey"), (128, "a/airport"), (0, "zoo")):
        write_image(tmp_path / "train" / name / "1.jpg", (colour, 0, 0))
    data = make.miniplaces(tmp_path / "train")
    assert data.labels == ["a/abbey", "a/airport", "zoo"]
    arrays = make.features(data, COLOURS, 2)
    assert arrays["X"].shape == (3, 2)
    spread = np.ptp(arrays["X"], axis=0)
    assert spread[0] > 10 * spread[1]  # the first principal direction is the colour


def test_tiny_imagenet_has_its_validation_images_too(tmp_path):
    write_image(tmp_path / "train" / "n01" / "images" / "n01_0.JPEG", (255, 0, 0))
    write_image(tmp_path / "val" / "images" / "val_0.JPEG", (0, 0, 255))
    (tmp_path / "val" / "val_annotations.txt").write_text("val_0.JPEG\tn02\t0\t0\t9\t7\n")
    data = make.tinyimagenet(tmp_path)
    assert data.labels == ["n01", "n02"]
    arrays = make.features(data, COLOURS, None)
    red = {str(arrays["classes"][label]): row[0] for label, row in zip(arrays["y"], arrays["X"], strict=True)}
    assert red["n01"] > 0.9 > -0.9 > red["n02"]


def test_sentences_without_an_intent_are_left_out(tmp_path):
    parts = {
        "train": [["where is it", "find"], ["pay now", "pay"]],
        "val": [["find it", "find"]],
        "test": [["pay", "pay"]],
    }
    (tmp_path / "data_full.json").write_text(json.dumps(parts | {"oos_train": [["what", "oos"]]}))
    arrays = make.features(make.clinc150(tmp_path / "data_full.json"), make_embedder("char_ngrams:64"), None)
    assert arrays["X"].shape == (4, 64)
    assert sorted(arrays["classes"][arrays["y"]]) == ["find", "find", "pay", "pay"]
