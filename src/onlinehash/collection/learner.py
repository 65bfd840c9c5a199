"""Learner: the hasher of a collection, in step with the store."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinehash._internal.validation import check_n_bits
from onlinehash.collection.inputs import labels_of
from onlinehash.collection.stores.sql import SqlStore, StreamRows
from onlinehash.collection.types import Batch
from onlinehash.exceptions import InvalidInputError
from onlinehash.hashers import HROH, OnlineHasher, load_hasher, make_hasher
from onlinehash.types import Progress

_MIN_BYTES_PER_STATE = 1 << 22
_BYTES_OF_VECTORS_PER_BYTE_OF_STATE = 4
_BYTES_PER_CHUNK = 1 << 22


class Learner:
    """Keep the hasher of a collection in step with the store, and write its state now and then.

    What was learned after the last state is learned again from the stream, in the batches of the first time, because
    some methods amplify the rounding of others to different bits.

    Parameters
    ----------
    store : SqlStore
    hasher : OnlineHasher
    """

    def __init__(self, store: SqlStore, hasher: OnlineHasher) -> None:
        self._store, self.hasher = store, hasher
        self._state_size = 0
        self.n_unsaved_bytes = 0
        """Bytes of vectors that the last state does not know."""
        self.is_due = False
        """Whether enough was learned since the last state to write another."""

    @classmethod
    def load(cls, store: SqlStore) -> Learner:
        """Read the last state, and learn what was stored since."""
        state, seq = store.state()
        learner = cls(store, load_hasher(state))
        learner._state_size = len(state)
        for first, n_rows in store.batches(seq):
            rows = store.stream(first - 1, n_rows)
            if learner.replaces:
                learner.replace(Batch(rows.ids, rows.vectors, rows.labels, []), store.replaced_by(first + n_rows - 1))
            else:
                learner.learn(rows.vectors, rows.labels)
        return learner

    @property
    def replaces(self) -> bool:
        """Whether the hasher unlearns an item that is replaced."""
        return self.hasher.supervised and self.hasher._can_unlearn

    def replace(self, batch: Batch, old: StreamRows) -> None:
        """Unlearn the old versions of items, and learn from the new ones; leave out what has not changed."""
        is_new, replaced, old_rows = np.ones(len(batch.ids), bool), list[int](), {id: i for i, id in enumerate(old.ids)}
        for row, (id, labels) in enumerate(zip(batch.ids, batch.labels, strict=True)):
            if id in old_rows:
                i = old_rows[id]
                is_new[row] = old.labels[i] != labels or not np.array_equal(old.vectors[i], batch.vectors[row])
                if is_new[row]:
                    replaced.append(i)
        if replaced:
            self.learn(old.vectors[replaced], [old.labels[i] for i in replaced], unlearn=True)
        self.n_unsaved_bytes += batch.vectors[~is_new].nbytes
        self.learn(batch.vectors[is_new], [batch.labels[row] for row in np.flatnonzero(is_new)])

    def learn(self, vectors: NDArray[Any], labels: Sequence[str | None], *, unlearn: bool = False) -> None:
        """Learn from rows as they are stored, or unlearn them.

        A supervised hasher leaves out rows without labels.
        """
        rows, labelled = vectors.astype(np.float32, copy=False), list(filter(None, labels))
        if self.hasher.supervised and len(labelled) < len(rows):
            rows = rows[[text is not None for text in labels]]
        if len(rows) and unlearn:
            self.hasher._unlearn_learned(rows, targets_of(labelled))
        elif len(rows):
            self.hasher.partial_fit(rows, targets_of(labelled) if self.hasher.supervised else None)
        self.n_unsaved_bytes += vectors.nbytes  # which the stream keeps until the next state is written
        wanted = max(_MIN_BYTES_PER_STATE, _BYTES_OF_VECTORS_PER_BYTE_OF_STATE * self._state_size)
        self.is_due = self.n_unsaved_bytes > wanted

    def learn_stream(self, table: str = "stream", progress: Progress = lambda done, total: None) -> None:
        """Learn from all stored items in order of arrival; not from rows of items that are gone."""
        after, n_done, limit, n_items = 0, 0, rows_per_chunk(self._store), self._store.head().n_items
        while len(rows := self._store.stream(after, limit, table, only_items=True)):
            self.learn(rows.vectors, rows.labels)
            after, n_done = int(rows.seqs[-1]), n_done + len(rows)
            progress(n_done, n_items)

    def save(self, seq: int) -> dict[str, Any]:
        """Write the state, which has learned up to a sequence number, and return the settings that describe it."""
        state = self.hasher.to_bytes()
        self._store.put_state(state, seq, self.hasher.version_)
        self.n_unsaved_bytes, self._state_size, self.is_due = 0, len(state), False
        settings: dict[str, Any] = {"method": self.hasher.name, "n_bits": self.hasher.n_bits}
        if hasattr(self.hasher, "n_features_in_"):
            settings["n_features"] = self.hasher.n_features_in_
        return settings

    def check_recipe(self, hasher: OnlineHasher | str | None) -> None:
        """Raise if this is another method, or one with other parameters."""
        own = self.hasher
        if hasher is None or (isinstance(hasher, str) and hasher.lower() == own.name):
            return
        given = as_hasher(hasher) if isinstance(hasher, str) else hasher
        is_seeded = isinstance(own.random_state, Integral) and isinstance(given.random_state, Integral)
        seed = {} if is_seeded else {"random_state": None}  # one without a seed matches any seed
        own_recipe, recipe = (type(one)(**one.get_params(deep=False) | seed).to_bytes() for one in (own, given))
        if own_recipe != recipe:
            raise InvalidInputError(
                f"This collection learns with {own!r}, not {given!r}. Open it without a hasher, and call "
                "collection.change_hasher(...) to change it."
            )

    def make_other(self, other: OnlineHasher | str | int, progress: Progress) -> OnlineHasher:
        """Return a hasher of another kind or code length, which has learned from all items."""
        if isinstance(other, int):
            resized = self.hasher._resized(other)
            if resized is not None:
                return resized
            new = type(self.hasher)(**{**self.hasher.get_params(deep=False), "n_bits": check_n_bits(other)})
        else:
            new = as_hasher(other)
        Learner(self._store, new).learn_stream(progress=progress)
        return new


def targets_of(texts: Sequence[str | None]) -> Any:
    """Return labels as a hasher takes them, from their JSON."""
    y = list(map(labels_of, texts))
    return y if tuple in set(map(type, y)) else np.array(y)


def rows_per_chunk(store: SqlStore) -> int:
    """Return how many vectors to read at a time, for bounded memory."""
    return max(1, min(4096, _BYTES_PER_CHUNK // max(1, store.stream(0, 1).vectors.nbytes)))


def default_hasher(n_bits: int = 64) -> HROH:
    """Return what a collection learns with if nothing else is said: HROH, half of whose bits are general.

    Examples
    --------
    >>> default_hasher().n_bits, default_hasher().general_bits
    (64, 32)
    """
    return HROH(n_bits, general_bits=check_n_bits(n_bits) // 2)


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
