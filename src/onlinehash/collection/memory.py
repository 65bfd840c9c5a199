"""MemoryCodes: the codes of a collection in memory, for a store that only keeps them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinehash.collection.generation import IndexedGeneration
from onlinehash.collection.labels import LabelIndex
from onlinehash.collection.locks import SharedLock
from onlinehash.collection.order import IdOrder, IntegerOrder, Numbers, StringOrder
from onlinehash.collection.stores.protocol import Among, Answers, FollowedStore, Position
from onlinehash.encoders import Encoder
from onlinehash.types import Codes


class MemoryCodes:
    """Codes in memory.

    Codes and labels in use change together: a change waits until the searches that have begun are done, and new ones
    wait for it. Both are short, because neither reads the store. Nobody sees the next generation before
    :meth:`cut_over`, which is an assignment.

    Parameters
    ----------
    store : FollowedStore
    """

    def __init__(self, store: FollowedStore) -> None:
        self._store = store
        self.current: IndexedGeneration | None = None
        self.building: IndexedGeneration | None = None
        self._order: IdOrder | None = None
        self._labels = LabelIndex()
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
            coded = self._store.codes(row.number)
            fresh.put(coded.ids, {row.number: coded.codes}, coded.labels if row.current else None)
        with self._lock.changing():
            self.current, self.building = fresh.current, fresh.building
            self._order, self._labels = fresh._order, fresh._labels

    def follow(self, since: Position, now: Position) -> None:
        """Take in what another process has stored since."""
        changes = None
        if self.current is not None and now.generation == self.current.number:
            changes = self._store.changes(since.seq)
        if self.current is None or changes is None:
            self.read()
            return
        self._apply(changes.deleted, changes.ids, {self.current.number: changes.codes}, changes.labels)
        if len(self.current.index) != self._store.count():  # read everything, and verify it
            self.read()

    def begin(self, number: int, encoder: Encoder) -> None:
        """Start the next generation."""
        self.building = IndexedGeneration(number, encoder)

    def put(self, ids: Sequence[Any], codes: Mapping[int, Codes], labels: Sequence[str | None] | None = None) -> None:
        """Take in codes, by the number of their generation, and labels as JSON texts."""
        self._apply((), ids, codes, labels)

    def delete(self, ids: Sequence[Any]) -> None:
        """Remove ids from all generations."""
        self._apply(ids, (), {}, None)

    def _apply(
        self,
        deleted: Sequence[Any],
        ids: Sequence[Any],
        codes: Mapping[int, Codes],
        labels: Sequence[str | None] | None,
    ) -> None:
        """Delete ids, then take in others, as one change to those who search."""
        if self._order is None and len(ids):
            self._order = StringOrder() if isinstance(ids[0], str) else IntegerOrder()
        order = self._order
        if order is None:
            return
        fresh = [id for id, known in zip(ids, order.known(ids), strict=True) if not known]
        current, building = self.current, self.building
        if len(deleted) or fresh or labels is not None or (current is not None and current.number in codes):
            with self._lock.changing():
                self._delete(order, deleted)
                moved = order.insert([id for id, known in zip(ids, order.known(ids), strict=True) if not known])
                for generation in self._generations():
                    generation.renumber(*moved)
                self._labels.renumber(*moved)
                numbers = order.numbers(ids)
                if labels is not None:
                    self._labels.put(numbers, labels)
                if current is not None and current.number in codes:
                    current.put(numbers, codes[current.number])
        if building is not None and building.number in codes:
            building.put(order.numbers(ids), codes[building.number])
        for generation in self._generations():
            generation.reconsider()

    def _delete(self, order: IdOrder, ids: Sequence[Any]) -> None:
        numbers = np.unique(self._numbers(ids))
        if len(numbers):
            for generation in self._generations():
                generation.delete(numbers)
            self._labels.delete(numbers)
            order.remove(order.ids(numbers))

    def _generations(self) -> list[IndexedGeneration]:
        return [generation for generation in (self.current, self.building) if generation is not None]

    def cut_over(self) -> None:
        """Take the next generation into use."""
        if self.current is None and self.building is not None:  # labels of items that came before the first codes
            coded = self._store.codes(self.building.number)
            with self._lock.changing():
                self._labels.put(self._numbers(coded.ids), coded.labels)
        self.current, self.building = self.building, None

    # ------------------------------------------------------------------ searching

    def search(self, X: NDArray[Any], k: int, among: Among, *, asymmetric: bool = False) -> Answers:
        """Return the k nearest items of every query, encoded by the encoder in use."""
        with self._reading() as generation:
            if generation is None:
                return [([], []) for _ in X]
            ids, encoder = self._within(among), generation.encoder
            if asymmetric:
                found = generation.index.search(encoder.encode_asymmetric(X), k, ids=ids, asymmetric=True)
            else:
                found = generation.index.search(encoder.encode(X), k, ids=ids)
            pairs = zip(found.ids, found.distances, strict=True)
            return [(self._ids(ids), distances.tolist()) for ids, distances in pairs]

    def range_search(self, X: NDArray[Any], radius: int, among: Among) -> Answers:
        """Return all items at most ``radius`` away from every query."""
        with self._reading() as generation:
            if generation is None:
                return [([], []) for _ in X]
            found = generation.index.range_search(generation.encoder.encode(X), radius, ids=self._within(among))
            return [(self._ids(matches.ids), matches.distances.tolist()) for matches in found]

    @contextmanager
    def _reading(self) -> Iterator[IndexedGeneration | None]:
        """Give the generation in use, unchanged while the block lasts."""
        with self._lock.reading():
            yield self.current

    def _within(self, among: Among) -> Numbers | None:
        """Return the numbers of the items that pass the filters; None without any."""
        allowed: Numbers | None = None
        if among.labels is not None:
            parts = [self._labels.having(label) for label in among.labels]
            allowed = np.unique(np.concatenate(parts)) if len(parts) != 1 else parts[0]
        if among.ids is not None:
            some = np.unique(self._numbers(among.ids))
            allowed = some if allowed is None else np.intersect1d(allowed, some, assume_unique=True)
        return allowed

    def _numbers(self, ids: Sequence[Any]) -> Numbers:
        """Return the numbers of those ids that have one."""
        if self._order is None:
            return np.empty(0, np.int64)
        return self._order.numbers([k for k, known in zip(ids, self._order.known(ids), strict=True) if known])

    def _ids(self, numbers: Numbers) -> list[Any]:
        return self._order.ids(numbers) if self._order is not None else []

    def codes(self) -> tuple[list[Any], Codes, Encoder | None]:
        """Return the ids that have a code in use, in order, the codes, and the encoder that made them."""
        with self._reading() as generation:
            if generation is None:
                return [], np.empty((0, 0), np.uint8), None
            numbers = generation.index.ids
            order = np.argsort(numbers)
            return self._ids(numbers[order]), generation.index.codes[order], generation.encoder

    def searchable(self, ids: Sequence[Any]) -> list[bool]:
        """Tell which ids have a code in use."""
        with self._reading() as generation:
            if self._order is None or generation is None:
                return [False] * len(ids)
            known = self._order.known(ids)
            return [
                here and int(self._order.numbers([id])[0]) in generation.index
                for id, here in zip(ids, known, strict=True)
            ]

    def n_searchable(self) -> int:
        """Return how many items have a code in use."""
        return 0 if self.current is None else len(self.current.index)

    def n_built(self) -> int:
        """Return how many items have a code in the next generation."""
        return 0 if self.building is None else len(self.building.index)

    def sample(self, n_items: int, seed: int) -> list[Any]:
        """Return ids that have a code in use, at random."""
        if self.current is None:
            return []
        numbers = self.current.index.ids
        rng = np.random.default_rng(seed)
        some = rng.choice(numbers, min(n_items, len(numbers)), replace=False, shuffle=False)
        return self._ids(np.sort(some))
