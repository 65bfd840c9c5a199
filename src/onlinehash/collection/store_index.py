"""StoreIndex: the codes of a collection, searched by the store itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from onlinehash.collection._validation import label_set
from onlinehash.collection.generation import Generation
from onlinehash.collection.paging import Cursor, nothing_found, paged, unpaged
from onlinehash.collection.stores.protocol import (
    Among,
    GenerationGone,
    GenerationRow,
    Position,
    SearchingStore,
)
from onlinehash.collection.types import Label
from onlinehash.encoders import Encoder
from onlinehash.exceptions import StorageError, TooManyResultsError
from onlinehash.types import Codes, SearchResult

T = TypeVar("T")


class StoreIndex:
    """Search codes where they are stored; has the methods of :class:`CodeIndex`."""

    kind = "store"
    is_behind = False

    def __init__(self, store: SearchingStore) -> None:
        self._store = store
        self.current: Generation | None = None
        self.building: Generation | None = None
        self._seq = 0

    def close(self) -> None:
        """Do nothing: the store is closed by its owner."""

    # ------------------------------------------------------------------ following the store

    def read(self, position: Position) -> None:
        """Read the encoders from the store."""
        rows = {row.current: row for row in self._store.generations()}
        self.current, self.building = _generation(rows.get(True)), _generation(rows.get(False))
        self._seq = position.seq

    def follow(self, since: Position, now: Position) -> None:
        """Reload the encoders if the generation changed."""
        self._seq = now.seq
        if now.generation != since.generation:
            self.read(now)

    def begin(self, number: int, encoder: Encoder) -> None:
        """Start the next generation."""
        self.building = Generation(number, encoder)

    def put(
        self, ids: Sequence[Any], seqs: Sequence[int], codes: Mapping[int, Codes], labels: Sequence[str | None]
    ) -> None:
        """Remember how far the store has come."""
        self._seq = seqs[-1]

    def put_next(self, seqs: Sequence[int], codes: Codes) -> None:
        """Do nothing: the store has them."""

    def delete(self, ids: Sequence[Any], seq: int) -> None:
        """Remember how far the store has come."""
        self._seq = seq

    def cut_over(self) -> None:
        """Take the next generation into use."""
        self.current, self.building = self.building, None

    # ------------------------------------------------------------------ searching

    def search(
        self, vectors: NDArray[Any], k: int, among: Among, *, asymmetric: bool = False, after: Cursor | None = None
    ) -> SearchResult:
        """Return the k nearest items of every query, encoded by the encoder in use; with a cursor, those after it."""

        def search(generation: Generation) -> SearchResult:
            number, encoder = generation.number, generation.encoder
            if asymmetric:
                ask = partial(self._store.search_asymmetric, number, encoder.encode_asymmetric(vectors))
            else:
                ask = partial(self._store.search, number, encoder.encode(vectors))
            return paged(lambda n_items: ask(n_items, among), k, after, encoder.version, self._seq)

        return self._in_use(search) or nothing_found(len(vectors), self._seq)

    def range_search(
        self, vectors: NDArray[Any], radius: int, among: Among, max_results: int | None = None
    ) -> SearchResult:
        """Return all items at most ``radius`` away from every query; raise if they are more than ``max_results``."""

        def search(generation: Generation) -> SearchResult:
            codes = generation.encoder.encode(vectors)
            within, limit = min(radius, generation.encoder.n_bits), None
            if max_results is None:
                answers = self._store.range_search(generation.number, codes, within, among)
            else:
                answers, limit = [], max_results + 1
                for q in range(len(codes)):
                    answers += self._store.range_search(generation.number, codes[q : q + 1], within, among, limit)
                    limit -= len(answers[-1][0])
                    if limit <= 0:
                        raise TooManyResultsError.of(max_results + 1, max_results)
            return unpaged(answers, generation.encoder.version, self._seq)

        return self._in_use(search) or nothing_found(len(vectors), self._seq)

    def codes(self, ids: Sequence[Any] | None = None) -> tuple[list[Any], Codes, Encoder | None]:
        """Return the ids, all or some, that have a code in use, their codes and the encoder that made them.

        All are in order of arrival, some in the order of the ids.
        """

        def ask(generation: Generation) -> tuple[list[Any], Codes, Encoder | None]:
            store, number = self._store, generation.number
            coded = store.codes(number) if ids is None else store.codes_of(number, ids)
            return coded.ids, coded.codes, generation.encoder

        return self._in_use(ask) or ([], np.empty((0, 0), np.uint8), None)

    def labelled_codes(self, ids: Sequence[Any]) -> tuple[list[frozenset[Label]], Codes]:
        """Return the labels and the codes in use of those ids that have one."""

        def ask(generation: Generation) -> tuple[list[frozenset[Label]], Codes]:
            coded = self._store.codes_of(generation.number, ids)
            return [label_set(text) for text in coded.labels], coded.codes

        return self._in_use(ask) or ([], np.empty((0, 0), np.uint8))

    def are_searchable(self, seqs: Sequence[int]) -> list[bool]:
        """Return which sequence numbers have a code in use."""
        return self._in_use(lambda generation: self._store.coded(generation.number, seqs)) or [False] * len(seqs)

    def n_searchable(self) -> int:
        """Return the number of items that have a code in use."""
        return self._in_use(lambda generation: self._store.n_coded(generation.number)) or 0

    def n_built(self) -> int:
        """Return the number of items that have a code in the next generation."""
        building = self.building
        return 0 if building is None else self._store.n_coded(building.number)

    def sample(self, n_items: int, seed: int) -> list[Any]:
        """Return ids that have a code in use, at random."""
        return self._in_use(lambda generation: self._store.sample(generation.number, n_items, seed)) or []

    def _in_use(self, ask: Callable[[Generation], T]) -> T | None:
        """Ask about the generation in use, or the next one if that is dropped meanwhile; None if there is none yet."""
        generation = self.current
        while generation is not None:
            try:
                return ask(generation)
            except GenerationGone:
                row = next((row for row in self._store.generations() if row.current), None)
                if row is not None and row.number == generation.number:
                    raise StorageError(f"The codes of generation {row.number}, which is in use, are missing.") from None
                generation = _generation(row)
        return None


def _generation(row: GenerationRow | None) -> Generation | None:
    return None if row is None else Generation(row.number, Encoder.load(row.encoder), row.cursor)
