"""A client of the service: the methods of a collection, over HTTP."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import Any, Self
from urllib.parse import quote

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onlinehash._containers import as_array
from onlinehash._transport import Transport, pauses
from onlinehash._validation import check_choice, check_features, check_positive_int
from onlinehash.collection.types import Id, Item, Label, Stats
from onlinehash.exceptions import InvalidInputError, ServiceError, UnknownIdError
from onlinehash.types import SearchResult

__all__ = ["Client", "ServiceError"]

_BATCH = 1000


class Client:
    """Use a collection that is served over HTTP.

    A request that gets no answer, or the answer to come back later, is sent again. That is safe: a change that was
    applied although its answer got lost leaves the same items when applied again, because items have ids. The hasher
    may then learn from the same items twice.

    Parameters
    ----------
    url : str
        Address of the service, such as ``"http://127.0.0.1:8000"``.
    key : str, optional
        API key, if the service requires one.
    timeout : float, default=30
        Seconds to wait for an answer.
    retries : int, default=5
        Number of times a request is sent again, after pauses that double.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> import onlinehash as oh
    >>> from onlinehash.service import serve_in_thread
    >>> vectors, y = oh.load_dataset("digits").split().stream
    >>> folder = TemporaryDirectory()
    >>> digits = oh.Collection.open(f"{folder.name}/digits.oh", oh.HCOH(random_state=0))
    >>> with digits, serve_in_thread(digits) as url:
    ...     with Client(url) as client:
    ...         client.upsert(range(1000), vectors[:1000], y[:1000])
    ...         hits = client.search(vectors[1000], k=3, labels=7)
    ...         {item.labels for item in client.get(hits.ids)}
    {7}
    >>> folder.cleanup()
    """

    def __init__(self, url: str, key: str | None = None, *, timeout: float = 30.0, retries: int = 5) -> None:
        self._http = Transport(url, key, timeout, retries)

    def close(self) -> None:
        """Close all connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __len__(self) -> int:
        return self.stats().n_items

    def __getitem__(self, id: Id) -> Item:
        return self.get(id)[0]

    def __contains__(self, id: Id) -> bool:
        try:
            return bool(self.get(id))
        except (UnknownIdError, InvalidInputError):
            return False

    # ------------------------------------------------------------------ changing

    def upsert(
        self,
        ids: Any,
        vectors: ArrayLike | None = None,
        labels: Any = None,
        payload: Any = None,
        *,
        documents: Any = None,
    ) -> None:
        """Insert items or replace existing ones, as :meth:`Collection.upsert`, in batches of 1000 items.

        Each batch is applied as a whole or not at all.

        Parameters
        ----------
        ids : int or str, or several
        vectors : array-like of shape (n_items, n_features), or (n_features,) for one id
        labels : optional
            One label, or list of labels, per item.
        payload : optional
            One JSON value per item.
        documents : optional
            Instead of vectors, one text per item, if the service has an embedder.
        """
        listed, single = _listed(ids)
        if (vectors is None) == (documents is None):
            raise InvalidInputError("Pass vectors or documents, one of the two.")
        rows = None if vectors is None else _rows(vectors, single)
        columns = {
            "ids": listed,
            "labels": _per_id(labels, single),
            "payload": _per_id(payload, single),
            "documents": _per_id(documents, single),
            "rows": rows,
        }
        for name, column in columns.items():
            if column is not None and len(column) != len(listed):
                what = "vectors" if name == "rows" else name
                raise InvalidInputError(f"{what} has {len(column)} entries for {len(listed)} ids; pass one per id.")
        for start in range(0, len(listed), _BATCH):
            some = {name: column[start : start + _BATCH] for name, column in columns.items() if column is not None}
            self._upsert(**some)

    def _upsert(
        self,
        ids: list[Id],
        rows: NDArray[Any] | None = None,
        labels: Any = None,
        payload: Any = None,
        documents: Any = None,
    ) -> None:
        records = None if payload is not None or rows is None else _records(ids, rows, labels)
        if records is None:
            vectors = None if rows is None else rows.tolist()
            body = {"ids": ids, "vectors": vectors, "documents": documents, "labels": _plain(labels)}
            body["payload"] = payload
            self._http.send("PUT", "/api/v1/items", {name: one for name, one in body.items() if one is not None})
        else:
            self._http.send("PUT", "/api/v1/items", records)

    def update(
        self,
        ids: Any,
        vectors: ArrayLike | None = None,
        labels: Any = ...,
        payload: Any = ...,
        *,
        documents: Any = None,
    ) -> None:
        """Change existing items and keep what is not given, as :meth:`Collection.update`, in one request.

        Parameters
        ----------
        ids, vectors, labels, payload, documents
            As for :meth:`upsert`.
        """
        listed, single = _listed(ids)
        body: dict[str, Any] = {"ids": listed}
        if vectors is not None:
            body["vectors"] = _rows(vectors, single).tolist()
        if documents is not None:
            body["documents"] = _per_id(documents, single)
        if labels is not ...:
            body["labels"] = _plain(_per_id(labels, single))
        if payload is not ...:
            body["payload"] = _per_id(payload, single)
        self._http.send("PATCH", "/api/v1/items", body)

    def delete(self, ids: Any = None, *, where: Any = None, missing: str = "raise", unlearn: bool = False) -> int:
        """Delete items, and return their number.

        Parameters
        ----------
        ids : int or str, or several
        where : mapping
            Instead of ids: delete all items whose payload passes, as for :meth:`Collection.search`.
        missing : "raise" or "ignore", default="raise"
            With "raise", nothing is deleted if any id is unknown.
        unlearn : bool, default=False
            Also remove the items from what the hasher has learned; supported by HROH.
        """
        check_choice("missing", missing, ("raise", "ignore"))
        if (ids is None) == (where is None):
            raise InvalidInputError("delete takes ids or where, one of the two.")
        chosen = {"ids": _listed(ids)[0]} if where is None else {"where": where}
        body = {**chosen, "missing": missing, "unlearn": unlearn}
        # A repeated request may find the items already deleted by the first.
        answer = self._http.send("POST", "/api/v1/items/delete", body, retry_body=body | {"missing": "ignore"})
        return int(answer.get("changed", 0))

    # ------------------------------------------------------------------ reading

    def get(self, ids: Any) -> list[Item]:
        """Return items in the order of their ids.

        Parameters
        ----------
        ids : int or str, or several
        """
        found = self._http.send("POST", "/api/v1/items/get", {"ids": _listed(ids)[0]})["items"]
        return [_item(item) for item in found]

    def items(
        self, *, where: Any = None, after: Id | None = None, limit: int | None = None, chunk: int = 1000
    ) -> Iterator[Item]:
        """Yield items in order of id, as :meth:`Collection.items`, one request per chunk.

        Parameters
        ----------
        where, after, limit, chunk
        """
        left = limit
        while left is None or left > 0:
            size = chunk if left is None else min(chunk, left)
            body = {"where": where, "after": after, "limit": size}
            found = self._http.send("POST", "/api/v1/items/list", body)["items"]
            yield from map(_item, found)
            if len(found) < size:
                return
            after, left = found[-1]["id"], None if left is None else left - size

    def count(self, where: Any = None) -> int:
        """Return the number of items, or of those whose payload passes a filter."""
        return int(self._http.send("POST", "/api/v1/items/count", {"where": where})["n_items"])

    def indexes(self) -> list[str]:
        """Return the paths in the payload that have an index."""
        return list(self._http.send("GET", "/api/v1/indexes")["indexes"])

    def create_index(self, path: str) -> None:
        """Make filters by a path in the payload fast, as :meth:`Collection.create_index`."""
        self._http.send("POST", "/api/v1/indexes", {"path": path})

    def drop_index(self, path: str) -> None:
        """Drop the index of a path in the payload."""
        self._http.send("DELETE", f"/api/v1/indexes/{quote(path, safe='')}")

    def search(
        self,
        vectors: Any,
        k: int = 10,
        *,
        labels: Any = None,
        ids: Sequence[Id] | None = None,
        where: Any = None,
        rescore: str | None = None,
        asymmetric: bool = False,
        include: Sequence[str] = (),
        after: SearchResult | str | None = None,
    ) -> SearchResult:
        """Find the k nearest items of every query, as :meth:`Collection.search`.

        Parameters
        ----------
        vectors : array-like of shape (n_queries, n_features), or (n_features,) for one query
            Or one text or a list of them, if the service has an embedder.
        k : int, default=10
        labels : label or several, optional
            Search only items that have any of these labels.
        ids : several ids, optional
            Search only these items.
        where, rescore, asymmetric, include, after
            As for :meth:`Collection.search`.
        """
        options = {"k": check_positive_int("k", k), "rescore": rescore, "asymmetric": asymmetric}
        cursor = after.cursor or "" if isinstance(after, SearchResult) else after
        return self._search(vectors, options, labels, ids, where=where, include=list(include), after=cursor)

    def range_search(
        self,
        vectors: Any,
        radius: int,
        *,
        labels: Any = None,
        ids: Sequence[Id] | None = None,
        where: Any = None,
        include: Sequence[str] = (),
    ) -> SearchResult:
        """Find all items at most ``radius`` bits away from every query, as :meth:`Collection.range_search`.

        Parameters
        ----------
        vectors, labels, ids, where, include
            As for :meth:`search`.
        radius : int
        """
        return self._search(vectors, {"radius": radius}, labels, ids, where=where, include=list(include))

    def search_by_id(self, ids: Any, k: int = 10, *, labels: Any = None, rescore: str | None = None) -> SearchResult:
        """Find the k nearest items of stored items, which do not find themselves.

        Parameters
        ----------
        ids : int or str, or several
        k, labels, rescore
            As for :meth:`search`.
        """
        listed, single = _listed(ids)
        body = {"by_id": listed, "k": check_positive_int("k", k), "rescore": rescore, "labels": _plain(labels)}
        return _result(self._http.send("POST", "/api/v1/search", body), single)

    def _search(
        self, vectors: Any, options: dict[str, Any], labels: Any, ids: Sequence[Id] | None, **more: Any
    ) -> SearchResult:
        among = None if ids is None else _listed(ids)[0]
        more = {name: value for name, value in more.items() if value not in (None, [])}
        if isinstance(vectors, str) or (isinstance(vectors, (list, tuple)) and vectors and isinstance(vectors[0], str)):
            single = isinstance(vectors, str)
            body = {"documents": [vectors] if single else list(vectors), **options, "labels": _plain(labels)}
            return _result(self._http.send("POST", "/api/v1/search", body | {"ids": among} | more), single)
        single = as_array(vectors).ndim == 1
        rows = _rows(vectors, single)
        if labels is None and ids is None and not more:
            query = {name: json.dumps(value).strip('"') for name, value in options.items() if value is not None}
            found = self._http.send("POST", "/api/v1/search", _compact(rows), query=query)
        else:
            body = {"vectors": rows.tolist(), **options, "labels": _plain(labels), "ids": among, **more}
            found = self._http.send("POST", "/api/v1/search", body)
        return _result(found, single)

    def label_counts(self, where: Any = None) -> dict[Label, int]:
        """Return the number of items of each label, or of those whose payload passes a filter."""
        found = self._http.send("POST", "/api/v1/label_counts", {"where": where})["label_counts"]
        return {one["label"]: one["n_items"] for one in found}

    def stats(self) -> Stats:
        """Return statistics of the collection."""
        found = self._http.send("GET", "/api/v1/stats")
        return Stats(**{field.name: found[field.name] for field in fields(Stats)})

    def refresh(self, *, wait: bool = True) -> None:
        """Encode all items again with the current hasher.

        Parameters
        ----------
        wait : bool, default=True
            Return when the new codes are in use; raise if the refresh fails.
        """
        state = self._http.send("POST", "/api/v1/refresh", {"wait": False})
        for pause in pauses():
            if not wait or not state["refreshing"]:
                break
            time.sleep(pause)
            state = self._http.send("GET", "/api/v1/versions")
        if wait and state["refresh_error"] is not None:
            raise ServiceError(f"The refresh failed: {state['refresh_error']}")


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


def _item(found: dict[str, Any]) -> Item:
    vectors, labels = np.array(found["vectors"], np.float32), _labels(found["labels"])
    return Item(**{**found, "vectors": vectors, "labels": labels})


def _labels(found: Any) -> Any:
    return tuple(found) if isinstance(found, list) else found


def _result(found: dict[str, Any], single: bool) -> SearchResult:
    parts: dict[str, Any] = {name: found.get(name) for name in ("cursor", "payload")}
    if found.get("labels") is not None:
        parts["labels"] = [list(map(_labels, row)) for row in found["labels"]]
    if found.get("vectors") is not None:
        parts["vectors"] = [np.array(rows, np.float32) for rows in found["vectors"]]
    result = SearchResult(found["ids"], found["distances"], found["version"], **parts)
    return result[0] if single else result
