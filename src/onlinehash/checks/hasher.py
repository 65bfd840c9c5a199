"""The contract of a hasher, as named checks that can be run on any implementation."""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Callable, Iterator
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from onlinehash.checks._promise import check_all, checks_of, promise, refusal
from onlinehash.exceptions import InvalidInputError
from onlinehash.types import Batch

HasherCheck = Callable[[Any], None]


def check_hasher(hasher: Any) -> None:
    """Raise ``AssertionError`` if a hasher breaks a promise of the contract.

    Parameters
    ----------
    hasher : OnlineHasher
        Unfitted, with a fixed ``random_state``; it is cloned, not changed.

    Examples
    --------
    >>> from onlinehash import HCOH
    >>> check_hasher(HCOH(n_bits=12, random_state=0))
    """
    check_all(hasher_checks(), hasher, clone)


def hasher_checks() -> Iterator[HasherCheck]:
    """Return the individual checks, functions of an unfitted hasher.

    Examples
    --------
    >>> next(hasher_checks()).__name__
    'check_same_seed_gives_same_codes'
    """
    return checks_of(globals(), check_hasher)


def check_same_seed_gives_same_codes(hasher: Any) -> None:
    """The same seed and stream give the same codes."""
    X, y = _stream()
    first, second = clone(hasher).partial_fit(X, y), clone(hasher).partial_fit(X, y)
    promise(np.array_equal(first.transform(X), second.transform(X)), "two runs with one seed differ")


def check_one_row_at_a_time_equals_the_batch(hasher: Any) -> None:
    """The size of the batches makes no difference beyond rounding."""
    X, y = _stream(97)
    whole = clone(hasher).partial_fit(X, y)
    rows, uneven = clone(hasher), clone(hasher)
    for i in range(len(X)):
        rows.partial_fit(X[i : i + 1], y[i : i + 1])
    for start, stop in [(0, 5), (5, 6), (6, 70), (70, 97)]:
        uneven.partial_fit(X[start:stop], y[start:stop])
    expected = whole.project(X)
    for cut in (rows, uneven):
        promise(np.allclose(cut.project(X), expected, rtol=1e-6, atol=1e-8), "the size of the batches matters")
        promise(cut.n_samples_seen_ == len(X), f"n_samples_seen_ is {cut.n_samples_seen_} after {len(X)} rows")


def check_saved_stream_continues_exactly(hasher: Any) -> None:
    """A stream resumed from a file equals one that never stopped, bit for bit."""
    X, y = _stream(130)
    hasher.partial_fit(X[:61], y[:61])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "saved.oh"
        hasher.save(path)
        resumed = type(hasher).load(path)
    promise(np.array_equal(resumed.transform(X), hasher.transform(X)), "a loaded hasher makes other codes")
    for each in (hasher, resumed):
        each.partial_fit(X[61:], y[61:])
    same = np.array_equal(resumed.project(X), hasher.project(X))
    promise(same, "a resumed stream learns something else")
    promise(resumed.n_samples_seen_ == len(X), "a resumed stream counts wrong")


def check_snapshot_is_frozen(hasher: Any) -> None:
    """A snapshot is unaffected by later learning, and its version is the number of instances learned."""
    X, y = _stream()
    hasher.partial_fit(X[:50], y[:50])
    encoder = hasher.snapshot()
    before = encoder.encode(X)
    hasher.partial_fit(X[50:], y[50:])
    promise(np.array_equal(encoder.encode(X), before), "learning changed an encoder that had left the hasher")
    promise(encoder.version == 50, f"version is {encoder.version} after 50 instances")
    promise(hasher.snapshot().version == hasher.version_ == len(X), "the version does not follow the stream")


