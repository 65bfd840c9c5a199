"""Models of requests and answers, from which the OpenAPI document is generated."""

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
    """Items to insert or replace."""

    ids: Annotated[list[Id], _ROWS] = Field(description="All integers or all strings.")
    vectors: Annotated[list[Vector], _ROWS] | None = Field(
        None, description="One vector per id, all of the same width."
    )
    documents: Annotated[list[str], _ROWS] | None = Field(
        None, description="Instead of vectors, one text per id, if the service has an embedder."
    )
    labels: list[Labels] | None = Field(None, description="One entry per id: a label, a list of labels, or null.")
    payload: list[Any] | None = Field(None, description="One small JSON value per id.")

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"ids": [1, 2], "vectors": [[0.5, 1.0], [1.0, 0.0]], "labels": [3, None]}]},
    )


class UpdateRequest(_Request):
    """Changes to existing items; fields left out are kept."""

    ids: Annotated[list[Id], _ROWS]
    vectors: Annotated[list[Vector], _ROWS] | None = None
    documents: Annotated[list[str], _ROWS] | None = None
    labels: list[Labels] | None = None
    payload: list[Any] | None = None


class IdsRequest(_Request):
    """Ids of items."""

    ids: Annotated[list[Id], _ROWS]


class WhereRequest(_Request):
    """Which items to count."""

    where: dict[str, Any] | None = Field(None, description="Only items whose payload passes.")


class ListRequest(WhereRequest):
    """Which items to list."""

    after: Id | None = Field(None, description="Only ids above this one: the last of the page before.")
    limit: int = Field(100, ge=1, description="Items at most.")


class IndexRequest(_Request):
    """A path in the payload."""

    path: str = Field(description="Keys joined by dots.")


class DeleteRequest(_Request):
    """Items to delete: ids, or a filter."""

    ids: Annotated[list[Id], _ROWS] | None = None
    where: dict[str, Any] | None = Field(None, description="Delete all items whose payload passes.")
    missing: Literal["raise", "ignore"] = Field("raise", description="Whether an unknown id is an error.")
    unlearn: bool = Field(False, description="Also unlearn the items; supported by HROH.")


class EncodeRequest(_Request):
    """Vectors to encode."""

    vectors: Annotated[list[Vector], _ROWS]


class SearchOptions(_Request):
    """Search options; in the query string if the body is an array."""

    k: int = Field(10, ge=1, description="Neighbours per query.")
    radius: int | None = Field(
        None,
        ge=0,
        description="Find all items within this distance instead; without k, rescore and asymmetric.",
    )
    rescore: Literal["cosine", "l2"] | None = Field(None, description="Reorder the best by their stored vectors.")
    asymmetric: bool = Field(False, description="Compare the query's real values with the bits of the codes.")
    items: bool = Field(False, description="Include labels and payload of the items found.")


class SearchRequest(SearchOptions):
    """Queries: vectors, documents, or ids of stored items."""

    vectors: Annotated[list[Vector], _ROWS] | None = None
    documents: Annotated[list[str], _ROWS] | None = Field(
        None, description="Texts to search for, if the service has an embedder."
    )
    by_id: Annotated[list[Id], _ROWS] | None = Field(
        None, description="Ids of stored items to use as queries; they do not find themselves."
    )
    labels: Label | Annotated[list[Label], _ROWS] | None = Field(
        None, description="Search only items with any of these."
    )
    ids: list[Id] | None = Field(None, description="Search only these ids; unknown ids are ignored.")
    where: dict[str, Any] | None = Field(None, description="Search only items whose payload passes.")
    include: list[Literal["labels", "payload", "vectors"]] = Field([], description="Of the items found.")
    after: str | None = Field(None, description="Cursor of the page before; for one query that is a vector.")

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"vectors": [[0.5, 1.0]], "k": 3}]})


class RefreshRequest(_Request):
    """Refresh options."""

    wait: bool = Field(False, description="Wait until the new codes are in use.")


class ItemAnswer(BaseModel):
    """A stored item."""

    id: Id
    vectors: list[float]
    labels: Labels
    payload: Any = None
    version: int | None = Field(description="Version of the encoder that made its code; null before the first encoder.")


class ItemsAnswer(BaseModel):
    """Items in the order of the ids."""

    items: list[ItemAnswer]


class ChangeAnswer(BaseModel):
    """Result of a change, which is durable."""

    changed: int = Field(description="Items inserted, replaced, updated or deleted.")
    n_items: int = Field(description="Items stored now.")


class SearchAnswer(BaseModel):
    """Neighbours of each query, nearest first, ties by id."""

    version: int | None = Field(description="Version of the encoder in use; null before the first.")
    ids: list[list[Id]] = Field(description="One list per query.")
    distances: list[list[float]]
    labels: list[list[Labels]] | None = Field(None, description="If included.")
    payload: list[list[Any]] | None = Field(None, description="If included.")
    vectors: list[list[list[float]]] | None = Field(None, description="If included.")
    cursor: list[str | None] | None = Field(None, description="What after takes, if more may follow.")


class CountAnswer(BaseModel):
    """Number of items."""

    n_items: int


class IndexesAnswer(BaseModel):
    """Paths in the payload that have an index."""

    indexes: list[str]


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
    """Number of items per label, in the order of the labels."""

    label_counts: list[LabelCount]
    n_unlabelled: int


class VersionAnswer(BaseModel):
    """Version of the encoder in use, and how far the hasher has learned on since."""

    generation: int
    version: int | None
    n_learned: int
    staleness: int
    refreshing: bool
    progress: float
    pending: bool
    refresh_error: str | None


class StatsAnswer(VersionAnswer):
    """Collection statistics."""

    n_items: int
    n_searchable: int
    method: str
    n_bits: int
    n_features: int | None
    index: Literal["flat", "buckets", "store", "faiss", "milvus"]
    bits_recomputed: int
    n_bytes: int
    precision: float | None
    n_queries: int
    readonly: bool


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
        """Return the limits of a single request."""
        return cls(**{name: getattr(limits, name) for name in cls.model_fields})


class FieldError(BaseModel):
    """An invalid field."""

    field: str
    value: str | None = Field(description="The value given, shortened.")
    detail: str


class ProblemAnswer(BaseModel):
    """A problem document (RFC 9457): what was given, the rule, and the way out."""

    type: str
    title: str
    status: int
    detail: str
    errors: list[FieldError]
