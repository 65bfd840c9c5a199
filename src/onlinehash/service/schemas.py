"""What requests and answers look like; the OpenAPI document is made of this."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from onlinehash.service.limits import Limits

_INT64 = Field(ge=-(1 << 63), le=(1 << 63) - 1)
_ROWS = Field(min_length=1)

Id = Annotated[int, _INT64] | str
Label = Annotated[int, _INT64] | str
Labels = Label | list[Label] | None
Vector = Annotated[list[Annotated[float, Field(allow_inf_nan=False)]], Field(min_length=1)]

ALL_IDS: TypeAdapter[list[Id]] = TypeAdapter(list[Id])
ALL_LABELS: TypeAdapter[list[Labels]] = TypeAdapter(list[Labels])


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid")


class UpsertRequest(_Request):
    """Items to add, or to put in the place of those with the same ids."""

    ids: Annotated[list[Id], _ROWS] = Field(description="All integers, or all strings, in one collection.")
    vectors: Annotated[list[Vector], _ROWS] = Field(description="One an id, all of the collection's width.")
    labels: list[Labels] | None = Field(None, description="One an id: a label, several, or null for none.")
    payload: list[Any] | None = Field(None, description="A small JSON value an id.")

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"ids": [1, 2], "vectors": [[0.5, 1.0], [1.0, 0.0]], "labels": [3, None]}]},
    )


class UpdateRequest(_Request):
    """What to change of items that are there; what is not given stays."""

    ids: Annotated[list[Id], _ROWS]
    vectors: Annotated[list[Vector], _ROWS] | None = None
    labels: list[Labels] | None = None
    payload: list[Any] | None = None


class IdsRequest(_Request):
    """Ids of items."""

    ids: Annotated[list[Id], _ROWS]


class DeleteRequest(IdsRequest):
    """Ids of items to delete."""

    missing: Literal["raise", "ignore"] = Field("raise", description="What to do about ids that are not there.")
    unlearn: bool = Field(False, description="Unlearn the items too; HROH can.")


class EncodeRequest(_Request):
    """Vectors to encode."""

    vectors: Annotated[list[Vector], _ROWS]


class SearchOptions(_Request):
    """How to search; in the query of a request whose body is an array."""

    k: int = Field(10, ge=1, description="Neighbours of each query.")
    radius: int | None = Field(
        None, ge=0, description="All items within so many bits instead; without k, rescore or asymmetric."
    )
    rescore: Literal["cosine", "l2"] | None = Field(None, description="Order the best by their stored vectors.")
    asymmetric: bool = Field(False, description="Compare the query's real values with the bits of the codes.")
    items: bool = Field(False, description="Answer with labels and payload of what was found.")


class SearchRequest(SearchOptions):
    """Vectors, or ids of stored items, whose neighbours are wanted; one of the two."""

    vectors: Annotated[list[Vector], _ROWS] | None = None
    by_id: Annotated[list[Id], _ROWS] | None = Field(
        None, description="Ids of stored items to use as queries; they do not find themselves."
    )
    labels: Label | Annotated[list[Label], _ROWS] | None = Field(None, description="Only items that have any of them.")
    ids: list[Id] | None = Field(None, description="Only these ids; unknown ones are passed over.")

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"vectors": [[0.5, 1.0]], "k": 3}]})


class RefreshRequest(_Request):
    """How to refresh."""

    wait: bool = Field(False, description="Answer when the new codes are in use.")


class ItemAnswer(BaseModel):
    """One item, as it is stored."""

    id: Id
    vectors: list[float]
    labels: Labels
    payload: Any = None
    version: int | None = Field(description="Of the encoder that made its code; null while it waits for the first.")


class ItemsAnswer(BaseModel):
    """Items in the order of the ids."""

    items: list[ItemAnswer]


class ChangeAnswer(BaseModel):
    """What a change has done, durably."""

    changed: int = Field(description="Items added, replaced, updated or deleted.")
    n_items: int = Field(description="Items stored now.")


class SearchAnswer(BaseModel):
    """Neighbours of each query, nearest first, ties by id."""

    version: int | None = Field(description="Of the encoder that made the codes searched; null before the first.")
    ids: list[list[Id]] = Field(description="One list per query.")
    distances: list[list[float]]
    labels: list[list[Labels]] | None = Field(None, description="With items=true only.")
    payload: list[list[Any]] | None = Field(None, description="With items=true only.")


class EncodeAnswer(BaseModel):
    """Codes as hexadecimal digits: bit i is bit i % 8 of byte i // 8."""

    version: int
    n_bits: int
    codes: list[str]


class LabelCount(BaseModel):
    """A label and the number of items that have it."""

    label: Label
    n_items: int


class LabelCountsAnswer(BaseModel):
    """All labels in order."""

    label_counts: list[LabelCount]
    n_unlabelled: int


class StatsAnswer(BaseModel):
    """Collection statistics."""

    n_items: int
    n_searchable: int
    n_learned: int
    method: str
    n_bits: int
    n_features: int | None
    generation: int
    version: int | None
    staleness: int
    index: Literal["flat", "buckets", "engine"]
    refreshing: bool
    progress: float
    pending: bool
    bits_recomputed: int
    refresh_error: str | None
    n_bytes: int
    readonly: bool


class VersionAnswer(BaseModel):
    """Which encoder made the codes that are searched, and how far the hasher has moved on since."""

    generation: int
    version: int | None
    n_learned: int
    staleness: int
    refreshing: bool
    progress: float
    pending: bool
    refresh_error: str | None


class HealthAnswer(BaseModel):
    """Health status."""

    status: Literal["ok", "stopping"]


class LimitsAnswer(BaseModel):
    """Request limits."""

    max_body_bytes: int
    max_batch_size: int
    max_dimensions: int
    max_k: int
    max_hits: int

    @classmethod
    def of(cls, limits: Limits) -> LimitsAnswer:
        """Tell the limits that concern one request."""
        return cls(**{name: getattr(limits, name) for name in cls.model_fields})


class FieldError(BaseModel):
    """What is wrong with one field."""

    field: str
    value: str | None = Field(description="What stood there, shortened.")
    detail: str


class ProblemAnswer(BaseModel):
    """A problem document (RFC 9457): what was given, the rule, and the way out."""

    type: str
    title: str
    status: int
    detail: str
    errors: list[FieldError]