def check_snapshots_do_not_change_the_stream(hasher: Any) -> None:
    """Snapshots change neither what is learned nor what is saved."""
    X, y = _stream()
    observed, alone = clone(hasher), clone(hasher)
    for start in range(0, len(X), 7):
        observed.partial_fit(X[start : start + 7], y[start : start + 7]).snapshot()
        alone.partial_fit(X[start : start + 7], y[start : start + 7])
    same = np.array_equal(observed.project(X), alone.project(X))
    promise(same, "a snapshot changed the hasher")
    promise(observed.to_bytes() == alone.to_bytes(), "a snapshot changed what is saved")


def check_snapshot_and_hasher_agree(hasher: Any) -> None:
    """``transform`` and ``project`` are those of the snapshot; codes have the promised shape."""
    X, y = _stream()
    encoder = hasher.partial_fit(X, y).snapshot()
    codes = hasher.transform(X)
    promise(codes.dtype == np.uint8 and codes.shape == (len(X), -(-hasher.n_bits // 8)), "codes are not packed bytes")
    promise(np.array_equal(codes, encoder.encode(X)), "transform and snapshot differ")
    signs = np.packbits(hasher.project(X) >= 0, axis=1, bitorder="little")
    promise(np.array_equal(signs, codes), "the signs of project are not the codes")


def check_input_is_not_changed(hasher: Any) -> None:
    """Learning and hashing leave X and y as they were."""
    X, y = _stream()
    X_before, y_before = X.copy(), y.copy()
    hasher.partial_fit(X, y).transform(X)
    promise(np.array_equal(X, X_before) and np.array_equal(y, y_before), "the input was changed")


def check_read_only_and_mapped_input_is_accepted(hasher: Any) -> None:
    """Read-only, memory-mapped, strided and plain input learn the same."""
    X, y = _stream()
    expected = clone(hasher).partial_fit(X, y).transform(X)
    frozen = X.copy()
    frozen.flags.writeable = False
    with tempfile.TemporaryDirectory() as folder:
        np.save(Path(folder) / "X.npy", X)
        mapped = np.load(Path(folder) / "X.npy", mmap_mode="r")
        for same in (frozen, mapped, np.asfortranarray(X), X.tolist()):
            codes = clone(hasher).partial_fit(same, y).transform(same)
            promise(np.array_equal(codes, expected), f"{type(same).__name__} input learns something else")
        del mapped


def check_single_precision_is_kept(hasher: Any) -> None:
    """Single-precision features are learned in single precision, to nearly the same hash functions."""
    X, y = _stream(40)
    single = clone(hasher).partial_fit(X.astype(np.float32), y)
    values = single.project(X.astype(np.float32))
    promise(values.dtype == np.float32, f"float32 input gives {values.dtype} projections")


def check_late_labels_are_accepted(hasher: Any) -> None:
    """Labels may be seen for the first time at any time, and may be strings."""
    X, y = _stream()
    names = np.array([f"class {label}" for label in y])
    hasher.partial_fit(X[:40], names[:40])
    hasher.partial_fit(X[40:80], np.array(["late"] * 40))
    promise(len(hasher.transform(X)) == len(X), "no codes after a late label")


def check_fit_starts_again(hasher: Any) -> None:
    """``fit`` forgets what was learned before."""
    X, y = _stream()
    expected = clone(hasher).partial_fit(X, y).transform(X)
    hasher.partial_fit(X[:30] * 3 + 1, y[:30])
    codes = hasher.fit(X, y).transform(X)
    promise(np.array_equal(codes, expected) and hasher.n_samples_seen_ == len(X), "fit remembers an earlier stream")


def check_refused_input_changes_nothing(hasher: Any) -> None:
    """Bad input raises an ``OnlineHashError`` that is a ``ValueError``, and the hasher is as it was."""
    X, y = _stream()
    hasher.partial_fit(X[:60], y[:60])
    before = pickle.dumps(hasher)
    nan, inf = X[:5].copy(), X[:5].copy()
    nan[4, 2], inf[4, 2] = np.nan, -np.inf
    n_features = X.shape[1]
    for rows, labels in [
        (nan, y[:5]),
        (inf, y[:5]),
        (X[:5, :-1], y[:5]),
        (X[:0], y[:0]),
        (X[0], y[:1]),
        (X[:5, :0], y[:5]),
        (X[:5].astype(complex), y[:5]),
        (np.array([["a"] * n_features]), y[:1]),
        (X[:5], y[:4]),
    ]:
        accepted = f"input of shape {rows.shape} and dtype {rows.dtype} was accepted"
        error = refusal(lambda: hasher.partial_fit(rows, labels), accepted)  # noqa: B023
        promise(isinstance(error, ValueError), f"{type(error).__name__} is not a ValueError")
        promise(pickle.dumps(hasher) == before, f"refused input of shape {rows.shape} left a trace")
    message = str(refusal(lambda: hasher.partial_fit(X[:5, :-1], y[:5]), "input of another width was accepted"))
    both = str(n_features) in message and str(n_features - 1) in message
    promise(both, "the error about the width does not name both widths")


def check_unlearned_use_is_refused(hasher: Any) -> None:
    """An unfitted hasher raises an error that says so."""
    X, _ = _stream(4)
    for use in (lambda: hasher.transform(X), lambda: hasher.project(X), hasher.snapshot):
        error = refusal(use, "an unfitted hasher was used")
        promise("not learned" in str(error), f"unclear message: {error}")


def check_changed_parameters_are_refused(hasher: Any) -> None:
    """After learning, parameters are fixed, except those declared changeable."""
    X, y = _stream(60)
    for name, value in hasher.get_params(deep=False).items():
        if name in hasher.changeable:
            continue
        learned = clone(hasher).partial_fit(X, y)
        before = pickle.dumps(learned)
        learned.set_params(**{name: value + 1 if isinstance(value, int) else "something else"})
        for use in (lambda: learned.partial_fit(X, y), learned.snapshot, learned.to_bytes):  # noqa: B023
            error = refusal(use, f"{name} was changed after learning, and used")
            clear = name in str(error) and "changed after" in str(error) and isinstance(error, ValueError)
            promise(clear, f"unclear message after {name} was changed: {error}")
        learned.set_params(**{name: value})
        promise(pickle.dumps(learned) == before, f"a refused change of {name} left a trace")


def check_output_is_as_asked_for(hasher: Any) -> None:
    """``transform`` returns codes, bits or signs, with column names; ``output`` may change at any time."""
    X, y = _stream(60)
    hasher.partial_fit(X, y)
    signs = np.where(hasher.project(X) >= 0, 1, -1)
    packed = np.packbits(signs > 0, axis=1, bitorder="little")
    for output, expected in {"codes": packed, "bits": signs > 0, "signs": signs}.items():
        hasher.output = output
        given = hasher.transform(X)
        promise(
            np.array_equal(given, expected) and given.dtype.itemsize == 1, f"output={output!r} gives something else"
        )
        names = hasher.get_feature_names_out()
        promise(len(names) == given.shape[1] and names[0] == f"{type(hasher).__name__.lower()}0", "columns lack names")


def check_memory_does_not_grow(hasher: Any) -> None:
    """Memory does not grow with the stream."""
    X, y = _stream(2000)
    sizes = []
    for _ in range(4):
        hasher.partial_fit(X, y)
        sizes.append(len(pickle.dumps(hasher)))
    slack = 4096  # bytes of a few buffered rows
    promise(
        sizes[-1] <= 1.02 * sizes[1] + slack, f"it held {sizes[1]} bytes after 4000 rows and {sizes[-1]} after 8000"
    )


def check_capabilities_are_declared(hasher: Any) -> None:
    """``unlearns``, ``merges`` and ``takes_weights`` agree with the methods of the hasher."""
    methods = {"unlearns": ("unlearn",), "merges": ("empty_clone", "merge", "split_points")}
    for capability, names in methods.items():
        declared = getattr(hasher, capability)
        for name in names:
            promise(hasattr(hasher, name) == declared, f"{capability} is {declared}, which {name}() contradicts")
    for name in ("fit", "partial_fit"):
        takes = "sample_weight" in signature(getattr(hasher, name)).parameters
        promise(takes == hasher.takes_weights, f"takes_weights is {hasher.takes_weights}, which {name}() contradicts")


def check_unlearned_rows_leave_no_trace(hasher: Any) -> None:
    """Unlearning equals never having learned the rows, where the parameters allow it."""
    if not hasher.unlearns:
        return
    X, y = _stream(400)
    alone, unlearned = clone(hasher).partial_fit(X[:300], y[:300]), clone(hasher).partial_fit(X, y)
    before = unlearned.to_bytes()
    try:
        unlearned.unlearn(X[300:], y[300:])
    except InvalidInputError:
        promise(unlearned.to_bytes() == before, "unlearn was refused and left a trace")
        return
    same = np.allclose(unlearned.project(X), alone.project(X), rtol=1e-5, atol=1e-7)
    promise(same, "rows that were unlearned left a trace in the hash functions")
    promise(unlearned.n_unlearned_ == 100, f"n_unlearned_ is {unlearned.n_unlearned_} after 100 rows")
    promise(unlearned.snapshot().version == unlearned.version_ == 500, "the version does not count unlearned rows")


def check_merged_parts_equal_the_stream(hasher: Any) -> None:
    """Merging hashers of parts equals learning the stream in order, where the parameters allow it."""
    if not hasher.merges:
        return
    X, y = _stream(900)
    whole = clone(hasher).partial_fit(X, y)
    try:
        split_points = hasher.split_points(len(X))
        hasher.partial_fit(X[: split_points[0]], y[: split_points[0]])
        parts = [hasher.empty_clone() for _ in split_points[1:]]
    except InvalidInputError:
        return
    for part, start, stop in zip(parts, split_points, split_points[1:], strict=False):
        hasher.merge(part.partial_fit(X[start:stop], y[start:stop]))
    if split_points[-1] < len(X):
        hasher.partial_fit(X[split_points[-1] :], y[split_points[-1] :])
    same = np.allclose(hasher.project(X), whole.project(X), rtol=1e-5, atol=1e-7)
    promise(same, "parts that were merged differ from the stream learned in order")
    promise(hasher.version_ == len(X), f"the version is {hasher.version_} after {len(X)} rows in parts")


def check_weights_count(hasher: Any) -> None:
    """Weights of 1 change nothing, other weights do, and invalid ones are refused."""
    if not hasher.takes_weights:
        return
    X, y = _stream(300)
    plain = clone(hasher).partial_fit(X, y).project(X)
    ones = clone(hasher).partial_fit(X, y, sample_weight=np.ones(len(X))).project(X)
    promise(np.array_equal(ones, plain), "weights of 1 learn something else than no weights")
    weighted = clone(hasher).partial_fit(X, y, sample_weight=1.0 + np.arange(len(X)) % 3).project(X)
    promise(not np.allclose(weighted, plain), "weights make no difference")
    hasher.partial_fit(X, y)
    before = hasher.to_bytes()
    for bad in (np.ones(len(X) - 1), -np.ones(len(X)), np.full(len(X), np.nan)):
        accepted = f"weights of shape {bad.shape} that start with {bad[0]} were accepted"
        error = refusal(lambda: hasher.partial_fit(X, y, sample_weight=bad), accepted)  # noqa: B023
        promise(isinstance(error, InvalidInputError), f"{type(error).__name__} is not an InvalidInputError")
        promise(hasher.to_bytes() == before, "refused weights left a trace")


def _stream(n_samples: int = 120) -> Batch:
    """Return a small labelled stream: eight noisy classes in 20 dimensions."""
    rng = np.random.default_rng(7)
    centres: NDArray[np.float64] = rng.normal(size=(8, 20))
    y = rng.integers(0, 8, n_samples)
    return Batch(centres[y] + 0.5 * rng.normal(size=(n_samples, 20)), y)
