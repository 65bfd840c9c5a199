"""MemoryCodes: the codes of a collection in memory, for a store that only keeps them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinehash.collection.generation import IndexedGeneration
from onlinehash.collection.locks import SharedLock
from onlinehash.collection.order import IntegerOrder, KeyOrder, Numbers, StringOrder
from onlinehash.collection.stores.protocol import Among, Answers, FollowedStore, Position
from onlinehash.collection.types import Label
from onlinehash.encoders import Encoder
from onlinehash.types import Codes


class MemoryCodes:
    """Codes in memory.

    A change to the codes in use waits until the searches that have begun are done, and new ones wait for it: both are
    short. The next generation is nobody's to see before :meth:`cut_over`, which is an assignment.

    Parameters
    ----------
    store : FollowedStore
    """

    def __init__(self, store: FollowedStore) -> None:
        self._store = store
        self.current: IndexedGeneration | None = None
        self.building: IndexedGeneration | None = None
        self._order: KeyOrder | None = None
        self._filters: dict[Label, Numbers] = {}
        self._lock = SharedLock()

    @property
    def kind(self) -> str:
        """How codes are searched: "flat" or "buckets"."""
        return "flat" if self.current is None else self.current.kind

    # ------------------------------------------------------------------ changing

    def read(self) -> None:
        """Read all codes from the store; of a generation in the making only if the store can be written to."""
        fresh = MemoryCodes(self._store)
        for row in self._store.generations():
            if self._store.readonly and not row.current:
                continue
            generation = IndexedGeneration(row.number, Encoder.load(row.encoder), row.cursor)
            if row.current:
                fresh.current = generation
            else:
                fresh.building = generation
            stored = self._store.codes(row.number)
            fresh._put(stored.keys, stored.codes, generation)
        with self._changing():
            self.current, self.building, self._order = fresh.current, fresh.building, fresh._order

    def follow(self, since: Position, now: Position) -> None:
        """Take in what another process has stored since."""
        changes = None
        if self.current is not None and now.generation == self.current.number:
            changes = self._store.changes(since.seq)
        if self.current is None or changes is None:
            self.read()
            return
        self.remove(changes.deleted)
        self._put(changes.keys, changes.codes, self.current)

    def begin(self, number: int, encoder: Encoder) -> None:
        """Start the next generation."""
        self.building = IndexedGeneration(number, encoder)

    def put(self, keys: Sequence[Any], codes: Mapping[int, Codes]) -> None:
        """Take in codes, by the number of their generation."""
        for generation in self._generations():
            if generation.number in codes:
                self._put(keys, codes[generation.number], generation)

    def _generations(self) -> list[IndexedGeneration]:
        return [generation for generation in (self.current, self.building) if generation is not None]

    def _put(self, keys: Sequence[Any], codes: Codes, generation: IndexedGeneration) -> None:
        if not len(keys):
            return
        if self._order is None:
            self._order = StringOrder() if isinstance(keys[0], str) else IntegerOrder()
        fresh = [key for key, known in zip(keys, self._order.known(keys), strict=True) if not known]
        if fresh or generation is not self.building:
            with self._changing():
                moved = self._order.insert(fresh)
                for other in self._generations():
                    other.renumber(*moved)
                generation.put(self._order.numbers(keys), codes)
        else:
            generation.put(self._order.numbers(keys), codes)
        generation.reconsider()

    def remove(self, keys: Sequence[Any]) -> None:
        """Take keys out of all generations."""
        numbers = self._numbers(keys)
        if self._order is None or not len(numbers):
            return
        with self._changing():
            for generation in self._generations():
                generation.remove(numbers)
            self._order.remove(self._order.keys(numbers))

    def cut_over(self) -> None:
        """Take the next generation into use."""
        self.current, self.building = self.building, None

    @contextmanager
    def _changing(self) -> Iterator[None]:
        with self._lock.changing():
            self._filters.clear()
            yield

    # ------------------------------------------------------------------ searching

    def search(self, X: NDArray[Any], k: int, among: Among, *, asymmetric: bool = False) -> Answers:
        """Return the k nearest items of every query, encoded by the encoder in use."""
        with self._reading() as generation:
            if generation is None:
                return [([], []) for _ in X]
            within, encoder = self._within(among), generation.encoder
            if asymmetric:
                found = generation.index.search_soft(encoder.encode_soft(X), k, within=within)
            else:
                found = generation.index.search(encoder.encode(X), k, within=within)
            pairs = zip(found.keys, found.distances, strict=True)
            return [(self._keys(keys), distances.tolist()) for keys, distances in pairs]

    def search_radius(self, X: NDArray[Any], radius: int, among: Among) -> Answers:
        """Return all items at most ``radius`` away from every query."""
        with self._reading() as generation:
            if generation is None:
                return [([], []) for _ in X]
            found = generation.index.search_radius(generation.encoder.encode(X), radius, within=self._within(among))
            return [(self._keys(matches.keys), matches.distances.tolist()) for matches in found]

    @contextmanager
    def _reading(self) -> Iterator[IndexedGeneration | None]:
        """Give the generation in use, unchanged while the block lasts."""
        with self._lock.reading():
            yield self.current

    def _within(self, among: Among) -> Numbers | None:
        """Return the numbers of the items that pass the filters; None without any."""
        allowed: Numbers | None = None
        if among.labels is not None:
            parts = [self._labelled(label) for label in among.labels]
            allowed = np.unique(np.concatenate(parts)) if len(parts) != 1 else parts[0]
        if among.keys is not None:
            some = np.unique(self._numbers(among.keys))
            allowed = some if allowed is None else np.intersect1d(allowed, some, assume_unique=True)
        return allowed

    def _labelled(self, label: Label) -> Numbers:
        """Return the numbers of the items that have a label, fetched once between two changes."""
        found = self._filters.get(label)
        if found is None:
            found = self._filters[label] = np.sort(self._numbers(self._store.keys_labelled(label)))
        return found

    def _numbers(self, keys: Sequence[Any]) -> Numbers:
        """Return the numbers of those keys that have one."""
        if self._order is None:
            return np.empty(0, np.int64)
        return self._order.numbers([k for k, known in zip(keys, self._order.known(keys), strict=True) if known])

    def _keys(self, numbers: Numbers) -> list[Any]:
        return self._order.keys(numbers) if self._order is not None else []

    def codes(self) -> tuple[list[Any], Codes, Encoder | None]:
        """Return the keys that have a code in use, in order, the codes, and the encoder that made them."""
        with self._reading() as generation:
            if generation is None:
                return [], np.empty((0, 0), np.uint8), None
            numbers = generation.index.keys
            order = np.argsort(numbers)
            return self._keys(numbers[order]), generation.index.codes[order], generation.encoder

    def searchable(self, keys: Sequence[Any]) -> list[bool]:
        """Tell which keys have a code in use."""
        with self._reading() as generation:
            if self._order is None or generation is None:
                return [False] * len(keys)
            known = self._order.known(keys)
            return [
                here and int(self._order.numbers([key])[0]) in generation.index
                for key, here in zip(keys, known, strict=True)
            ]

    def n_searchable(self) -> int:
        """Return how many items have a code in use."""
        return 0 if self.current is None else len(self.current.index)

    def n_built(self) -> int:
        """Return how many items have a code in the next generation."""
        return 0 if self.building is None else len(self.building.index)

    def sample(self, n_items: int, seed: int) -> list[Any]:
        """Return keys that have a code in use, at random."""
        if self.current is None:
            return []
        numbers = self.current.index.keys
        rng = np.random.default_rng(seed)
        some = rng.choice(numbers, min(n_items, len(numbers)), replace=False, shuffle=False)
        return self._keys(np.sort(some))
