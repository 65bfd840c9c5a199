"""Handlers of requests that change, read, search and describe a collection."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from msgspec import UNSET, Struct
from starlette.responses import Response

from onlinehash.collection import Decision, History, Item, ItemMap, ItemPage, ReviewItem, RiskCoverage, Stats, Suspect
from onlinehash.collection.finder import n_candidates
from onlinehash.exceptions import LargeResultError, TooManyResultsError, UnknownIdError
from onlinehash.metrics import coverage, self_recall
from onlinehash.service import requests as ask
from onlinehash.service.limits import Call, Limits, check_limit
from onlinehash.service.media import IMAGES, open_image, read_image
from onlinehash.service.problems import Problem, about, invalid
from onlinehash.service.requests import Id, Label, Labels, SearchRequest
from onlinehash.service.routes import ArrayAnswer, ChangeAnswer, Service, change, encode, operation
from onlinehash.types import SearchResult

ITEMS_PER_READ = 500  # a payload has up to 64 KiB
MAX_SHORT_K = 100  # results of a search without a thread
MAX_SHORT_PAYLOADS = 10  # of them with their payload
QUERIES_PER_SCAN = 64  # between two looks at the deadline
SAMPLED_ITEMS = 500  # that retrievability searches for
HITS_PER_SCAN = 2000  # a scan may look up every hit, and nothing ends it
BYTES_PER_PAYLOAD_BYTE, BYTES_PER_NUMBER = 4, 40  # in memory, while an answer is made
LESS_PAYLOAD = "ask for fewer items, or leave the payload out"
_INT64 = re.compile(r"-?[0-9]{1,19}")
MAX_MAPPED_ITEMS = 2000
_KINDS = "vectors, documents or images"


# ---------------------------------------------------------------------- changes


@change("PUT", "/items")
def upsert(service: Service, request: ask.ItemsRequest) -> ChangeAnswer:
    """Insert items, or replace those with the same ids; durable, and all or nothing."""
    return _change(service, service.collection.upsert, request, len(request.ids))


@change("PATCH", "/items", refusals=(404,))
def update(service: Service, request: ask.ItemsRequest) -> ChangeAnswer:
    """Change vectors, documents, labels or payload of existing items; fields left out are kept, null removes."""
    return _change(service, service.collection.update, request, len(request.ids))


@change("POST", "/items/delete", refusals=(404,))
def delete(service: Service, request: ask.DeleteRequest) -> ChangeAnswer:
    """Delete items by id, or all that pass a filter; with `unlearn`, the hasher unlearns them too."""
    n_items, collection = len(request.ids or ()), service.collection
    if request.where is not None:
        n_items = collection.count(request.where)
    elif request.missing == "ignore":
        n_items = sum(id in collection for id in request.ids or ())
    return _change(service, collection.delete, request, n_items)


class LinkAnswer(ChangeAnswer):
    """Result of a link, which is durable."""

    label: Annotated[Label, about("The label that the items share now.")]


@change("POST", "/link", refusals=(404,))
def link(service: Service, request: ask.LinkRequest) -> LinkAnswer:
    """Say that items belong together, without naming their class; those without a label get that of the others."""
    done = _change(service, service.collection.link, request, len(request.ids))
    shared: Any = service.collection.get(request.ids[:1])[0].labels
    return LinkAnswer(done.changed, done.n_items, shared)


@change("POST", "/unlink", refusals=(404,))
def unlink(service: Service, request: ask.LinkRequest) -> ChangeAnswer:
    """Take items out of what they were linked with: they have no label then, and it is unlearned."""
    return _change(service, service.collection.unlink, request, len(request.ids))


@change("POST", "/merge_labels")
def merge_labels(service: Service, request: ask.MergeRequest) -> ChangeAnswer:
    """Give all items of a label another that other items have; supported by HROH."""
    return _change(service, service.collection.merge_labels, request, service.collection.count(labels=request.label))


@change("POST", "/rename_label")
def rename_label(service: Service, request: ask.RenameRequest) -> ChangeAnswer:
    """Give all items of a label another, which no item has; supported by HROH."""
    return _change(service, service.collection.rename_label, request, service.collection.count(labels=request.label))


def _change(service: Service, method: Callable[..., object], request: Struct, n_items: int) -> ChangeAnswer:
    """Call a method of the collection with the fields of a request."""
    given = {name: value for name in request.__struct_fields__ if (value := getattr(request, name)) is not UNSET}
    service.limits.check_batch(given.get("ids"))
    if given.get("documents") is not None:
        _check_texts(service)
    return service.change(n_items, partial(method, **given))


class IndexesAnswer(Struct):
    """Paths in the payload that have an index."""

    indexes: list[str]


@operation("GET", "/indexes", "items")
def indexes(service: Service) -> IndexesAnswer:
    """Return the paths in the payload that have an index."""
    return IndexesAnswer(service.collection.indexes())


@change("POST", "/indexes")
def create_index(service: Service, request: ask.IndexRequest) -> IndexesAnswer:
    """Make filters by a path in the payload fast."""
    service.change(0, partial(service.collection.create_index, request.path))
    return IndexesAnswer(service.collection.indexes())


@change("DELETE", "/indexes/{path}")
def drop_index(service: Service, path: str) -> IndexesAnswer:
    """Drop the index of a path in the payload."""
    service.change(0, partial(service.collection.drop_index, path))
    return IndexesAnswer(service.collection.indexes())


def _check_texts(service: Service) -> None:
    """Refuse text where images are embedded: it would be the path of a file here."""
    if service.collection.embeds == "image":
        rule = "documents: this collection embeds images; send vectors, or search for one image."
        raise invalid("documents", rule)


# ---------------------------------------------------------------------- items


@operation("POST", "/items/get", "items", refusals=(404,), arrays=True, answer=ItemPage)
def get(service: Service, request: ask.IdsRequest, call: Call) -> Any:
    """Return items in the order of their ids."""
    service.limits.check_batch(request.ids)
    _check_vectors(service, len(request.ids))
    listed, step = ItemList(service.limits, call, ("labels", "payload", "vectors")), _n_per_read(service)
    for start in range(0, len(request.ids), step):
        listed.add(service.collection.get(request.ids[start : start + step]))
    return listed.answer()


@operation("POST", "/items/list", "items", refusals=(404,), arrays=True, answer=ItemPage)
def list_items(service: Service, request: ask.ListRequest, call: Call) -> Any:
    """Return items in order of id or of arrival: all, or those with a label or a payload that passes a filter.

    `cursor` of an answer continues behind its last item, even if that is deleted; it is null where nothing follows.
    """
    limits = service.limits
    check_limit("limit", request.limit, limits.max_batch_size, "ask for fewer items at a time")
    if "vectors" in request.include:
        _check_vectors(service, request.limit)
    limits.check_batch(request.labels)
    if request.after is not None and request.cursor is not None:
        raise invalid("cursor", "cursor and after: give one of them.")
    given: Any = {name: getattr(request, name) for name in ("labels", "where", "order", "descending")}
    listed, after, cursor, left = (
        ItemList(limits, call, request.include),
        request.after,
        request.cursor,
        request.limit,
    )
    while left:
        page = service.collection.page(**given, after=after, cursor=cursor, limit=min(left, _n_per_read(service)))
        listed.add(page.items)
        after, cursor, left = None, page.cursor, left - len(page.items)
        if cursor is None:
            break
    return listed.answer(cursor=cursor)


@dataclass(frozen=True, eq=False, kw_only=True)
class CodedItem(Item):
    """A stored item, and its code."""

    code: Annotated[str | None, about("Hexadecimal digits: bit i is bit i % 8 of byte i // 8; null while it waits.")]
    generation: Annotated[int, about("Generation of the codes in use; 0 before the first.")]


@operation("GET", "/items/{id}", "items")
def get_one(service: Service, id: str) -> CodedItem:
    """Return one item, with its code."""
    collection = service.collection
    known = int(id) if collection.id_type == "int" and _INT64.fullmatch(id) else id
    if known not in collection:
        raise UnknownIdError(f"There is no item with id {id!r} in this collection of {len(collection)}.")
    (item,) = collection.get([known])
    _, codes, encoder = collection.codes_and_encoder([known])
    has_code = len(codes) > 0 and encoder is not None and item.version == encoder.version
    code = codes[0].tobytes().hex() if has_code else None
    return CodedItem(**vars(item), code=code, generation=collection.generation)


class CountAnswer(Struct):
    """Number of items."""

    n_items: int


@operation("POST", "/items/count", "items")
def count(service: Service, request: ask.CountRequest) -> CountAnswer:
    """Return the number of items, or of those with a label or a payload that passes a filter."""
    service.limits.check_batch(request.labels)
    return CountAnswer(service.collection.count(request.where, labels=request.labels))


@operation("GET", "/media/{file}", "items", media=IMAGES)
def image(service: Service, file: str) -> Response:
    """Return an image below the folder of media that the service was started with.

    The image is of the type that its first bytes say. What is no image, or outside the folder, is not there.
    """
    if service.media is None:
        raise Problem(404, "unknown-media", "This service has no folder of media; start it with --media FOLDER.")
    return open_image(service.media, file)


def _n_per_read(service: Service) -> int:
    return max(1, min(ITEMS_PER_READ, service.limits.max_values // (service.collection.n_features or 1)))


def _check_vectors(service: Service, n_items: int) -> None:
    """Refuse an answer with more numbers than allowed."""
    n_values = n_items * (service.collection.n_features or 0)
    check_limit("values", n_values, service.limits.max_values, "ask for fewer items at a time")


class ItemList:
    """An answer with items: their vectors, and the rest of each as JSON."""

    def __init__(self, limits: Limits, call: Call, include: Sequence[str]) -> None:
        self._include, self._call, self._max_bytes, self._n_bytes = include, call, limits.max_payload_bytes, 0
        self._items, self._vectors = list[dict[str, Any]](), list[Any]()

    def add(self, items: Iterable[Item]) -> None:
        """Add items; refuse the request if the payloads of all have too many bytes."""
        for item in items:
            part: dict[str, Any] = {"id": item.id, "version": item.version}
            if "labels" in self._include:
                part["labels"] = item.labels
            if "payload" in self._include:
                payload = encode(item.payload)
                self._n_bytes += len(payload)
                check_limit("payload", self._n_bytes, self._max_bytes, LESS_PAYLOAD)
                part["payload"] = msgspec.Raw(payload)
            if "vectors" in self._include:
                self._vectors.append(item.vectors)
            self._items.append(part)
        n_numbers = len(self._vectors) * (self._vectors[0].size if self._vectors else 0)
        self._call.hold(BYTES_PER_PAYLOAD_BYTE * self._n_bytes + BYTES_PER_NUMBER * n_numbers)

    def answer(self, **others: Any) -> Any:
        """Return the answer, with further fields."""
        rest = {"items": self._items, **others}
        if "vectors" not in self._include:
            return rest
        array = np.stack(self._vectors) if self._vectors else np.empty((0, 0), np.float32)
        items = [{**item, "vectors": row} for item, row in zip(self._items, array, strict=True)]
        return ArrayAnswer(array, rest, {"items": items, **others})


# ---------------------------------------------------------------------- searching


class SearchAnswer(Struct, omit_defaults=True):
    """Neighbours of each query, nearest first, ties in a fixed order that does not depend on arrival (a hash)."""

    version: Annotated[int | None, about("Version of the encoder in use; null before the first.")]
    ids: Annotated[list[list[Id]], about("One list per query.")]
    distances: list[list[float]]
    labels: Annotated[list[list[Labels]] | None, about("If included.")] = None
    payload: Annotated[list[list[Any]] | None, about("If included.")] = None
    vectors: Annotated[list[list[list[float]]] | None, about("If included.")] = None


def _is_short(service: Service, request: SearchRequest) -> bool:
    """Return whether a search is over before a thread would have taken it.

    It may read a few vectors and payloads from a file, not from a server that may be away.
    """
    if request.vectors is None or request.where or request.ids or request.asymmetric or request.radius is not None:
        return False
    k, n_queries = 10 if request.k is None else request.k, len(request.vectors)
    if "vectors" in request.include or k > MAX_SHORT_K:
        return False
    if "payload" in request.include and (k * n_queries > MAX_SHORT_PAYLOADS or service.collection.file is None):
        return False
    return service.collection.searches_at_once(n_queries, k, request.rescore)


@operation("POST", "/search", "search", answer=SearchAnswer, refusals=(404,), arrays=True, is_short=_is_short)
def search(service: Service, request: SearchRequest, call: Call) -> Any:
    """Find the nearest items of vectors, documents, an image or stored items, exactly.

    An answer as `application/x-npy` has the vectors of the items found, if they are included.
    """
    queries = _queries(service, request, request.by_id)
    n_queries, limits, k = len(queries), service.limits, 10 if request.k is None else request.k
    limits.check_batch(queries, request.labels, request.ids)
    max_hits = limits.max_hits
    if "vectors" in request.include:
        max_hits = min(max_hits, limits.max_batch_size, limits.max_values // (service.collection.n_features or 1))
    if request.radius is None:
        check_limit("k", k, limits.max_k, "ask for fewer neighbours")
        check_limit("k * queries", k * n_queries, limits.max_hits, "send fewer queries at a time")
        check_limit("vectors", k * n_queries, max_hits, "ask for fewer neighbours")
    elif request.k or request.rescore not in ("auto", None) or request.asymmetric:
        raise invalid("radius", "radius goes without k, rescore and asymmetric; leave them out.")
    if request.by_id is None:
        found = _find(service, queries, request, k, max_hits, call)
    else:
        found = _find(service, queries, request, k + 1, max_hits, call)  # a stored item finds itself
        found = found.without(request.by_id, k if request.radius is None else None)
    answer = SearchAnswer(found.version, found.ids, found.distances, found.labels, found.payload)
    if found.vectors is None:
        return answer
    rows = np.concatenate([np.empty((0, found.vectors[0].shape[1]), found.vectors[0].dtype), *found.vectors])
    return ArrayAnswer(rows, answer, msgspec.structs.replace(answer, vectors=found.vectors))


def _queries(service: Service, request: ask.QueriesRequest, by_id: list[Any] | None = None) -> Any:
    """Return vectors, texts, an image in a list, or the vectors of stored items."""
    if [request.vectors is None, request.documents is None, request.images is None, by_id is None].count(False) != 1:
        kinds = "vectors, documents, images or by_id" if isinstance(request, SearchRequest) else _KINDS
        raise invalid("vectors", f"{kinds}: give one of them.")
    if request.vectors is not None:
        return request.vectors
    if request.documents is not None:
        _check_texts(service)
        return request.documents
    if request.images is not None:
        if service.collection.embeds != "image":
            raise invalid("images", "images: this collection does not embed images; send vectors, or text if it can.")
        return [read_image(request.images[0])]
    service.limits.check_batch(by_id)
    _check_vectors(service, len(by_id or ()))
    return np.array([item.vectors for item in service.collection.get(by_id)])


def _find(
    service: Service, queries: Any, request: SearchRequest, k: int, max_hits: int, call: Call
) -> SearchResult[list[Any]]:
    """Search some queries at a time until the time is up, all by one version of the encoder."""
    parts, most_bytes, n_hits, n_bytes = list[SearchResult[list[Any]]](), service.limits.max_payload_bytes, 0, 0
    options: Any = {"labels": request.labels, "ids": request.ids, "where": request.where, "include": request.include}
    is_direct = request.rescore is None or request.radius is not None
    size = max(1, min(QUERIES_PER_SCAN, HITS_PER_SCAN // (k if is_direct else n_candidates(k))))
    for start in range(0, len(queries), size):
        if start:
            call.watch()
        some, options["max_payload_bytes"] = queries[start : start + size], most_bytes - n_bytes
        try:
            if request.radius is not None:
                options["max_results"] = max_hits - n_hits
                found = service.collection.range_search(some, request.radius, **options)
            else:
                ranking: Any = {"rescore": request.rescore, "asymmetric": request.asymmetric}
                found = service.collection.search(some, k, **ranking, **options)
        except LargeResultError:
            check_limit("payload", most_bytes + 1, most_bytes, LESS_PAYLOAD)
            raise
        except TooManyResultsError:
            check_limit("hits within radius", max_hits + 1, max_hits, "use a smaller radius, or fewer queries")
            raise
        if size >= len(queries):
            return found
        parts.append(found)
        n_hits += sum(map(len, found.ids))
        n_bytes += 0 if found.payload is None else len(encode(found.payload))
    if len({part.version for part in parts}) > 1:  # refreshed meanwhile
        return _find(service, queries, request, k, max_hits, call)
    return SearchResult.concatenate(parts)


# ---------------------------------------------------------------------- decisions


class ClassifyAnswer(Struct):
    """One decision per row."""

    decisions: list[Decision]


@operation("POST", "/classify", "decisions", refusals=(409,))
def classify(service: Service, request: ask.ClassifyRequest, call: Call) -> ClassifyAnswer:
    """Say what vectors, documents or an image are, or leave it open where the error would be too large.

    `label` is null where it is left open; `known` is false where a row resembles nothing that was learned.
    """
    queries, limits, n_near = _queries(service, request), service.limits, request.n_neighbours
    limits.check_batch(queries)
    check_limit("n_neighbours", n_near, limits.max_k, "ask for fewer neighbours")
    check_limit("n_neighbours * rows", n_near * len(queries), limits.max_hits, "send fewer rows at a time")
    options: Any = {name: getattr(request, name) for name in ("max_error", "unknown_share", "n_neighbours")}
    decisions = list[Decision]()
    for start in range(0, len(queries), QUERIES_PER_SCAN):
        call.watch()
        some: Any = service.collection.classify(queries[start : start + QUERIES_PER_SCAN], **options)
        decisions += some
    return ClassifyAnswer(decisions)


class SuspectsAnswer(Struct):
    """Items whose labels the other items contradict, the most certain first."""

    suspects: list[Suspect]


@operation("POST", "/suspects", "decisions", executor="insight", refusals=(409,))
def suspects(service: Service, request: ask.SuspectsRequest, call: Call) -> SuspectsAnswer:
    """Return the items whose label the other items contradict; every labelled item is read."""
    check_limit("n", request.n, service.limits.max_batch_size, "ask for fewer items")
    service.limits.check_batch(request.labels)
    return SuspectsAnswer(service.collection.suspects(request.n, labels=request.labels, progress=call.watch))


class ReviewAnswer(Struct):
    """Items without a label whose labels would teach most."""

    items: list[ReviewItem]


@operation("POST", "/review", "decisions", executor="insight", refusals=(409,))
def review(service: Service, request: ask.ReviewRequest, call: Call) -> ReviewAnswer:
    """Return the items without a label whose labels would teach most; every such item is read."""
    check_limit("n", request.n, service.limits.max_batch_size, "ask for fewer items")
    return ReviewAnswer(service.collection.review(request.n, by=request.by, progress=call.watch))


@operation("GET", "/risk_coverage", "decisions", refusals=(409, 422))
def risk_coverage(service: Service) -> RiskCoverage:
    """Return the share of rows that `classify` would give a label, and the error among these, by threshold."""
    return service.collection.risk_coverage()


class EncodeAnswer(Struct):
    """Codes as hexadecimal digits: bit i is bit i % 8 of byte i // 8."""

    version: int
    n_bits: int
    codes: list[str]


