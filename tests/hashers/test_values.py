import numpy as np
import pytest

from onlinehash import HCOH, HROH, Collection, make_hasher
from onlinehash.exceptions import InvalidFeaturesError, InvalidInputError, UnknownNameError
from onlinehash.hashers import HASHERS

SMALL = {
    "bsodh": {"batch_size": 20},
    "foh": {"batch_size": 20},
    "hroh": {"n_components": 32, "bandwidth": 1.0},
    "mihash": {"reservoir_size": 50},
    "okh": {"n_anchors": 10},
    "sdoh_hc": {"batch_size": 20, "n_anchors": 10},
}


def stream(n=60, dtype=np.float64):
    rng = np.random.default_rng(0)
    return rng.standard_normal((n, 12)).astype(dtype), rng.integers(0, 3, n)


@pytest.mark.parametrize("dtype, scale", [(np.float32, 2.0**-100), (np.float64, 2.0**-800), (np.float64, 2.0**800)])
def test_very_short_and_very_long_rows_are_learned_and_encoded_like_any_other(dtype, scale):
    X, y = stream(dtype=dtype)
    plain, scaled = (HCOH(16, random_state=0).partial_fit(rows, y) for rows in (X, X * dtype(scale)))
    assert np.allclose(plain.weights_, scaled.weights_, atol=1e-5)
    assert np.array_equal(plain.transform(X), scaled.transform(X * dtype(scale)))


@pytest.mark.parametrize("preprocess", ["running", "unit"])
def test_subnormal_rows_are_learned_from_and_encoded_without_nan(preprocess):
    X, y = stream(dtype=np.float32)
    hasher = HCOH(16, preprocess=preprocess, random_state=0).partial_fit(X * np.float32(1e-43), y)
    assert np.isfinite(hasher.weights_).all()
    assert np.isfinite(hasher.project(X * np.float32(1e-43))).all()


@pytest.mark.parametrize("name", HASHERS)
@pytest.mark.parametrize("dtype, length", [(np.float32, 6e12), (np.float64, 5e102)])
def test_rows_that_are_not_scaled_are_learned_up_to_a_length_and_refused_beyond_it(name, dtype, length):
    X, y = stream(dtype=dtype)
    long = X * (length / np.linalg.norm(X, axis=1, keepdims=True)).astype(dtype)
    hasher = make_hasher(name, n_bits=8, preprocess="none", random_state=0, **SMALL.get(name, {})).partial_fit(X, y)
    hasher.partial_fit(long, y)
    assert np.isfinite(hasher.snapshot().weights).all()
    before = hasher.to_bytes()
    for learn in (hasher.partial_fit, hasher.fit):
        with pytest.raises(InvalidFeaturesError, match=r"Row \d+ of X is longer than .* use preprocess='unit'"):
            learn(np.vstack([X, 2.0 * long]), np.tile(y, 2))
        assert hasher.to_bytes() == before


def test_long_rows_of_integers_are_refused_and_those_without_labels_stored(tmp_path):
    X, y = stream(dtype=np.float32)
    hasher = HCOH(8, preprocess="none", random_state=0).partial_fit(X, y)
    with pytest.raises(InvalidFeaturesError, match="Row 0 of X is longer than"):
        hasher.partial_fit(np.full((1, 12), 2**64 - 1, np.uint64), [0])
    with Collection.open(tmp_path / "items.oh", HCOH(8, preprocess="none", random_state=0)) as collection:
        collection.upsert([1, 2], np.float32([[1, 0], [1e15, 0]]), [0, None])
        with pytest.raises(InvalidFeaturesError, match="Row 1 of X is longer than"):
            collection.upsert([3, 4], np.float32([[1, 0], [1e15, 0]]), [0, 1])
        assert len(collection) == 2


def test_values_whose_differences_overflow_are_refused():
    X, y = stream(dtype=np.float32)
    hasher = HCOH(8, random_state=0).partial_fit(X, y)
    with pytest.raises(InvalidFeaturesError, match="too large for float32"):
        hasher.partial_fit(np.array([[3e38] * 12, [-3e38] * 12], np.float32), [0, 1])
    with pytest.raises(InvalidInputError, match="mean that contains NaN, inf or values too large for float32"):
        HCOH(8, preprocess=[1e300] * 12).partial_fit(X, y)


@pytest.mark.parametrize("preprocess", ["unit", "running"])
def test_rows_of_weight_zero_are_left_out(preprocess):
    X, y = stream()
    weights = np.where(y == 0, 0.0, 1.0)
    params = {"n_bits": 8, "n_components": 32, "preprocess": preprocess, "random_state": 0}
    weighted = HROH(**params).partial_fit(X, [*y[:-1], None], weights)
    kept = np.flatnonzero(weights)
    plain = HROH(**params).partial_fit(X[kept], [None if i == len(y) - 1 else y[i] for i in kept], weights[kept])
    assert weighted.classes_.tolist() == plain.classes_.tolist()
    assert 0 not in weighted.classes_
    assert (weighted.n_samples_seen_, weighted.n_unlabelled_) == ((y[:-1] > 0).sum(), 1)
    assert np.array_equal(weighted.project(X), plain.project(X))
    if preprocess == "unit":
        assert weighted.unlearn(X[:10], y[:10], weights[:10]).n_unlearned_ == (y[:10] > 0).sum()


def test_an_unknown_parameter_is_named_with_the_known_ones():
    with pytest.raises(
        UnknownNameError, match=r"Unknown parameter of hcoh 'nbits'\. Did you mean 'n_bits'\? Known: batch_"
    ):
        make_hasher("hcoh", nbits=3)


def test_more_bits_than_features_name_the_way_out():
    with pytest.raises(InvalidInputError, match=r"Use n_bits=1 or fewer\."):
        make_hasher("itq", n_bits=2).partial_fit(np.ones((5, 1)))


@pytest.mark.parametrize("name", ["okh", "sdoh_hc"])
def test_fit_leaves_nothing_of_what_was_learned_before(name):
    X, y = stream()
    make = lambda: make_hasher(name, n_bits=8, random_state=0, **SMALL[name])  # noqa: E731
    again = make().fit(X, y).fit(X[:5], y[:5])  # too few for the anchors
    assert again.to_bytes() == make().fit(X[:5], y[:5]).to_bytes()


@pytest.mark.parametrize("preprocess", ["running", "unit"])
@pytest.mark.parametrize("length", [1e-30, 3e-39, 1e-45])
def test_rows_of_hardly_any_length_leave_the_weights_finite(preprocess, length):
    rows = np.array([[1, -1, 1], [-1, 1, 1]], np.float32) * np.float32(length)
    hasher = HCOH(8, preprocess=preprocess, random_state=0).partial_fit(rows, [0, 1]).partial_fit(rows[0], 1)
    assert np.isfinite(hasher.weights_).all()
