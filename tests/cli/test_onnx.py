from pathlib import Path

import numpy as np
import onnxruntime
import pytest

pytestmark = pytest.mark.usefixtures("folder")


def codes(path):
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return session.run(["codes"], {"vectors": np.load("Q.npy").astype(np.float32)})[0]


def test_a_model_and_a_collection_make_the_same_codes_as_onnx(run, model):
    assert "64 features to 32 bits" in run(f"onnx {model} a.onnx").stderr
    run(f"encode {model} Q.npy --out Q.codes.npy")
    assert np.array_equal(codes("a.onnx"), np.load("Q.codes.npy"))
    run("ingest X.npy --into items.oh --labels y.npy --method hcoh --bits 16")
    run("onnx items.oh b.onnx --double")
    assert codes("b.onnx").shape[1] == 2
    assert Path("b.onnx").stat().st_size > 0


def test_other_endings_and_collections_without_codes_are_refused(run, model):
    assert ".onnx" in run(f"onnx {model} a.txt", 1).stderr
    run("collection create empty.oh")
    assert "has no encoder yet" in run("onnx empty.oh a.onnx", 1).stderr
