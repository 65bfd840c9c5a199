"""The calls of the clients: the requests of each method, and its result from their answers.

:class:`onlinehash.client.Client` says what each does.
"""

from __future__ import annotations

import json
import os
from base64 import b64encode
from collections.abc import Callable, Mapping
from itertools import chain, islice
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onlinehash._internal.files import whole_file
from onlinehash._internal.validation import (
    as_array,
    as_column,
    check_features,
    check_targets,
    is_missing,
)
from onlinehash.client.transport import Call, Download, Exchange, T, pauses
from onlinehash.collection import Item, ItemPage
from onlinehash.collection.inputs import check_item_ids, is_single
from onlinehash.collection.maintenance import replacing
from onlinehash.exceptions import DamagedError, InvalidInputError, OverLimitError, ServiceError, counted, needs_extra
from onlinehash.hashers import OnlineHasher
from onlinehash.types import Codes, Progress, SearchOptions, SearchResult

with needs_extra("msgspec", "client"):
    import msgspec

ROWS_PER_REQUEST = 1000  # items, ids, queries or new vectors
NUMBERS_PER_REQUEST = 1_000_000
HITS_PER_REQUEST = 50_000
HITS_WITH_VECTORS_PER_REQUEST = 10_000
_STEPS = 1000  # of a progress bar
_IN_QUERY = ("k", "radius", "rescore", "asymmetric")  # options of a search whose body is an array or an image

Checkpoint = Mapping[str, Any] | None


def silent(done: int, total: int) -> None:
    """Show no progress."""


async def one(http: Exchange, call: Call, read: Callable[[Any], T]) -> T:
    """Send one request, and return what a function reads in its answer."""
    return read(await http.ask(call))


def change(method: str, path: str, body: Any = None) -> Call:
    """Return a request that changes something, with a key by which the service knows it if it is repeated."""
    return Call(method, path, body, key=uuid4().hex)


async def _in_parts(http: Exchange, n_rows: int, size: int, request: Callable[[slice], Call]) -> list[Any]:
    """Return the answers for some rows at a time; fewer where the service refuses so many."""
    answers, start = [], 0
    while start < n_rows:
        try:
            answers.append(await http.ask(request(slice(start, start + size))))
            start += size
        except OverLimitError:
            size = min(size, n_rows - start) // 2
            if size == 0:
                raise
    return answers


# ---------------------------------------------------------------------- changes


async def write(
    http: Exchange,
    method: str,
    ids: Any,
    vectors: ArrayLike | None,
    columns: dict[str, Any],
    checkpoint: Checkpoint,
) -> None:
    """Send items; a column that is None is removed from them. Whole items without a payload go as an array."""
    listed, single = check_item_ids(ids, None, ordered=True), is_single(ids)
    if not listed:
        vectors, columns = None, {}
    rows = None if vectors is None else _rows(vectors, single)
    removed = {name: None for name, column in columns.items() if column is None}
    given = {name: [column] if single else column for name, column in columns.items() if column is not None}
    for name, column in (given if rows is None else given | {"vectors": rows}).items():
        _check_column(name, column, len(listed))
    if "labels" in given:
        given["labels"] = _label_column(given["labels"])

    def request(some: slice, noted: dict[str, Any]) -> Call:
        part = {name: column[some] for name, column in given.items()}
        if method == "PUT" and rows is not None and not noted and "payload" not in part:
            array = _records(listed[some], rows[some], part.get("labels"))
            if array is not None:
                return change(method, "/items", array)
        if "labels" in part:
            part["labels"] = plain(part["labels"])
        if rows is not None:
            part["vectors"] = rows[some].tolist()
        return change(method, "/items", {"ids": listed[some], **part, **removed, **noted})

    await _changes(http, len(listed), ROWS_PER_REQUEST if rows is None else _size(rows), request, checkpoint)


async def delete(http: Exchange, ids: Any, where: Any, missing: str, unlearn: bool, checkpoint: Checkpoint) -> int:
    """Delete items, and return their number."""
    if (ids is None) == (where is None):
        raise InvalidInputError("delete takes ids or where, one of the two.")
    listed = [] if ids is None else check_item_ids(ids, None)
    options = {"where": where, "missing": missing, "unlearn": unlearn}

    def request(some: slice, noted: dict[str, Any]) -> Call:
        return change("POST", "/items/delete", {"ids": None if ids is None else listed[some], **options, **noted})

    answers = await _changes(http, 1 if ids is None else len(listed), ROWS_PER_REQUEST, request, checkpoint)
    return sum(int(answer.get("changed", 0)) for answer in answers)


