"""Searcher: the codes in use and the items they belong to, in memory, searched by an engine."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Condition
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onlinehash._internal.arrays import to_host
from onlinehash.codes import code_width
from onlinehash.collection.engines import Engine
from onlinehash.collection.inputs import label_set
from onlinehash.collection.stores.sql import Changes, CodeColumns, Head, ItemColumns, Seqs, SqlStore
from onlinehash.collection.types import Label
from onlinehash.encoders import Encoder
from onlinehash.encoders.calibration import CLASSES_PER_LIST, ClassLists
from onlinehash.exceptions import DamagedError, OnlineHashError, UnknownIdError
from onlinehash.indexes import Index
from onlinehash.types import Codes, Features

MAX_SCORES = 1 << 24
"""Scores of classes that are held at a time."""

_log = logging.getLogger(__name__)
_MIN_ROWS = 1024  # of arrays that grow
_ODD_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_BEHIND = "%s is behind the store: %s"
_CODES_COMPARED = 500  # with those of an engine that outlives the process


class OutOfStep(Exception):  # noqa: N818 (not an error: the caller repeats the search)
    """Something has changed between the parts of one search."""


class Request(NamedTuple):
    """What to find of every query: the k nearest items in an order, or all within a radius; what to include of them."""

    k: int = 0
    radius: int | None = None
    rescore: str | None = None
    asymmetric: bool = False
    parts: tuple[str, ...] = ()
    max_results: int | None = None
    max_payload_bytes: int | None = None


class Found(NamedTuple):
    """What was found for one query, nearest first: one entry per item and column, labels as JSON."""

    seqs: Seqs
    distances: NDArray[Any]
    ids: NDArray[Any]
    labels: NDArray[Any]
    lists: ClassLists


class Catalogue:
    """The ids and labels of items by their sequence numbers, which rise with arrival.

    The row of an item that is gone stays until half of all rows are such. The labels of a row are a number: that of
    its JSON text among all texts seen.

    Examples
    --------
    >>> catalogue = Catalogue()
    >>> catalogue.put(ItemColumns(np.array([1, 2, 5]), ["b", "a", "c"], ['"cat"', '["cat", "pet"]', None]))
    >>> catalogue.delete(np.array([1]))
    >>> catalogue.ids(np.array([5, 2])), catalogue.having(["cat"]), len(catalogue)
    (['c', 'a'], array([2]), 2)
    """

    def __init__(self) -> None:
        self._size, self._n_gone = 0, 0
        self._seqs: Seqs = np.empty(0, np.int64)
        self._ids: NDArray[Any] = np.empty(0, object)
        self._labels: NDArray[Any] = np.empty(0, np.int32)
        self._alive: NDArray[Any] = np.empty(0, bool)
        self._lists: ClassLists = np.empty((0, CLASSES_PER_LIST), np.uint32)
        self._numbers: dict[str | None, int] = {}
        self._texts: list[str | None] = []
        self._numbers_of: dict[Label, list[int]] = {}  # of the texts that have a label

    def __len__(self) -> int:
        return self._size - self._n_gone

    def put(self, items: ItemColumns) -> None:
        """Add items whose sequence numbers are above those of before."""
        if not len(items.seqs):
            return
        if not self._size:
            self._ids = np.empty(0, object if isinstance(items.ids[0], str) else np.int64)
        for text in {*items.labels} - self._numbers.keys():
            number = self._numbers[text] = len(self._texts)
            self._texts.append(text)
            for label in label_set(text):
                self._numbers_of.setdefault(label, []).append(number)
        start, self._size = self._size, self._size + len(items.seqs)
        if self._size > len(self._seqs):
            room = max(_MIN_ROWS, self._size, 3 * start // 2)
            for name in ("_seqs", "_ids", "_labels", "_alive", "_lists"):
                column = getattr(self, name)
                setattr(self, name, np.resize(column, (room, *column.shape[1:])))
        self._seqs[start : self._size], self._ids[start : self._size] = items.seqs, items.ids
        self._labels[start : self._size] = list(map(self._numbers.__getitem__, items.labels))
        self._alive[start : self._size] = True

    def delete(self, seqs: Seqs) -> None:
        """Remove the items of sequence numbers; those that are unknown are ignored."""
        rows = np.searchsorted(self._seqs[: self._size], seqs)
        rows = rows[self.known(seqs)]
        self._alive[rows] = False
        self._n_gone += len(rows)
        if 2 * self._n_gone > max(_MIN_ROWS, self._size):
            kept = self._alive[: self._size]
            self._seqs, self._ids, self._labels, self._alive, self._lists = (
                column[: self._size][kept] for column in (self._seqs, self._ids, self._labels, self._alive, self._lists)
            )
            self._size, self._n_gone = len(self._seqs), 0

    def known(self, seqs: Seqs) -> NDArray[np.bool_]:
        """Return which sequence numbers an item has."""
        rows = np.searchsorted(self._seqs[: self._size], seqs)
        there = rows < self._size
        there[there] = (self._seqs[rows[there]] == np.asarray(seqs)[there]) & self._alive[rows[there]]
        return there

    def all_seqs(self) -> Seqs:
        """Return the sequence numbers of all items, sorted."""
        seqs: Seqs = self._seqs[: self._size][self._alive[: self._size]]
        return seqs

    def ids(self, seqs: Seqs) -> list[Any]:
        """Return the ids of known sequence numbers."""
        return list(self._ids[self._rows(seqs)].tolist())

    def labels(self, seqs: Seqs) -> list[str | None]:
        """Return the labels of known sequence numbers, as JSON."""
        return [self._texts[number] for number in self._labels[self._rows(seqs)].tolist()]

    def found(self, seqs: Seqs, distances: NDArray[Any]) -> Found:
        """Return known sequence numbers with what is known of them."""
        rows = self._rows(seqs)
        texts = np.array([self._texts[number] for number in self._labels[rows].tolist()], object)
        return Found(seqs, distances, self._ids[rows], texts, self._lists[rows])

    def put_class_lists(self, seqs: Seqs, lists: ClassLists) -> None:
        """Set the class lists of known sequence numbers."""
        self._lists[self._rows(seqs)] = lists

    def with_labels(self, labelled: bool = True) -> Seqs:
        """Return the sequence numbers of items that have a label, or of those that have none, sorted."""
        none = self._numbers.get(None, -1)
        return self._where([number for number in range(len(self._texts)) if (number != none) == labelled])

    def having(self, labels: Iterable[Label]) -> Seqs:
        """Return the sequence numbers of items that have any of the labels, sorted."""
        return self._where([number for label in labels for number in self._numbers_of.get(label, ())])

    def _where(self, numbers: list[int]) -> Seqs:
        labels, alive = self._labels[: self._size], self._alive[: self._size]
        are_wanted = labels == numbers[0] if len(numbers) == 1 else np.isin(labels, numbers)
        seqs: Seqs = self._seqs[: self._size][are_wanted & alive]
        return seqs

    def label_counts(self, seqs: Seqs | None = None) -> dict[Label | None, int]:
        """Return how many items have each label, all or some; None for items without any."""
        rows = self._alive[: self._size] if seqs is None else self._rows(seqs)
        counts: dict[Label | None, int] = {}
        numbers = np.bincount(self._labels[: self._size][rows], minlength=len(self._texts)).tolist()
        for text, n_items in zip(self._texts, numbers, strict=True):
            for label in label_set(text) or {None}:
                counts[label] = counts.get(label, 0) + n_items
        return {label: n_items for label, n_items in counts.items() if n_items}

    def _rows(self, seqs: Seqs) -> NDArray[np.intp]:
        return np.searchsorted(self._seqs[: self._size], seqs)


def drawn(seqs: Seqs, n_items: int, seed: int) -> Seqs:
    """Return some sequence numbers at random, sorted; with the same seed mostly the same after a change."""
    if n_items >= len(seqs):
        return seqs
    keys = (seqs.astype(np.uint64) + np.uint64(seed)) * _ODD_MULTIPLIER
    keys = (keys ^ (keys >> np.uint64(29))) * _ODD_MULTIPLIER
    return np.sort(seqs[np.argpartition(keys, n_items)[:n_items]])


@dataclass(frozen=True, eq=False)
class Generation:
    """An encoder, its number, and what moves vectors to the device that encodes them, if there is one."""

    number: int
    encoder: Encoder
    to_device: Callable[[NDArray[Any]], Any] | None = None
    world: int = 0  # number of migrations before: queries must be made by the same embedding model

    @property
    def stored_width(self) -> int:
        """Bytes of a stored code."""
        return code_width(self.encoder.n_bits) + (4 * CLASSES_PER_LIST if self.encoder.has_class_lists else 0)

    def encode_queries(self, vectors: NDArray[Any], asymmetric: bool, scored: bool) -> tuple[Any, Features | None]:
        """Return codes, or real values for an asymmetric search, where the engine wants them; scores on the host."""
        codes: Any
        scores: Any
        rows, encoder = vectors if self.to_device is None else self.to_device(vectors), self.encoder.for_queries
        if scored and not asymmetric:
            codes, scores = encoder.encode_and_score(rows)
        else:
            codes = encoder.encode_asymmetric(rows) if asymmetric else encoder.encode(rows)
            scores = encoder.class_scores(rows) if scored else None
        return codes, scores if scores is None or isinstance(scores, np.ndarray) else to_host(scores)

    def encode_stored(self, vectors: NDArray[Any]) -> Codes:
        """Return the codes of items, and with them their class lists, as they are stored."""
        scored, step = self.encoder.has_class_lists, max(1, MAX_SCORES // max(1, len(self.encoder.classes or ())))
        parts = list[Codes]()
        for start in range(0, max(1, len(vectors)), step):
            codes, scores = self.encode_queries(vectors[start : start + step], False, scored)
            parts.append(codes if isinstance(codes, np.ndarray) else to_host(codes))
            if scores is not None:
                lists = self.encoder.calibration.class_lists(scores).astype("<u4")
                parts[-1] = np.hstack([parts[-1], lists.view(np.uint8)])
        return np.concatenate(parts)

    def split(self, stored: Codes) -> tuple[Codes, ClassLists | None]:
        """Return codes and class lists of what is stored."""
        if not self.encoder.has_class_lists:
            return stored, None
        codes = np.ascontiguousarray(stored[:, : code_width(self.encoder.n_bits)])
        lists = np.ascontiguousarray(stored[:, codes.shape[1] :]).view("<u4")
        return codes, lists.astype(np.uint32, copy=False)


class Searcher:
    """Follow the changes of a store, and search its codes.

    The engine holds the codes of the generation in use under the sequence numbers of their items, and orders ties by a
    hash of them. It holds nothing that the store does not: if it fails, the change is stored all the same, and the next
    search brings it up to date or raises its error. A change waits until the searches that have begun are done, and new
    searches wait for it.

    Parameters
    ----------
    store : SqlStore
    engine : Engine
    """

    def __init__(self, store: SqlStore, engine: Engine) -> None:
        self._store, self.engine = store, engine
        self.settings: dict[str, Any] = {}
        """Those of the store; None for one that was removed."""
        self.catalogue = Catalogue()
        self.generation: Generation | None = None
        self._index: Index | None = None  # of that generation; None if the engine lacks changes
        self.version = 0
        """Version of the encoder in use; 0 before the first."""
        self.head = Head()
        """Where the store stood when this followed it last."""
        self.lock = SharedLock()
        """Held by those who read :attr:`catalogue` and :attr:`generation` together, and by changes of them."""
        self.is_torn = False
        """Whether a change was not applied as a whole: everything must be read again."""

    @property
    def is_behind(self) -> bool:
        """Whether the engine lacks changes: :meth:`mend` is needed before a search."""
        return self.generation is not None and self._index is None

    @property
    def staleness(self) -> int:
        """Instances learned that the codes do not know."""
        return self.head.n_learned - self.version

    # ------------------------------------------------------------------ following the store

    def load(self) -> None:
        """Read everything from the store, in a snapshot of it, and bring the engine up to date."""
        head, catalogue, generation = self._store.head(), Catalogue(), None
        catalogue.put(self._store.items())
        if head.generation:
            encoder, number = self._store.generation()
            if number != head.generation:
                raise self._store.damage(f"it has codes of generation {number}, not {head.generation}")
            generation = self.generation_of(number, Encoder.load(encoder))
        self.switch(generation, catalogue, head)

    def follow(self) -> None:
        """Apply what another process has stored, in a snapshot of the store."""
        head, changes = self._store.head(), None
        if self._index is not None and head.generation == self.head.generation:
            changes = self._store.changes_since(self.head.seq, head)
        if changes is not None:
            self.apply(changes, head)
        if changes is None or len(self.catalogue) != head.n_items:
            self.load()

    def generation_of(self, number: int, encoder: Encoder) -> Generation:
        """Return a generation, whose queries are made by the embedding model of now."""
        return Generation(number, encoder, self.engine.to_device, self.settings.get("n_migrations", 0))

    def switch(
        self, generation: Generation | None, catalogue: Catalogue, head: Head, *, demanded: bool = False
    ) -> None:
        """Take a generation into use with its codes, read in a snapshot of the store or with changes kept out.

        If the engine fails, later searches do, and nothing else, unless it is ``demanded``.
        """
        index, lists, seqs = None, None, catalogue.all_seqs()
        if generation is not None:
            stored = codes_of(seqs, self._store.codes(generation.number), self._store.damage)
            codes, lists = generation.split(stored)
            try:
                index = self._filled(generation, seqs, codes)
            except OnlineHashError as error:
                if demanded:
                    raise
                _log.warning(_BEHIND, self.engine, error)
        with self.lock.changing():
            if lists is not None:
                catalogue.put_class_lists(seqs, lists)
            self.generation, self._index, self.catalogue, self.head = generation, index, catalogue, head
            self.version = 0 if generation is None else generation.encoder.version
            self.is_torn = False
        if generation is not None and index is not None:
            self.engine.keep(generation.number)

    def mend(self) -> None:
        """Give the engine what it lacks, in a snapshot of the store that is in step with memory, or raise its error."""
        if self.is_behind:
            self.switch(self.generation, self.catalogue, self.head, demanded=True)

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

    def apply(self, changes: Changes, head: Head) -> None:
        """Remove items that are gone and add new ones, as one change to those who search."""
        with self.lock.changing():
            self.is_torn = True  # until it is done: an interrupt may come at any time
            gone, seqs = changes.gone, changes.items.seqs
            if len(gone):
                gone = gone[self.catalogue.known(gone)]
                self.catalogue.delete(gone)
            self.catalogue.put(changes.items)
            index, self._index, self.head, self.is_torn = self._index, None, head, False
            if index is None or self.generation is None:
                return
            stored = changes.codes.codes
            if changes.codes.seqs is not seqs:
                stored = codes_of(seqs, changes.codes, self._store.damage)
            try:
                if len(gone):
                    index.delete(gone)
                if len(seqs):
                    codes, lists = self.generation.split(stored)
                    if lists is not None:
                        self.catalogue.put_class_lists(seqs, lists)
                    index.upsert(codes, seqs)
                self._index = index
            except OnlineHashError as error:
                _log.warning(_BEHIND, self.engine, error)

    # ------------------------------------------------------------------ searching

    def search(
        self, generation: Generation, queries: Any, request: Request, allowed: Seqs | None = None
    ) -> list[Found]:
        """Return what codes find of every encoded query, among all items or those allowed."""
        index = self._index
        if self.generation is not generation or index is None:
            raise OutOfStep
        if request.radius is None:
            result = index.search(queries, request.k, ids=allowed, asymmetric=request.asymmetric)
        else:
            result = index.range_search(queries, request.radius, ids=allowed, max_results=request.max_results)
        columns = list(zip(result.ids, result.distances, strict=True))
        if self.engine.is_shared:  # others may have put more there
            known = (self.catalogue.known(seqs) for seqs, _ in columns)
            columns = [(seqs[here], far[here]) for (seqs, far), here in zip(columns, known, strict=True)]
        return [self.catalogue.found(seqs, far) for seqs, far in columns]

    def codes(self, seqs: Seqs | None = None) -> tuple[list[Any], Codes, Encoder | None]:
        """Return the ids, all or some, that have a code in use, their codes and the encoder that made them."""
        with self.lock.reading():
            generation, index = self.generation, self._index
            if generation is None or index is None or not len(index):
                return [], np.empty((0, 0), np.uint8), None if generation is None else generation.encoder
            wanted = self.catalogue.all_seqs() if seqs is None else seqs[self.catalogue.known(seqs)]
            return self.catalogue.ids(wanted), index.get(wanted), generation.encoder


def codes_of(seqs: Seqs, columns: CodeColumns, damage: Callable[[str], DamagedError]) -> Codes:
    """Return the codes of sequence numbers, sorted, all of which must be there."""
    order = np.argsort(columns.seqs, kind="stable")
    rows = order[np.isin(columns.seqs[order], seqs)]
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
                while self._n_changing:
                    self._condition.wait()
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
                while self._n_readers:
                    self._condition.wait()
                yield
            finally:
                self._n_changing -= 1
                self._condition.notify_all()
