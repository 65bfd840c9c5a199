"""Bodies of requests and answers, from which the OpenAPI document is generated.

A request refuses unknown fields, and decoding stops at the first error.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, field

LAST = (1 << 63) - 1

Int64 = Annotated[int, Meta(ge=-LAST - 1, le=LAST)]
Positive = Annotated[int, Meta(ge=1, le=LAST)]
Id = Int64 | str
Label = Int64 | str
Labels = Label | tuple[Label, ...] | None
Ids = Annotated[list[Id], Meta(min_length=1)]
Vector = Annotated[list[float], Meta(min_length=1)]
Vectors = Annotated[list[Vector], Meta(min_length=1)]
Documents = Annotated[list[str], Meta(min_length=1)]
Checkpoint = Annotated[
    dict[str, Any] | None, Meta(description="JSON values by name, committed in the same transaction as the items.")
]
SomeLabels = Annotated[
    Label | Annotated[list[Label], Meta(min_length=1)] | None, Meta(description="Only items with any of these.")
]
Part = Literal["labels", "payload", "vectors"]
Where = Annotated[dict[str, Any] | None, Meta(description="Only items whose payload passes.")]


class UpsertRequest(Struct, forbid_unknown_fields=True):
    """Items to insert or replace."""

    ids: Annotated[Ids, Meta(description="All integers or all strings.", examples=[[1, 2]])]
    vectors: Annotated[
        Vectors | None,
        Meta(description="One vector per id, all of the same width.", examples=[[[0.5, 1.0], [1.0, 0.0]]]),
    ] = None
    labels: Annotated[
        list[Labels] | None, Meta(description="One entry per id: a label, a list of labels, or null.")
    ] = None
    payload: Annotated[list[Any] | None, Meta(description="One small JSON value per id.")] = None
    documents: Annotated[
        Documents | None, Meta(description="Instead of vectors, one text per id, if the service has an embedder.")
    ] = None
    checkpoint: Checkpoint = None


class UpdateRequest(Struct, forbid_unknown_fields=True):
    """Changes to existing items; fields left out are kept."""

    ids: Ids
    vectors: Vectors | None = None
    documents: Documents | None = None
    labels: list[Labels] | UnsetType | None = UNSET
    payload: list[Any] | UnsetType | None = UNSET
    checkpoint: Checkpoint = None


class IdsRequest(Struct, forbid_unknown_fields=True):
    """Ids of items."""

    ids: Ids


class WhereRequest(Struct, forbid_unknown_fields=True):
    """Which items to count."""

    where: Where = None


class CountRequest(WhereRequest):
    """Which items to count."""

    labels: SomeLabels = None


class ListRequest(CountRequest):
    """Which items to list, in which order."""

    order: Annotated[
        Literal["id", "arrival"],
        Meta(description="An item that is replaced, or whose vector or label changes, arrives again."),
    ] = "id"
    descending: bool = False
    include: Annotated[
        list[Part], Meta(max_length=3, description="What to return of each item; all of it by default.")
    ] = field(default_factory=lambda: ["labels", "payload", "vectors"])
    after: Annotated[
        Id | None,
        Meta(description="Only items behind this one, which must exist if they are in order of arrival."),
    ] = None
    cursor: Annotated[
        str | None, Meta(description="Instead of after: that of the page before, which had the same order.")
    ] = None
    limit: Annotated[Positive, Meta(description="Items at most.")] = 100


class IndexRequest(Struct, forbid_unknown_fields=True):
    """A path in the payload."""

    path: Annotated[str, Meta(description="Keys joined by dots, or $labels.")]


class DeleteRequest(Struct, forbid_unknown_fields=True):
    """Items to delete: ids, or a filter."""

    ids: Ids | None = None
    where: Annotated[dict[str, Any] | None, Meta(description="Delete all items whose payload passes.")] = None
    missing: Annotated[Literal["raise", "ignore"], Meta(description="Whether an unknown id is an error.")] = "raise"
    unlearn: Annotated[bool, Meta(description="Also unlearn the items; supported by HROH.")] = False
    checkpoint: Checkpoint = None


class EncodeRequest(Struct, forbid_unknown_fields=True):
    """Vectors to encode."""

    vectors: Vectors


class SearchOptions(Struct, forbid_unknown_fields=True, kw_only=True):
    """Search options; in the query string if the body is an array."""

    k: Annotated[Positive | None, Meta(description="Neighbours per query, 10 by default.")] = None
    radius: Annotated[
        Annotated[int, Meta(ge=0, le=LAST)] | None,
        Meta(description="Find all items within this distance instead; without k, rescore, asymmetric and after."),
    ] = None
    rescore: Annotated[
        Literal["cosine", "l2"] | None, Meta(description="Reorder the best by their stored vectors.")
    ] = None
    asymmetric: Annotated[bool, Meta(description="Compare the query's real values with the bits of the codes.")] = False
    items: Annotated[bool, Meta(description="Include labels and payload of the items found.")] = False


class SearchRequest(SearchOptions, kw_only=True):
    """Queries: vectors, documents, or ids of stored items."""

    vectors: Annotated[Vectors | None, Meta(examples=[[[0.5, 1.0]]])] = None
    documents: Annotated[Documents | None, Meta(description="Texts to search for, if the service has an embedder.")] = (
        None
    )
    by_id: Annotated[
        Ids | None, Meta(description="Ids of stored items to use as queries; they do not find themselves.")
    ] = None
    labels: SomeLabels = None
    ids: Annotated[list[Id] | None, Meta(description="Search only these ids; unknown ids are ignored.")] = None
    where: Where = None
    include: Annotated[list[Part], Meta(max_length=3, description="Of the items found.")] = []
    after: Annotated[
        str | None, Meta(description="Cursor of the page before; for one query that is a vector or a document.")
    ] = None


class RefreshRequest(Struct, forbid_unknown_fields=True):
    """Refresh options."""

    wait: Annotated[bool, Meta(description="Wait until the new codes are in use.")] = False


class ItemAnswer(Struct):
    """A stored item."""

    id: Id
    vectors: list[float]
    labels: Labels
    payload: Any
    version: Annotated[
        int | None, Meta(description="Version of the encoder that made its code; null before the first encoder.")
    ]


class OneItemAnswer(ItemAnswer):
    """A stored item, and its code."""

    code: Annotated[
        str | None, Meta(description="Hexadecimal digits: bit i is bit i % 8 of byte i // 8; null while it waits.")
    ]
    generation: Annotated[int, Meta(description="Generation of the codes in use; 0 before the first.")]


class ItemsAnswer(Struct):
    """Items in the order of the ids."""

    items: list[ItemAnswer]


class ListedItem(Struct):
    """A stored item, with what is included."""

    id: Id
    version: int | None
    labels: Labels | UnsetType = UNSET
    payload: Any | UnsetType = UNSET
    vectors: list[float] | UnsetType = UNSET


class ListAnswer(Struct):
    """Items in order."""

    items: list[ListedItem]
    cursor: Annotated[str | None, Meta(description="What the next request takes; null if nothing follows.")]


class ChangeAnswer(Struct):
    """Result of a change, which is durable."""

    changed: Annotated[int, Meta(description="Items inserted, replaced, updated or deleted.")]
    n_items: Annotated[int, Meta(description="Items stored now.")]


class SearchAnswer(Struct):
    """Neighbours of each query, nearest first, ties by id."""

    version: Annotated[int | None, Meta(description="Version of the encoder in use; null before the first.")]
    ids: Annotated[list[list[Id]], Meta(description="One list per query.")]
    distances: list[list[float]]
    labels: Annotated[list[list[Labels]] | UnsetType, Meta(description="If included.")] = UNSET
    payload: Annotated[list[list[Any]] | UnsetType, Meta(description="If included.")] = UNSET
    vectors: Annotated[list[list[list[float]]] | UnsetType, Meta(description="If included.")] = UNSET
    cursor: Annotated[list[str | None] | UnsetType, Meta(description="What after takes, if more may follow.")] = UNSET


class CountAnswer(Struct):
    """Number of items."""

    n_items: int


class IndexesAnswer(Struct):
    """Paths in the payload that have an index."""

    indexes: list[str]


class EncodeAnswer(Struct):
    """Codes as hexadecimal digits: bit i is bit i % 8 of byte i // 8."""

    version: int
    n_bits: int
    codes: list[str]


