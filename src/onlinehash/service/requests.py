"""Bodies of requests: their types, from which the OpenAPI document is generated, and how they are decoded.

A request refuses unknown fields, and decoding stops at the first error. Content is never trusted.
"""

from __future__ import annotations

import io
import math
import re
from functools import cache
from tokenize import TokenError
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from msgspec import UNSET, Meta, Struct, UnsetType, field
from numpy.lib import format as npy
from numpy.typing import NDArray

from onlinehash.service.limits import Call, Limits, check_limit
from onlinehash.service.problems import Problem, about, invalid
from onlinehash.types import Rescore, ReviewOrder

JSON, NPY = "application/json", "application/x-npy"
MAX_INTEGER = (1 << 63) - 1
MAX_DEPTH = 64  # of lists and objects in each other
BYTES_AT_ONCE = 1 << 20  # of a body, in which lists are counted
BYTES_PER_VALUE = 48  # in memory, about
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)  # possessive, and so linear: it never goes back
_COMPLETE = re.compile(rb'(?:[^"]++|"[^"\\]*+(?:\\.[^"\\]*+)*+")*+', re.DOTALL)  # up to a string that goes on
_NO_STRUCTURE = bytes(set(range(256)) - set(b"[]{},"))
_BAD_HEADER = (ValueError, TypeError, KeyError, IndexError, SyntaxError, TokenError, OverflowError, RecursionError)
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


class QueriesRequest(Struct, forbid_unknown_fields=True, kw_only=True):
    """Queries: vectors, documents or an image."""

    vectors: Annotated[Vectors | None, Meta(examples=[[[0.5, 1.0]]])] = None
    documents: Annotated[Documents | None, about("Instead of vectors: texts, if the service has an embedder.")] = None
    images: Annotated[
        Annotated[list[bytes], Meta(min_length=1, max_length=1)] | None,
        about("Instead of vectors: one image, as base64, if the embedder takes images."),
    ] = None


class SearchRequest(QueriesRequest, kw_only=True):
    """Queries: vectors, documents, an image, or ids of stored items; and the options of the search."""

    by_id: Annotated[Ids | None, about("Ids of stored items to use as queries; they do not find themselves.")] = None
    k: Annotated[Positive | None, about("Neighbours per query, 10 by default.")] = None
    radius: Annotated[
        Annotated[int, Meta(ge=0, le=MAX_INTEGER)] | None,
        about("Find all items within this distance instead; without k, rescore and asymmetric."),
    ] = None
    rescore: Annotated[
        Rescore | None,
        about("How to order the items whose codes are nearest, as in Python; null for the order of their codes."),
    ] = "auto"
    asymmetric: Annotated[bool, about("Compare the query's real values with the bits of the codes.")] = False
    labels: SomeLabels = None
    ids: Annotated[list[Id] | None, about("Search only these ids; unknown ids are ignored.")] = None
    where: Where = None
    include: Annotated[
        list[Literal["labels", "payload", "vectors"]], about("What to return of the items found.", max_length=3)
    ] = []


class ClassifyRequest(QueriesRequest, kw_only=True):
    """Rows to classify, and how sure to be."""

    max_error: Annotated[float, about("Share of wrong labels among those that are given, between 0 and 1.")] = 0.02
    unknown_share: Annotated[float, about("Expected share of rows whose label was never learned.")] = 0.0
    n_neighbours: Annotated[int, about("Nearest items that support the most probable label.", ge=0, le=MAX_INTEGER)] = 3


class SuspectsRequest(Struct, forbid_unknown_fields=True):
    """Which labels to doubt."""

    n: Annotated[Positive, about("Items at most.")] = 100
    labels: SomeLabels = None


class ReviewRequest(Struct, forbid_unknown_fields=True):
    """Which items to label next."""

    n: Annotated[Positive, about("Items at most.")] = 100
    by: Annotated[
        ReviewOrder,
        about("Least certain first; least like what was learned first; or uncertain ones far from each other."),
    ] = "uncertain"


class LinkRequest(IdsRequest):
    """Items that belong together, or no longer do."""

    checkpoint: Checkpoint = None


class MergeRequest(Struct, forbid_unknown_fields=True):
    """A label, and the label of other items that its items get."""

    label: Label
    into: Label
    checkpoint: Checkpoint = None


class RenameRequest(Struct, forbid_unknown_fields=True):
    """A label, and its new name, which no item has."""

    label: Label
    to: Label
    checkpoint: Checkpoint = None


class IndexRequest(Struct, forbid_unknown_fields=True):
    """A path in the payload."""

    path: Annotated[str, about("Keys joined by dots.")]


class EncodeRequest(Struct, forbid_unknown_fields=True):
    """Vectors to encode."""

    vectors: Vectors | None = None


class MapRequest(Struct, forbid_unknown_fields=True):
    """How many items to show."""

    limit: Annotated[Positive, about("Items at most.")] = 1500


