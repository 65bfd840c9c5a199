"""What a type checker knows of results: mypy checks this file, too."""

from pathlib import Path
from typing import Any, assert_type

import numpy as np

from onlinehash import Collection
from onlinehash.collection import Item


def test_a_type_checker_knows_the_parts_of_results(tmp_path: Path) -> None:
    with Collection.open(tmp_path / "pets.oh", "hcoh") as pets:
        pets.upsert([1, 2], np.eye(2), ["dog", "cat"], [{"name": "Rex"}, {"name": "Tom"}])
        found = pets.search([1.0, 0.5], k=1, include=["labels", "payload"])
        assert_type(found.labels, list[Any] | None)
        assert_type(found.payload, list[Any] | None)
        assert_type(found.staleness, int | None)
        assert_type(pets.get([1]), list[Item])
        assert (found.labels, found.payload) == (["dog"], [{"name": "Rex"}])
