"""Maintenance: check, copy and restore what is stored."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np

from onlinehash._internal.files import kind_of
from onlinehash._internal.validation import check_non_negative_int
from onlinehash.codes import unpack_bits
from onlinehash.collection.learner import Learner
from onlinehash.collection.searcher import Generation, codes_of
from onlinehash.collection.stores import open_store
from onlinehash.collection.stores.sql import NEW_STREAM, Seqs, SqlStore
from onlinehash.collection.stores.sqlite import SqliteStore, WriterLock
from onlinehash.collection.types import Item
from onlinehash.encoders import Encoder
from onlinehash.exceptions import (
    DamagedError,
    DataNotFoundError,
    FileFormatError,
    InvalidInputError,
    OnlineHashError,
    counted,
)
from onlinehash.types import Codes, Progress

_MAX_PROBLEMS = 100  # listed
_ROUNDING = 1e-3  # of the largest projection of a row: a bit closer to zero may differ on another machine
_STEPS = 1000  # of a progress bar, for each of several parts
_ROWS_PER_READ = 1000


@dataclass(frozen=True)
class CheckReport:
    """What a check has found.

    Parameters
    ----------
    problems : tuple of str
        What is wrong, in plain words; empty if the collection is sound.
    n_items, n_codes, n_encoded : int
        Items and codes that were read and verified, and items whose codes were computed again.

    Examples
    --------
    >>> report = CheckReport(("item 7 does not match its checksum",), n_items=10, n_codes=10, n_encoded=10)
    >>> report.ok
    False
    >>> print(report)
    1 problem:
    - item 7 does not match its checksum
    """

    problems: tuple[str, ...] = ()
    n_items: int = 0
    n_codes: int = 0
    n_encoded: int = 0

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    def __str__(self) -> str:
        if self.ok:
            return f"Sound: {self.n_items} items, {self.n_codes} codes, of which {self.n_encoded} were computed again."
        return "\n".join([f"{counted(len(self.problems), 'problem')}:", *(f"- {problem}" for problem in self.problems)])


def check_collection(
    path: str | os.PathLike[str],
    *,
    store: str | None = None,
    sample: int = 1000,
    progress: Progress = lambda done, total: None,
) -> CheckReport:
    """Check a collection as :meth:`Collection.check` does, even one that is too damaged to be opened.

    Parameters
    ----------
    path, store
        As for :meth:`Collection.open`.
    sample, progress
        As for :meth:`Collection.check`.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from onlinehash import Collection
    >>> with TemporaryDirectory() as folder:
    ...     with Collection.open(f"{folder}/pets.oh", "hcoh") as pets:
    ...         pets.upsert([1, 2], [[1.0, 0.5], [-1.0, 0.5]], ["dog", "cat"])
    ...     print(check_collection(f"{folder}/pets.oh"))
    Sound: 2 items, 2 codes, of which 2 were computed again.
    """
    try:
        kept = open_store(path, store, readonly=True)
    except FileFormatError as error:
        return CheckReport((_problem(error),))
    with closing(kept):
        return check_store(kept, sample, progress)


def check_store(store: SqlStore, sample: int, progress: Progress) -> CheckReport:
    """Check what is stored, at one moment."""
    check_non_negative_int("sample", sample)
    check = _Check(store, progress)
    with check.noting(), store.snapshot():
        check.run(sample)
    problems = list(dict.fromkeys(check.problems))
    if len(problems) > _MAX_PROBLEMS:
        problems[_MAX_PROBLEMS:] = [f"... and {len(problems) - _MAX_PROBLEMS} more"]
    return CheckReport(tuple(problems), check.n_items, check.n_codes, check.n_encoded)


class _Check:
    """One check of one store, in a snapshot of it."""

    def __init__(self, store: SqlStore, progress: Progress) -> None:
        self._store, self._progress = store, progress
        self.problems: list[str] = []
        self.n_items = self.n_codes = self.n_encoded = 0

    @contextmanager
    def noting(self) -> Iterator[None]:
        """Note an error, and go on."""
        try:
            yield
        except OnlineHashError as error:
            self.problems.append(_problem(error))

    def run(self, sample: int) -> None:
        """Read everything there is, and compare it."""
        store, head = self._store, self._store.head()
        total = max(1, head.n_items)
        self.problems += store.problems()
        with self.noting():
            store.check_gone()
        with self.noting():
            self._check_items(total)
        with self.noting():
            if head.generation:
                self._check_codes(store.items().seqs, head.generation, sample)
        with self.noting():
            found = Learner.load(store).hasher.version_
            if found != head.n_learned:
                self.problems.append(f"the hasher has learned {found} instances, but the collection {head.n_learned}")
        with self.noting():
            after, migrates = 0, "migration" in store.settings()
            while migrates and len(new := store.stream(after, _ROWS_PER_READ, NEW_STREAM)):
                after = int(new.seqs[-1])
        self._progress(2 * total, 2 * total)

    def _check_items(self, total: int) -> None:
        """Read all items."""
        store, known = self._store, self._store.items()
        rows = list(zip(known.seqs.tolist(), known.ids, strict=True))

        def read(seqs: list[int]) -> list[Any]:
            return list(zip(store.rows(seqs).ids, store.payloads(seqs), strict=True))

        for items in readable_items(rows, read, self.problems):
            self.n_items += len(items)
            self._progress(self.n_items, 2 * total)

    def _check_codes(self, seqs: Seqs, number: int, sample: int) -> None:
        """Read the codes of all items, and compare a sample with what the encoder makes of the stored vectors."""
        generation = Generation(number, Encoder.load(self._store.generation()[0]))
        codes, _ = generation.split(codes_of(seqs, self._store.codes(number), self._store.damage))
        self.n_codes = len(codes)
        some = np.arange(len(seqs))
        if sample < len(seqs):
            some = np.sort(np.random.default_rng(0).choice(len(seqs), sample, replace=False))
        for start in range(0, len(some), _ROWS_PER_READ):
            rows = some[start : start + _ROWS_PER_READ]
            with self.noting():
                self._compare(generation.encoder, seqs[rows], codes[rows])

    def _compare(self, encoder: Encoder, seqs: Seqs, codes: Codes) -> None:
        """Encode items again; bits within rounding of zero may differ."""
        rows = self._store.rows(seqs.tolist())
        vectors = rows.vectors.astype(np.float32)
        self.n_encoded += len(seqs)
        projected = np.abs(encoder.project(vectors))
        sure = projected > _ROUNDING * projected.max(axis=1, keepdims=True)
        differ = unpack_bits(codes ^ encoder.encode(vectors), encoder.n_bits).astype(bool) & sure
        for row in np.flatnonzero(differ.any(axis=1)):
            self.problems.append(f"the code of item {rows.ids[row]!r} is not what the encoder makes of its vector")


class Snapshot(NamedTuple):
    """Items of one moment: sequence numbers and ids in order of id, and a function that reads some of them."""

    rows: list[tuple[int, Any]]
    read: Callable[[list[int]], list[Item]]


def readable_items(
    rows: list[tuple[int, Any]], read: Callable[[list[int]], list[Any]], problems: list[str] | None = None
) -> Iterator[list[Any]]:
    """Yield items, some at a time; what is wrong with those that cannot be read goes to ``problems``, or is raised."""
    for start in range(0, len(rows), _ROWS_PER_READ):
        some = rows[start : start + _ROWS_PER_READ]
        try:
            yield read([seq for seq, _ in some])
        except FileFormatError:
            if problems is None:
                raise
            for seq, id in some:
                try:
                    yield read([seq])
                except FileFormatError as error:
                    problem = _problem(error)
                    problems.append(problem if f"item {id!r}" in problem else f"item {id!r}: {problem}")


def _problem(error: OnlineHashError) -> str:
    return error.problem if isinstance(error, DamagedError) else str(error)


def restore(backup: Path, path: Path, overwrite: bool, progress: Progress) -> None:
    """Check a backup, and put a copy of it where a collection is to be."""
    if path.exists() and not overwrite:
        raise InvalidInputError(f"{path} exists already; pass overwrite=True to replace it, or another path.")
    with closing(SqliteStore(backup, readonly=True)) as kept:
        copy(kept, path, progress)


def copy(store: SqlStore, path: Path, progress: Progress) -> None:
    """Copy a store to a file, check the copy, and let it take its place."""
    if store.file == path.resolve():
        raise InvalidInputError(f"{path} is the collection itself; name another file.")
    with replacing(path) as aside:
        store.backup(aside, part_of(progress, 0, 2))
        report = check_collection(aside, progress=part_of(progress, 1, 2))
        if not report.ok:
            listed = "; ".join(report.problems[:3]) + ("; ..." if len(report.problems) > 3 else "")
            raise DamagedError(
                f"{path} was not written: the copy is damaged, because the original is. {listed}.", listed
            )


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a name beside ``path`` for a collection that takes its place at the end; nobody may be writing to it."""
    target = path.resolve()
    if not target.parent.is_dir():
        raise DataNotFoundError(f"There is no folder {path.parent} to write {path.name} to; make it first.")
    if target.is_dir() or (target.exists() and target.stat().st_size and kind_of(target) != "collection"):
        raise InvalidInputError(f"{path} exists already and is not a collection; name another file.")
    lock = WriterLock(target) if target.exists() else None
    aside = target.with_name(f"{target.name}.{uuid4().hex}.part")
    try:
        yield aside
        for suffix in ("-wal", "-shm"):  # of what is replaced
            Path(f"{target}{suffix}").unlink(missing_ok=True)
        aside.replace(target)
    finally:
        for suffix in ("", "-wal", "-shm", "-journal"):
            Path(f"{aside}{suffix}").unlink(missing_ok=True)
        if lock is not None:
            lock.release()


def part_of(progress: Progress, part: int, n_parts: int) -> Progress:
    """Return the progress of one of several parts of equal length."""

    def shown(done: int, total: int) -> None:
        progress(part * _STEPS + (_STEPS * done // total if total else 0), n_parts * _STEPS)

    return shown
