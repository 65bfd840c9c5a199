"""A client of the service: the methods of a collection, over HTTP."""

from __future__ import annotations

import io
import json
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onlinehash._containers import as_array
from onlinehash._validation import check_choice, check_features, check_positive, check_positive_int
from onlinehash.collection.types import Id, Item, Label, Stats
from onlinehash.exceptions import InvalidInputError, MissingExtraError, OnlineHashError, UnknownIdError
from onlinehash.types import SearchResult

try:
    import httpx
except ImportError:
    raise MissingExtraError.of("httpx", "client") from None

_AGAIN = {408, 429, 502, 503, 504}  # answers after which the same request may succeed
_FIRST_WAIT, _LONGEST_WAIT = 0.1, 10.0  # seconds
_BATCH = 1000


class ServiceError(OnlineHashError):
    """The service cannot be reached, or has refused.

    Parameters
    ----------
    message : str
    status : int or None
        Of the answer; None if there was none.
    problem : dict
        The problem document.

    Examples
    --------
    >>> ServiceError("There is no item 7.", status=404).status
    404
    """

    def __init__(self, message: str, status: int | None = None, problem: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.status, self.problem = status, problem or {}


class Client:
    """Use a collection that is served over HTTP.

    A request that gets no answer, or is told to come back later, is sent again. That is safe: items are known by their
    ids, so a change that was applied although its answer got lost is applied once more with the same outcome (the
    hasher may learn from the same item twice).

    Parameters
    ----------
    url : str
        Such as ``"http://127.0.0.1:8000"``.
    key : str, optional
        That the service asks for.
    timeout : float, default=30
        Seconds to wait for an answer.
    retries : int, default=5
        How often a request is sent again, after pauses that double.

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
        check_positive("timeout", timeout)
        if isinstance(retries, bool) or not isinstance(retries, int) or retries < 0:
            raise InvalidInputError(f"retries={retries!r} is not an integer of at least 0.")
        if not url.startswith(("http://", "https://")):
            raise InvalidInputError(f"url={url!r} does not begin with http:// or https://.")
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        self._http = httpx.Client(base_url=url, headers=headers, timeout=timeout)
        self._retries = retries

    def close(self) -> None:
        """Close all connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __len__(self) -> int:
        return self.stats().n_items

    def __contains__(self, id: Id) -> bool:
        try:
            return bool(self.get(id))
        except (UnknownIdError, InvalidInputError):
            return False

    # ------------------------------------------------------------------ changing

    def upsert(self, ids: Any, vectors: ArrayLike, labels: Any = None, payload: Any = None) -> None:
        """Store items; as :meth:`Collection.add`, but a call with many is applied in batches of a thousand.

        Parameters
        ----------
        ids : int or str, or several
        vectors : array-like of shape (n_items, n_features), or (n_features,) for one id
        labels : optional
            One an item; for one id its label, or a list of them.
        payload : optional
            A JSON value an item; for one id the value itself.
        """
        listed, single = _listed(ids)
        rows = _rows(vectors, single)
        columns = {"ids": listed, "labels": _per_id(labels, single), "payload": _per_id(payload, single)}
        for name, column in (*columns.items(), ("vectors", rows)):
            if column is not None and len(column) != len(listed):
                raise InvalidInputError(f"{name} has {len(column)} entries for {len(listed)} ids; pass one an id.")
        for start in range(0, len(listed), _BATCH):
            some = {name: column[start : start + _BATCH] for name, column in columns.items() if column is not None}
            self._upsert(rows[start : start + _BATCH], **some)

    def _upsert(self, rows: NDArray[Any], ids: list[Id], labels: Any = None, payload: Any = None) -> None:
        records = None if payload is not None else _records(ids, rows, labels)
        if records is not None:
            self._send("PUT", "/api/v1/items", content=_npy(records), kind="application/x-npy")
            return
        body = {"ids": ids, "vectors": rows.tolist(), "labels": _plain(labels), "payload": payload}
        self._send("PUT", "/api/v1/items", {name: value for name, value in body.items() if value is not None})

    def update(self, ids: Any, vectors: ArrayLike | None = None, labels: Any = ..., payload: Any = ...) -> None:
        """Change what is given of items that are there; as :meth:`Collection.update`.

        Parameters
        ----------
        ids, vectors, labels, payload
            As for :meth:`add`, in one request.
        """
        listed, single = _listed(ids)
        body: dict[str, Any] = {"ids": listed}
        if vectors is not None:
            body["vectors"] = _rows(vectors, single).tolist()
        if labels is not ...:
            body["labels"] = _plain(_per_id(labels, single))
        if payload is not ...:
            body["payload"] = _per_id(payload, single)
        self._send("PATCH", "/api/v1/items", body)

    def delete(self, ids: Any, *, missing: str = "raise", unlearn: bool = False) -> None:
        """Delete items.

        Parameters
        ----------
        ids : int or str, or several
        missing : "raise" or "ignore", default="raise"
            What to do about unknown ids; if it raises, nothing is deleted.
        unlearn : bool, default=False
            Unlearn them too, which HROH can.
        """
        check_choice("missing", missing, ("raise", "ignore"))
        body = {"ids": _listed(ids)[0], "missing": missing, "unlearn": unlearn}
        # Sent again, it may meet its own success.
        self._send("POST", "/api/v1/items/delete", body, again=body | {"missing": "ignore"})

    # ------------------------------------------------------------------ looking and searching

    def get(self, ids: Any) -> list[Item]:
        """Return items by id, in that order.

        Parameters
        ----------
        ids : int or str, or several
        """
        found = self._send("POST", "/api/v1/items/get", {"ids": _listed(ids)[0]})["items"]
        return [
            Item(
                item["id"],
                np.array(item["vectors"], np.float32),
                _labels(item["labels"]),
                item["payload"],
                item["version"],
            )
            for item in found
        ]

    def search(
        self,
        vectors: ArrayLike,
        k: int = 10,
        *,
        labels: Any = None,
        ids: Sequence[Id] | None = None,
        rescore: str | None = None,
        asymmetric: bool = False,
    ) -> SearchResult:
        """Find the k nearest items of every query; as :meth:`Collection.search`.

        Parameters
        ----------
        vectors : array-like of shape (n_queries, n_features), or (n_features,) for one query
        k : int, default=10
        labels : label or several, optional
            Search among items that have any of them.
        ids : several ids, optional
            Search among these.
        rescore : "cosine" or "l2", optional
        asymmetric : bool, default=False
        """
        options = {"k": check_positive_int("k", k), "rescore": rescore, "asymmetric": asymmetric}
        return self._search(vectors, options, labels, ids)

    def range_search(
        self, vectors: ArrayLike, radius: int, *, labels: Any = None, ids: Sequence[Id] | None = None
    ) -> SearchResult:
        """Find all items whose codes differ from a query's in at most ``radius`` bits.

        Parameters
        ----------
        vectors, labels, ids
            As for :meth:`search`.
        radius : int
        """
        return self._search(vectors, {"radius": radius}, labels, ids)

    def search_by_id(self, ids: Any, k: int = 10, *, labels: Any = None, rescore: str | None = None) -> SearchResult:
        """Find the k nearest items of stored ones, without themselves.

        Parameters
        ----------
        ids : int or str, or several
        k, labels, rescore
            As for :meth:`search`.
        """
        listed, single = _listed(ids)
        body = {"by_id": listed, "k": check_positive_int("k", k), "rescore": rescore, "labels": _plain(labels)}
        return _result(self._send("POST", "/api/v1/search", body), single)

    def _search(
        self, vectors: ArrayLike, options: dict[str, Any], labels: Any, ids: Sequence[Id] | None
    ) -> SearchResult:
        single = as_array(vectors).ndim == 1
        rows = _rows(vectors, single)
        if labels is None and ids is None:
            query = {name: json.dumps(value).strip('"') for name, value in options.items() if value is not None}
            found = self._send(
                "POST", "/api/v1/search", content=_npy(_compact(rows)), kind="application/x-npy", query=query
            )
        else:
            among = None if ids is None else _listed(ids)[0]
            body = {"vectors": rows.tolist(), **options, "labels": _plain(labels), "ids": among}
            found = self._send("POST", "/api/v1/search", body)
        return _result(found, single)

    def label_counts(self) -> dict[Label, int]:
        """Return the number of items of each label."""
        found = self._send("GET", "/api/v1/label_counts")["label_counts"]
        return {one["label"]: one["n_items"] for one in found}

    def stats(self) -> Stats:
        """Tell how the collection stands."""
        found = self._send("GET", "/api/v1/stats")
        return Stats(**{field.name: found[field.name] for field in fields(Stats)})

    def refresh(self, *, wait: bool = True) -> None:
        """Make all codes anew with what the hasher knows now.

        Parameters
        ----------
        wait : bool, default=True
            Return when the new codes are in use, and raise what went wrong.
        """
        state = self._send("POST", "/api/v1/refresh", {"wait": False})
        for pause in _pauses():
            if not wait or not state["refreshing"]:
                break
            time.sleep(pause)
            state = self._send("GET", "/api/v1/versions")
        if wait and state["refresh_error"] is not None:
            raise ServiceError(f"The refresh failed: {state['refresh_error']}")

    # ------------------------------------------------------------------ asking

    def _send(
        self,
        method: str,
        path: str,
        body: dict[str, Any] | None = None,
        *,
        again: dict[str, Any] | None = None,
        content: bytes | None = None,
        kind: str = "application/json",
        query: dict[str, str] | None = None,
    ) -> Any:
        """Return the answer to a request, which is repeated while that may help."""
        for n_tries, shortest in enumerate(_pauses()):
            pause = shortest
            if body is not None:
                content = _as_json(body if again is None or not n_tries else again)
            headers = {} if content is None else {"Content-Type": kind}
            answer: httpx.Response | None = None
            try:
                answer = self._http.request(method, path, content=content, headers=headers, params=query)
            except httpx.TransportError as error:
                if n_tries >= self._retries:
                    reason = f"{type(error).__name__}: {error}"
                    raise ServiceError(
                        f"{self._http.base_url} gives no answer after {n_tries + 1} tries ({reason}). Does it run?"
                    ) from error
            if answer is not None:
                if answer.is_success:
                    return answer.json()
                if answer.status_code not in _AGAIN or n_tries >= self._retries:
                    raise _error(answer)
                pause = max(pause, _seconds(answer.headers.get("Retry-After", "0")))
            time.sleep(pause)
        raise AssertionError("pauses never end")


def _pauses() -> Iterator[float]:
    """Yield seconds to wait that double, each shortened by chance so that clients do not come back all at once."""
    pause = _FIRST_WAIT
    while True:
        yield pause * random.uniform(0.5, 1.0)
        pause = min(2 * pause, _LONGEST_WAIT)


def _seconds(text: str) -> float:
    return min(float(text), _LONGEST_WAIT) if text.isdecimal() else 0.0


def _error(answer: httpx.Response) -> OnlineHashError:
    try:
        problem = answer.json()
        detail = str(problem["detail"])
    except (ValueError, KeyError, TypeError):
        problem, detail = {}, answer.text[:200]
    kind = str(problem.get("type", "")).rpartition(":")[2]
    if kind == "unknown-id":
        return UnknownIdError(detail)
    if kind in ("invalid-input", "over-limit"):
        return InvalidInputError(detail)
    return ServiceError(f"{answer.status_code} {answer.reason_phrase}: {detail}", answer.status_code, problem)


def _listed(ids: Any) -> tuple[list[Id], bool]:
    """Return ids as a list, and whether it was one."""
    if isinstance(ids, (int, str, np.integer)):
        return [ids.item() if isinstance(ids, np.integer) else ids], True
    return [id.item() if isinstance(id, np.generic) else id for id in ids], False


def _rows(vectors: ArrayLike, single: bool) -> NDArray[Any]:
    rows = as_array(vectors)
    return check_features(rows[np.newaxis] if single and rows.ndim == 1 else rows)


def _per_id(values: Any, single: bool) -> Any:
    return [values] if single and values is not None else values


def _plain(labels: Any) -> Any:
    """Return labels as JSON holds them; NaN, which marks a missing one, as null."""
    if isinstance(labels, (np.ndarray, np.generic)):
        labels = labels.tolist()
    if isinstance(labels, (list, tuple, set, frozenset)):
        return [_plain(label) for label in (sorted(labels) if isinstance(labels, (set, frozenset)) else labels)]
    if isinstance(labels, float):
        return None if np.isnan(labels) else int(labels) if labels.is_integer() else labels
    return labels


def _records(ids: list[Id], rows: NDArray[Any], labels: Any) -> NDArray[Any] | None:
    """Return items as an array of records, or None where they do not fit into one."""
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
    """Return the dtype of labels that are an array, object for others that hold lists or gaps."""
    plain = isinstance(labels, np.ndarray) or len({type(label) for label in labels}) == 1
    several = any(isinstance(label, (list, tuple, set, frozenset)) for label in labels)
    return None if plain and not several else object


def _keeps_text(column: NDArray[Any], values: Any) -> bool:
    """Tell whether an array holds texts as they were: it drops zero characters at their ends."""
    return bool(column.dtype.itemsize) and all(
        kept == given for kept, given in zip(column.tolist(), values, strict=True)
    )


def _compact(rows: NDArray[Any]) -> NDArray[Any]:
    """Return vectors in the precision in which collections keep them, unless that would lose them."""
    if rows.dtype.kind in "fiu" and rows.dtype.itemsize <= 4 and rows.dtype.kind == "f":
        return rows
    return rows.astype(np.float64)


def _npy(array: NDArray[Any]) -> bytes:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    return file.getvalue()


def _as_json(body: dict[str, Any]) -> bytes:
    try:
        return json.dumps(body, allow_nan=False).encode()
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"The request cannot be written as JSON: {error}.") from error


def _labels(labels: Any) -> Any:
    return tuple(labels) if isinstance(labels, list) else labels


def _result(found: dict[str, Any], single: bool) -> SearchResult:
    result = SearchResult(found["ids"], found["distances"], found["version"])
    return result[0] if single else result
