"""The consumer: messages of a source into a collection, each exactly once."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from onlinehash._internal.validation import check_positive_int
from onlinehash.collection import Collection
from onlinehash.exceptions import InvalidInputError
from onlinehash.streams.message import Change, Message, read_message
from onlinehash.streams.source import DeadLetter, Source, SourceError, UnreachableError
from onlinehash.tables.columns import runs

Answer = TypeVar("Answer")

_log = logging.getLogger(__name__)
_WAIT = 1.0  # seconds to wait for messages before checking whether to stop
_PAUSE, _LONGEST_PAUSE = 0.1, 10.0  # seconds before a server that does not answer is asked again
_TELL = 0.5  # seconds between two calls of progress


@dataclass(frozen=True)
class ConsumerStats:
    """Progress of a consumer.

    Parameters
    ----------
    received : int
        Messages received.
    stored : int
        Items stored.
    deleted : int
        Messages that asked to delete an item.
    dead_letters : int
        Messages that could not be applied, and were sent to the dead letters.
    redelivered : int
        Messages that were in the collection already; they changed nothing.
    lag : int or None
        Messages not yet received or acknowledged; None while the server does not answer.

    Examples
    --------
    >>> ConsumerStats(received=3, stored=2, dead_letters=1).lag is None
    True
    """

    received: int = 0
    stored: int = 0
    deleted: int = 0
    dead_letters: int = 0
    redelivered: int = 0
    lag: int | None = None


class _Stopped(Exception):  # noqa: N818
    """Stopped while a server does not answer."""


class Consumer:
    r"""Apply the messages of a source to a collection, exactly once.

    Messages are fetched in batches. A batch is committed together with a checkpoint that names its messages, in one
    transaction of the collection (several, if one id comes more than once), and then acknowledged; the next is fetched
    when the server has confirmed. After a crash at any moment, a message that is delivered again is either named by a
    checkpoint, and only acknowledged, or not in the collection, and applied. The hasher learns from each message once.

    A message that cannot be read, or that the collection refuses, is sent to the dead letters; the rest of the batch is
    applied. A server that does not answer is asked again. Any other error, such as a full disk, ends :meth:`run`; the
    batch is then not acknowledged.

    Parameters
    ----------
    source : Source
        From :func:`open_source`.
    collection : Collection
    batch_size : int, default=500
        Maximum number of messages in memory.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import onlinehash as oh
    >>> from onlinehash.streams import open_source
    >>> with TemporaryDirectory() as folder, oh.Collection.open(f"{folder}/pets.oh", "hcoh") as pets:
    ...     file = Path(folder, "pets.jsonl")
    ...     _ = file.write_text('{"id": "rex", "vectors": [1, 0.5], "label": "dog"}\n{"id": "tom"}\n')
    ...     with open_source(file) as source:
    ...         stats = Consumer(source, pets).run()
    ...     stats.stored, stats.dead_letters, list(pets)
    (1, 1, ['rex'])
    """

    def __init__(self, source: Source, collection: Collection, *, batch_size: int = 500) -> None:
        check_positive_int("batch_size", batch_size)
        self.source, self.collection, self.batch_size = source, collection, batch_size
        self._counts: Counter[str] = Counter()
        self._stopping = False

    def run(
        self, *, follow: bool | None = None, progress: Callable[[ConsumerStats], None] = lambda stats: None
    ) -> ConsumerStats:
        """Apply messages until there are no more, or until :meth:`stop`, and return how many there were.

        Parameters
        ----------
        follow : bool, optional
            Wait for more when there are none. By default files are read to their end, and streams are followed.
        progress : callable, optional
            Called at intervals with the statistics.
        """
        follow = not self.source.ends if follow is None else follow
        self.source.start(self.collection)
        told = 0.0
        try:
            while not self._stopping:
                batch = self._patiently(lambda: self.source.fetch(self.batch_size, _WAIT if follow else 0.0))
                if batch:
                    self._take(batch)
                elif not follow and self._patiently(self.source.lag) == 0:
                    break
                if time.monotonic() >= told + _TELL:
                    progress(self.stats())
                    told = time.monotonic()
        except _Stopped:
            _log.warning(
                "Stopped while %s does not answer; its messages are acknowledged next time.", self.source.place
            )
        stats = self.stats()
        progress(stats)
        self._stopping = False
        return stats

    def stop(self) -> None:
        """Let :meth:`run` return after the current batch; from any thread, or a signal handler."""
        self._stopping = True

    def stats(self) -> ConsumerStats:
        """Return the statistics; asks the source for its lag."""
        try:
            lag = self.source.lag()
        except SourceError:
            lag = None
        return ConsumerStats(**self._counts, lag=lag)

    def _take(self, batch: list[Message]) -> None:
        """Apply a batch, send what cannot be applied to the dead letters, acknowledge all of it."""
        new = [message for message in batch if not self.source.is_in(message)]
        changes: dict[int, Change] = {}  # by the number of the message in the batch
        unreadable = []
        for number, message in enumerate(new):
            try:
                changes[number] = read_message(message.content)
            except InvalidInputError as error:
                unreadable.append(DeadLetter(message, str(error)))
        self._put_dead_letters(unreadable)
        if self.collection.embedder is None and any(change.document is not None for change in changes.values()):
            raise InvalidInputError(
                f"{self.source.place} has documents, and this collection has no embedder for them; open it with "
                "embed=, such as embed='char_ngrams'. Nothing of this batch was applied."
            )
        numbered = list(changes.items())
        for run in runs([change.id for change in changes.values()], [change.kind for change in changes.values()]):
            self._apply(numbered[run], new)
        if new and len(new) - 1 not in changes:
            self.collection.upsert([], [], checkpoint=self.source.checkpoint(new))
        self._patiently(lambda: self.source.acknowledge(batch))
        self._counts["received"] += len(batch)
        self._counts["redelivered"] += len(batch) - len(new)

    def _apply(self, run: Sequence[tuple[int, Change]], batch: Sequence[Message]) -> None:
        """Apply changes to different ids, all of one kind; if they are refused, each half."""
        (number, first), (last, _) = run[0], run[-1]
        # All messages of the batch before the last of these are applied or dead letters by then.
        checkpoint = self.source.checkpoint(batch[: last + 1])
        columns = (list(values) for values in zip(*(change for _, change in run), strict=True))
        ids, vectors, labels, payload, documents = columns
        try:
            if first.kind == "deletion":
                self.collection.delete(ids, missing="ignore", checkpoint=checkpoint)
                self._counts["deleted"] += len(run)
            else:
                given = {"vectors": vectors} if first.kind == "vector" else {"documents": documents}
                self.collection.upsert(ids, labels=labels, payload=payload, checkpoint=checkpoint, **given)
                self._counts["stored"] += len(run)
        except InvalidInputError as error:
            if len(run) == 1:
                self._put_dead_letters([DeadLetter(batch[number], str(error))])
                self.collection.upsert([], [], checkpoint=checkpoint)
                return
            middle = len(run) // 2
            self._apply(run[:middle], batch)
            self._apply(run[middle:], batch)

    def _put_dead_letters(self, letters: list[DeadLetter]) -> None:
        if letters:
            message, error = letters[0]
            _log.warning("%s: %d not applied; the first is %s: %s", self.source.place, len(letters), message.id, error)
            self._patiently(lambda: self.source.put_dead_letters(letters))
            self._counts["dead_letters"] += len(letters)

    def _patiently(self, work: Callable[[], Answer]) -> Answer:
        """Return the answer of a source, repeating the call while its server does not answer."""
        pause = _PAUSE
        while True:
            try:
                answer = work()
            except UnreachableError as error:
                _log.warning("%s; asking again in %.1f s.", error, pause)
                self._sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
            else:
                if pause > _PAUSE:
                    _log.warning("%s answers again.", self.source.place)
                return answer

    def _sleep(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if self._stopping:
                raise _Stopped
            time.sleep(min(_PAUSE, seconds))