@operation("POST", "/encode", "search", refusals=(409,), arrays=True, answer=EncodeAnswer)
def encode_vectors(service: Service, request: ask.EncodeRequest) -> Any:
    """Return the codes of vectors, made by the encoder in use."""
    encoder = service.collection.encoder
    if request.vectors is None:
        raise invalid("vectors", "vectors are missing; send them as JSON, or as an array.")
    if encoder is None:
        raise Problem(409, "not-learned", "There is no encoder yet; add labelled items first.")
    codes, state = encoder.encode(request.vectors), {"version": encoder.version, "n_bits": encoder.n_bits}
    return ArrayAnswer(codes, state, {**state, "codes": list(codes)})


# ---------------------------------------------------------------------- state


@dataclass(frozen=True, kw_only=True)
class ServiceStats(Stats):
    """Collection statistics."""

    n_features: int | None
    readonly: bool
    sequence: Annotated[int, about("Of the last change.")]
    id_type: Annotated[Literal["int", "str"] | None, about("Type of the ids; null before the first.")]
    embedder: Annotated[str | None, about("Name of the embedder of documents.")]
    embeds: Annotated[Literal["text", "image"] | None, about("What it takes.")]
    unlearns: Annotated[bool, about("Whether items can be unlearned.")]
    decides: Annotated[bool, about("Whether there are scores of classes, to classify and to review.")]
    media: Annotated[bool, about("Whether the service has a folder of images.")]


