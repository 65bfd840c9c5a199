"""History: the encoders that a collection has used, and its quality along the stream; kept in its store."""

from __future__ import annotations

from dataclasses import astuple, dataclass, fields
from datetime import UTC, datetime
from time import monotonic
from typing import Any, TypeVar

from onlinehash.collection.generation import Generation
from onlinehash.collection.stores.protocol import Store

KEPT = 256  # records of each kind

T = TypeVar("T", "EncoderRecord", "QualityRecord")


@dataclass(frozen=True)
class EncoderRecord:
    """An encoder that was taken into use.

    Parameters
    ----------
    generation : int
        Number of its generation of codes.
    version : int
        Instances that the hasher had learned from.
    at : datetime
        When its codes were taken into use, in UTC.
    n_items : int
        Items that it encoded.
    seconds : float
        How long that took; since it was resumed, if it was interrupted.

    Examples
    --------
    >>> EncoderRecord(2, 1000, datetime(2026, 1, 1, tzinfo=UTC), 1000, 0.5).at.isoformat()
    '2026-01-01T00:00:00+00:00'
    """

    generation: int
    version: int
    at: datetime
    n_items: int
    seconds: float


@dataclass(frozen=True)
class QualityRecord:
    """The prequential quality at a moment of the stream; see :meth:`Collection.measure_quality`.

    Parameters
    ----------
    sequence : int
        Sequence number of the last item before.
    n_learned : int
        Instances that the hasher had learned from.
    at : datetime
        In UTC.
    precision : float
        Mean share of items with a label of the query among its nearest.
    map : float or None
        Mean average precision among the nearest; None if no query found any item with its label.
    n_queries : int
        Number of queries since the collection was opened; the means are of the last of them.

    Examples
    --------
    >>> QualityRecord(1000, 1000, datetime(2026, 1, 1, tzinfo=UTC), 0.9, 0.95, 160).precision
    0.9
    """

    sequence: int
    n_learned: int
    at: datetime
    precision: float
    map: float | None
    n_queries: int


@dataclass(frozen=True)
class History:
    """What a collection was, oldest first.

    Parameters
    ----------
    encoders : list of EncoderRecord
    quality : list of QualityRecord

    Examples
    --------
    >>> History([], []).encoders
    []
    """

    encoders: list[EncoderRecord]
    quality: list[QualityRecord]


_NAMES = {EncoderRecord: "history:encoders", QualityRecord: "history:quality"}


def note_encoder(store: Store, generation: Generation) -> None:
    """Add a record of the encoder of a generation that is finished now."""
    seconds = round(monotonic() - generation.begun, 3)
    version, at = generation.encoder.version, datetime.now(UTC)
    note(store, EncoderRecord(generation.number, version, at, store.count(), seconds))


def note(store: Store, record: EncoderRecord | QualityRecord) -> None:
    """Add a record, in the transaction that is under way; the oldest beyond the number kept are dropped."""
    name = _NAMES[type(record)]
    row = [
        value.isoformat(timespec="milliseconds") if isinstance(value, datetime) else value for value in astuple(record)
    ]
    store.put_setting(name, [*store.setting(name, []), row][-KEPT:])


def read_history(store: Store) -> History:
    """Return all records that are kept."""
    return History(_read(store, EncoderRecord), _read(store, QualityRecord))


def _read(store: Store, kind: type[T]) -> list[T]:
    names = [field.name for field in fields(kind)]
    rows: list[dict[str, Any]] = [dict(zip(names, row, strict=True)) for row in store.setting(_NAMES[kind], [])]
    return [kind(**row | {"at": datetime.fromisoformat(row["at"])}) for row in rows]
