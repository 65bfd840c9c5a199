"""The collection of ``onlinehash serve --demo``: handwritten digits with their images."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from onlinehash.collection import Collection
from onlinehash.collection.learner import default_hasher
from onlinehash.datasets import load_dataset
from onlinehash.demo.images import data_url
from onlinehash.demo.run import IMAGE, N_COMPONENTS

_BATCH = 100  # items per upsert, some of which measure the quality before they are learned from


@contextmanager
def open_digits() -> Iterator[Collection]:
    """Yield a temporary collection of the digits of scikit-learn; the payload of an item has its image.

    Examples
    --------
    >>> with open_digits() as digits:
    ...     len(digits), digits.stats().precision > 0.8
    (1797, True)
    """
    data = load_dataset("digits")
    X, y = data.X, data.y
    hasher = default_hasher().set_params(n_components=N_COMPONENTS, random_state=0)
    with (
        TemporaryDirectory(prefix="onlinehash") as folder,
        Collection.open(Path(folder) / "digits.oh", hasher) as collection,
    ):
        collection.measure_quality()
        for start in range(0, len(X), _BATCH):
            rows = range(start, min(start + _BATCH, len(X)))
            collection.upsert(rows, X[rows], y[rows], [{"image": data_url(X[row].reshape(IMAGE))} for row in rows])
        collection.refresh()
        yield collection