@operation("GET", "/stats", "state", executor="operations")
def stats(service: Service) -> ServiceStats:
    """Return the collection statistics."""
    names = ("n_features", "readonly", "embedder", "embeds", "id_type", "unlearns", "sequence")
    others: dict[str, Any] = {name: getattr(service.collection, name) for name in names}
    encoder = service.collection.encoder
    others |= {"decides": encoder is not None and len(encoder.classes or ()) > 1, "media": service.media is not None}
    return ServiceStats(**asdict(service.collection.stats()), **others)


@operation("GET", "/limits", "state", executor="operations")
def get_limits(service: Service) -> Limits:
    """Return the request limits."""
    return service.limits


class LabelCount(Struct):
    """A label and the number of items that have it."""

    label: Label
    n_items: int


class LabelCountsAnswer(Struct):
    """Number of items per label, in the order of the labels."""

    label_counts: list[LabelCount]
    n_unlabelled: int


@operation("POST", "/label_counts", "state")
def label_counts(service: Service, request: ask.WhereRequest) -> LabelCountsAnswer:
    """Count items by label; with a filter, those whose payload passes."""
    counts = service.collection.label_counts(request.where)
    listed = [LabelCount(label, n) for label, n in counts.items() if label is not None]
    return LabelCountsAnswer(listed, counts.get(None, 0))


