"""Results as data frames."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from onlinehash import HROH, Collection, to_frame
from onlinehash.collection import Decision, Item


def test_a_search_has_one_row_per_item_found(tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(50, 6)), ["a", "b"] * 25
    with Collection.open(tmp_path / "items.oh", HROH(16, n_components=32, random_state=0)) as items:
        items.upsert(range(50), X, y, payload=[{"n": i} for i in range(50)])
        found = items.search(X[:3], 4, include=["labels", "payload", "vectors"])
        frame = to_frame(found, "pandas")
        assert isinstance(frame, pd.DataFrame)
        assert list(frame) == ["query", "place", "id", "distance", "labels", "payload", "vectors"]
        assert frame["id"].tolist() == [id for row in found.ids for id in row]
        assert frame["query"].tolist() == [0] * 4 + [1] * 4 + [2] * 4 and frame["payload"][0].startswith('{"n":')
        one = to_frame(items.search_by_id(7, 5))
        assert one["id"].to_pylist() == items.search_by_id(7, 5).ids and 7 not in one["id"].to_pylist()
        listed = to_frame(list(items.items(limit=3)))
        assert listed["labels"].to_pylist() == ["a", "b", "a"] and len(listed["vectors"][0]) == 6
        decided = to_frame(items.classify(X[:5], max_error=0.5))
        assert isinstance(decided, pa.Table) and decided.column_names[:2] == ["label", "score"]


@pytest.mark.parametrize("backend", ["pyarrow", "pandas"])
def test_values_of_a_column_are_of_one_kind(backend):
    decisions = [Decision("a", 0.9, [("a", 0.9), ("b", 0.1)], True, [1, 2]), Decision(None, 0.4, [], False, [])]
    assert len(to_frame(decisions, backend)) == 2
    items = [Item(1, np.ones(2), ("a", "b"), {"x": 1}), Item(2, np.ones(2), "a", None), Item(3, np.ones(2))]
    frame = to_frame(items)
    assert frame["labels"].to_pylist() == [["a", "b"], ["a"], None]
    assert frame["payload"].to_pylist() == ['{"x": 1}', None, None]
    assert to_frame([]).num_rows == 0
