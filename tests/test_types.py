"""What a type checker knows of results: mypy checks this file, too."""

from pathlib import Path
from typing import Any, assert_type

import numpy as np
from numpy.typing import NDArray

from onlinehash import Collection, FlatIndex
from onlinehash.collection import Item


def test_a_type_checker_knows_the_parts_of_results(tmp_path: Path) -> None:
    with Collection.open(tmp_path / "pets.oh", "hcoh") as pets:
        pets.upsert([1, 2], np.eye(2), ["dog", "cat"], [{"name": "Rex"}, {"name": "Tom"}])
        found = pets.search([1.0, 0.5], k=1, include=["labels", "payload"])
        assert_type(found.ids, list[Any])
        assert_type([one.distances for one in pets.search(np.eye(2))], list[list[Any]])
        assert_type(found.labels, list[Any] | None)
        assert_type(found.payload, list[Any] | None)
        assert_type(found.staleness, int | None)
        assert_type(pets.get([1]), list[Item])
        assert (found.labels, found.payload) == (["dog"], [{"name": "Rex"}])


def test_a_type_checker_knows_that_an_index_returns_arrays() -> None:
    index = FlatIndex(8)
    codes = np.array([[3], [5]], np.uint8)
    index.upsert(codes, [7, 9])
    found = index.search(codes[:1], k=1)
    assert_type(found.ids, NDArray[Any])
    assert_type(found[0].distances, NDArray[Any])
    assert found[0].ids.tolist() == [7]
