"""An encoder as an ONNX file makes the same codes in onnxruntime."""

import sys

import numpy as np
import onnxruntime
import pytest

from onlinehash import HROH, Collection, Encoder, load_dataset, make_hasher
from onlinehash.exceptions import MissingExtraError
from onlinehash.features import Anchors, Centring, Fourier
from onlinehash.hashers import HASHERS

RNG = np.random.default_rng(0)
X = RNG.normal(loc=0.5, size=(600, 20)).astype(np.float32)
Y = np.argmax(X[:, :7], axis=1)


def run(path, rows):
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return session.run(["codes", "values"], {"vectors": rows})


def assert_same(encoder, path, rows):
    """Compare values, and all bits but those within rounding of zero."""
    codes, values = run(path, rows)
    own = encoder.project(rows)
    np.testing.assert_allclose(values, own, rtol=1e-3, atol=1e-4 * np.abs(own).max())
    differ = np.unpackbits(codes ^ encoder.encode(rows), axis=1, bitorder="little")
    assert not differ[:, encoder.n_bits :].any()  # the padding is zero
    sure = np.abs(own) > 1e-5 * np.abs(own).max()
    assert not (differ[:, : encoder.n_bits].astype(bool) & sure).any()
    return int(differ.sum())


@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("method", HASHERS)
def test_every_method_makes_the_same_codes(tmp_path, method, double):
    small = {"n_components": 64} if method == "hroh" else {}
    hasher = make_hasher(method, n_bits=20, random_state=0, **small)
    encoder = hasher.partial_fit(X[:500], Y[:500]).snapshot()
    encoder.to_onnx(tmp_path / "encoder.onnx", double=double)
    assert_same(encoder, tmp_path / "encoder.onnx", X)
    assert np.array_equal(run(tmp_path / "encoder.onnx", X[:1])[0], encoder.encode(X[:1]))  # any number of rows


@pytest.mark.parametrize(
    "features",
    [
        Centring(X.mean(axis=0, dtype=np.float64)),
        Fourier.draw(20, 50, 2.0, seed=0),
        Fourier.draw(20, 100, 2.0, seed=0),
        Anchors(X[:9], 3.0, constant=True, inner=Centring(np.zeros(20))),
        Anchors(X[:9].astype(np.float64), 3.0),
    ],
    ids=lambda features: type(features).__name__,
)
@pytest.mark.parametrize(
    "n_classes, sharpness, confidence_bits", [(0, 0.0, 0), (5, 0.0, 0), (5, 3.0, 0), (5, 3.0, 2), (5, 0.0, 99)]
)
def test_every_feature_map_with_and_without_codewords(tmp_path, features, n_classes, sharpness, confidence_bits):
    n_inputs = getattr(features, "n_outputs", features.n_inputs)
    weights = RNG.normal(size=(n_inputs, 14))
    words = RNG.choice(np.array([-1, 1], np.int8), (n_classes, 11)) if n_classes else None
    for dtype in (np.float32, np.float64):
        encoder = Encoder(
            weights.astype(dtype),
            RNG.normal(size=14).astype(dtype),
            features,
            codewords=words,
            sharpness=sharpness,
            confidence_bits=confidence_bits,
        )
        encoder.to_onnx(tmp_path / "encoder.onnx")
        assert_same(encoder, tmp_path / "encoder.onnx", X)


def test_zero_and_a_row_that_is_the_mean_count_as_positive(tmp_path):
    encoder = Encoder(np.eye(3, dtype=np.float32), features=Centring(np.ones(3)))
    encoder.to_onnx(tmp_path / "encoder.onnx")
    assert run(tmp_path / "encoder.onnx", np.ones((1, 3), np.float32))[0].tolist() == [[7]]
    words = Encoder(np.zeros((3, 2), np.float32), codewords=np.array([[1, -1], [1, 1]], np.int8), sharpness=2.0)
    words.to_onnx(tmp_path / "words.onnx")
    codes = run(tmp_path / "words.onnx", np.ones((1, 3), np.float32))[0]
    assert np.array_equal(codes, words.encode(np.ones((1, 3))))


def test_the_file_says_what_it_is(tmp_path):
    encoder = Encoder(np.eye(2), version=7, method="hcoh", feature_names=("x", "y"))
    encoder.to_onnx(tmp_path / "encoder.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "encoder.onnx", providers=["CPUExecutionProvider"])
    about = session.get_modelmeta().custom_metadata_map
    assert about == {"method": "hcoh", "version": "7", "n_bits": "2", "feature_names": '["x", "y"]'}


def test_the_encoder_of_a_collection_goes_to_another_program(tmp_path):
    """The whole way: learn in batches, export, and find with codes made elsewhere."""
    stream = load_dataset("digits").split().stream
    with Collection.open(tmp_path / "digits.oh", HROH(32, n_components=256, random_state=0)) as digits:
        for start in range(0, 1000, 200):
            rows = slice(start, start + 200)
            digits.upsert(range(start, start + 200), stream.X[rows], stream.y[rows])
        digits.refresh()
        encoder = digits.encoder
        encoder.to_onnx(tmp_path / "encoder.onnx")
        assert assert_same(encoder, tmp_path / "encoder.onnx", stream.X.astype(np.float32)) == 0
        codes, _ = run(tmp_path / "encoder.onnx", stream.X[:1000].astype(np.float32))
        assert np.array_equal(codes, digits.codes()[1])


def test_a_missing_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(MissingExtraError, match=r"pip install '\.\[onnx\]'"):
        Encoder(np.eye(2)).to_onnx(tmp_path / "encoder.onnx")
