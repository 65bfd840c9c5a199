"""What a collection asks of the place that keeps it: items, codes by generation, the stream, the hasher's state."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from onlinehash.collection.filters import FieldPath, Filter
from onlinehash.collection.types import Id, Label
from onlinehash.types import Codes, Progress, QueryValues

TOMBSTONES = 100_000  # deletions that can be followed; further back everything is read again
_BYTES_AT_A_TIME = 1 << 22  # of vectors


@dataclass(eq=False, slots=True)
class Rows:
    """Items as they are kept, column by column.

    Parameters
    ----------
    ids : list of ids
    seqs : list of int
        Place of each in the stream that the hasher learns from.
    vectors : ndarray of shape (n_rows, n_features)
    labels, payloads : list of str or None
        As JSON.
    """

    ids: list[Any]
    seqs: list[int]
    vectors: NDArray[Any]
    labels: list[str | None]
    payloads: list[str | None]

    def __len__(self) -> int:
        return len(self.seqs)

    def __getitem__(self, some: slice) -> Rows:
        return Rows(self.ids[some], self.seqs[some], self.vectors[some], self.labels[some], self.payloads[some])


def rows_at_a_time(n_features: int | None) -> int:
    """Return how many items to read at a time, for bounded memory; None if there are no vectors yet."""
    return max(1, _BYTES_AT_A_TIME // (4 * (n_features or 1)))


def in_pieces(read: Callable[[int, int], Rows], limit: int, after: int = 0) -> Iterator[Rows]:
    """Yield all that a store reads after a sequence number, at most ``limit`` rows at a time."""
    while len(rows := read(after, limit)):
        yield rows
        after = rows.seqs[-1]


class GenerationRow(NamedTuple):
    """An encoder, and up to which sequence number (``cursor``) items have its codes while it is being made."""

    number: int
    current: bool
    encoder: bytes
    cursor: int


class Position(NamedTuple):
    """Where a store stands: its last sequence number, and the generation in use (0: none)."""

    seq: int
    generation: int


class CodedItems(NamedTuple):
    """Items that have a code, in order of arrival; labels as JSON. Generation 0 has all items and empty codes."""

    ids: list[Any]
    seqs: list[int] | NDArray[np.int64]
    codes: Codes
    labels: Sequence[str | None]


class Changes(NamedTuple):
    """What happened after a sequence number: items written, in order of arrival; ids deleted, each once.

    An id that was deleted and then written again is in both.
    """

    ids: Sequence[Any]
    seqs: Sequence[int]
    codes: Codes
    labels: Sequence[str | None]
    deleted: Sequence[Any]


class Place(NamedTuple):
    """Where in the items to go on: their order, its direction, and the id or sequence number passed last.

    Examples
    --------
    >>> Place("arrival", True, 1042).sign
    '<'
    """

    order: str = "id"
    descending: bool = False
    after: Id | None = None

    @property
    def column(self) -> str:
        """The column that orders the items."""
        return "id" if self.order == "id" else "seq"

    @property
    def sign(self) -> str:
        """How what follows compares."""
        return "<" if self.descending else ">"

    @property
    def direction(self) -> str:
        """The direction in SQL."""
        return "DESC" if self.descending else "ASC"


class Among(NamedTuple):
    """What to search among: items with any of the labels, one of the ids, and a payload that passes; None: no filter.

    Examples
    --------
    >>> Among(labels=["cat", "dog"])
    Among(labels=['cat', 'dog'], ids=None, where=None)
    """

    labels: list[Label] | None = None
    ids: list[Any] | None = None
    where: Filter | None = None


Answer = tuple[list[Any], list[Any], list[int]]
"""Ids, distances and sequence numbers of what was found for a query."""

Answers = list[Answer]
"""What was found for every query."""


class GenerationGone(Exception):  # noqa: N818 (no error: the caller looks again and repeats)
    """The generation asked for was dropped meanwhile; another one is in use."""


class OutOfStep(Exception):  # noqa: N818 (no error: the caller looks again and repeats)
    """The store has changed between the answer to a filter, the search, and what the search includes."""


class Store(Protocol):
    """Durable items. Reads see what was committed, from any thread; writes happen inside :meth:`writing`.

    One thread writes at a time: the collection sees to that.
    """

    readonly: bool

    def close(self) -> None:
        """Let go of everything; the store cannot be used again."""

    def writing(self) -> AbstractContextManager[None]:
        """Apply all writes of the block, durably, or none."""

    def reading(self) -> AbstractContextManager[None]:
        """See one moment of the store in all reads of the block."""

    # care

    @property
    def file(self) -> pathlib.Path | None:
        """The file that holds everything; None if there is none."""

    def reopen(self) -> Self:
        """Open the same store again, to read what is stored and not what is in memory."""

    def structure(self) -> Iterator[str]:
        """Yield what is wrong with the database, the small tables and the counters, in plain words."""

    def backup(self, path: pathlib.Path, progress: Progress) -> None:
        """Copy everything, as it is at one moment, to a new file."""

    def compact(self, progress: Progress) -> None:
        """Give unused space back."""

    # settings: JSON values by name

    def setting(self, name: str, default: Any = None) -> Any:
        """Return a setting."""

    def put_setting(self, name: str, value: Any) -> None:
        """Write a setting."""

    # items

    def count(self, where: Filter | None = None, labels: Sequence[Label] | None = None) -> int:
        """Return the number of items, or of those that have any of the labels and pass a filter."""

    def size(self) -> int:
        """Return the number of bytes that everything takes."""

    def seqs(self, ids: Sequence[Id]) -> list[int | None]:
        """Return where items are in the stream; None of unknown ids."""

    def ids(self, where: Filter | None = None) -> Iterator[Id]:
        """Yield all ids in order, or those of items that pass a filter."""

    def passing(self, where: Filter, after: int = 0) -> NDArray[np.int64]:
        """Return the sequence numbers, sorted, of items that pass a filter and came after a sequence number."""

    def known_passing(self, where: Filter, seq: int, n_changes: int) -> NDArray[np.int64] | None:
        """Return what passed a filter when the store was at a sequence number and a change of payloads, from memory.

        None if the database has to be asked.
        """

    def label_counts(self, where: Filter | None = None) -> dict[str | None, int]:
        """Return how many items, of those that pass a filter, have which labels, as JSON; None for those without."""

    def rows(self, ids: Sequence[Id]) -> Rows:
        """Return the items of ids, in that order, without those that are unknown."""

    def listed(self, place: Place, limit: int, labels: Sequence[Label] | None, where: Filter | None) -> Rows:
        """Return the next items in an order, of those that have any of the labels and pass a filter."""

    def put(self, rows: Rows, codes: Mapping[int, Codes]) -> None:
        """Write items and their codes by generation, in place of those with the same ids."""

    def put_payloads(self, ids: Sequence[Id], payloads: Sequence[str | None]) -> None:
        """Write the payloads of known ids."""

    def delete(self, ids: Sequence[Id], first_seq: int) -> None:
        """Delete known ids and their codes; the sequence numbers of that start at ``first_seq``."""

    # indexes of paths in the payload

    def create_index(self, path: FieldPath) -> None:
        """Make filters by a path fast, or listing by label, if it is ``("$labels",)``."""

    def drop_index(self, path: FieldPath) -> None:
        """Drop the index of a path."""

    # the stream and the state

    def position(self) -> Position:
        """Return where the store stands."""

    def vectors(self, after: int, limit: int) -> Rows:
        """Return the next instances that a generation being built has yet to reach, for :meth:`put_codes`.

        Ids, labels and payloads may be left out.
        """

    def stream(self, after: int, limit: int, *, retired: bool = False, labelled: bool = False) -> Rows:
        """Return the next instances of the stream.

        Parameters
        ----------
        after : int
            Sequence number after which to start.
        limit : int
            How many at most.
        retired : bool
            Include items replaced or deleted after the last state of the hasher, which has learned from them.
        labelled : bool
            Leave out items without labels.
        """

    def state(self) -> bytes:
        """Return the last state of the hasher."""

    def state_seq(self) -> int:
        """Return the sequence number up to which that state has learned."""

    def put_state(self, state: bytes, learned_to: int) -> None:
        """Write the state of the hasher; what was kept of the stream up to there may go."""

    def commits(self, after: int) -> list[int]:
        """Return the last sequence number of every committed batch after a sequence number."""

    # generations

    def generations(self) -> list[GenerationRow]:
        """Return the generations: the one in use, one that is being made, or both."""

    def begin_generation(self, encoder: bytes) -> int:
        """Start a generation in place of any that was being made; return its number."""

    def finish_generation(self, number: int) -> None:
        """Take a generation into use and drop the others."""

    def n_coded(self, number: int) -> int:
        """Return how many items have a code in a generation."""

    def put_codes(self, number: int, after: int, rows: Rows, codes: Codes) -> None:
        """Write the codes of instances that :meth:`vectors` returned after a sequence number."""

    def codes(self, number: int) -> CodedItems:
        """Return all items that have a code in a generation."""

    def changes(self, after: int) -> Changes | None:
        """Return what happened after a sequence number, or None if the store does not reach back that far."""

    # a migration: new vectors beside the old ones

    def begin_migration(self, hasher: bytes) -> None:
        """Make room for new vectors, and keep the hasher that is to learn from them."""

    def new_hasher(self) -> bytes:
        """Return the hasher that is to learn from the new vectors."""

    def put_new_vectors(self, rows: Rows) -> None:
        """Write the new vectors of items; payloads are not needed."""

    def n_new_vectors(self) -> int:
        """Return how many items have a new vector."""

    def without_new_vectors(self, after: int, limit: int) -> Rows:
        """Return the next items that have no new vector, in order of arrival, as they are."""

    def new_vectors(self, after: int, limit: int) -> Rows:
        """Return the next items that have a new vector, in order of arrival, with that and without payloads."""

    def adopt_new_vectors(self) -> None:
        """Put the new vectors of all items in place of the old ones."""

    def end_migration(self) -> None:
        """Drop the new vectors."""


@runtime_checkable
class SearchingStore(Store, Protocol):
    """A store that searches codes itself, so that they need not be in memory.

    Answers are in order of distance, ties by arrival. All raise :class:`GenerationGone` if there is no such generation
    any more.
    """

    def search(self, number: int, queries: Codes, k: int, among: Among) -> Answers:
        """Return the k nearest items of every query, of the codes of a generation."""

    def search_asymmetric(self, number: int, queries: QueryValues, k: int, among: Among) -> Answers:
        """Return the k nearest items of every query that keeps its real values, by asymmetric distance."""

    def range_search(self, number: int, queries: Codes, radius: int, among: Among, limit: int | None = None) -> Answers:
        """Return all items at most ``radius`` away from every query, or the nearest ``limit`` of each."""

    def codes_of(self, number: int, ids: Sequence[Id]) -> CodedItems:
        """Return the items of ids that have a code in a generation, in that order."""

    def coded(self, number: int, seqs: Sequence[int]) -> list[bool]:
        """Return which sequence numbers have a code in a generation."""

    def sample(self, number: int, n_items: int, seed: int) -> list[Any]:
        """Return ids that have a code in a generation, at random, all different."""