class LabelCount(Struct):
    """A label and the number of items that have it."""

    label: Label
    n_items: int


class LabelCountsAnswer(Struct):
    """Number of items per label, in the order of the labels."""

    label_counts: list[LabelCount]
    n_unlabelled: int


class VersionAnswer(Struct):
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
    index: Literal["flat", "buckets", "store", "faiss", "milvus", "gpu"]
    bits_recomputed: int
    n_bytes: int
    precision: float | None
    mean_average_precision: float | None
    n_queries: int
    readonly: bool
    sequence: Annotated[int, Meta(description="Of the last change.")]
    id_type: Annotated[Literal["int", "str"] | None, Meta(description="Type of the ids; null before the first.")]
    embedder: Annotated[str | None, Meta(description="Name of the embedder of documents.")]
    embeds: Annotated[Literal["text", "image"] | None, Meta(description="What it takes.")]
    unlearns: Annotated[bool, Meta(description="Whether items can be unlearned.")]
    media: Annotated[bool, Meta(description="Whether the service has a folder of images.")]


class HealthAnswer(Struct):
    """Health status."""

    status: Literal["ok"] = "ok"


class LimitsAnswer(Struct):
    """Request limits."""

    max_body_bytes: int
    max_batch_size: int
    max_dimensions: int
    max_k: int
    max_hits: int
    max_values: int
    max_payload_bytes: int
    timeout: int


class CollectionAnswer(Struct):
    """A collection of this service."""

    name: str
    n_items: int
    readonly: bool


class CollectionsAnswer(Struct):
    """The collections of this service."""

    collections: list[CollectionAnswer]


class FieldError(Struct):
    """An invalid field."""

    field: str
    value: Annotated[str | None, Meta(description="The value given, shortened.")]
    detail: str


class ProblemAnswer(Struct):
    """A problem document (RFC 9457): what was given, the rule, and the way out."""

    type: str
    title: str
    status: int
    detail: str
    errors: list[FieldError] = field(default_factory=list)
