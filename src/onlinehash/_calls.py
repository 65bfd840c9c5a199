"""The calls of the clients: requests to send, and results of the answers, without sending anything.

A call is a generator that yields requests, is sent their answers, and returns the result.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeVar
from uuid import uuid4

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onlinehash._containers import as_array
from onlinehash._validation import check_choice, check_features, check_positive_int
from onlinehash.collection.types import Id, Item, Label, Stats
from onlinehash.exceptions import InvalidInputError
from onlinehash.types import Codes, SearchResult

_ROWS = 1000  # items or queries per request
_NUMBERS = 1_000_000  # numbers per request
_HITS = 50_000  # neighbours per request

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Call:
    """A request: a JSON value or an array as its body, and what replaces the body when the request is repeated."""

    method: str
    path: str
    body: dict[str, Any] | NDArray[Any] | None = None
    retry_body: dict[str, Any] | None = None
    query: dict[str, str] | None = None
    key: str | None = None  # by which the service knows a change that it has applied already


Calls = Generator[Call, Any, T]


def _change(method: str, path: str, body: Any, retry_body: dict[str, Any] | None = None) -> Call:
    return Call(method, path, body, retry_body, key=uuid4().hex)


# ---------------------------------------------------------------------- changes


def upsert(ids: Any, vectors: ArrayLike, labels: Any, payload: Any) -> Calls[None]:
    """Insert items or replace existing ones."""
    listed, single = _listed(ids)
    rows = _rows(vectors, single)
    columns = {"ids": listed, "labels": _per_id(labels, single), "payload": _per_id(payload, single)}
    for some, part in _parts(rows, columns):
        records = None if part.get("payload") is not None else _records(part["ids"], some, part.get("labels"))
        if records is None:
            body = {"vectors": some.tolist()} | part | {"labels": _plain(part.get("labels"))}
            yield _change("PUT", "/items", {name: one for name, one in body.items() if one is not None})
        else:
            yield _change("PUT", "/items", records)


def update(ids: Any, vectors: ArrayLike | None, labels: Any, payload: Any) -> Calls[None]:
    """Change existing items, and keep what is not given."""
    listed, single = _listed(ids)
    columns: dict[str, Any] = {"ids": listed}
    given = {"labels": labels, "payload": payload}
    removed = {name: None for name, column in given.items() if column is None}
    columns |= {name: _per_id(one, single) for name, one in given.items() if one is not ... and one is not None}
    rows = None if vectors is None else _rows(vectors, single)
    for some, part in _parts(rows, columns):
        body = part | removed | ({} if some is None else {"vectors": some.tolist()})
        yield _change("PATCH", "/items", body | ({"labels": _plain(body["labels"])} if "labels" in body else {}))


def delete(ids: Any, missing: str, unlearn: bool) -> Calls[None]:
    """Delete items."""
    check_choice("missing", missing, ("raise", "ignore"))
    for _, part in _parts(None, {"ids": _listed(ids)[0]}):
        body = part | {"missing": missing, "unlearn": unlearn}
        # A repeated request may find the items already deleted by the first.
        yield _change("POST", "/items/delete", body, body | {"missing": "ignore"})


def refresh() -> Calls[dict[str, Any]]:
    """Start a refresh; return the state."""
    state: dict[str, Any] = yield Call("POST", "/refresh", {"wait": False})
    return state


def versions() -> Calls[dict[str, Any]]:
    """Return the version of the encoder in use, and the state of a refresh."""
    state: dict[str, Any] = yield Call("GET", "/versions")
    return state


# ---------------------------------------------------------------------- reading


def get(ids: Any) -> Calls[list[Item]]:
    """Return items in the order of their ids."""
    found = []
    for _, part in _parts(None, {"ids": _listed(ids)[0]}):
        answer = yield Call("POST", "/items/get", part)
        found += answer["items"]
    for item in found:
        item["vectors"] = np.array(item["vectors"], np.float32)
        item["labels"] = tuple(item["labels"]) if isinstance(item["labels"], list) else item["labels"]
    return [Item(**item) for item in found]


def search(vectors: ArrayLike, options: dict[str, Any], labels: Any, ids: Sequence[Id] | None) -> Calls[SearchResult]:
    """Find the neighbours of vectors."""
    single = as_array(vectors).ndim == 1
    rows = _rows(vectors, single)
    filters = {"labels": _plain(labels), "ids": None if ids is None else _listed(ids)[0]}
    query = {name: json.dumps(value).strip('"') for name, value in options.items() if value is not None}

    def request(some: NDArray[Any]) -> Call:
        if labels is None and ids is None:
            return Call("POST", "/search", _compact(some), query=query)
        return Call("POST", "/search", {"vectors": some.tolist(), **options, **filters})

    return (yield from _in_batches(rows, options.get("k"), single, request))


def search_by_id(ids: Any, k: int, labels: Any, rescore: str | None) -> Calls[SearchResult]:
    """Find the neighbours of stored items."""
    listed, single = _listed(ids)
    body = {"k": check_positive_int("k", k), "rescore": rescore, "labels": _plain(labels)}
    return (yield from _in_batches(listed, k, single, lambda some: Call("POST", "/search", body | {"by_id": some})))


def _in_batches(queries: Any, k: int | None, single: bool, request: Callable[[Any], Call]) -> Calls[SearchResult]:
    """Search some queries at a time; the result has a version if all batches were searched with the same encoder."""
    size = _size(queries) if k is None else max(1, min(_size(queries), _HITS // k))
    ids, distances, seen = [], [], set()
    for start in range(0, max(1, len(queries)), size):
        found = yield request(queries[start : start + size])
        ids += found["ids"]
        distances += found["distances"]
        seen.add(found["version"])
    result = SearchResult(ids, distances, seen.pop() if len(seen) == 1 else None)
    return result[0] if single else result


def encode(vectors: ArrayLike) -> Calls[Codes]:
    """Return the packed codes of vectors."""
    single = as_array(vectors).ndim == 1
    codes: list[str] = []
    for some, _ in _parts(_rows(vectors, single), {}):
        found = yield Call("POST", "/encode", _compact(some))
        codes += found["codes"]
    packed = np.frombuffer(bytes.fromhex("".join(codes)), np.uint8).reshape(len(codes), -1)
    return packed[0] if single else packed


def label_counts() -> Calls[dict[Label, int]]:
    """Return the number of items of each label."""
    answer = yield Call("GET", "/label_counts")
    return {one["label"]: one["n_items"] for one in answer["label_counts"]}


def stats() -> Calls[Stats]:
    """Return the statistics of the collection."""
    found = yield Call("GET", "/stats")
    return Stats(**{field.name: found[field.name] for field in fields(Stats)})


# ---------------------------------------------------------------------- columns


def _parts(rows: NDArray[Any] | None, columns: dict[str, Any]) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Yield rows and columns in parts of which each is one request."""
    given = {name: column for name, column in columns.items() if column is not None}
    n_rows = len(columns["ids"]) if "ids" in columns else len(rows if rows is not None else ())
    for name, column in (*given.items(), *(() if rows is None else (("vectors", rows),))):
        if len(column) != n_rows:
            raise InvalidInputError(f"{name} has {len(column)} entries for {n_rows} ids; pass one per id.")
    size = _ROWS if rows is None else _size(rows)
    for start in range(0, n_rows, size):
        some = slice(start, start + size)
        yield None if rows is None else rows[some], {name: column[some] for name, column in given.items()}


