"""Filters that are answered from columns of payloads in memory, against SQLite and a loop over all items."""

import random

import numpy as np
import pytest
from tests.collection.filter_oracle import passes

from onlinehash import LSH, Collection
from onlinehash.collection import Never
from onlinehash.collection.stores import sqlite_columns

NUMBERS = (3, 3.0, -7, 0, -0.0, 0.1, 2.5e-17, 1e300, 2**53, 2**53 - 1, 2**70)
VALUES = (*NUMBERS, "3", "a", "a{0}", "é", "\U0001f600", "", True, None, [3])
PATHS = ("n", "a.b", "{x}")


def payload(rng, values):
    """Return a payload that has values at some of the paths."""
    some = {path: rng.choice(values) for path in ("n", "{x}") if rng.random() < 0.8}
    return rng.choice([{**some, "a": {"b": rng.choice(values)}}, some, None])


def filters(rng, values):
    """Return filters, several by each path, with values that are there and some that are not."""
    given = [value for value in (*values, 1, "b", 0.3) if isinstance(value, (int, float, str)) and value is not True]
    plain = [value for value in given if value != 2**70]
    for _ in range(30):
        path, value = rng.choice(PATHS), rng.choice(plain)
        operator = rng.choice(["$eq", "$lt", "$lte", "$gt", "$gte", "$in", "$ne"])
        where = {path: {operator: rng.sample(plain, 3) if operator == "$in" else value}}
        yield where if rng.random() < 0.6 else {**where, rng.choice(PATHS): {"$exists": True}, "$not": {"n": -7}}


@pytest.mark.parametrize("values", [VALUES, (*VALUES, 2**53 + 1, 2**62), (*VALUES, "long " * 50)])
def test_columns_answer_as_the_oracle_does(tmp_path, monkeypatch, values):
    """With items that come, change, and go after a column was read; and with values that no column holds."""
    monkeypatch.setattr(sqlite_columns, "_AT_A_TIME", 70)
    monkeypatch.setattr(sqlite_columns, "_NEW", 40)
    rng, X = random.Random(1), np.random.default_rng(0).standard_normal((400, 4)).astype(np.float32)
    payloads = {}
    with Collection.open(tmp_path / "items.oh", LSH(8, random_state=0), Never()) as collection:

        def put(ids):
            payloads.update({id: payload(rng, values) for id in ids})
            collection.upsert(ids, X[ids], payload=[payloads[id] for id in ids])

        def compare():
            for where in filters(rng, values):
                found = collection.search(X[0], k=1000, where=where).ids
                assert sorted(found) == sorted(id for id, given in payloads.items() if passes(given, where)), where

        put(list(range(200)))
        compare()
        put(list(range(190, 220)))
        compare()
        put(list(range(250, 350)))
        compare()
        payloads[5] = {"n": 3}
        collection.update(5, payload=payloads[5])
        collection.delete([0, 300])
        del payloads[0], payloads[300]
        compare()
        known = collection._store._columns._known.values()
        assert any(isinstance(column, sqlite_columns.Column) for column in known)
