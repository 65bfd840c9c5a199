"""Saved hashers: parameters, counters and learned state in one file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from onlinehash._internal.files import Arrays, Source, complete, name_of, pack_arrays, read_arrays
from onlinehash._internal.validation import plain_label
from onlinehash.exceptions import FileFormatError
from onlinehash.features import RunningCentring

if TYPE_CHECKING:
    from onlinehash.encoders import Encoder
    from onlinehash.hashers._base import OnlineHasher

_LAYOUT = 1
_COUNTERS = ("n_features_in_", "n_samples_seen_", "n_unlabelled_", "seed_")

_Hasher = TypeVar("_Hasher", bound="OnlineHasher")

Weights = NDArray[np.float64] | None
"""The weight of each row; None if all are 1."""

HeadPart = tuple[NDArray[Any], list[Any], Weights]
"""Rows, labels as JSON and weights of a part of the head of a stream."""


def join_head(parts: Sequence[HeadPart]) -> HeadPart:
    """Return the parts of the head of a stream as one."""
    rows = np.concatenate([rows for rows, _, _ in parts])
    labels = [label for _, labels, _ in parts for label in labels]
    if all(weights is None for _, _, weights in parts):
        return rows, labels, None
    return rows, labels, np.concatenate([np.ones(len(x)) if weights is None else weights for x, _, weights in parts])


def pack_hasher(hasher: OnlineHasher, encoder: Encoder | None = None) -> bytes:
    """Return the bytes of a saved hasher, and of its encoder; if it has not learned yet, only its parameters."""
    arrays: Arrays = {}
    params = {key: _pack(f"param.{key}", value, arrays) for key, value in hasher.get_params(deep=False).items()}
    if not hasher.__sklearn_is_fitted__():
        return pack_arrays("hasher", _LAYOUT, {"method": hasher.name, "params": params, "counters": None}, arrays)
    if not isinstance(hasher.random_state, int):
        params["random_state"] = hasher.seed_
    state, tensors = hasher._state()
    arrays.update({f"state.{key}": value for key, value in tensors.items()})
    if isinstance(hasher._features, RunningCentring):
        arrays["mean"] = hasher._features.mean
        state["n_centred"] = hasher._features.n_seen
    state["head"] = hasher._head
    if hasher._waiting:
        arrays["waiting"], state["labels_of_waiting"], weights = join_head(hasher._waiting)
        if weights is not None:
            arrays["weights_of_waiting"] = weights
    if encoder is not None:
        arrays["encoder"] = np.frombuffer(encoder.to_bytes(), np.uint8)
    header = {
        "method": hasher.name,
        "dtype": hasher._dtype.name,
        "params": params,
        "counters": {name: getattr(hasher, name) for name in _COUNTERS},
        "state": state,
    }
    if hasattr(hasher, "feature_names_in_"):
        header["feature_names"] = list(hasher.feature_names_in_)
    return pack_arrays("hasher", _LAYOUT, header, arrays)


def read_hasher(source: Source) -> tuple[dict[str, Any], Arrays]:
    """Return the header and the arrays of a saved hasher."""
    return read_arrays(source, "hasher", _LAYOUT)


def unpack_hasher(cls: type[_Hasher], source: Source, header: dict[str, Any], arrays: Arrays) -> _Hasher:
    """Return the hasher of a class from the header and the arrays of a file."""
    if header.get("method") != cls.name:
        raise FileFormatError(
            f"{name_of(source)} holds a {header.get('method')} hasher; load it with onlinehash.load_hasher."
        )
    with complete(source, "hasher"):
        params = {key: _unpack(f"param.{key}", value, arrays) for key, value in header["params"].items()}
        known = set(cls._get_param_names())
        if odd := sorted(params.keys() ^ known):
            stands = "has no" if odd[0] in known else "has an unknown"
            raise FileFormatError(
                f"{name_of(source)} {stands} parameter {odd[0]!r} of {cls.__name__}; it was written by another "
                "version of onlinehash. Use that one, or learn again."
            )
        hasher = cls(**params)
        if header["counters"] is not None:
            _restore(hasher, header, arrays)
        return hasher


def _restore(hasher: OnlineHasher, header: dict[str, Any], arrays: Arrays) -> None:
    """Restore what was learned."""
    counters, state = header["counters"], header["state"]
    hasher._prepare(counters["n_features_in_"], np.dtype(header["dtype"]), counters["seed_"])
    hasher.__dict__.update({name: counters[name] for name in _COUNTERS})
    if "feature_names" in header:
        hasher.feature_names_in_ = np.array(header["feature_names"], object)
    if "mean" in arrays:
        hasher._features = RunningCentring(arrays["mean"], state["n_centred"])
    hasher._head = state["head"]
    if "waiting" in arrays:
        hasher._waiting = [(arrays["waiting"], state["labels_of_waiting"], arrays.get("weights_of_waiting"))]
    hasher._restore(state, {key[6:]: value for key, value in arrays.items() if key.startswith("state.")})


def _pack(name: str, value: Any, arrays: Arrays) -> Any:
    """Return a parameter as JSON, moving arrays into ``arrays``."""
    if isinstance(value, Mapping):
        arrays[name] = np.array([np.asarray(word, np.int8) for word in value.values()])
        return {"labels": [plain_label(label, name) for label in value]}
    if isinstance(value, (np.ndarray, list, tuple)):
        arrays[name] = np.asarray(value)
        return {"array": True}
    if isinstance(value, np.generic):
        return value.item()
    return value if isinstance(value, (int, float, str, type(None))) else None


def _unpack(name: str, value: Any, arrays: Arrays) -> Any:
    if not isinstance(value, dict):
        return value
    if "labels" in value:
        return dict(zip(value["labels"], arrays[name], strict=True))
    return arrays[name]