async def _changes(
    http: Exchange,
    n_rows: int,
    size: int,
    request: Callable[[slice, dict[str, Any]], Call],
    checkpoint: Checkpoint,
) -> list[Any]:
    """Change some rows at a time; the checkpoint goes with the last, or alone where there are none."""
    noted = {} if checkpoint is None else {"checkpoint": dict(checkpoint)}
    if not n_rows:
        for name, value in (checkpoint or {}).items():
            await http.ask(Call("PUT", f"/checkpoints/{quote(name, safe='')}", {"value": value}))
    return await _in_parts(http, n_rows, size, lambda some: request(some, noted if some.stop >= n_rows else {}))


# ---------------------------------------------------------------------- reading


async def get(http: Exchange, ids: Any) -> list[Item]:
    """Return items in the order of their ids."""
    listed = check_item_ids(ids, None)
    answers = await _in_parts(
        http, len(listed), ROWS_PER_REQUEST, lambda some: Call("POST", "/items/get", {"ids": listed[some]}, arrays=True)
    )
    return [item for answer in answers for item in _items(answer)]


async def page(http: Exchange, body: dict[str, Any], limit: int) -> ItemPage:
    """Return some items in order, fewer if the service gives no more at a time, and a cursor for those that follow."""
    while True:
        try:
            answer = await http.ask(Call("POST", "/items/list", body | {"limit": limit}, arrays=True))
            return ItemPage(_items(answer), answer["cursor"])
        except OverLimitError:
            if limit == 1:
                raise
            limit //= 2


def search_options(
    *, labels: Any, ids: Any = None, include: Any = (), after: Any = None, **others: Any
) -> SearchOptions:
    """Return options as JSON has them."""
    return SearchOptions(
        labels=plain(labels),
        ids=None if ids is None else check_item_ids(ids, None, repeated=True),
        include=list(include) or None,
        after=after.cursor or "" if isinstance(after, SearchResult) else after,
        **others,
    )


async def search(http: Exchange, queries: Any, options: SearchOptions) -> SearchResult:
    """Find the neighbours of vectors, of texts, or of an image."""
    given = options.given()
    filters = {name: value for name, value in given.items() if name not in _IN_QUERY}
    query = {name: json.dumps(given[name]).strip('"') for name in _IN_QUERY if name in given}
    if isinstance(queries, bytes):
        if filters:
            raise InvalidInputError("An image goes without labels, ids, where, include and after; leave them out.")
        return await _in_batches(
            http, [queries], options, True, lambda some: Call("POST", "/search", queries, query=query)
        )
    several_texts = isinstance(queries, (list, tuple)) and len(queries) > 0 and isinstance(queries[0], str)
    single = isinstance(queries, str) or (not several_texts and as_array(queries).ndim == 1)
    listed = [queries] if isinstance(queries, str) else list(queries) if several_texts else _rows(queries, single)

    def request(some: Any) -> Call:
        if isinstance(some, list):
            return Call("POST", "/search", {"documents": some, **given}, arrays=True)
        if not filters:
            return Call("POST", "/search", _compact(some), query=query)
        return Call("POST", "/search", {"vectors": some.tolist(), **given}, arrays=True)

    return await _in_batches(http, listed, options, single, request)


async def search_by_id(http: Exchange, ids: Any, options: SearchOptions) -> SearchResult:
    """Find the neighbours of stored items."""
    listed, body = check_item_ids(ids, None), options.given()
    return await _in_batches(
        http, listed, options, is_single(ids), lambda some: Call("POST", "/search", body | {"by_id": some})
    )


