"""The calls of the clients: items, searches and statistics; :class:`ClientMethods` says what each does."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onlinehash._call import Call, Calls, compact, pauses, records
from onlinehash._containers import as_array, as_column, is_missing
from onlinehash._validation import check_choice, check_features, check_positive_int, check_targets
from onlinehash.collection.history import EncoderRecord, History, QualityRecord
from onlinehash.collection.ids import check_item_ids, is_single
from onlinehash.collection.insight import ClassBits, Codewords, ItemMap
from onlinehash.collection.types import Id, Item, ItemPage, Label
from onlinehash.exceptions import InvalidInputError, OverLimitError, ServiceError, counted
from onlinehash.types import Codes, SearchResult

_ROWS = 1000  # items or queries per request
_NUMBERS = 1_000_000  # numbers per request
_HITS = 50_000  # neighbours per request
_HITS_WITH_VECTORS = 10_000


Checkpoint = Mapping[str, Any] | None


def change(method: str, path: str, body: Any = None, retry_body: dict[str, Any] | None = None) -> Call:
    """Return a request that changes something, with a key by which the service knows it if it is repeated."""
    return Call(method, path, body, retry_body, key=uuid4().hex)


# ---------------------------------------------------------------------- changes


def upsert(
    ids: Any, vectors: ArrayLike | None, labels: Any, payload: Any, documents: Any, checkpoint: Checkpoint
) -> Calls[None]:
    if (vectors is None) == (documents is None):
        raise InvalidInputError("Pass vectors or documents, one of the two.")
    given = {"labels": labels, "payload": payload, "documents": documents}
    columns = {name: column for name, column in given.items() if column is not None}
    yield from _write("PUT", ids, vectors, columns, checkpoint)


def update(
    ids: Any, vectors: ArrayLike | None, labels: Any, payload: Any, documents: Any, checkpoint: Checkpoint
) -> Calls[None]:
    given = {"labels": labels, "payload": payload, "documents": ... if documents is None else documents}
    columns = {name: column for name, column in given.items() if column is not ...}
    yield from _write("PATCH", ids, vectors, columns, checkpoint)


def _write(
    method: str, ids: Any, vectors: ArrayLike | None, columns: dict[str, Any], checkpoint: Checkpoint
) -> Calls[None]:
    """Send items; a column that is None is removed from them. Whole items without a payload go as an array."""
    listed, single = check_item_ids(ids, None, ordered=True), is_single(ids)
    if not listed:
        vectors, columns = None, {}
    rows = None if vectors is None else _rows(vectors, single)
    removed = {name: None for name, column in columns.items() if column is None}
    given = {name: [column] if single else column for name, column in columns.items() if column is not None}
    for name, column in (given if rows is None else given | {"vectors": rows}).items():
        is_list = hasattr(column, "__getitem__") and not hasattr(column, "toarray")  # as sparse arrays have
        if isinstance(column, (str, bytes, Mapping)) or not is_list:
            what, wanted = type(column).__name__, counted(len(listed), "value")
            raise InvalidInputError(f"{name} is {what}, not a list of {wanted}; pass one value per id.")
        if len(column) != len(listed):
            values, wanted = counted(len(column), "value"), counted(len(listed), "id")
            raise InvalidInputError(f"{name} has {values} for {wanted}; pass one per id.")
    if "labels" in given:
        given["labels"] = _label_column(given["labels"])

    def request(some: slice, noted: dict[str, Any]) -> Call:
        part = {name: column[some] for name, column in given.items()}
        if method == "PUT" and rows is not None and not noted and "payload" not in part:
            array = records(listed[some], rows[some], part.get("labels"))
            if array is not None:
                return change(method, "/items", array)
        if "labels" in part:
            part["labels"] = plain(part["labels"])
        if rows is not None:
            part["vectors"] = rows[some].tolist()
        return change(method, "/items", {"ids": listed[some], **part, **removed, **noted})

    yield from _changes(len(listed), _ROWS if rows is None else _size(rows), request, checkpoint)


def delete(ids: Any, where: Any, missing: str, unlearn: bool, checkpoint: Checkpoint) -> Calls[int]:
    check_choice("missing", missing, ("raise", "ignore"))
    if (ids is None) == (where is None):
        raise InvalidInputError("delete takes ids or where, one of the two.")
    listed = [] if ids is None else check_item_ids(ids, None)

    def request(some: slice, noted: dict[str, Any]) -> Call:
        chosen = {"where": where} if ids is None else {"ids": listed[some]}
        body = {**chosen, "missing": missing, "unlearn": unlearn, **noted}
        # A repeated request may find the items already deleted by the first.
        return change("POST", "/items/delete", body, body | {"missing": "ignore"})

    answers = yield from _changes(1 if ids is None else len(listed), _ROWS, request, checkpoint)
    return sum(answer.get("changed", 0) for answer in answers)


def _changes(
    n_rows: int, size: int, request: Callable[[slice, dict[str, Any]], Call], checkpoint: Checkpoint
) -> Calls[list[Any]]:
    """Change some rows at a time; the checkpoint goes with the last, or alone where there are none."""
    noted = {} if checkpoint is None else {"checkpoint": dict(checkpoint)}
    if not n_rows:
        for name, value in (checkpoint or {}).items():
            yield Call("PUT", f"/checkpoints/{quote(name, safe='')}", {"value": value})
    return (yield from _smaller(n_rows, size, lambda some: request(some, noted if some.stop >= n_rows else {})))


def refresh(wait: bool) -> Calls[None]:
    state = yield Call("POST", "/refresh", {"wait": False})
    for pause in pauses():
        if not wait or not state["refreshing"]:
            break
        state = yield Call("GET", "/versions", pause=pause)
    if wait and state["refresh_error"] is not None:
        raise ServiceError(f"The refresh failed: {state['refresh_error']}")


# ---------------------------------------------------------------------- reading


def get(ids: Any) -> Calls[list[Item]]:
    listed = check_item_ids(ids, None)
    answers = yield from _smaller(
        len(listed), _ROWS, lambda some: Call("POST", "/items/get", {"ids": listed[some]}, arrays=True)
    )
    return [item for answer in answers for item in _items(answer)]


def page(
    labels: Any, where: Any, order: str, descending: bool, after: Id | None, cursor: str | None, limit: int
) -> Calls[ItemPage]:
    """Return some items in order, fewer if the service gives no more at a time, and a cursor for those that follow."""
    body: dict[str, Any] = {"where": where, "order": order, "descending": descending}
    body |= {"labels": plain(labels), "after": after, "cursor": cursor}
    while True:
        try:
            answer = yield Call("POST", "/items/list", body | {"limit": limit}, arrays=True)
            return ItemPage(_items(answer), answer["cursor"])
        except OverLimitError:
            if limit == 1:
                raise
            limit //= 2


def search(
    queries: Any,
    options: dict[str, Any],
    labels: Any,
    ids: Sequence[Id] | None,
    where: Any,
    include: Sequence[str],
    after: SearchResult | str | None = None,
) -> Calls[SearchResult]:
    given = {
        "labels": plain(labels),
        "ids": None if ids is None else check_item_ids(ids, None, repeated=True),
        "where": where,
        "include": list(include) or None,
        "after": after.cursor or "" if isinstance(after, SearchResult) else after,
    }
    filters = {name: value for name, value in given.items() if value is not None}
    query = {name: json.dumps(value).strip('"') for name, value in options.items() if value is not None}
    if isinstance(queries, bytes):
        if filters:
            raise InvalidInputError("An image goes without labels, ids, where, include and after; leave them out.")
        image = Call("POST", "/search", queries, query=query)
        return (yield from _in_batches([queries], None, True, lambda some: image))
    several_texts = isinstance(queries, (list, tuple)) and len(queries) > 0 and isinstance(queries[0], str)
    single = isinstance(queries, str) or (not several_texts and as_array(queries).ndim == 1)
    listed = [queries] if isinstance(queries, str) else list(queries) if several_texts else _rows(queries, single)

    def request(some: Any) -> Call:
        if isinstance(some, list):
            return Call("POST", "/search", {"documents": some, **options, **filters}, arrays=True)
        if not filters:
            return Call("POST", "/search", compact(some), query=query)
        return Call("POST", "/search", {"vectors": some.tolist(), **options, **filters}, arrays=True)

    hits = _HITS_WITH_VECTORS if "vectors" in include else _HITS
    return (yield from _in_batches(listed, options.get("k"), single, request, hits))


def search_by_id(ids: Any, k: int, labels: Any, rescore: str | None) -> Calls[SearchResult]:
    listed, single = check_item_ids(ids, None), is_single(ids)
    body = {"k": check_positive_int("k", k), "rescore": rescore, "labels": plain(labels)}
    return (yield from _in_batches(listed, k, single, lambda some: Call("POST", "/search", body | {"by_id": some})))


def _in_batches(
    queries: Any, k: int | None, single: bool, request: Callable[[Any], Call], hits: int = _HITS
) -> Calls[SearchResult]:
    """Search some queries at a time; the result has a version if all batches were searched with the same encoder."""
    size = _size(queries) if k is None else max(1, min(_size(queries), hits // k))
    columns: dict[str, Any] = {"ids": [], "distances": [], "cursor": []}
    seen = set()
    for found in (yield from _smaller(max(1, len(queries)), size, lambda some: request(queries[some]))):
        found.setdefault("cursor", [None] * len(found["ids"]))
        seen.add(found.pop("version"))
        if (array := found.pop("array", None)) is not None:
            found["vectors"] = np.split(array, np.cumsum([len(row) for row in found["ids"][:-1]], dtype=int))
        for name, rows in found.items():
            columns.setdefault(name, []).extend(rows)
    if "labels" in columns:
        columns["labels"] = [list(map(_labels, row)) for row in columns["labels"]]
    result = SearchResult(**columns, version=seen.pop() if len(seen) == 1 else None)
    return result[0] if single else result


def _smaller(n_rows: int, size: int, request: Callable[[slice], Call]) -> Calls[list[Any]]:
    """Return the answers for some rows at a time; fewer where the service refuses so many."""
    answers, start = [], 0
    while start < n_rows:
        try:
            answers.append((yield request(slice(start, start + size))))
            start += size
        except OverLimitError:
            size = min(size, n_rows - start) // 2
            if size == 0:
                raise
    return answers


def encode(vectors: ArrayLike) -> Calls[Codes]:
    single = as_array(vectors).ndim == 1
    rows = _rows(vectors, single)
    found = yield from _smaller(
        len(rows), _size(rows), lambda some: Call("POST", "/encode", compact(rows[some]), arrays=True)
    )
    packed: Codes = np.concatenate([answer["array"] for answer in found])
    return packed[0] if single else packed


def label_counts(found: dict[str, Any]) -> dict[Label | None, int]:
    counts = {one["label"]: one["n_items"] for one in found["label_counts"]}
    return counts | {None: found["n_unlabelled"]} if found["n_unlabelled"] else counts


def item_map(found: dict[str, Any]) -> ItemMap:
    found |= {axis: np.array(found[axis]) for axis in ("x", "y")}
    return ItemMap(**found | {"labels": list(map(_labels, found["labels"])), "explained": tuple(found["explained"])})


def codewords(found: dict[str, Any]) -> Codewords:
    classes = [
        ClassBits(
            one["label"],
            one["n_items"],
            None if one["codeword"] is None else np.frombuffer(bytes.fromhex(one["codeword"]), np.uint8),
            np.array(one["ones"]),
        )
        for one in found["classes"]
    ]
    return Codewords(**found | {"classes": classes})


def history(found: dict[str, Any]) -> History:
    times = [
        [{**row, "at": datetime.fromisoformat(row["at"])} for row in found[part]] for part in ("encoders", "quality")
    ]
    return History([EncoderRecord(**row) for row in times[0]], [QualityRecord(**row) for row in times[1]])


# ---------------------------------------------------------------------- columns


def _items(answer: dict[str, Any]) -> list[Item]:
    return [
        Item(**{**found, "vectors": vectors, "labels": _labels(found["labels"])})
        for found, vectors in zip(answer["items"], answer["array"], strict=True)
    ]


def _labels(found: Any) -> Any:
    return tuple(found) if isinstance(found, list) else found


def _size(queries: Any) -> int:
    """Return the number of rows per request."""
    return max(1, min(_ROWS, _NUMBERS // max(1, queries.shape[1]))) if isinstance(queries, np.ndarray) else _ROWS


def _rows(vectors: ArrayLike, single: bool) -> NDArray[Any]:
    rows = as_array(vectors)
    return check_features(rows[np.newaxis] if single and rows.ndim == 1 else rows)


def _label_column(labels: Any) -> Any:
    """Return labels as an array or a list; those of an indicator matrix as one list per row."""
    column = as_column(labels, "labels", InvalidInputError)
    if isinstance(column, np.ndarray) and column.ndim == 2:
        return [list(some) for some in check_targets(labels, len(column))[0]]
    return column


def plain(labels: Any) -> Any:
    """Return labels as JSON values; a missing label as None."""
    if isinstance(labels, (np.ndarray, np.generic)):
        labels = labels.tolist()
    if isinstance(labels, (list, tuple, set, frozenset)):
        return [plain(label) for label in (sorted(labels) if isinstance(labels, (set, frozenset)) else labels)]
    if isinstance(labels, float) and labels.is_integer():
        return int(labels)
    return None if is_missing(labels) else labels
