"""The hasher of a collection: it learns from features as they are stored, and can be had again from the store."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from onlinehash._validation import check_n_bits
from onlinehash.collection.stores.protocol import ItemStore
from onlinehash.exceptions import InvalidInputError
from onlinehash.hashers import OnlineHasher, load_hasher, make_hasher

_AT_A_TIME = 1 << 22  # bytes of features read at a time


def learn(hasher: OnlineHasher, features: NDArray[Any], labels: Sequence[str | None]) -> None:
    """Learn from rows as they are stored; a supervised hasher leaves out those without labels."""
    if hasher.supervised:
        rows, y = _labelled(features, labels)
        if len(rows):
            hasher.partial_fit(rows, y)
    elif len(features):
        hasher.partial_fit(features.astype(np.float32, copy=False))


def unlearn(hasher: OnlineHasher, features: NDArray[Any], labels: Sequence[str | None]) -> None:
    """Unlearn rows that were learned as they are stored."""
    if not hasher.unlearns:
        raise InvalidInputError(
            f"unlearn=True, but {hasher!r} cannot unlearn; HROH can. To learn anew from what is left, delete, then "
            "call collection.change_hasher(...)."
        )
    rows, y = _labelled(features, labels)
    if len(rows):
        cast(Any, hasher).unlearn(rows, y)


def _labelled(features: NDArray[Any], labels: Sequence[str | None]) -> tuple[NDArray[np.float32], Any]:
    """Return the rows that have labels, and these."""
    rows = features.astype(np.float32, copy=False)
    labelled = np.array([text is not None for text in labels], bool)
    known = {text: json.loads(text) for text in set(labels) if text is not None}
    y: Any = [known[text] for text in labels if text is not None]
    if not any(isinstance(value, list) for value in known.values()):
        y = np.array(y)
    return rows if labelled.all() else rows[labelled], y


def restore(store: ItemStore) -> OnlineHasher:
    """Return the hasher as it was after the last committed change: its last state, and the stream since."""
    hasher, after = load_hasher(store.state()), store.state_seq()
    # In the batches of the first time: some methods amplify the rounding of others to different bits.
    for last in store.commits(after):
        rows = store.stream(after, last - after, retired=True, labelled=hasher.supervised)
        n_rows = bisect_right(rows.seqs, last)
        learn(hasher, rows.vectors[:n_rows], rows.labels[:n_rows])
        after = last
    _follow(hasher, store, after, retired=True)
    return hasher


def relearn(hasher: OnlineHasher, store: ItemStore) -> None:
    """Learn from all items in the order in which they came."""
    _follow(hasher, store, 0, retired=False)


def with_bits(hasher: OnlineHasher, n_bits: int, store: ItemStore) -> OnlineHasher:
    """Return a hasher of another code length: from what was learned, where the method can, or else from all items."""
    resized = hasher._resized(n_bits)
    if resized is not None:
        return resized
    new = type(hasher)(**{**hasher.get_params(deep=False), "n_bits": check_n_bits(n_bits)})
    relearn(new, store)
    return new


def n_learned(hasher: OnlineHasher | None) -> int:
    """Return the version that a snapshot would have; 0 without a hasher."""
    return 0 if hasher is None else hasher.version_


def _follow(hasher: OnlineHasher, store: ItemStore, after: int, *, retired: bool) -> None:
    limit = max(1, _AT_A_TIME // (4 * store.setting("n_features", 1)))  # for bounded memory
    while len(rows := store.stream(after, limit, retired=retired, labelled=hasher.supervised)):
        learn(hasher, rows.vectors, rows.labels)
        after = rows.seqs[-1]
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
    """Tell whether two hashers have the same method and parameters; a seed that was not given fits any."""
    return _recipe(one, other) == _recipe(other, one)


def _recipe(hasher: OnlineHasher, other: OnlineHasher) -> bytes:
    params = hasher.get_params(deep=False)
    if hasher.random_state is None or other.random_state is None:
        params["random_state"] = None
    return type(hasher)(**params).to_bytes()
