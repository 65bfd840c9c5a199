"""Bodies of requests: their types, from which the OpenAPI document is generated, and how they are decoded.

A request refuses unknown fields, and decoding stops at the first error. Content is never trusted.
"""

from __future__ import annotations

from dataclasses import fields
from functools import cache
from typing import Annotated, Any, Literal, get_args, get_type_hints

import msgspec
import numpy as np
from msgspec import UNSET, Meta, Struct, UnsetType, field
from numpy.typing import NDArray

from onlinehash.exceptions import FileFormatError
from onlinehash.service.limits import Limits
from onlinehash.service.problems import Problem, about, check_limit, invalid
from onlinehash.tables.npy import parse_array
from onlinehash.types import SearchOptions

JSON, NPY = "application/json", "application/x-npy"
MAX_INTEGER = (1 << 63) - 1

Int64 = Annotated[int, Meta(ge=-MAX_INTEGER - 1, le=MAX_INTEGER)]
Positive = Annotated[int, Meta(ge=1, le=MAX_INTEGER)]
Id = Int64 | str
Label = Int64 | str
Labels = Label | tuple[Label, ...] | None
Ids = Annotated[list[Id], Meta(min_length=1)]
Vectors = Annotated[list[Annotated[list[float], Meta(min_length=1)]], Meta(min_length=1)]
Documents = Annotated[list[str], Meta(min_length=1)]
Checkpoint = Annotated[
    dict[str, Any] | None, about("JSON values by name, committed in the same transaction as the items.")
]
SomeLabels = Annotated[
    Label | Annotated[list[Label], Meta(min_length=1)] | None, about("Only items with any of these.")
]
Where = Annotated[dict[str, Any] | None, about("Only items whose payload passes.")]


class ItemsRequest(Struct, forbid_unknown_fields=True):
    """Items to insert or replace, or changes to existing ones, of which fields left out are kept."""

    ids: Annotated[Ids, about("All integers or all strings.", examples=[[1, 2]])]
    vectors: Annotated[
        Vectors | None, about("One vector per id, all of the same width.", examples=[[[0.5, 1.0], [1.0, 0.0]]])
    ] = None
    labels: Annotated[
        list[Labels] | UnsetType | None, about("One entry per id: a label, a list of labels, or null.")
    ] = UNSET
    payload: Annotated[list[Any] | UnsetType | None, about("One small JSON value per id.")] = UNSET
    documents: Annotated[
        Documents | None, about("Instead of vectors, one text per id, if the service has an embedder.")
    ] = None
    checkpoint: Checkpoint = None


class DeleteRequest(Struct, forbid_unknown_fields=True):
    """Items to delete: ids, or a filter."""

    ids: Ids | None = None
    where: Annotated[dict[str, Any] | None, about("Delete all items whose payload passes.")] = None
    missing: Annotated[Literal["raise", "ignore"], about("Whether an unknown id is an error.")] = "raise"
    unlearn: Annotated[bool, about("Also unlearn the items; supported by HROH.")] = False
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
        Literal["id", "arrival"], about("An item that is replaced, or whose vector or label changes, arrives again.")
    ] = "id"
    descending: bool = False
    include: Annotated[
        list[Literal["labels", "payload", "vectors"]],
        about("What to return of each item; all of it by default.", max_length=3),
    ] = field(default_factory=lambda: ["labels", "payload", "vectors"])
    after: Annotated[
        Id | None, about("Only items behind this one, which must exist if they are in order of arrival.")
    ] = None
    cursor: Annotated[str | None, about("Instead of after: that of the page before, which had the same order.")] = None
    limit: Annotated[Positive, about("Items at most.")] = 100


class IndexRequest(Struct, forbid_unknown_fields=True):
    """A path in the payload."""

    path: Annotated[str, about("Keys joined by dots.")]


class EncodeRequest(Struct, forbid_unknown_fields=True):
    """Vectors to encode."""

    vectors: Vectors


class RefreshRequest(Struct, forbid_unknown_fields=True):
    """Refresh options."""

    wait: Annotated[bool, about("Wait until the new codes are in use.")] = False


class MapRequest(Struct, forbid_unknown_fields=True):
    """How many items to show."""

    limit: Annotated[Positive, about("Items at most.")] = 2000


class CheckRequest(Struct, forbid_unknown_fields=True):
    """How much to check."""

    sample: Annotated[int, about("Items whose codes are computed again, about.", ge=0, le=MAX_INTEGER)] = 1000


class HasherRequest(Struct, forbid_unknown_fields=True):
    """A hasher; without a method, the present one with another number of bits."""

    method: Annotated[str | None, about("Name of the hasher.", examples=["hroh"])] = None
    n_bits: Positive | None = None
    params: Annotated[dict[str, Any], about("Its other parameters.", examples=[{"random_state": 0}])] = {}


class MigrateRequest(HasherRequest):
    """New vectors of items, or the name of an embedder; a hasher with the first request, if it is to be another."""

    ids: Ids | None = None
    vectors: Vectors | None = None
    embed: Annotated[str | None, about("Embedder that needs no model to be loaded.", examples=["char_ngrams"])] = None


class CheckpointRequest(Struct, forbid_unknown_fields=True):
    """A JSON value."""

    value: Any


# ---------------------------------------------------------------------- searches

QUERY_OPTIONS = ("k", "radius", "rescore", "asymmetric", "items")
"""Options that are in the query string of a search if the body is an array or an image."""

