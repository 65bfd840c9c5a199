"""Bodies of requests about what a collection has learned, and of their answers."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from msgspec import Meta, Struct

from onlinehash.service.schemas import Id, Label, Labels, Positive

Version = Annotated[int | None, Meta(description="Version of the encoder in use; null before the first.")]


class MapRequest(Struct, forbid_unknown_fields=True):
    """How many items to show."""

    limit: Annotated[Positive, Meta(description="Items at most.")] = 2000


class EncoderRecord(Struct):
    """An encoder that was taken into use."""

    generation: int
    version: int
    at: datetime
    n_items: Annotated[int, Meta(description="Items that it encoded.")]
    seconds: Annotated[float, Meta(description="How long that took.")]


class QualityRecord(Struct):
    """Quality along the stream at a moment."""

    sequence: int
    n_learned: int
    at: datetime
    precision: float
    map: float | None
    n_queries: Annotated[int, Meta(description="Since the service was started.")]


class HistoryAnswer(Struct):
    """The last 256 encoders and records of quality, oldest first."""

    encoders: list[EncoderRecord]
    quality: list[QualityRecord]


class MapAnswer(Struct):
    """Items in the plane: one entry per item in every list."""

    version: Version
    ids: list[Id]
    labels: list[Labels]
    x: list[float]
    y: list[float]
    explained: Annotated[list[float], Meta(description="Share of the variance along x and y.")]


class ClassBits(Struct):
    """The bits of a class."""

    label: Label
    n_items: int
    codeword: Annotated[str | None, Meta(description="Hexadecimal digits; null if the hasher has no codewords.")]
    ones: Annotated[list[float], Meta(description="Share of ones per bit; empty if no item is in the sample.")]


class CodewordsAnswer(Struct):
    """The bits of the largest classes, at most 256 of them, largest first."""

    version: Version
    n_bits: int
    n_class_bits: Annotated[int, Meta(description="Length of the codewords: the first bits of a code.")]
    n_classes: Annotated[int, Meta(description="Number of all classes.")]
    classes: list[ClassBits]
