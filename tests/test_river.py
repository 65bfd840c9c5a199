"""A hasher in river: pipelines, progressive validation, features that grow."""

import pickle

import numpy as np
import pandas as pd
import pytest
from river import base, compose, datasets, evaluate, metrics, naive_bayes, neighbors, preprocessing, stream

from onlinehash import HCOH, HROH, ITQ
from onlinehash.codes import unpack_bits
from onlinehash.exceptions import InvalidFeaturesError, InvalidInputError
from onlinehash.river import HashTransformer

X = np.random.default_rng(0).normal(size=(300, 6)).astype(np.float32)
Y = np.argmax(X[:, :3], axis=1)
NAMES = [f"x{i}" for i in range(6)]


def as_dict(row):
    return dict(zip(NAMES, row.tolist(), strict=True))


def test_a_nearest_neighbour_of_codes_learns_a_stream():
    """The whole way: scale, hash, find the nearest codes, progressive validation; most classes are told apart."""
    model = compose.Pipeline(
        preprocessing.StandardScaler(),
        HashTransformer(HCOH(24, random_state=0), n_features=32),
        neighbors.KNNClassifier(n_neighbors=5, engine=neighbors.LazySearch(window_size=300, dist_func=hamming)),
    )
    accuracy = evaluate.progressive_val_score(datasets.ImageSegments().take(700), model, metrics.Accuracy())
    assert accuracy.get() > 0.6


def hamming(one, other):
    return sum(one[name] != other[name] for name in one)


def test_dictionaries_one_at_a_time_equal_a_table():
    one, many = (HashTransformer(HCOH(12, random_state=0), n_features=8, every=300) for _ in range(2))
    table, labels = pd.DataFrame(X, columns=NAMES), pd.Series(Y)
    for row, label in zip(X, Y.tolist(), strict=True):
        one.learn_one(as_dict(row), label)
    many.learn_many(table, labels)
    codes = [list(transformer.learned.snapshot().encode(np.pad(X, ((0, 0), (0, 2))))) for transformer in (one, many)]
    assert np.array_equal(*codes)
    table_bits = many.transform_many(table)
    assert table_bits.iloc[3].to_dict() == many.transform_one(as_dict(X[3]))
    assert list(table_bits.index) == list(table.index)


def test_bits_are_those_of_the_hasher_on_plain_arrays():
    transformer, hasher = HashTransformer(HCOH(12, random_state=0), n_features=6, every=1), HCOH(12, random_state=0)
    for row, label in zip(X, Y.tolist(), strict=True):
        transformer.learn_one(as_dict(row), label)
        hasher.partial_fit(row[None], [label])
    bits = unpack_bits(hasher.snapshot().encode(X), 12)
    for row, expected in zip(X, bits.tolist(), strict=True):
        assert list(transformer.transform_one(as_dict(row)).values()) == expected


def test_features_come_go_and_grow_beyond_the_columns():
    transformer = HashTransformer(ITQ(4, random_state=0), n_features=8)
    rng = np.random.default_rng(0)
    for i in range(200):
        names = rng.choice(2 + i // 4, 5)
        transformer.learn_one({f"word {name}": float(rng.normal()) for name in names} | {"colour": "red", "on": True})
    bits = transformer.transform_one({"word 1": 1.0, "never seen": 2.0, "colour": "blue", "gone": None})
    assert len(bits) == 4
    assert set(bits.values()) <= {0, 1}
    assert len(transformer._columns) == 8


def test_an_unknown_feature_changes_nothing_while_there_are_columns_left():
    transformer = HashTransformer(HCOH(8, random_state=0), n_features=64)
    transformer.learn_many(pd.DataFrame(X, columns=NAMES), pd.Series(Y))
    known = as_dict(X[0])
    assert transformer.transform_one(known) == transformer.transform_one({**known, "new": 100.0})
    assert transformer.transform_one(known) == transformer.transform_one(dict(reversed(known.items())))


def test_bits_change_seldom_and_are_zero_before_the_first():
    transformer = HashTransformer(HROH(8, n_components=16, random_state=0), n_features=6, every=50)
    assert transformer.transform_one(as_dict(X[0])) == {f"bit_{i}": 0 for i in range(8)}
    versions = set()
    for row, label in zip(X, Y.tolist(), strict=True):
        transformer.learn_one(as_dict(row), label)
        versions.add(transformer._encoder.version if transformer._encoder else 0)
    assert len(versions) < 14
    assert max(versions) >= 250


@pytest.mark.parametrize("labels", [["a", "b", "c"], [True, False, True], [0, 1, 2]])
def test_labels_of_river_are_taken(labels):
    transformer = HashTransformer(HCOH(random_state=0), n_features=6)
    for row, label in zip(X, Y.tolist(), strict=True):
        transformer.learn_one(as_dict(row), labels[label])
    assert sum(transformer.transform_one(as_dict(X[0])).values()) > 0


def test_an_unsupervised_hasher_needs_no_labels_in_a_pipeline():
    hash_bits = HashTransformer(ITQ(8, random_state=0), n_features=8)
    assert not hash_bits._supervised
    model = preprocessing.StandardScaler() | hash_bits | naive_bayes.BernoulliNB()
    for row, label in stream.iter_array(X, Y, feature_names=NAMES):
        model.predict_one(row)
        model.learn_one(row, label)
    assert hash_bits.learned.n_samples_seen_ == 300


def test_clones_start_afresh_and_copies_go_on():
    transformer = HashTransformer(HCOH(8, random_state=0), n_features=6)
    transformer.learn_many(pd.DataFrame(X, columns=NAMES), pd.Series(Y))
    fresh = transformer.clone()
    assert isinstance(fresh, base.Transformer)
    assert fresh.transform_one(as_dict(X[0])) == dict.fromkeys(fresh.transform_one({}), 0)
    copy = pickle.loads(pickle.dumps(transformer))
    assert copy.transform_one(as_dict(X[0])) == transformer.transform_one(as_dict(X[0]))
    copy.learn_one(as_dict(X[0]), 1)


def test_what_is_no_number_is_refused_and_nothing_is_learned():
    transformer = HashTransformer(n_features=4)
    for value in (float("nan"), [1.0], float("inf")):
        with pytest.raises(InvalidFeaturesError, match="for 'x'; pass finite numbers or texts"):
            transformer.learn_one({"y": 1.0, "x": value}, 1)
    assert transformer._columns == {}
    with pytest.raises(InvalidInputError, match="n_features=0 is not positive"):
        HashTransformer(n_features=0)
