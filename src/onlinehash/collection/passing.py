"""PassingItems: which items pass a filter, as the store has answered, remembered while it holds."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import NamedTuple

import numpy as np

from onlinehash.collection.arrivals import Seqs
from onlinehash.collection.filters import PAYLOAD_CHANGES, Filter
from onlinehash.collection.stores.protocol import Store

_LARGEST = 8_000_000  # sequence numbers remembered: 64 MB
_MORE = 1000


class Passing(NamedTuple):
    """The items that passed a filter up to a sequence number; some may be gone since."""

    seqs: Seqs
    seq: int  # of the store
    n_changes: int  # of payloads
    n_asked: int  # items that passed when all were asked for


class PassingItems:
    """Ask a store which items pass a filter; after further changes, about new items only.

    Sequence numbers are never used twice, so one that passed passes until its item is gone. A change of payloads alone
    forgets everything.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: OrderedDict[Filter, Passing] = OrderedDict()
        self._size = 0  # sequence numbers in `_known`, and _MORE per filter
        self._lock = Lock()

    def of(self, where: Filter) -> Passing:
        """Return the items that pass, and the sequence number of the store at that moment."""
        with self._lock:
            known = self._known.get(where)
            if known is not None:
                self._known.move_to_end(where)
        moment = self._moment()
        if known is not None and (known.seq, known.n_changes) == moment:
            return known
        if known is None and (quickly := self._store.known_passing(where, *moment)) is not None:
            found = Passing(quickly, *moment, len(quickly))
            self._remember(where, found)
            return found
        with self._store.reading():
            seq, n_changes = self._moment()
            if known is None or known.n_changes != n_changes or known.seq > seq:
                seqs = self._store.passing(where)
                found = Passing(seqs, seq, n_changes, len(seqs))
            else:
                new = self._store.passing(where, known.seq)
                seqs = np.concatenate([known.seqs, new]) if len(new) else known.seqs
                found = known._replace(seqs=seqs, seq=seq)
        self._remember(where, found)
        return found

    def _moment(self) -> tuple[int, int]:
        return self._store.position().seq, int(self._store.setting(PAYLOAD_CHANGES, 0))

    def _remember(self, where: Filter, found: Passing) -> None:
        with self._lock:
            if where in self._known:
                self._size -= len(self._known.pop(where).seqs) + _MORE
            if len(found.seqs) <= 2 * found.n_asked + _MORE:  # else most of them may be gone
                self._known[where] = found
                self._size += len(found.seqs) + _MORE
            while self._size > _LARGEST:
                self._size -= len(self._known.popitem(last=False)[1].seqs) + _MORE