def _size(queries: Any) -> int:
    """Return the number of rows per request."""
    return max(1, min(_ROWS, _NUMBERS // max(1, queries.shape[1]))) if isinstance(queries, np.ndarray) else _ROWS


def _listed(ids: Any) -> tuple[list[Id], bool]:
    """Return ids as a list, and whether a single id was given."""
    if isinstance(ids, (int, str, np.integer)):
        return [ids.item() if isinstance(ids, np.integer) else ids], True
    return [id.item() if isinstance(id, np.generic) else id for id in ids], False


def _rows(vectors: ArrayLike, single: bool) -> NDArray[Any]:
    rows = as_array(vectors)
    return check_features(rows[np.newaxis] if single and rows.ndim == 1 else rows)


def _per_id(values: Any, single: bool) -> Any:
    return [values] if single and values is not None else values


def _plain(labels: Any) -> Any:
    """Return labels as JSON values; NaN, a missing label, as None."""
    if isinstance(labels, (np.ndarray, np.generic)):
        labels = labels.tolist()
    if isinstance(labels, (list, tuple, set, frozenset)):
        return [_plain(label) for label in (sorted(labels) if isinstance(labels, (set, frozenset)) else labels)]
    if isinstance(labels, float):
        return None if np.isnan(labels) else int(labels) if labels.is_integer() else labels
    return labels


def _records(ids: list[Id], rows: NDArray[Any], labels: Any) -> NDArray[Any] | None:
    """Return items as an array of records, or None if an array cannot hold them unchanged."""
    columns = {"id": np.array(ids)} | ({} if labels is None else {"label": np.array(labels, dtype=_dtype(labels))})
    fitting = all(
        column.dtype.kind in "iuU" and column.ndim == 1 and (column.dtype.kind in "iu" or _keeps_text(column, values))
        for column, values in zip(columns.values(), (ids, labels), strict=False)
    )
    if not fitting:
        return None
    vectors = _compact(rows)
    layout: list[Any] = [(name, column.dtype) for name, column in columns.items()]
    records = np.empty(len(ids), [*layout, ("vectors", vectors.dtype, (vectors.shape[1],))])
    records["vectors"] = vectors
    for name, column in columns.items():
        records[name] = column
    return records


def _dtype(labels: Any) -> Any:
    """Return object for labels that hold lists or missing values, else None."""
    plain = isinstance(labels, np.ndarray) or len({type(label) for label in labels}) == 1
    several = any(isinstance(label, (list, tuple, set, frozenset)) for label in labels)
    return None if plain and not several else object


def _keeps_text(column: NDArray[Any], values: Any) -> bool:
    """Return whether an array holds strings unchanged: it drops zero characters at their ends."""
    return bool(column.dtype.itemsize) and all(
        kept == given for kept, given in zip(column.tolist(), values, strict=True)
    )


def _compact(rows: NDArray[Any]) -> NDArray[Any]:
    """Return floating-point vectors of at most single precision as they are, others in double precision."""
    return rows if rows.dtype.kind == "f" and rows.dtype.itemsize <= 4 else rows.astype(np.float64)
