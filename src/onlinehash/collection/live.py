"""What a search reads: the codes of the generation in use, and of the next while it is made, in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from onlinehash.collection.generation import Generation
from onlinehash.collection.locks import SharedLock
from onlinehash.collection.order import IntegerOrder, KeyOrder, Numbers, StringOrder
from onlinehash.collection.store import ItemStore
from onlinehash.collection.types import Label
from onlinehash.encoders import Encoder
from onlinehash.types import Codes


class LiveCodes:
    """Codes by key, in one or two generations. One thread changes them at a time; others search meanwhile.

    A change to the codes in use waits until the searches that have begun are done, and new ones wait for it: both are
    short. The next generation is nobody's to see before :meth:`cut_over`, which is an assignment.
    """

    def __init__(self) -> None:
        self.current: Generation | None = None
        self.building: Generation | None = None
        self._order: KeyOrder | None = None
        self._filters: dict[Label, Numbers] = {}
        self._lock = SharedLock()

    @classmethod
    def load(cls, store: ItemStore) -> LiveCodes:
        """Read all codes from a store; of a generation in the making only if the store can be written to."""
        live = cls()
        for row in store.generations():
            if store.readonly and not row.current:
                continue
            generation = Generation(row.number, Encoder.load(row.encoder), row.cursor)
            if row.current:
                live.current = generation
            else:
                live.building = generation
            live.put(*store.codes(row.number), generation)
        return live

    @property
    def generations(self) -> list[Generation]:
        """Those that there are."""
        return [generation for generation in (self.current, self.building) if generation is not None]

    @property
    def n_searchable(self) -> int:
        """Number of items in use."""
        return 0 if self.current is None else len(self.current.index)

    # ------------------------------------------------------------------ changing

    def put(self, keys: Sequence[Any], codes: Codes, generation: Generation) -> None:
        """Write codes to a generation."""
        if not len(keys):
            return
        if self._order is None:
            self._order = StringOrder() if isinstance(keys[0], str) else IntegerOrder()
        fresh = [key for key, known in zip(keys, self._order.known(keys), strict=True) if not known]
        if fresh or generation is not self.building:
            with self._changing():
                moved = self._order.insert(fresh)
                for other in self.generations:
                    other.renumber(*moved)
                generation.put(self._order.numbers(keys), codes)
        else:
            generation.put(self._order.numbers(keys), codes)
        generation.reconsider()

    def remove(self, keys: Sequence[Any]) -> None:
        """Remove codes from all generations."""
        numbers = self.numbers(keys)
        if self._order is None or not len(numbers):
            return
        with self._changing():
            for generation in self.generations:
                generation.remove(numbers)
            self._order.remove(self._order.keys(numbers))

    def cut_over(self) -> None:
        """Take the next generation into use."""
        self.current, self.building = self.building, None

    def replace(self, other: LiveCodes) -> None:
        """Take over all that another one holds."""
        with self._changing():
            self.current, self.building, self._order = other.current, other.building, other._order

    @contextmanager
    def _changing(self) -> Iterator[None]:
        with self._lock.changing():
            self._filters.clear()
            yield

    # ------------------------------------------------------------------ searching

    @contextmanager
    def reading(self) -> Iterator[Generation | None]:
        """Give the generation in use, unchanged while the block lasts."""
        with self._lock.reading():
            yield self.current

    def numbers(self, keys: Sequence[Any]) -> Numbers:
        """Return the numbers of those keys that have one."""
        if self._order is None:
            return np.empty(0, np.int64)
        return self._order.numbers([k for k, known in zip(keys, self._order.known(keys), strict=True) if known])

    def labelled(self, label: Label, fetch: Callable[[Label], list[Any]]) -> Numbers:
        """Return the numbers of the items that have a label, fetched once between two changes."""
        found = self._filters.get(label)
        if found is None:
            found = self._filters[label] = np.sort(self.numbers(fetch(label)))
        return found

    def keys(self, numbers: Numbers) -> list[Any]:
        """Return the keys of numbers."""
        return self._order.keys(numbers) if self._order is not None else []

    def searchable(self, keys: Sequence[Any]) -> list[bool]:
        """Tell which keys have a code in use."""
        with self.reading() as generation:
            if self._order is None or generation is None:
                return [False] * len(keys)
            known = self._order.known(keys)
            return [
                here and int(self._order.numbers([key])[0]) in generation.index
                for key, here in zip(keys, known, strict=True)
            ]
