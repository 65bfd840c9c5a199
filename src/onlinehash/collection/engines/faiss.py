"""FaissEngine: codes in the memory of this process, searched by faiss."""

from __future__ import annotations

from onlinehash.collection.engines import Engine
from onlinehash.exceptions import InvalidInputError
from onlinehash.indexes import Index
from onlinehash.indexes.engines import FaissIndex


class FaissEngine(Engine):
    """Search codes with faiss: exactly, or in the nearest of many lists.

    Parameters
    ----------
    n_lists : int or None
        As for :class:`onlinehash.indexes.engines.FaissIndex`. With lists, the nearest items may be missed.
    """

    def __init__(self, n_lists: int | None) -> None:
        self._n_lists = n_lists

    def open(self, number: int, n_bits: int, built: Index | None = None) -> Index:
        """Return an empty index: faiss keeps nothing on disk."""
        return FaissIndex(n_bits, self._n_lists)


def open_engine(rest: str, name: str) -> Engine:
    """Return the engine; ``rest`` is the number of lists, if any."""
    if rest and (not rest.isdecimal() or not int(rest)):
        raise InvalidInputError(f"search='faiss:{rest}' is not 'faiss' or 'faiss:' and a number of lists.")
    return FaissEngine(int(rest) if rest else None)
