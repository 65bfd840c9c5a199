"""Batches of every kind are stored as they were given, however they get into the file."""

import json

import numpy as np
import pytest

from onlinehash import HCOH, Collection
from onlinehash.collection import Never
from onlinehash.collection.stores import sqlite_inserts

KINDS = {
    "integers": lambda i: [-(2**63), 2**63 - 1, 0, -1][i] if i < 4 else i * 7919,
    "strings": lambda i: ['"', "\\u0000", "é\n\t", "日本 😀", " space ", "{}", "[1]", "null"][i] if i < 8 else f"n {i}",
    "zero characters": lambda i: f"a\0{i}" if i % 3 else f"\0{i}",
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("labels", ["short", "long", "some", "none"])
@pytest.mark.parametrize("payloads", ["all", "some", "none"])
def test_a_batch_is_stored_as_it_was_given(path, monkeypatch, kind, labels, payloads):
    monkeypatch.setattr(sqlite_inserts, "_AT_A_TIME", 16)  # the last statement has 2 rows, others 16
    n = 50
    X = np.random.default_rng(0).normal(size=(n, 5)).astype(np.float32)
    ids = [KINDS[kind](i) for i in range(n)]
    y = {
        "short": [["é" if i % 2 else 'a "b" ', "c"][i % 3 :] or "d" for i in range(n)],
        "long": ["x" * (40 * (i % 3)) + "é" for i in range(n)],
        "some": [None if i % 4 else f"{i}" for i in range(n)],
        "none": None,
    }[labels]
    notes = {
        "all": [{"title": f"é {i} \n", "n": [i, None]} for i in range(n)],
        "some": [i if i % 5 == 0 else None for i in range(n)],
        "none": None,
    }[payloads]
    with Collection.open(path, HCOH(n_bits=8, random_state=0), Never()) as collection:
        for _ in range(2):  # inserted, then replaced
            collection.upsert(ids, X, y, notes)
        expected = [(X[i].tolist(), _labels(y and y[i]), notes and notes[i]) for i in range(n)]
        for each in (collection, Collection.open(path, readonly=True)):
            items = {item.id: item for item in each.items()}
            assert sorted(items) == sorted(ids)
            assert [(items[id].vectors.tolist(), items[id].labels, items[id].payload) for id in ids] == expected
            if each is not collection:
                each.close()


def _labels(given):
    return (
        tuple(given) if isinstance(given, list) and len(given) > 1 else given[0] if isinstance(given, list) else given
    )


def test_the_smallest_and_the_largest_id_can_be_neighbours(path):
    X = np.random.default_rng(0).normal(size=(2, 5)).astype(np.float32)
    ids = [-(2**63), 2**63 - 1]
    with Collection.open(path, HCOH(n_bits=8, random_state=0), Never()) as collection:
        collection.upsert(ids, X, [1, 2])
    with Collection.open(path) as collection:
        assert list(collection) == sorted(collection.search(X[0], 5).ids) == ids


def test_a_batch_of_which_some_ids_are_there_replaces_these_only(path):
    X = np.random.default_rng(0).normal(size=(60, 5)).astype(np.float32)
    y = np.arange(60) % 3
    with Collection.open(path, HCOH(n_bits=8, random_state=0), Never()) as collection:
        collection.upsert(range(40), X[:40], y[:40])
        collection.upsert(range(30, 60), X[:30], y[:30])
        collection.refresh()
        collection.upsert(range(55, 65), X[:10], y[:10], [json.dumps(i) for i in range(10)])
        assert len(collection) == 65
        assert np.array_equal(collection.get(35)[0].vectors, X[5])
        assert np.array_equal(collection.get(57)[0].vectors, X[2])
        found = collection.search(X[3], 65)
        assert sorted(found.ids) == list(range(65))
        before = (
            found,
            collection.label_counts(),
            [part if isinstance(part, list) else part.tolist() for part in collection.codes()],
        )
    with Collection.open(path) as collection:
        after = (
            collection.search(X[3], 65),
            collection.label_counts(),
            [part if isinstance(part, list) else part.tolist() for part in collection.codes()],
        )
        assert (after[0].ids, after[0].distances, *after[1:]) == (before[0].ids, before[0].distances, *before[1:])
