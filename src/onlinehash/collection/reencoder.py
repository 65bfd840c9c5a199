"""Reencoder: refreshes the codes of a collection in the background, when its policy says so."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import cache
from threading import Condition, Event, RLock, Thread, current_thread

from onlinehash._threads import give_way, single_threaded_products
from onlinehash.collection._validation import label_set
from onlinehash.collection.code_index import CodeIndex
from onlinehash.collection.history import note_encoder
from onlinehash.collection.learner import Learner
from onlinehash.collection.refresh import Outlook, Policy, WhenIdle
from onlinehash.collection.store_index import StoreIndex
from onlinehash.collection.stores.protocol import Position, Store
from onlinehash.collection.types import Label
from onlinehash.encoders import Encoder
from onlinehash.exceptions import OnlineHashError
from onlinehash.hashers import OnlineHasher
from onlinehash.types import Features

_log = logging.getLogger(__name__)
_CHUNK = 4096  # items of a chunk at most
_CHUNK_BYTES = 1 << 19  # of its vectors
_FIRST, _FEWEST = 256, 64  # items of the first chunk, and of one that takes long
_TURN = 0.05  # seconds of a chunk; more would keep others waiting, fewer would spend the time on the disk
_PAUSE = 0.001  # seconds in which those who wait to change something get their turn
_SEARCHES_FIRST = 2  # while there are searches, a chunk is followed by this many times its CPU time without work
_REST = 3  # searches that waited for a refresh are followed by this many times as long without


class Reencoder:
    """Encode all stored items again for the next generation, take it into use, and ask the policy for another.

    Each chunk is one short transaction that stores codes and how far they have come; between chunks others may change
    the collection, and write codes for both generations. Interrupted anywhere, it goes on from the last chunk.

    The lock ``changes`` is held during a chunk and while the policy is asked.
    """

    def __init__(
        self, store: Store, index: CodeIndex | StoreIndex, learner: Learner, changes: RLock, policy: Policy
    ) -> None:
        self._store, self._index, self._learner, self._changes = store, index, learner, changes
        self._policy = policy
        self._idle = policy if isinstance(policy, WhenIdle) else None
        self.error: Exception | None = None  # what ended the last refresh too early
        self._thread: Thread | None = None
        self._finished = Condition()  # notified when a generation is finished and when the thread ends
        self._halting, self._woken = Event(), Event()
        self._n_rows = _FIRST  # of the next chunk
        self._idle_from = 0.0  # time.monotonic() from which the collection counts as idle
        self._looked_at = 0  # instances learned when the policy was last asked
        self._refreshed_at = -1  # instances learned when an idle collection was last refreshed, or that was tried
        self._behind_since: float | None = None  # time.monotonic() when a search first found the codes far behind
        self._next_wait = 0.0  # time.monotonic() before which no search waits for a refresh again
        self._searched_at = 0.0  # time.monotonic() of the last search
        self._judged, self._logged = Position(0, 0), 0  # where a reader last compared, and which generation it logged

    # ------------------------------------------------------------------ state

    @property
    def is_on_idle(self) -> bool:
        """Whether an idle collection is refreshed."""
        return self._idle is not None

    def version(self) -> int:
        """Return the version of the encoder in use; 0 before the first."""
        current = self._index.current
        return 0 if current is None else current.encoder.version

    def would_refresh(self, n_learned: int) -> bool:
        """Return whether an idle collection that has learned so much would be refreshed."""
        idle, current = self._idle, self._index.current
        return idle is not None and current is not None and idle.is_stale(n_learned, current.encoder.version)

    def _is_stale(self) -> bool:
        """Return whether an idle collection has codes to refresh, and has not tried that yet."""
        n_learned = self._learner.n_learned
        return n_learned != self._refreshed_at and self.would_refresh(n_learned)

    def is_pending(self) -> bool:
        """Return whether codes are being refreshed, or will be once the collection is idle."""
        return self._index.building is not None or self._is_stale()

    # ------------------------------------------------------------------ deciding

    def read(self) -> None:
        """Take what is stored as the state that the policy was last asked about."""
        self._looked_at = self.version()

    def after_change(self) -> None:
        """Make the first generation as soon as there can be one, ask the policy about the next, and wait for idleness.

        A refresh that fails does not undo the change: see :attr:`error`.
        """
        self._consider(idle=False)
        if self._idle is not None:
            self._idle_from = time.monotonic() + self._idle.seconds
        if self._idle is not None or self._index.building is not None:
            self.start()

    def begin(self, encoder: Encoder, number: int | None = None) -> None:
        """Start a generation; ``number`` is that of one which the store has begun already."""
        if number is None:
            with self._store.writing():
                number = self._store.begin_generation(encoder.to_bytes())
        self._index.begin(number, encoder)
        self._looked_at = encoder.version

    def refresh(self) -> None:
        """Begin a generation if anything was learned since the last and none is being made."""
        hasher, current = self._learner.hasher, self._index.current
        assert hasher is not None
        stale = current is None or current.encoder.version != hasher.version_
        if self._index.building is None and stale and self._store.count():
            self.begin(self._snapshot(hasher))
            self.start()

    def _consider(self, *, idle: bool) -> None:
        try:
            self._decide(idle)
        except OnlineHashError as error:
            self.error = error

    def _decide(self, idle: bool) -> None:
        """Begin a generation if one is due: the first, that of another hasher, of an idle collection, of the policy."""
        hasher, current, n_learned = self._learner.hasher, self._index.current, self._learner.n_learned
        if hasher is None or self._index.building is not None or not n_learned:
            return
        is_other = current is None or (current.encoder.method, current.encoder.n_bits) != (hasher.name, hasher.n_bits)
        if not (is_other or idle or self._policy.is_due(n_learned, self._looked_at)) or not self._store.count():
            return
        if current is None or is_other:
            self.begin(self._snapshot(hasher))
            self._run()
            return
        if idle:
            stale, self._refreshed_at = self._is_stale(), n_learned
            if stale:
                self.begin(self._snapshot(hasher))
            return
        self._looked_at = n_learned
        snapshot = cache(lambda: self._snapshot(hasher))
        outlook = Outlook(n_learned - current.encoder.version, current.encoder, snapshot, self._sample)
        with single_threaded_products(self._store.count()):
            due = self._policy.should_refresh(outlook)
        if due:
            self.begin(snapshot())
            self.start()

    def _snapshot(self, hasher: OnlineHasher) -> Encoder:
        """Return the encoder of now, made on one thread: searches need the others."""
        with single_threaded_products(self._store.count()):
            return hasher.snapshot()

    def _sample(self, n_items: int) -> tuple[Features, list[frozenset[Label]]]:
        """Return vectors and labels of searchable items at random."""
        rows = self._store.rows(self._index.sample(n_items, self._store.position().seq))
        return rows.vectors, list(map(label_set, rows.labels))

    # ------------------------------------------------------------------ waiting

    def before_search(self) -> None:
        """Note a search: a refresh gives way to those that follow."""
        self._searched_at = time.monotonic()

    def wait_for_codes(self, position: Position) -> None:
        """Wait for a refresh while the codes are far behind what was learned, as long as the policy has patience."""
        idle, current = self._idle, self._index.current
        if idle is None or current is None:
            return
        if self._store.readonly:
            self._log_if_far_behind(idle, position)
            return
        n_learned = self._learner.n_learned
        if not idle.is_far_behind(n_learned, current.encoder.version):
            self._behind_since = None
            return
        start = time.monotonic()
        if self._behind_since is None:
            if start < self._next_wait:
                return
            self._behind_since = start
        patience = self._behind_since + idle.patience - start
        if patience > 0:
            self._hurry()
            if self._thread is not current_thread():
                self._wait(lambda: not idle.is_far_behind(n_learned, self.version()), patience)
            end = time.monotonic()
            self._next_wait = end + _REST * (end - start)

    def _log_if_far_behind(self, idle: WhenIdle, position: Position) -> None:
        """Log once per generation that another process has yet to refresh the codes."""
        current = self._index.current
        if current is None or position == self._judged or self._logged == current.number:
            return
        self._judged = position
        n_learned = self._store.setting("n_learned", 0)
        if idle.is_far_behind(n_learned, current.encoder.version):
            self._logged = current.number
            _log.warning(
                "The codes searched do not know %d of %d learned instances; the writer has yet to refresh them.",
                n_learned - current.encoder.version,
                n_learned,
            )

    def wait(self) -> None:
        """Return when no generation is being made, and raise what ended one too early."""
        self._wait(lambda: self._index.building is None)
        if self.error is not None:
            raise self.error

    def _wait(self, is_done: Callable[[], bool], timeout: float | None = None) -> None:
        """Return when the thread has done something, has ended, or time is up."""
        with self._finished:
            self._finished.wait_for(lambda: is_done() or self._thread is None, timeout)

    # ------------------------------------------------------------------ working

    def start(self) -> None:
        """Continue in the background if there is anything to do."""
        with self._changes:
            if self._index.building is not None:
                self._woken.set()  # do not wait for idle times
            if self._thread is None and self.is_pending():
                self._halting.clear()
                self._thread = Thread(target=self._work, name="onlinehash refresh", daemon=True)
                self._thread.start()

    def _hurry(self) -> None:
        """Refresh now what is stale, as if the collection had been idle for long enough."""
        self._idle_from = 0.0
        self._woken.set()
        self.start()

    def halt(self) -> None:
        """Stop after the chunk at work; what is done stays done."""
        thread = self._thread
        self._halting.set()
        self._woken.set()
        if thread is not None and thread is not current_thread():
            thread.join()
        self._halting.clear()

    def _run(self) -> None:
        """Encode here and now until the generation is finished."""
        self.error = None
        try:
            while self._encode_chunk():
                pass
        except Exception as error:
            self.error = error

    def _work(self) -> None:
        """Encode, ask the policy, wait for idle times: until there is nothing to do or it is halted."""
        self.error = None
        give_way()
        try:
            while not self._halting.is_set():
                if self._index.building is not None:
                    start, cpu = time.monotonic(), time.thread_time()
                    if self._encode_chunk():
                        searched = self._searched_at > start
                        time.sleep(max(_PAUSE, _SEARCHES_FIRST * (time.thread_time() - cpu) if searched else 0.0))
                    else:
                        self._ask(idle=False)
                elif not self.is_pending():
                    with self._changes:  # no work can come between the last look and the end
                        if not self.is_pending():
                            self._thread = None
                            return
                elif (rest := self._idle_from - time.monotonic()) > 0:
                    self._woken.wait(rest)
                    self._woken.clear()
                else:
                    self._ask(idle=True)
        except Exception as error:
            self.error = error
        finally:
            with self._finished:
                if self._thread is current_thread():
                    self._thread = None
                self._finished.notify_all()

    def _ask(self, *, idle: bool) -> None:
        with self._changes:
            if not self._halting.is_set():
                self._consider(idle=idle)
        with self._finished:
            self._finished.notify_all()

    def _encode_chunk(self) -> bool:
        """Encode the next items; return whether there are more."""
        with self._changes:
            building = self._index.building
            if building is None:
                return False
            start, n_rows = time.monotonic(), min(_CHUNK, self._n_rows)
            rows = self._store.vectors(building.cursor, n_rows)
            if len(rows):
                time.sleep(0)  # searches that wait for the interpreter would wait for the rest of the chunk
                codes = building.encode(rows.vectors)
                time.sleep(0)
                recomputed = 0 if self._index.current is None else len(rows) * building.encoder.n_bits
                with self._store.writing():
                    self._store.put_codes(building.number, building.cursor, rows, codes)
                    bits = self._store.setting("bits_recomputed", 0)
                    self._store.put_setting("bits_recomputed", bits + recomputed)
                self._index.put_next(rows.seqs, codes)
                building.cursor = rows.seqs[-1]
            if len(rows) == n_rows:
                if time.monotonic() - start > _TURN:
                    self._n_rows = max(_FEWEST, n_rows // 2)
                elif 2 * rows.vectors.nbytes <= _CHUNK_BYTES:
                    self._n_rows = 2 * n_rows
                return True
            with self._store.writing():
                self._store.finish_generation(building.number)
                note_encoder(self._store, building)
            self._index.cut_over()
            return False
