"""A user's own class as a hasher, named ``module:Class``.

It has ``partial_fit(X, y)`` and ``snapshot()``, whose result has ``encode(X)``, like the hashers here. The dtype of
what ``encode`` returns determines its meaning: uint8 is packed codes, bool is one bit per column, and other numbers are
projections whose signs are the bits.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import sys
import traceback
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from onlinehash._internal.validation import check_codes
from onlinehash.codes import code_width, pack_bits, pack_signs
from onlinehash.exceptions import InvalidCodesError, InvalidInputError, UnknownNameError
from onlinehash.experiments.references import ReferenceEncoder
from onlinehash.types import Codes, Features, Labels


class Frozen(Protocol):
    """An immutable encoder, the snapshot of a learner."""

    def encode(self, X: Any) -> NDArray[Any]:
        """Return packed codes; a reference may return real features instead."""


class Learner(Protocol):
    """The interface of a method that a run uses."""

    def partial_fit(self, X: Any, y: Any) -> Any:
        """Learn from the next rows of the stream."""

    def snapshot(self) -> Frozen:
        """Return an encoder with the current state."""


def load_class(name: str) -> type[Any]:
    """Import ``module:Class``; modules of the current folder are found, as by ``python -m``."""
    module_name, _, class_name = name.partition(":")
    if not module_name or not class_name:
        raise UnknownNameError(f"{name!r} does not name a class; write module:Class.")
    module = load_module(module_name)
    found = getattr(module, class_name, None)
    if not inspect.isclass(found):
        own = [name for name, value in vars(module).items() if inspect.isclass(value) and not name.startswith("_")]
        if not own:
            raise UnknownNameError(f"The module {module_name!r} has no class; write the method as a class in it.")
        raise UnknownNameError.among(f"class of {module_name}", class_name, own)
    for method in ("partial_fit", "snapshot"):
        if not callable(getattr(found, method, None)):
            raise InvalidInputError(f"{name} has no {method}; it needs partial_fit(X, y) and snapshot().")
    return found


def load_module(module_name: str) -> ModuleType:
    """Import a module; those of the current folder are found, as by ``python -m``."""
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        return importlib.import_module(module_name)
    except (Exception, SystemExit) as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing is not None and f"{module_name}.".startswith(f"{missing}."):
            raise UnknownNameError(
                f"There is no module {module_name!r} here or among the installed ones; run from the folder it is in."
            ) from error
        raise InvalidInputError(
            f"The module {module_name!r} cannot be imported: {_said(error)}. "
            f"Correct it until this works: python -c 'import {module_name}'"
        ) from error


def check_settings(name: str, own: Callable[..., Any], settings: Mapping[str, Any]) -> None:
    """Raise if a class or function does not take one of these settings."""
    accepted = inspect.signature(own).parameters
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in accepted.values())
    for setting in settings:
        if setting not in accepted and not takes_any:
            raise UnknownNameError.among(f"parameter of {name}", setting, accepted)


def class_digest(name: str) -> str:
    """Return a digest of the file of a class; modules that the file imports do not count."""
    return hashlib.sha256(Path(inspect.getfile(load_class(name))).read_bytes()).hexdigest()[:16]


def make_custom(name: str, settings: Mapping[str, Any], *, n_bits: int, seed: int, preprocess: str) -> Learner:
    """Return a learner made of a user's class; bits, seed and preprocessing are passed if the class takes them."""
    own = load_class(name)
    offered: dict[str, Any] = {"n_bits": n_bits, "random_state": seed, "preprocess": preprocess}
    accepted = inspect.signature(own).parameters
    params = {key: value for key, value in offered.items() if key in accepted} | dict(settings)
    return _OwnHasher(name, _called(name, own, **params), n_bits)


def _called(name: str, function: Callable[..., Any], *args: Any, **named: Any) -> Any:
    """Call a user's function; an error is reported in one sentence with its line."""
    try:
        return function(*args, **named)
    except (Exception, SystemExit) as error:
        raise InvalidInputError(f"{name} failed: {_said(error)}. Correct it there, or its parameters.") from error


def _said(error: BaseException) -> str:
    """Return the type and the message of an error, and the last line of the user's folder that it came through."""
    frames = traceback.extract_tb(error.__traceback__)
    here = [frame for frame in frames if Path(frame.filename).is_relative_to(Path.cwd())]
    place = f" ({Path(here[-1].filename).name}, line {here[-1].lineno})" if here else ""
    return f"{type(error).__name__}: {str(error).rstrip('.')}{place}"


class _OwnHasher:
    """A class with ``partial_fit`` and ``snapshot``; the output of its snapshots is checked."""

    def __init__(self, name: str, hasher: Any, n_bits: int) -> None:
        self._name, self._hasher, self._n_bits = name, hasher, n_bits

    def partial_fit(self, X: Features, y: Labels | None = None) -> _OwnHasher:
        _called(f"{self._name}.partial_fit", self._hasher.partial_fit, X, y)
        return self

    def snapshot(self) -> ReferenceEncoder:
        frozen = _called(f"{self._name}.snapshot", self._hasher.snapshot)
        if not callable(getattr(frozen, "encode", None)):
            raise InvalidInputError(f"The snapshot of {self._name} has no encode; it needs encode(X).")
        return ReferenceEncoder(partial(_codes, f"The snapshot of {self._name}", frozen.encode, self._n_bits))


def _codes(owner: str, encode: Callable[[Any], Any], n_bits: int, X: Features) -> Codes:
    """Return the output of a user's function as packed codes."""
    values = _called(owner, lambda: np.asarray(encode(X)))
    packed = values.dtype == np.uint8
    wanted = (len(X), code_width(n_bits) if packed else n_bits)
    if values.shape != wanted:
        what = "packed codes of 8 bits per byte (uint8)" if packed else "one value per bit"
        raise InvalidCodesError(
            f"{owner} returns an array of shape {values.shape}; {n_bits} bits of {len(X)} rows are {wanted}, {what}. "
            "Make it that wide, or ask for another number of bits."
        )
    if packed:
        return check_codes(values, n_bits)
    if values.dtype.kind == "b":
        return pack_bits(values)
    if values.dtype.kind not in "if" or not np.isfinite(values).all():
        raise InvalidCodesError(f"{owner} returns {values.dtype} with values that have no sign; return numbers.")
    return pack_signs(values)