_KINDS = {"k": Positive | None, "radius": Annotated[int, Meta(ge=0, le=MAX_INTEGER)] | None, "labels": SomeLabels}
"""Of options of a search, what :class:`SearchOptions` does not say."""


def _search_fields() -> list[Any]:
    """Return the fields of a search: its options, and the queries."""
    made: list[Any] = []
    hints = get_type_hints(SearchOptions, include_extras=True)
    for option in fields(SearchOptions):
        kind, text = get_args(hints[option.name])
        made.append((option.name, Annotated[_KINDS.get(option.name, kind), about(text)], option.default))
    texts = about("Texts to search for, if the service has an embedder.")
    stored = about("Ids of stored items to use as queries; they do not find themselves.")
    items = about("Include labels and payload of the items found.")
    return [
        *made,
        ("vectors", Annotated[Vectors | None, Meta(examples=[[[0.5, 1.0]]])], None),
        ("documents", Annotated[Documents | None, texts], None),
        ("by_id", Annotated[Ids | None, stored], None),
        ("items", Annotated[bool, items], False),
    ]


SearchRequest: Any = msgspec.defstruct(
    "SearchRequest",
    _search_fields(),
    namespace={"__doc__": "Queries: vectors, documents, or ids of stored items; and the options of the search."},
    forbid_unknown_fields=True,
    kw_only=True,
)


# ---------------------------------------------------------------------- decoding


def decode(kind: Any, media: str, body: bytes, query: dict[str, str], limits: Limits) -> Any:
    """Return the request in a body; its vectors are a list of lists from JSON, and an array from all else."""
    if media == JSON:
        if query:
            name = min(query)
            raise invalid(name, f"{name} is in the query, but the body is JSON; move it there.")
        limits.check_values(body.count(b","))  # every value but the first of a list or an object follows one
        try:
            return _decoder(kind).decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise Problem.of_decoding(error, body) from None
    if kind is ItemsRequest:
        return kind(**_items_of_npy(body, limits))
    if kind is MigrateRequest:
        return kind(**{name: column for name, column in _items_of_npy(body, limits).items() if name != "labels"})
    request: Any = kind(vectors=[]) if kind is EncodeRequest else convert(kind, query)
    if media == NPY:
        request.vectors = _vectors_of(_array(body))
    else:
        request.documents = [body]  # an image
    return request


@cache
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)


def convert(kind: Any, query: dict[str, str]) -> Any:
    """Return what a query string describes."""
    try:
        if kind is SearchRequest and (others := sorted(query.keys() - QUERY_OPTIONS)):
            raise msgspec.ValidationError(f"Object contains unknown field `{others[0]}`")
        return msgspec.convert(query, kind, strict=False)
    except msgspec.ValidationError as error:
        raise Problem.of_decoding(error, query) from None


def rows_of(vectors: list[list[float]] | NDArray[Any], limits: Limits) -> NDArray[Any]:
    """Return vectors of one width as an array."""
    if not isinstance(vectors, np.ndarray):
        width = len(vectors[0])
        for i, vector in enumerate(vectors):
            if len(vector) != width:
                rule = f"vectors.{i} has {len(vector)} numbers, the first has {width}; send vectors of one width."
                raise invalid(f"vectors.{i}", rule, vector)
        vectors = np.array(vectors)
    limits.check_batch(vectors)
    check_limit("width", vectors.shape[1], limits.max_dimensions, "start the service with a larger --max-width")
    return vectors


def _array(body: bytes) -> NDArray[Any]:
    """Return the array of an .npy file: numbers, or records of them and of text, never objects."""
    try:
        return parse_array(body)
    except FileFormatError as error:
        raise _unreadable(f"cannot be read as .npy ({str(error)[:200]}); write it with numpy.save") from None


def _vectors_of(array: NDArray[Any]) -> NDArray[Any]:
    """Return rows of real numbers in the byte order of this machine."""
    if array.ndim != 2 or array.dtype.kind not in "fiu" or array.dtype.itemsize > 8:
        found = f"holds an array of shape {array.shape} and dtype {array.dtype}"
        raise _unreadable(f"{found}; send one row of real numbers per vector", "vectors")
    return np.ascontiguousarray(array, array.dtype.newbyteorder("="))


def _items_of_npy(body: bytes, limits: Limits) -> dict[str, Any]:
    """Return ids, vectors and labels from an array of records with the fields id, vectors and, optionally, label."""
    records = _array(body)
    names = records.dtype.names or ()
    if records.ndim != 1 or not {"id", "vectors"} <= set(names) <= {"id", "vectors", "label"}:
        raise _unreadable(
            f"holds an array of shape {records.shape} and dtype {str(records.dtype)[:200]}; send records with the "
            "fields id, vectors and label (optional), such as np.dtype([('id', 'i8'), ('vectors', 'f4', 128)])"
        )
    limits.check_batch(records)
    labels = _column(records, "label") if "label" in names else None
    return {"ids": _column(records, "id"), "vectors": _vectors_of(records["vectors"]), "labels": labels}


def _column(records: NDArray[Any], name: str) -> list[Any]:
    column = records[name]
    if column.ndim != 1 or column.dtype.kind not in "iuU":
        raise _unreadable(f"has the field {name} of dtype {column.dtype}; send integers or text, one per record", name)
    try:
        return list(column.tolist())
    except (ValueError, SystemError):  # a character beyond Unicode
        raise _unreadable(f"has a field {name} that is not text", name) from None


def _unreadable(what: str, field: str = "body") -> Problem:
    return Problem(422, "invalid-input", f"The body {what}.", field=field)
