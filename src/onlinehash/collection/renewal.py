"""Renewal: the making of a generation, chunk by chunk, in the background."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Condition, Event, RLock, Thread, current_thread

from onlinehash.collection.live import LiveCodes
from onlinehash.collection.stores.protocol import ItemStore

_CHUNK = 250  # items; more would keep others waiting, fewer would spend the time on the disk
_PAUSE = 0.001  # seconds in which those who wait to change something get their turn


class Renewal:
    """Encode all stored items for the generation being made, take it into use, and ask whether to make another.

    Each chunk is one short transaction that stores codes and how far they have come; between chunks others may change
    the collection, and write codes for both generations. Interrupted anywhere, it goes on from the last chunk.

    Parameters
    ----------
    store : ItemStore
    live : LiveCodes
    changes : RLock
        Held during a chunk and during ``consider``.
    consider : callable
        ``consider(idle)`` begins another generation if the policy wants one: after a generation was finished, and with
        ``idle=True`` after ``idle`` seconds without a change.
    is_stale : callable
        Whether there is anything to refresh once the collection is idle.
    idle : float or None
        None: an idle collection is left as it is.

    Attributes
    ----------
    error : Exception or None
        What ended the last one too early.
    """

    def __init__(
        self,
        store: ItemStore,
        live: LiveCodes,
        changes: RLock,
        *,
        consider: Callable[[bool], None],
        is_stale: Callable[[], bool],
        idle: float | None,
    ) -> None:
        self._store, self._live, self._changes = store, live, changes
        self._consider, self._is_stale, self._idle = consider, is_stale, idle
        self._thread: Thread | None = None
        self._finished = Condition()  # notified when a generation is finished and when the thread ends
        self._halting, self._woken = Event(), Event()
        self._idle_from = 0.0  # time.monotonic() from which the collection counts as idle
        self.error: Exception | None = None

    def start(self) -> None:
        """Continue in the background if there is anything to do."""
        with self._changes:
            if self._live.building is not None:
                self._woken.set()  # do not wait for idle times
            if self._thread is None and self._has_work():
                self._halting.clear()
                self._thread = Thread(target=self._work, name="onlinehash refresh", daemon=True)
                self._thread.start()

    def changed(self) -> None:
        """Start the time after which the collection is idle again."""
        self._idle_from = time.monotonic() + (self._idle or 0.0)
        self.start()

    def hurry(self) -> None:
        """Refresh now what is stale, as if the collection had been idle for long enough."""
        self._idle_from = 0.0
        self._woken.set()
        self.start()

    def run(self) -> None:
        """Encode here and now until the generation is finished."""
        self.error = None
        try:
            while self._encode_chunk():
                pass
        except Exception as error:
            self.error = error

    def wait(self, *, timeout: float | None = None) -> None:
        """Return when no generation is being made or time is up, and raise what ended one too early."""
        with self._finished:
            self._finished.wait_for(lambda: self._live.building is None or self._thread is None, timeout)
        if self.error is not None:
            raise self.error

    def wait_for(self, is_done: Callable[[], bool], timeout: float) -> None:
        """Return when something is done by the thread, the thread has ended, or time is up."""
        if self._thread is current_thread():
            return
        with self._finished:
            self._finished.wait_for(lambda: is_done() or self._thread is None, timeout)

    def halt(self) -> None:
        """Stop after the chunk at work; what is done stays done."""
        thread = self._thread
        self._halting.set()
        self._woken.set()
        if thread is not None and thread is not current_thread():
            thread.join()
        self._halting.clear()

    def _has_work(self) -> bool:
        return self._live.building is not None or (self._idle is not None and self._is_stale())

    def _work(self) -> None:
        """Encode, consider what comes next, wait for idle times: until there is nothing to do or someone says halt."""
        self.error = None
        try:
            while not self._halting.is_set():
                if self._live.building is not None:
                    if self._encode_chunk():
                        time.sleep(_PAUSE)
                    else:
                        self._ask(idle=False)
                elif not self._has_work():
                    with self._changes:  # nobody can bring work between the last look and the end
                        if not self._has_work():
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
            self._end()

    def _ask(self, *, idle: bool) -> None:
        with self._changes:
            if not self._halting.is_set():
                self._consider(idle)
        with self._finished:
            self._finished.notify_all()

    def _end(self) -> None:
        with self._finished:
            if self._thread is current_thread():
                self._thread = None
            self._finished.notify_all()

    def _encode_chunk(self) -> bool:
        """Encode the next items; tell whether there are more."""
        with self._changes:
            building = self._live.building
            if building is None:
                return False
            rows = self._store.vectors(building.cursor, _CHUNK)
            if len(rows):
                _give_way()
                codes = building.encode(rows.vectors)
                _give_way()
                recomputed = 0 if self._live.current is None else len(rows) * building.encoder.n_bits
                with self._store.writing():
                    self._store.put_codes(building.number, building.cursor, rows.seqs[-1], codes)
                    bits = self._store.setting("bits_recomputed", 0)
                    self._store.put_setting("bits_recomputed", bits + recomputed)
                self._live.put(rows.ids, {building.number: codes})
                building.cursor = rows.seqs[-1]
            if len(rows) == _CHUNK:
                return True
            with self._store.writing():
                self._store.finish_generation(building.number)
            self._live.cut_over()
            return False


def _give_way() -> None:
    """Let searches that wait for the interpreter go first: they would wait for the rest of the chunk."""
    time.sleep(0)
