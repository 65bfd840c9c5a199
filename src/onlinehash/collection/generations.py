"""Generations: when all items are encoded again, and the background thread that does it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from datetime import UTC, datetime
from threading import Condition, Thread
from typing import TYPE_CHECKING, Any

import numpy as np

from onlinehash._internal.threads import single_threaded_products
from onlinehash._internal.validation import check_positive_int
from onlinehash.collection.decisions import calibrated, draw_labelled
from onlinehash.collection.insight import EncoderRecord, with_record
from onlinehash.collection.learner import rows_per_chunk
from onlinehash.collection.stores.sql import CodeColumns
from onlinehash.encoders import Encoder
from onlinehash.exceptions import InvalidInputError, NotLearnedError, OnlineHashError

if TYPE_CHECKING:
    from onlinehash.collection.collection import Collection

_log = logging.getLogger(__name__)

MIN_LEARNED = 1000
"""Instances learned before "auto" refreshes while changes come; then whenever their number has doubled."""
IDLE_SECONDS = 0.5
"""Without a change, after which "auto" refreshes what is stale."""
STALE_SHARE, FAR_SHARE = 0.01, 0.1
"""Shares of the learned instances that the codes do not know: to refresh when idle, and for searches to wait."""
PATIENCE = 10.0
"""Seconds that a search waits for codes that are far behind."""
# Rows read and encoded at a time. Python code that checks rows keeps the interpreter's lock, for which searches wait up
# to 5 ms each time; so few rows are checked in less than 1 ms, and reading the next ones releases the lock.
_ROWS_PER_CHUNK = 256
_NEVER = float("inf")
_REST = 3  # times as long as searches have waited, none waits again

DUE = "refresh_due"
"""The setting that says that a refresh was asked for and is not done."""


def check_refresh(refresh: Any) -> str | int:
    """Return when to refresh: "auto", "manual" or a number of learned instances.

    Examples
    --------
    >>> check_refresh("auto"), check_refresh(1000)
    ('auto', 1000)
    >>> check_refresh("never")
    Traceback (most recent call last):
    onlinehash.exceptions.InvalidInputError: refresh='never' is not "auto", "manual" or a number of instances learned.
    """
    if isinstance(refresh, str) and refresh in ("auto", "manual"):
        return refresh
    if isinstance(refresh, (str, bool)) or not hasattr(refresh, "__index__"):
        raise InvalidInputError(f'refresh={refresh!r} is not "auto", "manual" or a number of instances learned.')
    return check_positive_int("refresh", refresh)


class Refresher:
    """Encode all items again with what the hasher knows, and take the new codes into use at once.

    One thread reads the stream in chunks and encodes it, while others search and change the collection. It keeps them
    out for the last chunk only, stores all codes in one transaction, and ends when there is nothing left to do. A
    refresh that was interrupted starts again when the collection is opened.

    Parameters
    ----------
    collection : Collection
    """

    def __init__(self, collection: Collection) -> None:
        self._collection, self._store, self._searcher = collection, collection._store, collection._searcher
        self._settings = collection._settings
        self._state = Condition()
        self._thread: Thread | None = None
        self._due, self._stopping = _NEVER, False  # time.monotonic() of the next refresh; 0.0: now
        self._n_begun = self._n_ended = self.n_encoded = 0  # refreshes, and items of the last one
        self.error: Exception | None = None
        """What ended the last refresh too early."""
        self._next_wait = 0.0  # time.monotonic() before which no search waits
        self._warned_of = 0  # generation whose codes a reader was told to be old

    @property
    def is_building(self) -> bool:
        """Whether a refresh is under way."""
        return self._n_begun > self._n_ended

    @property
    def is_busy(self) -> bool:
        """Whether a refresh is under way, or about to begin."""
        with self._state:
            return self.is_building or not self._due

    # ------------------------------------------------------------------ deciding

    def is_stale(self, share: float = STALE_SHARE) -> bool:
        """Return whether "auto" refreshes the codes once the collection is idle."""
        n_learned = self._searcher.head.n_learned
        if self._settings["refresh"] != "auto" or self._searcher.generation is None or not n_learned:
            return False
        return abs(self._searcher.staleness) >= max(1.0, share * n_learned)

    def after_change(self) -> None:
        """Make the first codes as soon as there can be some; ask for new ones if they are due, now or once idle."""
        searcher, policy = self._searcher, self._settings["refresh"]
        n_learned, generation = searcher.head.n_learned, searcher.generation
        if generation is None:
            if n_learned and searcher.head.n_items:
                try:
                    self._build()
                except OnlineHashError as error:
                    self.error = error
            return
        hasher = self._settings["method"], self._settings["n_bits"]
        if n_learned and (generation.encoder.method, generation.encoder.n_bits) != hasher:
            if not self.is_building and self._due == _NEVER:  # the hasher could not make codes before
                self.ask()
            return
        since = abs(n_learned - searcher.version)
        if policy != "manual" and since >= (max(MIN_LEARNED, searcher.version) if policy == "auto" else policy):
            self.ask()
        elif policy == "auto" and since >= max(1.0, STALE_SHARE * n_learned):
            self.ask(IDLE_SECONDS)

    def ask(self, delay: float = 0.0) -> int:
        """Ask for a refresh after a time without changes, and return its number."""
        with self._state:
            self._due = time.monotonic() + delay if delay and self._due else 0.0
            if self._thread is None and not self._stopping:
                self._thread = Thread(target=self._work, name="onlinehash refresh", daemon=True)
                self._thread.start()
            if not self._due:
                self._state.notify_all()
            return self._n_begun + 1

    def wait(self, number: int | None = None, timeout: float | None = None) -> None:
        """Return when a refresh has ended, or all that are wanted; raise what ended the last too early."""
        with self._state:
            self._state.wait_for(
                lambda: self._thread is None or (number is not None and self._n_ended >= number), timeout
            )
            if self.error is not None and timeout is None:
                raise self.error

    def wait_for_codes(self) -> None:
        """Before a search: wait for a refresh while the codes are far behind what was learned, but not for ever."""
        start, searcher = time.monotonic(), self._searcher
        if start < self._next_wait or not self.is_stale(FAR_SHARE):
            return
        unknown = f"the codes do not know {searcher.staleness} of {searcher.head.n_learned} instances"
        if self._store.readonly:
            if self._warned_of != searcher.head.generation:
                self._warned_of = searcher.head.generation
                _log.warning("A search finds old codes, which the writer has yet to refresh: %s.", unknown)
            return
        _log.info("A search waits for a refresh: %s.", unknown)
        self.wait(self.ask(), PATIENCE)
        end = time.monotonic()
        self._next_wait = end + _REST * (end - start)

    # ------------------------------------------------------------------ working

    def stop(self) -> None:
        """Stop after the chunk at work."""
        with self._state:
            thread, self._stopping = self._thread, True
            self._state.notify_all()
        try:
            if thread is not None:
                thread.join()
        finally:
            self._stopping = False

    def _work(self) -> None:
        """Refresh while that is wanted and due."""
        while True:
            with self._state:
                if self._stopping or self._due == _NEVER:
                    self._thread = None
                    self._state.notify_all()
                    return
                rest = self._due - time.monotonic()
                if rest > 0:
                    self._state.wait(rest)
                    continue
                self._due, self.error, self.n_encoded = _NEVER, None, 0
                self._n_begun += 1
            try:
                while not self._build():
                    pass
            except Exception as error:
                self.error = error
                _log.warning("A refresh failed, and the codes stay as they are: %s", error)
            with self._state:
                self._n_ended += 1
                self._state.notify_all()

    def _build(self) -> bool:
        """Encode all items and take the codes into use; return False if the hasher was replaced meanwhile."""
        begun, collection = time.monotonic(), self._collection
        with collection._changing() as learner:
            current = self._searcher.generation
            is_new = current is None or current.encoder.version != learner.hasher.version_ or self._settings.get(DUE)
            if not self._searcher.head.n_items or not is_new:
                return True
            hasher, sample = deepcopy(learner.hasher), draw_labelled(collection)  # which may go on learning meanwhile
        chunks = list[CodeColumns]()
        try:
            with single_threaded_products():  # switched once, not for every chunk
                encoder = calibrated(collection, hasher, sample)
                for chunk in encode_stream(collection, encoder):
                    chunks.append(chunk)
                    self.n_encoded += len(chunk.seqs)
                    if self._stopping:
                        return True
            with collection._changing() as now:
                if now is not learner:  # another hasher, or other vectors: these are not wanted
                    return False
                chunks += encode_stream(collection, encoder, int(chunks[-1].seqs[-1]) if chunks else 0)
                if chunks:
                    n_bits = self._searcher.head.n_items * encoder.n_bits if current is not None else 0
                    settings = {"bits_recomputed": self._settings.get("bits_recomputed", 0) + n_bits, DUE: None}
                    with taking_into_use(collection, encoder, chunks, begun, settings):
                        pass
        except NotLearnedError:
            return True
        except OnlineHashError:
            with collection._changes:  # other vectors may be about to be taken into use
                if collection._learner is learner:
                    raise
            return False
        return True


def encode_stream(
    collection: Collection, encoder: Encoder, after: int = 0, table: str = "stream"
) -> Iterator[CodeColumns]:
    """Yield the codes of the rows of the stream after a sequence number, some at a time."""
    store, limit = collection._store, min(_ROWS_PER_CHUNK, rows_per_chunk(collection._store))
    generation = collection._searcher.generation_of(0, encoder)
    while len(rows := store.stream(after, limit, table)):
        yield CodeColumns(rows.seqs, generation.encode_stored(rows.vectors))
        after = int(rows.seqs[-1])


@contextmanager
def taking_into_use(
    collection: Collection,
    encoder: Encoder,
    chunks: Sequence[CodeColumns],
    begun: float,
    settings: dict[str, Any],
    then: Callable[[], None] = lambda: None,
) -> Iterator[None]:
    """Store an encoder and its codes with what the block writes, in one transaction; then search them."""
    store, searcher = collection._store, collection._searcher
    seqs, codes = np.concatenate([chunk.seqs for chunk in chunks]), np.concatenate([chunk.codes for chunk in chunks])
    known, n_items = searcher.catalogue.known(seqs), searcher.head.n_items
    seqs, codes = seqs[known], codes[known]
    if len(seqs) != n_items:
        raise store.damage(f"the vectors of {n_items - len(seqs)} items are missing")
    number, seconds = searcher.head.generation + 1, time.monotonic() - begun
    record = EncoderRecord(number, encoder.version, datetime.now(UTC), n_items, seconds)
    settings |= with_record(collection._settings, record)

    def search_them() -> None:
        then()
        searcher.switch(searcher.generation_of(number, encoder), searcher.catalogue, store.last)

    with collection._commit(settings, then=search_them):
        yield
        store.put_generation(number, encoder.to_bytes(), seqs, codes)
