import dataclasses

import numpy as np
import pytest

from onlinehash import HCOH, Encoder, pack_signs
from onlinehash.exceptions import DataNotFoundError, FileFormatError, InvalidFeaturesError, InvalidInputError
from onlinehash.features import Centring


@pytest.fixture
def encoder():
    rng = np.random.default_rng(0)
    return Encoder(
        rng.normal(size=(7, 12)), rng.normal(size=12), Centring(rng.normal(size=7)), version=5, method="hcoh"
    )


def test_codes_are_the_signs_of_the_projections(encoder):
    X = np.random.default_rng(1).normal(size=(300, 7))
    centred = X - encoder.features.mean
    Z = centred / np.linalg.norm(centred, axis=1, keepdims=True) @ encoder.weights + encoder.intercept
    assert np.allclose(encoder.project(X), Z)
    assert np.array_equal(encoder.encode(X), pack_signs(Z))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_soft_codes_are_squashed_projections_whose_signs_are_the_bits(dtype):
    rng = np.random.default_rng(0)
    encoder = Encoder(rng.normal(size=(7, 12)).astype(dtype), rng.normal(size=12).astype(dtype))
    X = rng.normal(size=(300, 7)).astype(dtype)
    X[0] *= 1e6
    soft = encoder.encode_asymmetric(X)
    assert soft.dtype == dtype
    assert np.array_equal(soft, np.tanh(encoder.project(X)))
    assert np.abs(soft).max() <= 1
    assert np.array_equal(pack_signs(soft), encoder.encode(X))
    with pytest.raises(InvalidFeaturesError, match="NaN or inf"):
        encoder.encode_asymmetric(np.full((1, 7), np.nan))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_with_codewords_and_no_sharpness_scores_combine_codewords_linearly(dtype):
    rng = np.random.default_rng(0)
    words = rng.choice(np.array([-1, 1], np.int8), (5, 12))
    encoder = Encoder(rng.normal(size=(7, 8)).astype(dtype), codewords=words)  # three bits follow those of the classes
    X = rng.normal(size=(300, 7)).astype(dtype)
    columns = X @ encoder.weights
    assert encoder.n_bits == 15
    assert np.allclose(encoder.project(X), np.hstack([columns[:, :5] @ words, columns[:, 5:]]), atol=1e-4)
    codes, scores = encoder.encode_and_score(X)
    assert np.allclose(scores, columns[:, :5], atol=1e-5)
    assert np.array_equal(scores, encoder.class_scores(X))
    assert np.array_equal(codes, encoder.encode(X))


def test_other_encoders_have_no_scores_of_classes(encoder):
    X = np.zeros((3, 7))
    with pytest.raises(InvalidInputError, match="The encoder of hcoh has no scores of classes; HROH's has"):
        encoder.class_scores(X)
    codes, scores = encoder.encode_and_score(X)
    assert np.array_equal(codes, encoder.encode(X))
    assert scores.shape == (3, 0)


def test_large_input_is_encoded_in_chunks_with_the_same_codes():
    rng = np.random.default_rng(0)
    encoder = Encoder(rng.normal(size=(500, 9)).astype(np.float32))
    X = rng.normal(size=(5000, 500)).astype(np.float32)
    assert np.array_equal(encoder.encode(X), pack_signs(X @ encoder.weights))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_bits", [3, 8, 12, 64])
def test_one_row_has_the_code_that_it_has_among_many(dtype, n_bits):
    rng = np.random.default_rng(0)
    X = (100 + rng.normal(size=(3000, 20))).astype(dtype)
    encoder = Encoder(rng.normal(size=(20, n_bits)).astype(dtype), features=Centring(X.mean(axis=0, dtype=float)))
    together = encoder.encode(X)
    assert np.array_equal(together, pack_signs((X - encoder.features.mean).astype(dtype) @ encoder.weights))
    rows = range(0, 3000, 30)
    assert np.array_equal(np.concatenate([encoder.encode(X[row : row + 1]) for row in rows]), together[rows])
    assert np.array_equal(encoder.encode(X[::-1][:3]), together[::-1][:3])
    assert np.array_equal(encoder.encode(X[:3].astype(np.float32)), encoder.encode(X[:3].astype(np.float32).tolist()))
    around_zero = Encoder(encoder.weights, features=Centring(np.zeros(20)))
    for length in np.finfo(dtype).tiny, np.finfo(dtype).max / 100:
        assert np.array_equal(around_zero.encode(length * (X[:1] - 100)), around_zero.encode(X[:1] - 100))
    X[0, 5] = np.inf
    with pytest.raises(InvalidFeaturesError, match="inf at row 0, feature 5"):
        encoder.encode(X[:1])


