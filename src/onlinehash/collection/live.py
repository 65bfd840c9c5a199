"""What a search reads: the codes of the generation in use, and of the next while it is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from onlinehash.collection.generation import Generation
from onlinehash.collection.memory import MemoryCodes
from onlinehash.collection.stores.protocol import (
    Among,
    Answers,
    GenerationGone,
    GenerationRow,
    Position,
    SearchingStore,
    Store,
)
from onlinehash.encoders import Encoder
from onlinehash.exceptions import StorageError
from onlinehash.types import Codes

T = TypeVar("T")


class LiveCodes(Protocol):
    """Codes by id, in one or two generations. One thread changes them at a time; others search meanwhile.

    Changes are told after they are stored.
    """

    @property
    def current(self) -> Generation | None:
        """The generation in use."""

    @property
    def building(self) -> Generation | None:
        """The next, while it is made."""

    @property
    def kind(self) -> str:
        """How codes are searched."""

    # changing

    def read(self) -> None:
        """Read everything from the store."""

    def follow(self, since: Position, now: Position) -> None:
        """Take in what another process has stored since."""

    def begin(self, number: int, encoder: Encoder) -> None:
        """Start the next generation."""

    def put(self, ids: Sequence[Any], codes: Mapping[int, Codes], labels: Sequence[str | None] | None = None) -> None:
        """Take in codes, by the number of their generation, and labels as JSON texts; None: they have not changed."""

    def delete(self, ids: Sequence[Any]) -> None:
        """Take ids out of all generations."""

    def cut_over(self) -> None:
        """Take the next generation into use."""

    # searching

    def search(self, X: NDArray[Any], k: int, among: Among, *, asymmetric: bool = False) -> Answers:
        """Return the k nearest items of every query, encoded by the encoder in use."""

    def range_search(self, X: NDArray[Any], radius: int, among: Among) -> Answers:
        """Return all items at most ``radius`` away from every query."""

    def codes(self) -> tuple[list[Any], Codes, Encoder | None]:
        """Return the ids that have a code in use, in order, the codes, and the encoder that made them."""

    def searchable(self, ids: Sequence[Any]) -> list[bool]:
        """Tell which ids have a code in use."""

    def n_searchable(self) -> int:
        """Return how many items have a code in use."""

    def n_built(self) -> int:
        """Return how many items have a code in the next generation."""

    def sample(self, n_items: int, seed: int) -> list[Any]:
        """Return ids that have a code in use, at random."""


def live_codes(store: Store) -> LiveCodes:
    """Return what searches the codes of a store: the store itself, if it can, or memory."""
    return EngineCodes(store) if isinstance(store, SearchingStore) else MemoryCodes(store)


class EngineCodes:
    """Codes in a store that searches them itself: what is stored is all there is.

    Parameters
    ----------
    store : SearchingStore
    """

    def __init__(self, store: SearchingStore) -> None:
        self._store = store
        self.current: Generation | None = None
        self.building: Generation | None = None

    @property
    def kind(self) -> str:
        """How codes are searched: "engine"."""
        return "engine"

    # ------------------------------------------------------------------ changing

    def read(self) -> None:
        """Read the encoders from the store."""
        rows = {row.current: row for row in self._store.generations()}
        self.current, self.building = self._generation(rows.get(True)), self._generation(rows.get(False))

    def _generation(self, row: GenerationRow | None) -> Generation | None:
        return None if row is None else Generation(row.number, Encoder.load(row.encoder), row.cursor)

    def follow(self, since: Position, now: Position) -> None:
        """Reload the encoders if the generation changed."""
        if now.generation != since.generation:
            self.read()

    def begin(self, number: int, encoder: Encoder) -> None:
        """Start the next generation."""
        self.building = Generation(number, encoder)

    def put(self, ids: Sequence[Any], codes: Mapping[int, Codes], labels: Sequence[str | None] | None = None) -> None:
        """Do nothing: they are in the store."""

    def delete(self, ids: Sequence[Any]) -> None:
        """Do nothing: the store has done it."""

    def cut_over(self) -> None:
        """Take the next generation into use."""
        self.current, self.building = self.building, None

    # ------------------------------------------------------------------ searching

    def search(self, X: NDArray[Any], k: int, among: Among, *, asymmetric: bool = False) -> Answers:
        """Return the k nearest items of every query, encoded by the encoder in use."""

        def ask(generation: Generation) -> Answers:
            if asymmetric:
                return self._store.search_asymmetric(
                    generation.number, generation.encoder.encode_asymmetric(X), k, among
                )
            return self._store.search(generation.number, generation.encoder.encode(X), k, among)

        return self._in_use(ask, [([], []) for _ in X])

    def range_search(self, X: NDArray[Any], radius: int, among: Among) -> Answers:
        """Return all items at most ``radius`` away from every query."""

        def ask(generation: Generation) -> Answers:
            return self._store.range_search(generation.number, generation.encoder.encode(X), radius, among)

        return self._in_use(ask, [([], []) for _ in X])

    def codes(self) -> tuple[list[Any], Codes, Encoder | None]:
        """Return the ids that have a code in use, in order, the codes, and the encoder that made them."""

        def ask(generation: Generation) -> tuple[list[Any], Codes, Encoder | None]:
            return *self._store.codes(generation.number), generation.encoder

        nothing: tuple[list[Any], Codes, Encoder | None] = [], np.empty((0, 0), np.uint8), None
        return self._in_use(ask, nothing)

    def searchable(self, ids: Sequence[Any]) -> list[bool]:
        """Tell which ids have a code in use."""
        return self._in_use(lambda generation: self._store.coded(generation.number, ids), [False] * len(ids))

    def n_searchable(self) -> int:
        """Return how many items have a code in use."""
        return self._in_use(lambda generation: self._store.n_coded(generation.number), 0)

    def n_built(self) -> int:
        """Return how many items have a code in the next generation."""
        building = self.building
        return 0 if building is None else self._store.n_coded(building.number)

    def sample(self, n_items: int, seed: int) -> list[Any]:
        """Return ids that have a code in use, at random."""
        return self._in_use(lambda generation: self._store.sample(generation.number, n_items, seed), [])

    def _in_use(self, ask: Callable[[Generation], T], otherwise: T) -> T:
        """Ask about the generation in use, and again about the next one where that is dropped meanwhile."""
        generation = self.current
        while generation is not None:
            try:
                return ask(generation)
            except GenerationGone:
                row = next((row for row in self._store.generations() if row.current), None)
                if row is not None and row.number == generation.number:
                    raise StorageError(f"The codes of generation {row.number}, which is in use, are missing.") from None
                generation = self._generation(row)
        return otherwise