@operation("GET", "/history", "state", executor="insight")
def history(service: Service) -> History:
    """Return the last encoders, and the last records of the quality along the stream, oldest first.

    Each new item that has a label is searched for before it is learned from, a few per request: `precision` is the
    share of items with its label among the 10 nearest, `map` the mean average precision among them.
    """
    return service.collection.history()


@operation("POST", "/map", "state", executor="mapping")
def map_items(service: Service, request: ask.MapRequest) -> ItemMap:
    """Return a random sample of the items in the plane: those that the encoder holds for similar are close (t-SNE).

    It is made once per generation of codes, which takes seconds. `suspects` are those whose label others contradict.
    """
    check_limit("limit", request.limit, MAX_MAPPED_ITEMS, "ask for fewer items")
    key = service.collection.generation, request.limit
    if service.shown_map is None or service.shown_map[0] != key:
        service.shown_map = key, service.collection.map(request.limit)
    return service.shown_map[1]


class RetrievabilityAnswer(Struct):
    """Which items searches return, judged by a sample of items."""

    n_queries: Annotated[int, about("Items whose own vectors were searched for.")]
    k: int
    self_recall: Annotated[float | None, about("Share of them that are found by their own vector.")]
    coverage: Annotated[float | None, about("Share of them that any of these searches returns.")]


@operation("GET", "/retrievability", "state", executor="insight", refusals=(404,))
def retrievability(service: Service, call: Call) -> RetrievabilityAnswer:
    """Search for a random sample of items by their own vectors, and return which of them are found."""
    ids, k = service.collection.sample(SAMPLED_ITEMS), 10
    if not ids or service.collection.encoder is None:
        return RetrievabilityAnswer(0, k, None, None)
    vectors = np.array([item.vectors for item in service.collection.get(ids)])
    found = _find(service, vectors, SearchRequest(), k, service.limits.max_hits, call).ids
    return RetrievabilityAnswer(len(ids), k, self_recall(ids, found), coverage(ids, found))


@operation("POST", "/refresh", "state", executor="writing", refusals=(409,), writes=True)
def refresh(service: Service) -> Stats:
    """Begin to encode all items again with the current hasher; searches go on, and `stats` has the progress."""
    service.demand_writer()
    service.collection.refresh(wait=False)
    return service.collection.stats()