async def _in_batches(
    http: Exchange, queries: Any, options: SearchOptions, single: bool, request: Callable[[Any], Call]
) -> SearchResult:
    """Search some queries at a time; the result has a version if all batches were searched with the same encoder."""
    hits = HITS_WITH_VECTORS_PER_REQUEST if "vectors" in (options.include or ()) else HITS_PER_REQUEST
    size = _size(queries) if options.k is None else max(1, min(_size(queries), hits // options.k))
    columns: dict[str, Any] = {"ids": [], "distances": [], "cursor": []}
    seen = set()
    for found in await _in_parts(http, max(1, len(queries)), size, lambda some: request(queries[some])):
        found.setdefault("cursor", [None] * len(found["ids"]))
        seen.add(found.pop("version"))
        if (array := found.pop("array", None)) is not None:
            found["vectors"] = np.split(array, np.cumsum([len(row) for row in found["ids"][:-1]], dtype=int))
        for name, rows in found.items():
            columns.setdefault(name, []).extend(rows)
    if "labels" in columns:
        columns["labels"] = [[tuple(one) if isinstance(one, list) else one for one in row] for row in columns["labels"]]
    result = SearchResult(**columns, version=seen.pop() if len(seen) == 1 else None)
    return result[0] if single else result


async def encode(http: Exchange, vectors: ArrayLike) -> Codes:
    """Return packed codes."""
    single = as_array(vectors).ndim == 1
    rows = _rows(vectors, single)
    found = await _in_parts(
        http, len(rows), _size(rows), lambda some: Call("POST", "/encode", _compact(rows[some]), arrays=True)
    )
    packed: Codes = np.concatenate([answer["array"] for answer in found])
    return packed[0] if single else packed


# ---------------------------------------------------------------------- maintenance


async def refresh(http: Exchange, wait: bool) -> None:
    """Start a refresh, and wait for its end."""
    n_learned = None
    for _ in range(2):  # one that had begun before ends first
        state = await http.ask(Call("POST", "/refresh", {"wait": False}))
        n_learned = state["n_learned"] if n_learned is None else n_learned
        for pause in pauses():
            if not wait or not state["refreshing"]:
                break
            state = await http.ask(Call("GET", "/versions", pause=pause))
        if wait and state["refresh_error"] is not None:
            raise ServiceError(f"The refresh failed: {state['refresh_error']}")
        if not wait or (state["version"] or 0) >= n_learned:
            break


async def job(http: Exchange, start: Call, progress: Progress, read: Callable[[dict[str, Any]], T]) -> T:
    """Start a job, wait for its end, and return what a function reads in its result."""
    state = await http.ask(start)
    number = state["number"]
    for pause in pauses():
        progress(int(_STEPS * state["progress"]), _STEPS)
        if state["state"] != "running" or state["number"] != number:
            break
        state = await http.ask(Call("GET", "/job", pause=pause))
    if state["number"] != number:
        raise ServiceError("The service has started another job since, so that the result of this one is not known.")
    if state["state"] != "done":
        raise ServiceError(f"The service could not do this: {state['error']}")
    return read(state["result"] or {})


async def migrate(http: Exchange, embed: str | None, vectors: Any, hasher: Any, progress: Progress) -> None:
    """Embed all documents again, or send new vectors of all items."""
    if embed is None and vectors is None:
        raise InvalidInputError("Pass the new embedder with embed=, or new vectors with vectors=.")
    body = {"embed": embed, **({} if hasher is None else recipe(hasher))}
    if vectors is None:
        await job(http, Call("POST", "/migrate", body), progress, nothing)
        return
    found: dict[str, Any] = {"complete": False, "n_done": 0, "n_items": 0}
    rest, size = iter(vectors), ROWS_PER_REQUEST
    while pairs := list(islice(rest, size)):
        ids, rows = [id for id, _ in pairs], check_features([row for _, row in pairs])
        made = None if embed is not None or hasher is not None else _records(ids, rows, None)
        sent = body | {"ids": ids, "vectors": rows.tolist()} if made is None else made
        try:
            found = await job(http, Call("POST", "/migrate", sent), silent, dict)
        except OverLimitError:
            if len(pairs) == 1:
                raise
            rest, size = chain(pairs, rest), len(pairs) // 2
            continue
        progress(found["n_done"], found["n_items"])
        hasher, body = None, {"embed": embed}
    if not found["n_items"]:
        raise InvalidInputError("vectors holds nothing; pass pairs of an id and its new vector, for all items.")
    if not found["complete"]:
        n_left = found["n_items"] - found["n_done"]
        raise InvalidInputError(
            f"{n_left} of {found['n_items']} items have no new vector yet; call migrate(vectors=...) again with "
            "theirs, or abandon_migration()."
        )


async def backup(http: Exchange, path: str | os.PathLike[str], progress: Progress) -> None:
    """Have a copy made, download it, and check its digest."""
    with replacing(Path(path)) as aside, whole_file(aside) as file:
        made = await job(http, Call("POST", "/backup"), lambda done, total: progress(done, 2 * total), dict)
        n_bytes = made["n_bytes"]
        copy = Download(file, lambda done: progress(n_bytes + done, 2 * n_bytes))
        headers = await http.ask(Call("GET", "/backup", into=copy))
        if headers.get("repr-digest") != f"sha-256=:{b64encode(copy.digest.digest()).decode()}:":
            raise DamagedError(f"{path} was not written: the download does not match its digest; try again.", "digest")
    await http.ask(Call("DELETE", "/backup"))


def recipe(hasher: OnlineHasher | str | int) -> dict[str, Any]:
    """Return the name and the parameters of a hasher."""
    if isinstance(hasher, int):
        return {"n_bits": hasher}
    if isinstance(hasher, str):
        return {"method": hasher}
    params = hasher.get_params(deep=False)
    return {"method": hasher.name, "n_bits": params.pop("n_bits"), "params": params}


# ---------------------------------------------------------------------- answers


def nothing(answer: Any) -> None:
    """Return nothing of an answer."""


def label_counts(found: dict[str, Any]) -> dict[int | str | None, int]:
    """Return the number of items per label."""
    counts = {one["label"]: one["n_items"] for one in found["label_counts"]}
    return counts | {None: found["n_unlabelled"]} if found["n_unlabelled"] else counts


def as_kind(kind: type[T]) -> Callable[[Any], T]:
    """Return a function that reads JSON as a dataclass."""
    return lambda found: msgspec.convert(found, kind, dec_hook=_as_array)


def _as_array(kind: type, found: Any) -> NDArray[Any]:
    """Return numbers as an array, and hexadecimal digits as a packed code."""
    return np.frombuffer(bytes.fromhex(found), np.uint8) if isinstance(found, str) else np.asarray(found)


def _items(answer: dict[str, Any]) -> list[Item]:
    rows = zip(answer["items"], answer["array"], strict=True)
    return as_kind(list[Item])([{**found, "vectors": vectors} for found, vectors in rows])


# ---------------------------------------------------------------------- columns


def _check_column(name: str, column: Any, n_ids: int) -> None:
    """Demand one value per id."""
    is_list = hasattr(column, "__getitem__") and not hasattr(column, "toarray")  # as sparse arrays have
    if isinstance(column, (str, bytes, Mapping)) or not is_list:
        what, wanted = type(column).__name__, counted(n_ids, "value")
        raise InvalidInputError(f"{name} is {what}, not a list of {wanted}; pass one value per id.")
    if len(column) != n_ids:
        values, wanted = counted(len(column), "value"), counted(n_ids, "id")
        raise InvalidInputError(f"{name} has {values} for {wanted}; pass one per id.")


def _records(ids: list[Any], rows: NDArray[Any], labels: Any) -> NDArray[Any] | None:
    """Return items as an array of records, or None if an array cannot hold them unchanged."""
    vectors = _compact(rows)
    given = {"id": ids} if labels is None else {"id": ids, "label": labels}
    try:
        columns = {name: np.array(values) for name, values in given.items()}
    except ValueError:  # lists of different lengths
        return None
    for name, column in columns.items():  # an array drops NULs at the end of text, for example
        if column.ndim != 1 or column.dtype.kind not in "iuU" or column.tolist() != list(given[name]):
            return None
    layout: list[Any] = [("vectors", vectors.dtype, vectors.shape[1:])]
    records = np.empty(len(ids), layout + [(name, column.dtype) for name, column in columns.items()])
    for name, column in {**columns, "vectors": vectors}.items():
        records[name] = column
    return records


def _compact(rows: NDArray[Any]) -> NDArray[Any]:
    """Return floating-point vectors of at most single precision as they are, others in double precision."""
    return rows if rows.dtype.kind == "f" and rows.dtype.itemsize <= 4 else rows.astype(np.float64)


def _size(queries: Any) -> int:
    """Return the number of rows per request."""
    if not isinstance(queries, np.ndarray):
        return ROWS_PER_REQUEST
    n_columns = max(1, int(queries.shape[1]))
    return max(1, min(ROWS_PER_REQUEST, NUMBERS_PER_REQUEST // n_columns))


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
