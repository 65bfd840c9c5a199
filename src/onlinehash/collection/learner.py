"""Learner: the hasher of a collection, in step with the store."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import partial
from numbers import Integral
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from onlinehash._validation import check_n_bits
from onlinehash.collection._validation import LabelColumn, labels_of
from onlinehash.collection.stores.protocol import Rows, Store, in_pieces, rows_at_a_time
from onlinehash.exceptions import InvalidInputError, InvalidLabelsError, OnlineHashError
from onlinehash.hashers import OnlineHasher, load_hasher, make_hasher
from onlinehash.types import LabelSets, Progress

_STATE_SHARE = 4  # the state is written once this many times its size of vectors came since
_STATE_LEAST = 1 << 22


class Learner:
    """Keep the hasher of a collection in step with the store, and write its state now and then.

    A state that is not the last is no loss: what was learned since is learned again from the stream, in the batches of
    the first time, because some methods amplify the rounding of others to different bits.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self.hasher: OnlineHasher | None = None  # while it is out of step with the store: read before the next change
        self.n_learned = 0  # the version that a snapshot would have
        self._changing: OnlineHasher | None = None  # in a block that changes it
        self._unsaved, self._state_size = 0, 0

    def read(self) -> OnlineHasher:
        """Read the last state, learn what was stored since, and return the hasher."""
        state, after = self._store.state(), self._store.state_seq()
        hasher = load_hasher(state)
        for last in self._store.commits(after):
            rows = self._store.stream(after, last - after, retired=True, labelled=hasher.supervised)
            n_rows = bisect_right(rows.seqs, last)
            learn_stored(hasher, rows.vectors[:n_rows], rows.labels[:n_rows])
            after = last
        name_features(hasher, self._store.setting("feature_names"))
        self.hasher, self.n_learned = hasher, hasher.version_
        self._unsaved, self._state_size = self._store.position().seq - self._store.state_seq(), len(state)
        return hasher

    @property
    def is_saved(self) -> bool:
        """Whether the store has the last state."""
        return self.hasher is None or not self._unsaved

    def __enter__(self) -> OnlineHasher:
        """Change the hasher and the store in the block; after an error, the hasher must be read again."""
        hasher = self._ready()
        self._changing, self.hasher = hasher, None
        return hasher

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        hasher, self._changing = self._changing, None
        if kind is None and hasher is not None:
            self.hasher, self.n_learned = hasher, hasher.version_

    def _apply(self, hasher: OnlineHasher, change: Callable[..., object], *rows: Any) -> None:
        """Change a hasher, inside the block; one that refuses its input has not changed."""
        try:
            change(*rows)
        except OnlineHashError:
            self.hasher = hasher
            raise

    def learn(self, hasher: OnlineHasher, vectors: NDArray[Any], labels: LabelColumn) -> None:
        """Learn from checked rows."""
        targets, labelled = labels.targets, labels.labelled
        if hasher.supervised and isinstance(targets, LabelSets) and not hasher.multi_label:
            self.hasher = hasher
            raise InvalidLabelsError(f"{type(hasher).__name__} learns from one label per row; labels holds several.")
        self._unsaved += vectors.nbytes
        if targets is not None or not hasher.supervised:
            self._apply(hasher, hasher._learn_checked, vectors.astype(np.float32, copy=False), targets, labelled)

    def learn_again(self, hasher: OnlineHasher, rows: Rows) -> None:
        """Learn from rows as they are stored."""
        self._unsaved += rows.vectors.nbytes
        self._apply(hasher, learn_stored, hasher, rows.vectors, rows.labels)

    def unlearn(self, hasher: OnlineHasher, rows: Rows) -> None:
        """Unlearn rows that were learned as they are stored."""
        if not hasher.unlearns:
            self.hasher = hasher
            raise InvalidInputError(
                f"unlearn=True, but {hasher!r} cannot unlearn; HROH can. To learn again from what is left, delete, "
                "then call collection.change_hasher(...)."
            )
        vectors, y = _labelled(rows.vectors, rows.labels)
        if len(vectors):
            self._apply(hasher, cast(Any, hasher).unlearn, vectors, y)

    def _ready(self) -> OnlineHasher:
        assert self.hasher is not None
        return self.hasher

    def save(self, hasher: OnlineHasher, seq: int, *, if_due: bool = False) -> None:
        """Write the state, which has learned up to a sequence number; with ``if_due``, if much came since the last."""
        if if_due and self._unsaved <= max(_STATE_LEAST, _STATE_SHARE * self._state_size):
            return
        state = hasher.to_bytes()
        self._store.put_state(state, seq)
        self._unsaved, self._state_size = 0, len(state)

    def replace(self, hasher: OnlineHasher, seq: int) -> None:
        """Write another hasher to the store, which has learned up to a sequence number."""
        self.save(hasher, seq)
        self._store.put_setting("method", hasher.name)
        self._store.put_setting("n_bits", hasher.n_bits)
        if hasattr(hasher, "feature_names_in_"):
            self._store.put_setting("feature_names", list(hasher.feature_names_in_))
        self._store.put_setting("n_learned", hasher.version_)

    def check_recipe(self, hasher: OnlineHasher | str | None) -> None:
        """Raise if this is another method, or one with other parameters."""
        own = self._ready()
        if hasher is None or (isinstance(hasher, str) and hasher.lower() == own.name):
            return
        given = as_hasher(hasher) if isinstance(hasher, str) else hasher
        if not same_recipe(own, given):
            raise InvalidInputError(
                f"This collection learns with {own!r}, not {given!r}. Open it without a hasher, and call "
                "collection.change_hasher(...) to change it."
            )

    def make_other(self, other: OnlineHasher | str | int, progress: Progress) -> OnlineHasher:
        """Return a hasher of another kind or code length, which has learned from all items."""
        now = self._ready()
        if not isinstance(other, int):
            new = as_hasher(other)
        else:
            resized = now._resized(other)
            if resized is not None:
                return resized
            new = type(now)(**{**now.get_params(deep=False), "n_bits": check_n_bits(other)})
        _learn_stream(new, self._store, progress)
        return new


