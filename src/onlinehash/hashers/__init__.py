"""Hashers: one method a file, all behind one contract.

A new method is a new file and a new line in the registry.
"""

from __future__ import annotations

from typing import Any

from onlinehash._files import Source, name_of, read_arrays
from onlinehash.exceptions import FileFormatError, UnknownNameError
from onlinehash.hashers._base import LAYOUT, OnlineHasher
from onlinehash.hashers.adapthash import AdaptHash
from onlinehash.hashers.bsodh import BSODH
from onlinehash.hashers.frosh import FROSH
from onlinehash.hashers.hcoh import HCOH
from onlinehash.hashers.hmoh import HMOH
from onlinehash.hashers.hroh import HROH
from onlinehash.hashers.itq import ITQ
from onlinehash.hashers.lsh import LSH
from onlinehash.hashers.mihash import MIHash
from onlinehash.hashers.okh import OKH
from onlinehash.hashers.osh import OSH
from onlinehash.hashers.sketchhash import SketchHash

HASHERS: dict[str, type[OnlineHasher]] = {
    hasher.name: hasher
    for hasher in (AdaptHash, BSODH, FROSH, HCOH, HMOH, HROH, ITQ, LSH, MIHash, OKH, OSH, SketchHash)
}


def make_hasher(name: str, **params: Any) -> OnlineHasher:
    """Make a hasher by its name.

    Examples
    --------
    >>> make_hasher("hcoh", n_bits=16)
    HCOH(n_bits=16)
    """
    if not isinstance(name, str):
        raise UnknownNameError(f"{name!r} is not the name of a hasher. Known: {', '.join(sorted(HASHERS))}.")
    if name.lower() not in HASHERS:
        raise UnknownNameError.among("hasher", name, HASHERS)
    return HASHERS[name.lower()](**params)


def load_hasher(source: Source) -> OnlineHasher:
    """Read a saved hasher of any method, from a path or from its bytes.

    Examples
    --------
    >>> saved = HCOH(n_bits=16, random_state=0).partial_fit([[1.0, 0.0], [0.0, 1.0]], [0, 1]).to_bytes()
    >>> load_hasher(saved)
    HCOH(n_bits=16, random_state=0)
    """
    header, arrays = read_arrays(source, "hasher", LAYOUT)
    method = header.get("method")
    if method not in HASHERS:
        raise FileFormatError(
            f"{name_of(source)} holds a {method} hasher, which this version does not know. Upgrade onlinehash."
        )
    return HASHERS[method]._taken_from(source, header, arrays)


__all__ = [
    "BSODH",
    "FROSH",
    "HASHERS",
    "HCOH",
    "HMOH",
    "HROH",
    "ITQ",
    "LSH",
    "OKH",
    "OSH",
    "AdaptHash",
    "MIHash",
    "OnlineHasher",
    "SketchHash",
    "load_hasher",
    "make_hasher",
]