def test_an_encoder_cannot_be_changed(encoder):
    with pytest.raises(dataclasses.FrozenInstanceError):
        encoder.version = 6
    with pytest.raises(ValueError, match="read-only"):
        encoder.weights[0, 0] = 1.0
    with pytest.raises(ValueError, match="read-only"):
        encoder.features.mean[0] = 1.0


def test_a_saved_encoder_makes_the_same_codes(encoder, tmp_path):
    X = np.random.default_rng(1).normal(size=(50, 7))
    encoder.save(tmp_path / "e.oh")
    again = Encoder.load(tmp_path / "e.oh")
    assert np.array_equal(again.project(X), encoder.project(X))
    assert (again.version, again.method, again.n_bits, again.n_features) == (5, "hcoh", 12, 7)
    assert repr(again) == "<Encoder hcoh version 5: 7 features to 12 bits>"
    Encoder(encoder.weights).save(tmp_path / "plain.oh")
    assert Encoder.load(tmp_path / "plain.oh").intercept is None


@pytest.mark.parametrize(
    "X, message",
    [
        (np.full((2, 7), np.nan), "NaN or inf: nan at row 0, feature 0"),
        (np.array([[1.0] * 7, [1.0] * 6 + [np.inf]]), "inf at row 1, feature 6"),
        (np.zeros((2, 6)), "X has 6 features, but Encoder is expecting 7"),
        (np.zeros(7), "Reshape your data"),
        (np.zeros((0, 7)), "0 sample"),
        (np.zeros((1, 7), complex), "Complex"),
        ([["a"] * 7], "dtype"),
        ([[1.0], [1.0, 2.0]], "different lengths"),
    ],
)
def test_bad_input_is_named(encoder, X, message):
    with pytest.raises(InvalidFeaturesError, match=message):
        encoder.encode(X)


def test_projections_that_overflow_are_named():
    with pytest.raises(InvalidFeaturesError, match="overflow float32"):
        Encoder(np.full((2, 3), 1e30, np.float32)).encode(np.full((1, 2), 1e30, np.float32))


def test_foreign_damaged_and_missing_files_are_told_apart(encoder, tmp_path):
    path = tmp_path / "e.oh"
    encoder.save(path)
    content = path.read_bytes()
    with pytest.raises(DataNotFoundError, match="There is no file"):
        Encoder.load(tmp_path / "none.oh")
    for name, damaged in {
        "empty": b"",
        "text": b"hello, this is not a model at all",
        "truncated": content[:-5],
        "longer": content + b"\0",
        "header": content[:8] + b"!" + content[9:],
    }.items():
        path.write_bytes(damaged)
        with pytest.raises(FileFormatError, match="damaged, or not a file that onlinehash wrote"):
            Encoder.load(path)
        assert name
    X = np.random.default_rng(0).normal(size=(5, 7))
    HCOH(8, random_state=0).partial_fit(X, [0, 1, 2, 3, 4]).save(path)
    with pytest.raises(FileFormatError, match="holds a hasher, not an encoder"):
        Encoder.load(path)


def test_a_file_of_a_newer_layout_asks_for_an_upgrade(encoder, tmp_path, monkeypatch):
    monkeypatch.setattr("onlinehash.encoders.encoder._LAYOUT", 99)
    encoder.save(tmp_path / "e.oh")
    monkeypatch.undo()
    with pytest.raises(FileFormatError, match=r"layout 99 .* Upgrade onlinehash"):
        Encoder.load(tmp_path / "e.oh")


def test_a_failed_save_leaves_the_old_file_and_nothing_else(encoder, tmp_path, monkeypatch):
    path = tmp_path / "e.oh"
    encoder.save(path)
    before = path.read_bytes()

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        encoder.save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
