"""CodeIndex: the codes of a collection, searched by an engine that follows the store."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinehash.collection.arrivals import Arrivals, Seqs
from onlinehash.collection.engines import Engine
from onlinehash.collection.engines.memory import AdaptiveIndex
from onlinehash.collection.generation import Generation
from onlinehash.collection.labels import LabelIndex
from onlinehash.collection.locks import SharedLock
from onlinehash.collection.paging import Cursor, nothing_found, paged, unpaged
from onlinehash.collection.passing import Passing, PassingItems
from onlinehash.collection.stores.checksums import mixed
from onlinehash.collection.stores.protocol import Among, Answers, Changes, OutOfStep, Position, Store
from onlinehash.collection.types import Label
from onlinehash.encoders import Encoder
from onlinehash.exceptions import OnlineHashError, UnknownIdError
from onlinehash.indexes import Index
from onlinehash.types import Codes, SearchResult

_log = logging.getLogger(__name__)
_WAITING = 512  # upserts of one item that are applied together
_SAMPLE = 500  # codes compared with those of an engine, of all and again of the last
_NO_CODES: Codes = np.empty((0, 0), np.uint8)


class CodeIndex:
    """Follow the changes of a store, and search its codes in an engine.

    The engine holds the codes of the generation in use under the sequence numbers of their items, so ties come in the
    order of arrival. Ids and labels stay in memory. A change waits until the searches that have begun are done, and new
    searches wait for it. Upserts of one item are applied together, before the next search at the latest. The next
    generation is gathered in memory until :meth:`cut_over` hands it to the engine.

    The engine holds nothing that the store does not: if it fails, the change is stored all the same, and the next
    search brings the engine up to date or raises its error.
    """

    def __init__(self, store: Store, engine: Engine) -> None:
        self._store, self._engine = store, engine
        self.current: Generation | None = None
        self.building: Generation | None = None
        self._index: Index | None = None  # of the current generation
        self._next: AdaptiveIndex | None = None  # of the one being built
        self._arrivals, self._labels = Arrivals(), LabelIndex()
        self._passing_items = PassingItems(store)
        self._lock = SharedLock()
        self._seq = 0  # of the last change that was applied
        self._waiting: dict[Any, tuple[int, Codes, str | None]] = {}  # upserts to apply, by id, in order of arrival
        self._waiting_lock = Lock()
        self.is_behind = False
        """Whether the engine has failed to apply a change: :meth:`read` is needed before the next search."""

    @property
    def kind(self) -> str:
        """How codes are searched: "flat" or "buckets" in memory, or the name of the engine."""
        self._apply_waiting()
        return self._engine.kind(self._index)

    def close(self) -> None:
        """Release the engine."""
        self._engine.close()

    # ------------------------------------------------------------------ following the store

    def read(self, position: Position) -> None:
        """Read everything from the store, and bring the engine up to date."""
        arrivals, labels = Arrivals(), LabelIndex()
        current, building, index, following = None, None, None, None
        rows = self._store.generations()
        items = self._store.codes(position.generation)  # before the first codes, all items without
        seqs = np.asarray(items.seqs, np.int64)
        arrivals.put(items.ids, seqs)
        labels.put(seqs, items.labels)
        for row in rows:
            generation = Generation(row.number, Encoder.load(row.encoder), row.cursor, self._engine.put)
            if row.current:
                current, index = generation, self._engine.open(row.number, generation.encoder.n_bits)
                self._bring_up_to_date(row.number, index, seqs, items.codes, position.seq)
            elif not self._store.readonly:
                building, following = generation, AdaptiveIndex(generation.encoder.n_bits)
                coded = self._store.codes(row.number)
                if len(coded.ids):
                    following.upsert(coded.codes, np.asarray(coded.seqs, np.int64))
        if current is not None:
            self._engine.keep(current.number)
        with self._lock.changing():
            self._waiting.clear()
            self.current, self.building, self._index, self._next = current, building, index, following
            self._arrivals, self._labels, self._seq, self.is_behind = arrivals, labels, position.seq, False

    def _bring_up_to_date(self, number: int, index: Index, seqs: Seqs, codes: Codes, seq: int) -> None:
        """Give an engine what it lacks; the code of a sequence number never changes within a generation."""
        if self._engine.seen(number) == seq and len(index) == len(seqs) and _holds(index, seqs, codes):
            return
        if len(index):
            there = np.sort(index.ids)
            gone, new = np.setdiff1d(there, seqs, assume_unique=True), ~np.isin(seqs, there, assume_unique=True)
            if len(gone):
                index.delete(gone)
            if _holds(index, seqs[~new], codes[~new]):
                codes, seqs = codes[new], seqs[new]
        if len(seqs):
            index.upsert(codes, seqs)
        self._engine.mark(number, seq)

    def follow(self, since: Position, now: Position) -> None:
        """Apply what another process has stored since."""
        changes = None
        if self.current is not None and now.generation == self.current.number and not self.is_behind:
            changes = self._store.changes(since.seq)
        if self.current is None or changes is None:
            self.read(now)
            return
        self._apply(now.seq, changes)
        if self._index is None or len(self._index) != self._store.count():
            self.read(now)  # and verify it

    def begin(self, number: int, encoder: Encoder) -> None:
        """Start the next generation."""
        self._apply_waiting()
        self.building = Generation(number, encoder, put=self._engine.put)
        self._next = AdaptiveIndex(encoder.n_bits)

    def put(
        self, ids: Sequence[Any], seqs: Sequence[int], codes: Mapping[int, Codes], labels: Sequence[str | None]
    ) -> None:
        """Apply an upsert: codes by the number of their generation, labels as JSON."""
        current, building = self.current, self.building
        if len(ids) == 1 and building is None and current is not None and isinstance(self._index, AdaptiveIndex):
            with self._waiting_lock:
                self._waiting.pop(ids[0], None)
                self._waiting[ids[0]] = seqs[0], codes[current.number], labels[0]
            if len(self._waiting) >= _WAITING:
                self._apply_waiting()
            return
        own = _NO_CODES if current is None else codes[current.number]
        self._apply(seqs[-1], Changes(ids, seqs, own, labels, ()))
        if building is not None:
            self.put_next(seqs, codes[building.number])

    def _apply_waiting(self) -> None:
        """Apply the upserts that wait, as one."""
        if not self._waiting:
            return
        with self._lock.changing():
            with self._waiting_lock:
                waiting, self._waiting = self._waiting, {}
            if waiting and self.current is not None:
                seqs, codes, labels = zip(*waiting.values(), strict=True)
                try:
                    self._change(seqs[-1], Changes(list(waiting), seqs, np.concatenate(codes), labels, ()))
                except BaseException:
                    self.is_behind = True
                    raise

    def put_next(self, seqs: Sequence[int], codes: Codes) -> None:
        """Add codes to the generation being built."""
        if self._next is not None and len(seqs):
            self._next.upsert(codes, np.asarray(seqs, np.int64))

    def delete(self, ids: Sequence[Any], seq: int) -> None:
        """Apply a deletion."""
        self._apply(seq, Changes((), (), _NO_CODES, (), ids))

    def _apply(self, seq: int, changes: Changes) -> None:
        """Delete ids, then put others, as one change to those who search."""
        self._apply_waiting()
        with self._lock.changing():
            self._change(seq, changes)

    def _change(self, seq: int, changes: Changes) -> None:
        """Apply a change, while nobody searches."""
        new, current = np.asarray(changes.seqs, np.int64), self.current
        gone = np.concatenate([self._arrivals.delete(changes.deleted), self._arrivals.put(changes.ids, new)])
        if len(gone):
            self._labels.delete(gone)
            if self._next is not None:  # which need not have reached them yet
                self._next.delete([seq for seq in gone.tolist() if seq in self._next])
        if len(new):
            self._labels.put(new, changes.labels)
        if current is not None and self._index is not None:
            try:
                if len(gone):
                    self._index.delete(gone)
                if len(new):
                    self._index.upsert(changes.codes, new)
                self._engine.mark(current.number, seq)
            except OnlineHashError as error:
                self.is_behind = True
                _log.warning("%s is behind the store, which has the change: %s", self._engine, error)
        self._seq = seq

    def cut_over(self) -> None:
        """Take the next generation into use."""
        building, following = self.building, self._next
        assert building is not None
        assert following is not None
        index: Index = following
        is_behind = False
        try:
            index = self._engine.open(building.number, building.encoder.n_bits, following)
            if index is not following:
                self._bring_up_to_date(building.number, index, following.ids, following.codes, self._seq)
            self._engine.keep(building.number)
        except OnlineHashError as error:
            is_behind = True
            _log.warning("%s is behind the store, which has new codes: %s", self._engine, error)
        with self._lock.changing():
            self.current, self.building, self._index, self._next = building, None, index, None
            self.is_behind = is_behind

    # ------------------------------------------------------------------ searching

    def search(
        self, vectors: NDArray[Any], k: int, among: Among, *, asymmetric: bool = False, after: Cursor | None = None
    ) -> SearchResult:
        """Return the k nearest items of every query, encoded by the encoder in use; with a cursor, those after it."""
        with self._searching(among) as (generation, index, passing):
            if generation is None or index is None:
                return nothing_found(len(vectors), self._seq)
            encode = generation.encoder.encode_asymmetric if asymmetric else generation.encoder.encode
            queries = encode(self._engine.put(vectors))

            def ask(n_items: int) -> Answers:
                return self._answers(index.search(queries, n_items, ids=passing, asymmetric=asymmetric))

            return paged(ask, k, after, generation.encoder.version, self._seq)

    def range_search(
        self, vectors: NDArray[Any], radius: int, among: Among, max_results: int | None = None
    ) -> SearchResult:
        """Return all items at most ``radius`` away from every query; raise if they are more than ``max_results``."""
        with self._searching(among) as (generation, index, passing):
            if generation is None or index is None:
                return nothing_found(len(vectors), self._seq)
            codes = generation.encoder.encode(self._engine.put(vectors))
            found = index.range_search(codes, radius, ids=passing, max_results=max_results)
            return unpaged(self._answers(found), generation.encoder.version, self._seq)

    def _answers(self, found: SearchResult) -> Answers:
        rows = list(zip(found.ids, found.distances, strict=True))
        if self._engine.is_shared:  # what another process has put back is not an item here
            known = [self._arrivals.are_known(seqs) for seqs, _ in rows]
            rows = [(seqs[here], distances[here]) for (seqs, distances), here in zip(rows, known, strict=True)]
        return [(self._arrivals.ids(seqs), distances.tolist(), seqs.tolist()) for seqs, distances in rows]

    @contextmanager
    def _reading(self) -> Iterator[tuple[Generation | None, Index | None]]:
        """Give the generation in use and its index, unchanged while the block lasts."""
        self._apply_waiting()
        with self._lock.reading():
            yield self.current, self._index

    @contextmanager
    def _searching(self, among: Among) -> Iterator[tuple[Generation | None, Index | None, Seqs | None]]:
        """Give the generation in use, its index and the items that pass the filters, all of one moment."""
        found = None if among.where is None else self._passing_items.of(among.where)
        with self._reading() as (generation, index):
            if found is not None and found.seq != self._seq:
                raise OutOfStep
            yield generation, index, self._passing(among, found)

    def _passing(self, among: Among, found: Passing | None) -> Seqs | None:
        """Return the sequence numbers of the items that pass the filters, sorted; None without any."""
        allowed = None if found is None else found.seqs
        if among.labels is not None:
            parts = [self._labels.having(label) for label in among.labels]
            some = np.unique(np.concatenate(parts)) if len(parts) != 1 else parts[0]
            allowed = some if allowed is None else np.intersect1d(allowed, some, assume_unique=True)
        if among.ids is not None:
            some = np.unique(self._arrivals.seqs(among.ids))
            allowed = some if allowed is None else np.intersect1d(allowed, some, assume_unique=True)
        return allowed

    def codes(self, ids: Sequence[Any] | None = None) -> tuple[list[Any], Codes, Encoder | None]:
        """Return the ids, all or some, that have a code in use, their codes and the encoder that made them.

        All are in order of arrival, some in the order of the ids.
        """
        with self._reading() as (generation, index):
            if generation is None or index is None or not len(index):
                return [], _NO_CODES, None if generation is None else generation.encoder
            if ids is not None:
                seqs = self._arrivals.seqs(ids)
                return self._arrivals.ids(seqs), index.get(seqs), generation.encoder
            order = np.argsort(index.ids)
            return self._arrivals.ids(index.ids[order]), index.codes[order], generation.encoder

    def labelled_codes(self, ids: Sequence[Any]) -> tuple[list[frozenset[Label]], Codes]:
        """Return the labels and the codes in use of those ids that have one."""
        with self._reading() as (generation, index):
            if generation is None or index is None:
                return [], _NO_CODES
            seqs = self._arrivals.seqs(ids)
            return self._labels.of(seqs), index.get(seqs)

    def are_searchable(self, seqs: Sequence[int]) -> list[bool]:
        """Return which sequence numbers have a code in use."""
        with self._reading():
            known = self._arrivals.are_known(np.asarray(seqs, np.int64))
            return [self.current is not None and here for here in known.tolist()]

    def n_searchable(self) -> int:
        """Return the number of items that have a code in use."""
        self._apply_waiting()
        return 0 if self.current is None else len(self._arrivals)

    def n_built(self) -> int:
        """Return the number of items that have a code in the next generation."""
        return 0 if self._next is None else len(self._next)

    def sample(self, n_items: int, seed: int) -> list[Any]:
        """Return ids that have a code in use, at random; with the same seed mostly the same after a change."""
        with self._reading():
            if self.current is None:
                return []
            seqs = self._arrivals.all_seqs()
            if n_items < len(seqs):
                keys = mixed(seqs.astype(np.uint64) + np.uint64(seed))
                seqs = np.sort(seqs[np.argpartition(keys, n_items)[:n_items]])
            return self._arrivals.ids(seqs)


def _holds(index: Index, seqs: Seqs, codes: Codes) -> bool:
    """Return whether an index has these codes, by a sample; it may have been filled from another store of that name."""
    if not len(seqs):
        return True
    in_order = np.argsort(seqs)
    some = np.union1d(in_order[:: -(-len(seqs) // _SAMPLE)], in_order[-_SAMPLE:])
    try:
        return np.array_equal(index.get(seqs[some]), codes[some])
    except UnknownIdError:
        return False
