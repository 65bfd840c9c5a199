"""Renewal: the making of a generation, chunk by chunk, in the background."""

from __future__ import annotations

import time
from threading import Event, RLock, Thread

from onlinehash.collection.live import LiveCodes
from onlinehash.collection.stores.protocol import ItemStore

_CHUNK = 250  # items; more would keep others waiting, fewer would spend the time on the disk
_PAUSE = 0.001  # seconds in which those who wait to change something get their turn


class Renewal:
    """Encode all stored items for the generation being made, then take it into use.

    Each chunk is one short transaction that stores codes and how far they have come; between chunks others may change
    the collection, and write codes for both generations. Interrupted anywhere, it goes on from the last chunk.

    Parameters
    ----------
    store : ItemStore
    live : LiveCodes
    changes : RLock
        Held during a chunk.

    Attributes
    ----------
    error : Exception or None
        What ended the last one too early.
    """

    def __init__(self, store: ItemStore, live: LiveCodes, changes: RLock) -> None:
        self._store, self._live, self._changes = store, live, changes
        self._thread: Thread | None = None
        self._halting = Event()
        self.error: Exception | None = None

    def start(self) -> None:
        """Go on in the background, if there is anything to do and nobody does it yet."""
        with self._changes:
            if self._live.building is None or (self._thread is not None and self._thread.is_alive()):
                return
            self._halting.clear()
            self._thread = Thread(target=self.run, name="onlinehash refresh", daemon=True)
            self._thread.start()

    def run(self) -> None:
        """Encode until all is done or someone says halt."""
        self.error = None
        try:
            while not self._halting.is_set() and self._encode_chunk():
                time.sleep(_PAUSE)
        except Exception as error:
            self.error = error

    def wait(self) -> None:
        """Return when the thread has ended, and raise what ended it too early."""
        if self._thread is not None:
            self._thread.join()
        if self.error is not None:
            raise self.error

    def halt(self) -> None:
        """Stop after the chunk at work; what is done stays done."""
        self._halting.set()
        if self._thread is not None:
            self._thread.join()
        self._halting.clear()

    def _encode_chunk(self) -> bool:
        """Encode the next items; tell whether there are more."""
        with self._changes:
            building = self._live.building
            if building is None:
                return False
            rows = self._store.vectors(building.cursor, _CHUNK)
            if len(rows):
                _give_way()
                codes = building.encode(rows.features)
                _give_way()
                recomputed = 0 if self._live.current is None else len(rows) * building.encoder.n_bits
                with self._store.writing():
                    self._store.put_codes(building.number, building.cursor, rows.seqs[-1], codes)
                    bits = self._store.setting("bits_recomputed", 0)
                    self._store.put_setting("bits_recomputed", bits + recomputed)
                self._live.put(rows.keys, {building.number: codes})
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