class CheckRequest(Struct, forbid_unknown_fields=True):
    """How much to check."""

    sample: Annotated[int, about("Items whose codes are computed again, about.", ge=0, le=MAX_INTEGER)] = 1000


class HasherRequest(Struct, forbid_unknown_fields=True):
    """A hasher; without a method, the present one with another number of bits."""

    method: Annotated[str | None, about("Name of the hasher.", examples=["hroh"])] = None
    n_bits: Positive | None = None
    params: Annotated[dict[str, Any], about("Its other parameters.", examples=[{"random_state": 0}])] = {}


class CheckpointRequest(Struct, forbid_unknown_fields=True):
    """A JSON value."""

    value: Any


# ---------------------------------------------------------------------- decoding


def decode(kind: Any, media: str, body: bytearray, limits: Limits, call: Call) -> Any:
    """Return the request in a body: JSON, or an .npy file of its vectors followed by the rest as JSON."""
    array, rest = _split(body) if media == NPY else (None, body)
    call.hold(len(body) + BYTES_PER_VALUE * _count_values(rest, limits))
    try:
        request = _decoder(kind).decode(rest or b"{}")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Problem.of_decoding(error, rest) from None
    if "vectors" in kind.__struct_fields__:
        if array is not None and request.vectors is not None:
            raise invalid("vectors", "vectors are in the array and in the JSON behind it; send them once.")
        rows = _rows(request.vectors) if request.vectors is not None else array
        if rows is not None:
            limits.check_batch(rows)
            check_limit("width", rows.shape[1], limits.max_dimensions, "start the service with a larger --max-width")
            request.vectors = rows
    return request


def _count_values(text: bytearray, limits: Limits) -> int:
    """Return how many values JSON has, about; refuse too many, or lists that are too deep, before they are made."""
    n_lists = text.count(b"[") + text.count(b"{")
    n_values = n_lists + text.count(b",")
    if n_values > limits.max_values or n_lists > MAX_DEPTH:  # perhaps inside of strings
        structure = _structure(text, limits.max_values)
        n_values = sum(map(structure.count, (b"[", b"{", b",")))
        check_limit("values", n_values, limits.max_values, "use smaller batches, or arrays as .npy")
        lists = np.frombuffer(structure.replace(b",", b""), np.uint8)
        depth = int(np.cumsum(np.where((lists == ord("[")) | (lists == ord("{")), 1, -1)).max(initial=0))
        check_limit("depth", depth, MAX_DEPTH, "nest lists and objects less deep")
    return n_values


def _structure(text: bytearray, max_values: int) -> bytearray:
    """Return the brackets and commas of JSON that are not in strings, some at a time; enough if there are too many."""
    found, at = bytearray(), 0
    while at < len(text) and len(found) <= 2 * max_values:
        complete = _COMPLETE.match(text, at, at + BYTES_AT_ONCE)
        end = at if complete is None else complete.end()
        if end == at:  # a long string
            whole = _STRING.match(text, at)
            end = len(text) if whole is None else whole.end()
        found += _STRING.sub(b"", text[at:end]).translate(None, _NO_STRUCTURE)
        at = end
    return found


@cache
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)


def _rows(vectors: list[list[float]]) -> NDArray[Any]:
    """Return vectors of one width as an array."""
    try:
        return np.array(vectors)
    except ValueError:
        width = len(vectors[0])
        i, vector = next((i, vector) for i, vector in enumerate(vectors) if len(vector) != width)
        rule = f"vectors.{i} has {len(vector)} numbers, the first has {width}; send vectors of one width."
        raise invalid(f"vectors.{i}", rule, vector) from None


def _split(body: bytearray) -> tuple[NDArray[Any], bytearray]:
    """Return the array of an .npy file, of real numbers and one row per vector, and the bytes behind it."""
    file = io.BytesIO(body)
    try:
        major = npy.read_magic(file)[0]
        shape, by_column, dtype = {1: npy.read_array_header_1_0, 2: npy.read_array_header_2_0}[major](file)
    except _BAD_HEADER as error:
        reason = f"The body cannot be read as .npy ({str(error)[:200]}); write it with numpy.save."
        raise invalid("body", reason) from None
    if len(shape) != 2 or min(shape) < 1 or dtype.kind not in "fiu" or dtype.itemsize > 8:
        found = f"The body holds an array of shape {shape} and dtype {str(dtype)[:200]}"
        raise invalid("vectors", f"{found}; send one row of real numbers per vector.")
    start, n_values = file.tell(), math.prod(shape)
    end = start + n_values * dtype.itemsize
    if end > len(body):
        rule = f"The body has {len(body) - start} bytes behind its header; shape {shape} of {dtype} does not fit."
        raise invalid("vectors", rule)
    array = np.frombuffer(body, dtype, n_values, start).reshape(shape, order="F" if by_column else "C")
    return np.ascontiguousarray(array, dtype.newbyteorder("=")), body[end:]
