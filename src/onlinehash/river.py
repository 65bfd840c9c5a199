"""A hasher as a transformer of river: dictionaries of features in, bits out."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from onlinehash._internal.validation import check_positive_int
from onlinehash.codes import unpack_bits
from onlinehash.encoders import Encoder
from onlinehash.exceptions import InvalidFeaturesError, NotLearnedError, needs_extra
from onlinehash.hashers import OnlineHasher, make_hasher

with needs_extra("river", "river"):
    import pandas as pd
    from river import base


class HashTransformer(base.Transformer):
    """Learn a hasher from dictionaries of features, and turn them into bits.

    Features may come and go: each new name gets a column of its own, a missing one is 0. When all ``n_features``
    columns are taken, further names share them, by the hash of the name. A text is a feature of its own,
    ``"name=text"`` with the value 1.

    Bits come from a snapshot of the hasher, which is taken again when it has learned twice as much, and after every
    ``every`` instances: a model behind it sees bits that seldom change their meaning. Before the first snapshot all
    bits are 0.

    Parameters
    ----------
    hasher : hasher or name of one, default="hcoh"
        The transformer learns on a copy. One that is supervised learns from labels, as part of a pipeline too.
    n_features : int, default=256
        Number of columns of the vectors that the hasher learns from.
    every : int, default=100

    Examples
    --------
    >>> from river import datasets, evaluate, metrics, naive_bayes, preprocessing
    >>> from onlinehash import HCOH
    >>> model = (
    ...     preprocessing.StandardScaler()
    ...     | HashTransformer(HCOH(16, random_state=0), n_features=32)
    ...     | naive_bayes.BernoulliNB()
    ... )
    >>> stream = datasets.ImageSegments().take(1000)
    >>> evaluate.progressive_val_score(stream, model, metrics.Accuracy()).get() > 0.6
    True
    """

    def __init__(self, hasher: OnlineHasher | str = "hcoh", n_features: int = 256, every: int = 100) -> None:
        self.hasher = hasher
        self.n_features = check_positive_int("n_features", n_features)
        self.every = check_positive_int("every", every)
        self._hasher: OnlineHasher = make_hasher(hasher) if isinstance(hasher, str) else clone(hasher)
        self._columns: dict[str, int] = {}
        self._encoder: Encoder | None = None
        self._names = [f"bit_{bit}" for bit in range(self._hasher.n_bits)]

    @property
    def _supervised(self) -> bool:
        """Whether a pipeline passes labels."""
        return bool(self._hasher.supervised)

    @property
    def learned(self) -> OnlineHasher:
        """The hasher, with all it has learned."""
        return self._hasher

    # ------------------------------------------------------------------ learning

    def learn_one(self, x: Mapping[Any, Any], y: Any = None) -> None:
        """Learn from the features of an instance, and its label if the hasher is supervised.

        Parameters
        ----------
        x : dict
            Numbers, booleans or texts by name.
        y : int, str or bool, optional
        """
        self._learn([x], [y])

    def learn_many(self, X: pd.DataFrame, y: Any = None) -> None:
        """Learn from a table of features, and a series of labels if the hasher is supervised.

        Parameters
        ----------
        X : DataFrame
        y : Series, optional
        """
        self._learn(X.to_dict("records"), [None] * len(X) if y is None else list(y))

    def _learn(self, instances: list[Any], labels: list[Any]) -> None:
        if not instances:
            return
        rows = self._vectors(instances, new=True)
        y = [int(label) if isinstance(label, bool | np.bool_) else label for label in labels]
        self._hasher.partial_fit(rows, y if self._hasher.supervised else None)
        known = 0 if self._encoder is None else self._encoder.version
        if self._hasher.version_ - known >= min(self.every, known):
            with suppress(NotLearnedError):
                self._encoder = self._hasher.snapshot()

    # ------------------------------------------------------------------ transforming

    def transform_one(self, x: Mapping[Any, Any]) -> dict[Any, int]:
        """Return the bits of an instance, by name: ``bit_0``, ``bit_1``, ...

        Parameters
        ----------
        x : dict
        """
        return dict(zip(self._names, self._bits([x])[0].tolist(), strict=True))

    def transform_many(self, X: pd.DataFrame) -> pd.DataFrame:
        """Return the bits of a table of instances, one column per bit.

        Parameters
        ----------
        X : DataFrame
        """
        return pd.DataFrame(self._bits(X.to_dict("records")), index=X.index, columns=self._names)

    def _bits(self, instances: list[Any]) -> NDArray[np.uint8]:
        if self._encoder is None or not instances:
            return np.zeros((len(instances), len(self._names)), np.uint8)
        return unpack_bits(self._encoder.encode(self._vectors(instances)), len(self._names))

    # ------------------------------------------------------------------ features

    def _vectors(self, instances: Iterable[Mapping[Any, Any]], *, new: bool = False) -> NDArray[np.float32]:
        """Return vectors; ``new`` names get columns of their own while there are any."""
        listed = [[_numeric(*feature) for feature in x.items()] for x in instances]
        vectors = np.zeros((len(listed), self.n_features), np.float32)
        for row, features in zip(vectors, listed, strict=True):
            for name, value in features:
                if new and name not in self._columns and len(self._columns) < self.n_features:
                    self._columns[name] = len(self._columns)
                column = self._columns.get(name)
                if column is not None:
                    row[column] += value
                elif len(self._columns) == self.n_features:
                    row[crc32(name.encode()) % self.n_features] += value
        return vectors


def _numeric(name: Any, value: Any) -> tuple[str, float]:
    """Return a feature as a name and a number; a text becomes part of the name."""
    if isinstance(value, str):
        return f"{name}={value}", 1.0
    if value is None:
        return str(name), 0.0
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.inf
    if not math.isfinite(number):
        raise InvalidFeaturesError(f"x has {value!r} for {name!r}; pass finite numbers or texts, or leave it out.")
    return str(name), number
