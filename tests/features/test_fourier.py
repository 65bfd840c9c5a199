from dataclasses import replace

import numpy as np
import pytest
from tests.reference import hroh as reference

from onlinehash import Encoder
from onlinehash.features import Anchors, Centring, Fourier


def rows(n=40, d=7, dtype=np.float64, seed=0):
    return reference.unit(np.random.default_rng(seed).normal(size=(n, d))).astype(dtype)


@pytest.mark.parametrize("n_components", [1, 15, 16, 100])
@pytest.mark.parametrize("n_features", [1, 7, 16, 33])
def test_fast_transforms_equal_the_product_of_dense_matrices(n_features, n_components):
    X = rows(37, n_features)
    fourier = Fourier.draw(n_features, n_components, 0.7, seed=3)
    frequencies = reference.hadamard_frequencies(fourier.signs, 0.7, n_features, n_components)
    assert (fourier.n_inputs, fourier.n_outputs) == (n_features, n_features + n_components)
    mapped = fourier.transform(X)
    assert np.array_equal(mapped[:, :n_features], X)
    assert np.abs(mapped[:, n_features:] - reference.cosines(X, frequencies, fourier.phases)).max() < 1e-12


@pytest.mark.parametrize("n_features", [1, 7, 64])
@pytest.mark.parametrize("bandwidth", [0.5, 2.0])
def test_inner_products_come_near_the_gaussian_kernel(n_features, bandwidth):
    X = rows(20, n_features)
    Z = Fourier.draw(n_features, 16384, bandwidth, seed=0).transform(X)[:, n_features:]
    kernel = np.exp(-np.square(X[:, None] - X).sum(axis=2) / (2.0 * bandwidth))
    assert np.abs(Z @ Z.T - kernel).max() < 0.06


def test_frequencies_of_one_block_are_orthogonal():
    fourier = Fourier.draw(32, 32, 1.0, seed=1)
    W = reference.hadamard_frequencies(fourier.signs, 1.0, 32, 32)
    assert np.allclose(W @ W.T, 32 * np.eye(32))


def test_a_seed_gives_one_map_and_another_seed_another():
    X = rows()
    first = Fourier.draw(7, 20, 1.0, seed=1).transform(X)
    assert np.array_equal(first, Fourier.draw(7, 20, 1.0, seed=1).transform(X))
    assert not np.allclose(first, Fourier.draw(7, 20, 1.0, seed=2).transform(X))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_features, n_components", [(7, 50), (64, 64), (130, 257), (1, 3)])
def test_a_row_gives_the_same_bits_alone_as_among_others(dtype, n_features, n_components):
    X = rows(70, n_features, dtype)
    features = Fourier.draw(n_features, n_components, 0.9, seed=0)
    together = features.transform(X)
    assert together.dtype == dtype
    assert np.array_equal(together, np.vstack([features.transform(x[None]) for x in X]))


def test_single_precision_stays_close_to_double():
    X = rows(50, 30)
    fourier = Fourier.draw(30, 100, 0.9, seed=0)
    assert np.abs(fourier.transform(X.astype(np.float32)) - fourier.transform(X)).max() < 1e-5


def test_rows_that_are_not_contiguous_give_the_same():
    X = rows(40, 14)
    fourier = Fourier.draw(7, 20, 1.0, seed=1)
    assert np.allclose(fourier.transform(X[:, ::2]), fourier.transform(X[:, ::2].copy()), rtol=0, atol=1e-14)
    assert np.allclose(
        fourier.transform(np.asfortranarray(X[:, :7])), fourier.transform(X[:, :7].copy()), rtol=0, atol=1e-14
    )


def maps(d):
    centring = Centring(np.full(d, 0.1))
    yield Fourier.draw(d, 20, 0.7, seed=1)
    yield replace(Fourier.draw(d, 21, 0.7, seed=1), inner=centring)
    yield Anchors(rows(6, d, seed=2), 1.4, inner=centring)
    yield Anchors(rows(6, d, seed=2), 1.4, constant=True)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("number", range(4))
def test_an_encoder_with_the_map_survives_saving(number, dtype, tmp_path):
    features = list(maps(7))[number]
    weights = np.random.default_rng(0).normal(size=(features.n_outputs, 12)).astype(dtype)
    encoder = Encoder(weights, weights[0].copy(), features, version=3, method="hroh")
    encoder.save(tmp_path / "e.oh")
    again = Encoder.load(tmp_path / "e.oh")
    X = rows(30, 7, dtype)
    assert (again.n_features, again.n_bits, again.version) == (7, 12, 3)
    assert type(again.features) is type(features)
    assert np.array_equal(again.project(X), encoder.project(X))
    assert np.array_equal(again.encode(X), encoder.encode(X))


def test_the_zero_row_gives_the_cosines_of_the_phases():
    fourier = Fourier.draw(5, 30, 1.0, seed=4)
    assert np.allclose(fourier.transform(np.zeros((1, 5)))[0, 5:], np.sqrt(2 / 30) * np.cos(fourier.phases))