def learn_stored(hasher: OnlineHasher, vectors: NDArray[Any], labels: Sequence[str | None]) -> None:
    """Learn from rows as they are stored; a supervised hasher leaves out those without labels."""
    if hasher.supervised:
        rows, y = _labelled(vectors, labels)
        if len(rows):
            hasher.partial_fit(rows, y)
    elif len(vectors):
        hasher.partial_fit(vectors.astype(np.float32, copy=False))


def _labelled(vectors: NDArray[Any], labels: Sequence[str | None]) -> tuple[NDArray[np.float32], Any]:
    """Return the rows that have labels, and these."""
    rows = vectors.astype(np.float32, copy=False)
    labelled = np.array([text is not None for text in labels], bool)
    y: Any = [labels_of(text) for text in labels if text is not None]
    if not any(isinstance(value, tuple) for value in y):
        y = np.array(y)
    return rows if labelled.all() else rows[labelled], y


def _learn_stream(hasher: OnlineHasher, store: Store, progress: Progress) -> None:
    """Learn from all stored items in order of arrival."""
    n_items, n_done = store.count(), 0
    stream = partial(store.stream, labelled=hasher.supervised)
    for rows in in_pieces(stream, rows_at_a_time(store.setting("n_features"))):
        learn_stored(hasher, rows.vectors, rows.labels)
        n_done += len(rows)
        progress(min(n_done, n_items), n_items)
    name_features(hasher, store.setting("feature_names"))


def name_features(hasher: OnlineHasher, names: Sequence[str] | None) -> None:
    """Give a hasher the feature names of the collection; raise if it has learned from others."""
    if names is None:
        return
    if list(getattr(hasher, "feature_names_in_", names)) != list(names):
        raise InvalidInputError(
            f"{hasher!r} has learned from other feature names than those of this collection; pass one that has not."
        )
    hasher.feature_names_in_ = np.array(names, object)


def as_hasher(hasher: OnlineHasher | str) -> OnlineHasher:
    """Return a hasher of our own, made from a name or another, with a seed that stays."""
    if isinstance(hasher, type):
        raise InvalidInputError(f"hasher is the class {hasher.__name__}; pass one of it, {hasher.__name__}(n_bits=32).")
    if not isinstance(hasher, (str, OnlineHasher)):
        raise InvalidInputError(f"hasher={hasher!r} is neither a hasher nor the name of one.")
    own = make_hasher(hasher) if isinstance(hasher, str) else load_hasher(hasher.to_bytes())
    if not isinstance(hasher, str) and type(own) is not type(hasher):
        raise InvalidInputError(
            f"{type(hasher).__name__} is saved under the name {hasher.name!r}, which is that of another class; give it "
            "a name of its own and call register_hasher."
        )
    check_n_bits(own.n_bits)
    if not isinstance(own.random_state, int):
        own.random_state = own._draw_seed()
    return own


def same_recipe(one: OnlineHasher, other: OnlineHasher) -> bool:
    """Return whether two hashers have the same method and parameters; one without a seed matches any seed."""
    seeded = all(isinstance(each.random_state, Integral) for each in (one, other))
    unseeded = {} if seeded else {"random_state": None}
    recipes = [type(each)(**{**each.get_params(deep=False), **unseeded}).to_bytes() for each in (one, other)]
    return recipes[0] == recipes[1]
