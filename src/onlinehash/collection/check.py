"""Whether a collection is sound: everything that is stored, verified and compared."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinehash._validation import check_non_negative_int
from onlinehash.codes import code_width, unpack_bits
from onlinehash.collection.generation import Generation
from onlinehash.collection.learner import Learner
from onlinehash.collection.stores import open_store
from onlinehash.collection.stores.protocol import CodedItems, GenerationGone, Rows, Store, in_pieces, rows_at_a_time
from onlinehash.encoders import Encoder
from onlinehash.exceptions import DamagedError, FileFormatError, OnlineHashError
from onlinehash.hashers import load_hasher
from onlinehash.types import Progress

_MIGRATED = 1000  # new vectors read at a time
_MOST = 100  # problems of one kind that are listed
_ROUNDING = 1e-3  # of the largest projection of a row: a bit closer to zero may differ on another machine


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
        counted = "1 problem" if len(self.problems) == 1 else f"{len(self.problems)} problems"
        return "\n".join([f"{counted}:", *(f"- {problem}" for problem in self.problems)])


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


def check_store(store: Store, sample: int, progress: Progress) -> CheckReport:
    """Check what is stored, at one moment."""
    check_non_negative_int("sample", sample)
    while True:
        check = _Check(store, sample, progress)
        try:
            with check.noting(), store.reading():  # the end of a transaction may fail too
                check.run()
        except GenerationGone:  # dropped before it was read
            continue
        return check.report()


def readable_rows(store: Store, problems: list[str]) -> Iterator[Rows]:
    """Yield all items that can be read, in order of id; what is wrong with the others is appended to ``problems``."""
    ids, size = store.ids(), rows_at_a_time(store.setting("n_features"))
    while some := list(islice(ids, size)):
        try:
            yield store.rows(some)
        except FileFormatError:
            for id in some:
                try:
                    rows = store.rows([id])
                except FileFormatError as error:
                    problem = _problem(error)
                    problems.append(problem if repr(id) in problem else f"item {id!r}: {problem}")
                else:
                    yield rows


class _Check:
    """One check of one store."""

    def __init__(self, store: Store, sample: int, progress: Progress) -> None:
        self._store, self._sample, self._progress = store, sample, progress
        self._problems: list[str] = []
        self._n_items = self._n_codes = self._n_encoded = self._total = 0

    def run(self) -> None:
        with self.noting():
            self._problems += self._store.structure()
        with self.noting():
            self._total = 2 * self._store.count()
            self._progress(0, self._total)
            self._check_generations()
        with self.noting():
            self._check_hasher()
        if self._store.setting("migration") is not None:
            with self.noting():
                self._check_migration()
        self._progress(self._total, self._total)

    def report(self) -> CheckReport:
        return CheckReport(tuple(dict.fromkeys(self._problems)), self._n_items, self._n_codes, self._n_encoded)

    @contextmanager
    def noting(self, what: str = "") -> Iterator[None]:
        """Note an error, and go on."""
        try:
            yield
        except OnlineHashError as error:
            self._problems.append(f"{what}{_problem(error)}")

    def _check_generations(self) -> None:
        rows = self._store.generations()
        number = next((row.number for row in rows if row.current), 0)
        encoders: dict[int, Encoder] = {}
        for row in rows:
            with self.noting(f"the encoder of generation {row.number}: "):
                encoders[row.number] = Encoder.load(row.encoder)
        known: CodedItems | None = None
        with self.noting():
            known = self._store.codes(number)
            self._n_codes = len(known.ids) if number else 0
            n_items, by_label = self._store.count(), sum(self._store.label_counts().values())
            if len(known.ids) != n_items:
                self._problems.append(f"{len(known.ids)} items have a code, but the collection counts {n_items}")
            if by_label != n_items:
                self._problems.append(f"the labels are those of {by_label} items, but the collection counts {n_items}")
        self._progress(self._total // 2, self._total)
        places = {} if known is None else {id: place for place, id in enumerate(known.ids)}
        for row in rows:
            if known is not None and not row.current:
                with self.noting():
                    self._check_next(row.number, self._store.codes(row.number), known, places)
        self._check_items(known, places, Generation(number, encoders[number]) if number in encoders else None)

    def _check_next(self, number: int, coded: CodedItems, known: CodedItems, places: dict[Any, int]) -> None:
        """Compare the codes that are being made with those in use: they are of the same items."""
        for id, seq in zip(coded.ids, coded.seqs, strict=True):
            if id not in places or known.seqs[places[id]] != seq:
                self._problems.append(f"generation {number} has a code of item {id!r}, which is not stored like that")
                return

    def _check_items(self, known: CodedItems | None, places: dict[Any, int], generation: Generation | None) -> None:
        """Read all items; compare them with their codes, and some codes with the encoder."""
        total = self._store.count()
        share = 1.0 if self._sample >= total else self._sample / max(1, total)
        rng, faulty, found = np.random.default_rng(0), list[str](), list[str]()
        for rows in readable_rows(self._store, faulty):
            self._n_items += len(rows)
            if known is not None:
                coded = [places.get(id) for id in rows.ids]
                found += self._compare(rows, known, coded)
                some = np.flatnonzero((rng.random(len(rows)) < share) & [place is not None for place in coded])
                if generation is not None and len(some):
                    found += self._encode_again(generation, rows, known, coded, some)
            self._progress(min(total + self._n_items, self._total), self._total)
        self._problems += _shortened(faulty) + _shortened(found)
        if self._n_items + len(faulty) != total:
            self._problems.append(f"{self._n_items + len(faulty)} items were found, but the collection counts {total}")

    def _compare(self, rows: Rows, known: CodedItems, coded: list[int | None]) -> Iterator[str]:
        for id, seq, labels, place in zip(rows.ids, rows.seqs, rows.labels, coded, strict=True):
            if place is None:
                yield f"item {id!r} has no code"
            elif known.seqs[place] != seq or known.labels[place] != labels:
                yield f"the code of item {id!r} is that of another version of it, or has other labels"

    def _encode_again(
        self, generation: Generation, rows: Rows, known: CodedItems, coded: list[int | None], some: NDArray[Any]
    ) -> Iterator[str]:
        """Compare codes with what the encoder makes of the stored vectors, but for bits within rounding of zero."""
        encoder = generation.encoder
        vectors = rows.vectors[some].astype(np.float32, copy=False)
        codes = known.codes[[coded[row] for row in some]]
        self._n_encoded += len(some)
        if codes.shape[1] != code_width(encoder.n_bits):
            yield f"codes have {codes.shape[1]} bytes, but the encoder makes {encoder.n_bits} bits"
            return
        projected = np.abs(encoder.project(vectors))
        sure = projected > _ROUNDING * projected.max(axis=1, keepdims=True)
        differ = unpack_bits(codes ^ generation.encode(vectors), encoder.n_bits).astype(bool) & sure
        for row in np.flatnonzero(differ.any(axis=1)):
            yield f"the code of item {rows.ids[some[row]]!r} is not what the encoder makes of its vector"

    def _check_hasher(self) -> None:
        """Load the hasher, and let it learn what was stored after its state."""
        hasher, store = Learner(self._store).read(), self._store
        for what, is_, said in (
            ("instances learned", hasher.version_, store.setting("n_learned", 0)),
            ("method", hasher.name, store.setting("method")),
            ("number of bits", hasher.n_bits, store.setting("n_bits")),
        ):
            if is_ != said:
                self._problems.append(f"{what}: the hasher says {is_!r}, but the collection {said!r}")

    def _check_migration(self) -> None:
        """Load the hasher that is to learn from new vectors, and read those there are."""
        load_hasher(self._store.new_hasher())
        n_found = sum(map(len, in_pieces(self._store.new_vectors, _MIGRATED)))
        if n_found != self._store.n_new_vectors():
            self._problems.append(f"{n_found} new vectors were found of {self._store.n_new_vectors()}")


def _problem(error: OnlineHashError) -> str:
    return error.problem if isinstance(error, DamagedError) else str(error)


def _shortened(problems: list[str]) -> list[str]:
    more = len(problems) - _MOST
    return problems if more <= 0 else [*problems[:_MOST], f"... and {more} more of this kind"]
