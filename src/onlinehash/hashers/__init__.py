"""Hashers: one method per file, one contract for all.

A new method is a new file and an entry in the registry. A method of another package is found by its entry point in the
group ``onlinehash.hashers``, or once it is registered with :func:`register_hasher`.
"""

from __future__ import annotations

import inspect
import re
from typing import Any, TypeVar

from onlinehash._internal.files import Arrays, Source
from onlinehash._internal.plugins import plugins
from onlinehash.encoders import Encoder
from onlinehash.exceptions import FileFormatError, InvalidInputError, UnknownNameError
from onlinehash.hashers._base import OnlineHasher
from onlinehash.hashers._saving import read_hasher, unpack_hasher
from onlinehash.hashers.adapthash import AdaptHash
from onlinehash.hashers.bsodh import BSODH
from onlinehash.hashers.foh import FOH
from onlinehash.hashers.frosh import FROSH
from onlinehash.hashers.hcoh import HCOH
from onlinehash.hashers.hmoh import HMOH
from onlinehash.hashers.hroh import HROH
from onlinehash.hashers.itq import ITQ
from onlinehash.hashers.lsh import LSH
from onlinehash.hashers.mihash import MIHash
from onlinehash.hashers.okh import OKH
from onlinehash.hashers.osh import OSH
from onlinehash.hashers.sdoh_hc import SDOHHC
from onlinehash.hashers.sketchhash import SketchHash

HASHERS: dict[str, type[OnlineHasher]] = {
    hasher.name: hasher
    for hasher in (AdaptHash, BSODH, FOH, FROSH, HCOH, HMOH, HROH, ITQ, LSH, MIHash, OKH, OSH, SDOHHC, SketchHash)
}

_Class = TypeVar("_Class", bound=type[OnlineHasher])


def register_hasher(hasher: _Class) -> _Class:
    """Register a hasher class of your own under its name; also usable as a class decorator.

    :func:`make_hasher`, :func:`load_hasher` and :meth:`onlinehash.Collection.open` then find it, in this process. An
    installed package needs no call where it declares an entry point of the hasher's name in the group
    ``onlinehash.hashers``. Test a hasher with :func:`onlinehash.checks.check_hasher`.

    Parameters
    ----------
    hasher : subclass of OnlineHasher
        It has its own ``name``, a lower-case identifier, and parameters that all have a default. Registering a class
        again has no effect.

    Examples
    --------
    >>> class Signs(LSH):
    ...     name = "signs"
    >>> register_hasher(Signs).__name__
    'Signs'
    >>> make_hasher("signs", n_bits=8)
    Signs(n_bits=8)
    >>> del HASHERS["signs"]
    """
    if not inspect.isclass(hasher) or not issubclass(hasher, OnlineHasher):
        raise InvalidInputError(f"{hasher!r} is not a subclass of OnlineHasher; derive your class from it.")
    own, name = hasher.__qualname__, getattr(hasher, "name", None)
    if not isinstance(name, str) or not re.fullmatch("[a-z][a-z0-9_]*", name):
        raise InvalidInputError(
            f"{own}.name={name!r} is not a lower-case identifier; set the class attribute name, such as 'mine'."
        )
    known = HASHERS.get(name, hasher)
    if known.__qualname__ != own or known.__module__ != hasher.__module__:  # a notebook defines it again
        raise InvalidInputError(f"The name {name!r} of {own} is taken by {known.__name__}; give {own} another name.")
    HASHERS[name] = hasher
    return hasher


def make_hasher(name: str, **params: Any) -> OnlineHasher:
    """Make a hasher by its name.

    Examples
    --------
    >>> make_hasher("hcoh", n_bits=16)
    HCOH(n_bits=16)
    """
    if not isinstance(name, str):
        raise UnknownNameError(f"{name!r} is not the name of a hasher. Known: {', '.join(sorted(HASHERS))}.")
    hasher = _find_hasher(name.lower())
    if hasher is None:
        raise UnknownNameError.among("hasher", name, {*HASHERS, *plugins("onlinehash.hashers")})
    known = hasher._get_param_names()
    if unknown := params.keys() - known:
        raise UnknownNameError.among(f"parameter of {hasher.name}", min(unknown), known)
    return hasher(**params)


def load_hasher(source: Source) -> OnlineHasher:
    """Read a saved hasher of any method, from a path or from bytes.

    Examples
    --------
    >>> saved = HCOH(n_bits=16, random_state=0).partial_fit([[1.0, 0.0], [0.0, 1.0]], [0, 1]).to_bytes()
    >>> load_hasher(saved)
    HCOH(n_bits=16, random_state=0)
    """
    return _unpack(source, *read_hasher(source))


def load_encoder(source: Source) -> Encoder:
    """Return the encoder in the file of a hasher: the one saved with it, or else a snapshot.

    A snapshot of a hasher that solves a system, as HROH does, takes seconds: ``hasher.to_bytes(encoder=True)`` and
    ``onlinehash learn`` save the encoder too.

    Parameters
    ----------
    source : str, path or bytes

    Examples
    --------
    >>> hasher = HCOH(n_bits=16, random_state=0).partial_fit([[1.0, 0.0], [0.0, 1.0]], [0, 1])
    >>> load_encoder(hasher.to_bytes(encoder=True))
    <Encoder hcoh version 2: 2 features to 16 bits>
    """
    header, arrays = read_hasher(source)
    if "encoder" in arrays:
        return Encoder.load(arrays["encoder"].tobytes())
    return _unpack(source, header, arrays).snapshot()


def _unpack(source: Source, header: dict[str, Any], arrays: Arrays) -> OnlineHasher:
    method = header.get("method")
    hasher = _find_hasher(str(method))
    if hasher is None:
        raise FileFormatError(
            f"The hasher {method!r} is not registered here; import the module that defines it and call register_hasher "
            "before."
        )
    return unpack_hasher(hasher, source, header, arrays)


def _find_hasher(name: str) -> type[OnlineHasher] | None:
    """Return the class of a name: one that is registered, or else one that an installed package offers."""
    if name not in HASHERS and (offered := plugins("onlinehash.hashers").get(name)):
        register_hasher(offered.load())
    return HASHERS.get(name)


__all__ = [
    "BSODH",
    "FOH",
    "FROSH",
    "HASHERS",
    "HCOH",
    "HMOH",
    "HROH",
    "ITQ",
    "LSH",
    "OKH",
    "OSH",
    "SDOHHC",
    "AdaptHash",
    "MIHash",
    "OnlineHasher",
    "SketchHash",
    "load_encoder",
    "load_hasher",
    "make_hasher",
    "register_hasher",
]
