"""load: open any file that onlinehash wrote."""

from __future__ import annotations

import os
from pathlib import Path

from onlinehash._internal.files import kind_of, wrong_kind
from onlinehash.collection import Collection
from onlinehash.encoders import Encoder
from onlinehash.exceptions import DataNotFoundError, FileFormatError
from onlinehash.hashers import OnlineHasher, load_hasher


def load(path: str | os.PathLike[str]) -> OnlineHasher | Encoder | Collection:
    """Open a file that onlinehash wrote: a hasher, an encoder or a collection.

    A collection is opened as :meth:`onlinehash.Collection.open` does, for reading and writing; close it when done.

    Parameters
    ----------
    path : str or path
        The kind is read from the content, not from the file name.

    Examples
    --------
    >>> import tempfile
    >>> import onlinehash as oh
    >>> hasher = oh.HCOH(n_bits=16, random_state=0).partial_fit([[1.0, 0.0], [0.0, 1.0]], [0, 1])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     hasher.save(f"{folder}/model.oh")
    ...     hasher.snapshot().save(f"{folder}/encoder.oh")
    ...     print(oh.load(f"{folder}/model.oh"), oh.load(f"{folder}/encoder.oh"))
    HCOH(n_bits=16, random_state=0) <Encoder hcoh version 2: 2 features to 16 bits>
    """
    if not Path(path).is_file():
        raise DataNotFoundError(f"There is no file {path}.")
    kind = kind_of(path)
    if kind == "collection":
        return Collection.open(path)
    if kind == "index":
        raise FileFormatError(wrong_kind(path, kind, "hasher", "encoder", "collection"))
    return Encoder.load(path) if kind == "encoder" else load_hasher(path)
