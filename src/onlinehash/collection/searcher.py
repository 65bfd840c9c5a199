"""Searcher: the codes in use and the items they belong to, in memory, searched by an engine."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Condition
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onlinehash._internal.arrays import is_on_device, to_host
from onlinehash._internal.threads import single_threaded_products
from onlinehash.collection.catalogue import Catalogue
from onlinehash.collection.engines import Engine
from onlinehash.collection.stores.rows import Changes, CodeColumns, Head, Seqs
from onlinehash.collection.stores.sql import SqlStore
from onlinehash.encoders import Encoder
from onlinehash.exceptions import DamagedError, InvalidInputError, OnlineHashError, UnknownIdError
from onlinehash.indexes import Index
from onlinehash.types import Codes, SearchResult

_log = logging.getLogger(__name__)
_CODES_COMPARED = 500  # with those of an engine that outlives the process


class OutOfStep(Exception):  # noqa: N818 (not an error: the caller repeats the search)
    """Something has changed between the parts of one search."""


class Cursor(NamedTuple):
    """The last item of a page: its distance and sequence number, the number of items up to it, and the generation.

    Examples
    --------
    >>> Cursor.parse("3:1042:10:2")
    Cursor(distance=3, seq=1042, rank=10, generation=2)
    """

    distance: Any
    seq: int
    rank: int
    generation: int

    def __str__(self) -> str:
        return ":".join(map(repr, self))

    @classmethod
    def parse(cls, after: Any) -> Cursor:
        """Return the cursor of a page, or of its text."""
        text = after.cursor if isinstance(after, SearchResult) else after
        try:
            distance, *rest = str(text).split(":")
            seq, rank, number = map(int, rest)
            cursor = cls(float(distance) if "." in distance or "e" in distance else int(distance), seq, rank, number)
        except ValueError:
            cursor = None
        if cursor is None or not isinstance(text, str) or not 0 <= cursor.rank < 1 << 40:
            raise InvalidInputError(
                f"after={after!r} is not a page that another follows; pass a result of one query, or its cursor, "
                "unless that is None: then nothing follows."
            )
        return cursor


@dataclass(frozen=True, eq=False)
class Generation:
    """An encoder, its number, and what moves vectors to where they are encoded."""

    number: int
    encoder: Encoder
    put: Callable[[NDArray[Any]], Any]
    world: int = 0  # number of migrations before: queries must be made by the same embedding model

    def encode(self, vectors: NDArray[Any], *, asymmetric: bool = False) -> Any:
        """Return the codes of vectors, or real values for an asymmetric search, where the engine wants them."""
        encode = self.encoder.encode_asymmetric if asymmetric else self.encoder.encode
        with single_threaded_products(len(vectors)):
            return encode(self.put(vectors))

    def codes(self, vectors: NDArray[Any]) -> Codes:
        """Return the codes of vectors, to be stored."""
        codes = self.encode(vectors)
        return to_host(codes) if is_on_device(codes) else codes


class Hits(NamedTuple):
    """What was found for one query: sequence numbers, nearest first, and distances."""

    seqs: Seqs
    distances: NDArray[Any]


class Searcher:
    """Follow the changes of a store, and search its codes.

    The engine holds the codes of the generation in use under the sequence numbers of their items, so ties come in the
    order of arrival. It holds nothing that the store does not: if it fails, the change is stored all the same, and the
    next search brings it up to date or raises its error. A change waits until the searches that have begun are done,
    and new searches wait for it.

    Parameters
    ----------
    store : SqlStore
    engine : Engine
    """

    def __init__(self, store: SqlStore, engine: Engine) -> None:
        self._store, self.engine = store, engine
        self.catalogue = Catalogue()
        self.generation: Generation | None = None
        self._index: Index | None = None
        self.head = Head()
        """Where the store stood when this followed it last."""
        self._lock = SharedLock()
        self.is_torn = False
        """Whether a change was not applied as a whole: everything must be read again."""
        self.is_behind = False
        """Whether the engine lacks changes: :meth:`mend` is needed before a search."""

    def close(self) -> None:
        """Release the engine."""
        self.engine.close()

    @property
    def kind(self) -> str:
        """How codes are searched, for statistics."""
        return self.engine.kind

    @property
    def version(self) -> int:
        """Version of the encoder in use; 0 before the first."""
        return 0 if self.generation is None else self.generation.encoder.version

    @property
    def staleness(self) -> int:
        """Instances learned that the codes do not know."""
        return self.head.n_learned - self.version

    # ------------------------------------------------------------------ following the store

    def load(self, world: int) -> None:
        """Read everything from the store, in a snapshot of it, and bring the engine up to date."""
        head, catalogue, generation = self._store.head(), Catalogue(), None
        catalogue.put(self._store.items())
        if head.generation:
            encoder, number = self._store.generation()
            if number != head.generation:
                raise self._store.database.damage(f"it has codes of generation {number}, not {head.generation}")
            generation = Generation(number, Encoder.load(encoder), self.engine.put, world)
        self._switch(generation, None, catalogue, head)
        self._logging(self.mend)

    def mend(self) -> None:
        """Give the engine what it lacks, in a snapshot of the store that is in step with memory."""
        if self.generation is not None and self.is_behind:
            seqs = self.catalogue.all_seqs()
            codes = codes_of(seqs, self._store.codes(self.generation.number), self._store.database.damage)
            index = self._filled(self.generation, seqs, codes)
            self._switch(self.generation, index, self.catalogue, self.head)

    def _logging(self, change: Callable[[], None]) -> None:
        """Change the engine; if it fails, searches do, and nothing else."""
        try:
            change()
        except DamagedError:
            raise
        except OnlineHashError as error:
            _log.warning("%s is behind the store: %s", self.engine, error)

    def _filled(self, generation: Generation, seqs: Seqs, codes: Codes) -> Index:
        """Return the index of a generation; one that outlives the process is given what it lacks."""
        index = self.engine.open(generation.number, generation.encoder.n_bits)
        if len(index):  # the code of a sequence number never changes within a generation
            there = np.sort(index.ids)
            gone, new = np.setdiff1d(there, seqs, assume_unique=True), ~np.isin(seqs, there, assume_unique=True)
            if len(gone):
                index.delete(gone)
            if _holds(index, seqs[~new], codes[~new]):
                seqs, codes = seqs[new], codes[new]
        if len(seqs):
            index.upsert(codes, seqs)
        return index

    def _switch(self, generation: Generation | None, index: Index | None, catalogue: Catalogue, head: Head) -> None:
        with self._lock.changing():
            self.generation, self._index, self.catalogue, self.head = generation, index, catalogue, head
            self.is_torn, self.is_behind = False, generation is not None and index is None
        if generation is not None and index is not None:
            self.engine.keep(generation.number)

    def follow(self, world: int) -> None:
        """Apply what another process has stored, in a snapshot of the store."""
        head = self._store.head()
        changes = None
        is_whole = not (self.is_torn or self.is_behind)
        if self.generation is not None and head.generation == self.generation.number and is_whole:
            changes = self._store.changes_since(self.head.seq, head)
        if changes is not None:
            self.apply(changes, head)
        if changes is None or len(self.catalogue) != head.n_items:
            self.load(world)

    def apply(self, changes: Changes, head: Head) -> None:
        """Remove items that are gone and add new ones, as one change to those who search."""
        with self._lock.changing():
            self.is_torn = True  # until both are done: an interrupt may come at any time
            gone = changes.gone[self.catalogue.known(changes.gone)]
            self.catalogue.delete(gone)
            self.catalogue.put(changes.items)
            was_behind, self.is_behind, self.head, self.is_torn = (
                self.is_behind,
                self.generation is not None,
                head,
                False,
            )
            if self.generation is not None and not was_behind:
                self._logging(lambda: self._apply_to_engine(changes, gone))

    def _apply_to_engine(self, changes: Changes, gone: Seqs) -> None:
        assert self._index is not None
        if len(gone):
            self._index.delete(gone)
        if len(changes.items):
            seqs = changes.items.seqs
            self._index.upsert(codes_of(seqs, changes.codes, self._store.database.damage), seqs)
        self.is_behind = False

    def replace(self, generation: Generation, seqs: Seqs, codes: Codes, head: Head) -> None:
        """Take another generation into use, which is stored already."""
        self.is_torn = True

        def switch() -> None:
            self._switch(generation, self._filled(generation, seqs, codes), self.catalogue, head)

        self._logging(switch)
        if self.is_torn:
            self._switch(generation, None, self.catalogue, head)

    # ------------------------------------------------------------------ searching

    @contextmanager
    def reading(self) -> Iterator[tuple[Generation | None, Index | None]]:
        """Give the generation in use and its index, unchanged while the block lasts."""
        with self._lock.reading():
            yield self.generation, self._index

    def search(
        self,
        generation: Generation,
        queries: Any,
        allowed: Seqs | None = None,
        *,
        k: int,
        asymmetric: bool = False,
        after: Cursor | None = None,
    ) -> list[Hits]:
        """Return the k nearest items of every encoded query, of one alone those after a cursor."""
        index = self._index_of(generation)
        if after is None:
            return _hits(index.search(queries, k, ids=allowed, asymmetric=asymmetric))
        if after.generation != generation.number:
            raise InvalidInputError(
                f"after is a page of generation {after.generation}, but the codes are of generation "
                f"{generation.number} now, and other distances; start again."
            )
        n_wanted = after.rank + k
        while True:
            (found,) = _hits(index.search(queries, n_wanted, ids=allowed, asymmetric=asymmetric))
            is_before = (found.distances < after.distance) | (
                (found.distances == after.distance) & (found.seqs <= after.seq)
            )
            start = int(np.count_nonzero(is_before))
            if len(found.seqs) < n_wanted or len(found.seqs) >= start + k:
                return [Hits(found.seqs[start : start + k], found.distances[start : start + k])]
            n_wanted *= 2

    def range_search(
        self, generation: Generation, codes: Any, allowed: Seqs | None, *, radius: int, max_results: int | None
    ) -> list[Hits]:
        """Return all items at most ``radius`` away from every code; raise if they are more than ``max_results``."""
        return _hits(self._index_of(generation).range_search(codes, radius, ids=allowed, max_results=max_results))

    def _index_of(self, generation: Generation) -> Index:
        if self.generation is not generation or self._index is None:
            raise OutOfStep
        return self._index

    def items_of(self, hits: list[Hits]) -> list[Hits]:
        """Return the hits that are items here: an engine that others share may hold more."""
        if not self.engine.is_shared:
            return hits
        known = [self.catalogue.known(seqs) for seqs, _ in hits]
        return [Hits(seqs[here], distances[here]) for (seqs, distances), here in zip(hits, known, strict=True)]

    def codes(self, seqs: Seqs | None = None) -> tuple[list[Any], Codes, Encoder | None]:
        """Return the ids, all or some, that have a code in use, their codes and the encoder that made them."""
        with self.reading() as (generation, index):
            if generation is None or index is None or not len(index):
                return [], np.empty((0, 0), np.uint8), None if generation is None else generation.encoder
            wanted = self.catalogue.all_seqs() if seqs is None else seqs[self.catalogue.known(seqs)]
            return self.catalogue.ids(wanted), index.get(wanted), generation.encoder


def _hits(found: SearchResult) -> list[Hits]:
    return [
        Hits(np.asarray(seqs), np.asarray(distances))
        for seqs, distances in zip(found.ids, found.distances, strict=True)
    ]


def codes_of(seqs: Seqs, columns: CodeColumns, damage: Callable[[str], DamagedError]) -> Codes:
    """Return the codes of sequence numbers, all of which must be there."""
    order = np.argsort(columns.seqs, kind="stable")
    places = np.searchsorted(columns.seqs, seqs, sorter=order)
    if len(seqs) and (not len(order) or places.max() >= len(order)):
        raise damage("codes of items are missing")
    rows = order[places]
    if not np.array_equal(columns.seqs[rows], seqs):
        raise damage("codes of items are missing")
    return columns.codes[rows]


def _holds(index: Index, seqs: Seqs, codes: Codes) -> bool:
    """Return whether an index has these codes, by a sample; another collection of the same name may have filled it."""
    some = np.unique(np.linspace(0, len(seqs) - 1, _CODES_COMPARED).astype(int)) if len(seqs) else slice(0)
    try:
        return np.array_equal(index.get(seqs[some]), codes[some])
    except UnknownIdError:
        return False


class SharedLock:
    """Let many threads read, or one change; one that wants to change goes before new readers.

    A thread that reads must not ask to read again: a change may be waiting in between.
    """

    def __init__(self) -> None:
        self._condition = Condition()
        self._n_readers = 0
        self._n_changing = 0  # at work or waiting

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Keep changes out."""
        is_reading = False
        try:
            with self._condition:
                self._condition.wait_for(lambda: not self._n_changing)
                self._n_readers += 1
                is_reading = True
            yield
        finally:
            if is_reading:
                with self._condition:
                    self._n_readers -= 1
                    self._condition.notify_all()

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Keep everybody else out."""
        with self._condition:
            self._n_changing += 1
            try:
                self._condition.wait_for(lambda: not self._n_readers)
                yield
            finally:
                self._n_changing -= 1
                self._condition.notify_all()
