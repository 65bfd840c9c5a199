"""FaissEngine: codes in the memory of this process, searched by faiss."""

from __future__ import annotations

from onlinehash.collection.engines import Engine
from onlinehash.exceptions import InvalidInputError
from onlinehash.indexes import Index
from onlinehash.indexes.engines import FaissIndex


class FaissEngine(Engine):
    """Search codes with faiss: exactly, or in the nearest of many lists, whose number is the option."""

    takes_options = True

    def __init__(self, options: str, name: str) -> None:
        if options and (not options.isdecimal() or not int(options)):
            raise InvalidInputError(f"search='faiss:{options}' is not 'faiss' or 'faiss:' and a number of lists.")
        self._n_lists = int(options) if options else None

    def open(self, number: int, n_bits: int) -> Index:
        """Return an empty index: faiss keeps nothing on disk."""
        return FaissIndex(n_bits, self._n_lists, ties="hash")
