"""FROSH: compressed chunks, the same hashing as SketchHash for fewer factorizations."""

import numpy as np
import pytest
from tests.reference import sketch as slow

from onlinehash import load_dataset
from onlinehash.exceptions import InvalidInputError
from onlinehash.hashers._principal import FrequentDirections, RunningMean
from onlinehash.hashers.frosh import FROSH, compress_rows
from onlinehash.hashers.sketchhash import SketchHash
from onlinehash.metrics import Ranking


def gram(rows):
    return rows.T @ rows


def decaying(n_samples, n_features, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n_samples, n_features)) * 0.9 ** np.arange(n_features) + 1.0


@pytest.mark.parametrize("n_rows", [9, 16, 37, 64])
def test_compression_equals_the_slow_twin(n_rows):
    rows = decaying(n_rows, 5)
    fast = compress_rows(rows, 8, np.random.default_rng(3))
    assert fast.shape == (8, 5)
    assert np.allclose(fast, slow.compress(rows, 8, np.random.default_rng(3)), rtol=0, atol=1e-12)


def test_few_rows_are_not_compressed():
    rows = decaying(8, 5)
    assert np.array_equal(compress_rows(rows, 8, np.random.default_rng(0)), rows)


@pytest.mark.parametrize("n_rows", [40, 64])
def test_compression_keeps_the_gram_matrix_in_expectation(n_rows):
    rows = decaying(n_rows, 6)
    grams = [gram(compress_rows(rows, 16, np.random.default_rng(seed))) for seed in range(2000)]
    error = np.std(grams, axis=0) / np.sqrt(len(grams))
    assert (np.abs(np.mean(grams, axis=0) - gram(rows)) < 4.5 * error + 1e-12).all()


def test_spreading_the_shift_of_the_mean_keeps_the_scatter_matrix():
    rows = decaying(100, 6)
    moments = RunningMean(6)
    parts = [moments.add_spread(rows[start : start + 17]) for start in range(0, 100, 17)]
    assert [len(part) for part in parts] == [17, 17, 17, 17, 17, 15]
    assert np.allclose(gram(np.vstack(parts)), gram(rows - rows.mean(axis=0)), rtol=1e-12)
    assert np.allclose(moments.mean, rows.mean(axis=0), rtol=1e-14)


def test_sketch_equals_slow_parts_in_a_row():
    rows = decaying(96, 12)
    hasher = FROSH(4, sketch_size=8, chunk_size=32, preprocess="none", random_state=5).partial_fit(rows)
    B, n_used = [], 0
    for k in range(3):
        A, before = rows[32 * k : 32 * (k + 1)], rows[: 32 * k]
        shift = A.mean(axis=0) - before.mean(axis=0) if k else np.zeros(12)
        centred = A - A.mean(axis=0) + np.sqrt(k / (k + 1)) * shift
        for row in slow.compress(centred, 4, np.random.default_rng([5, k, 8])):
            n_used = slow.insert_row(B, n_used, row, 8)
    assert np.allclose(gram(hasher.sketch_), gram(np.vstack(B)), rtol=0, atol=1e-10)


def test_sketch_is_close_to_the_scatter_matrix():
    rows = decaying(4096, 60)
    exact = gram(rows - rows.mean(axis=0))
    errors = []
    for seed in range(5):
        hasher = FROSH(8, sketch_size=64, preprocess="none", random_state=seed).partial_fit(rows)
        errors.append(np.linalg.norm(gram(hasher.sketch_) - exact, 2) / np.trace(exact))
        assert np.allclose(hasher.mean_, rows.mean(axis=0), rtol=1e-12)
    assert max(errors) < 0.04


def test_independent_chunks_average_out():
    rows = decaying(4096, 30)
    exact = gram(rows - rows.mean(axis=0))
    grams = [
        gram(FROSH(8, sketch_size=64, preprocess="none", random_state=seed).partial_fit(rows).sketch_)
        for seed in range(40)
    ]
    alone = np.mean([np.linalg.norm(each - exact, 2) for each in grams])
    assert np.linalg.norm(np.mean(grams, axis=0) - exact, 2) < 0.4 * alone


def test_takes_fewer_factorizations_than_sketchhash(monkeypatch):
    counts = []
    shrink = FrequentDirections.shrink

    def counted(self):
        counts[-1] += 1
        shrink(self)

    monkeypatch.setattr(FrequentDirections, "shrink", counted)
    rows = decaying(5120, 40)
    for hasher in (FROSH(8, sketch_size=32), SketchHash(8, sketch_size=32, batch_size=50)):
        counts.append(0)
        hasher.partial_fit(rows)
    frosh, sketchhash = counts
    assert frosh == 20 - 2  # one a chunk, once the two halves are full
    assert sketchhash > 10 * frosh


def test_retrieves_as_well_as_sketchhash():
    scores = {FROSH: [], SketchHash: []}
    for seed in range(8):
        split = load_dataset("digits").split("published", seed)
        for method, values in scores.items():
            encoder = method(16, sketch_size=40, preprocess="none", random_state=seed).fit(split.stream.X).snapshot()
            codes = encoder.encode(split.queries.X), encoder.encode(split.database.X)
            ranking = Ranking(codes[0], split.queries.y, codes[1], split.database.y)
            values.append(ranking.mean_average_precision())
    assert abs(np.mean(scores[FROSH]) - np.mean(scores[SketchHash])) < 0.03


@pytest.mark.parametrize(
    ("params", "told"),
    [
        ({"sketch_size": 7}, "sketch_size=7 is odd"),
        ({"chunk_size": 0}, "chunk_size=0 is not positive"),
        ({"n_bits": 13}, "n_bits=13 is more than n_features=12; FROSH"),
    ],
)
def test_refuses_settings_that_cannot_work(params, told):
    with pytest.raises(InvalidInputError, match=told):
        FROSH(**{"n_bits": 4, **params}).partial_fit(decaying(20, 12))
