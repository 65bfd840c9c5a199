"""The client of the service: the methods of a collection, over HTTP."""

from __future__ import annotations

import os
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any, Self, TypeVar
from urllib.parse import quote

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onlinehash._internal.files import whole_file
from onlinehash._internal.validation import check_positive_int, records
from onlinehash.client.transport import Transport, pause
from onlinehash.collection import (
    CheckReport,
    Decision,
    History,
    Item,
    ItemMap,
    ItemPage,
    ReviewItem,
    Stats,
    Suspect,
)
from onlinehash.collection.inputs import (
    check_item_ids,
    check_queries,
    demand_single,
    is_single,
    label_texts,
    labels_of,
    search_filter,
)
from onlinehash.collection.maintenance import replacing
from onlinehash.exceptions import (
    InvalidFeaturesError,
    InvalidInputError,
    OverLimitError,
    ServiceError,
    UnknownIdError,
    counted,
    needs_extra,
)
from onlinehash.hashers import OnlineHasher
from onlinehash.types import Codes, Progress, SearchResult

with needs_extra("msgspec", "client"):
    import msgspec

T = TypeVar("T")

ROWS_PER_REQUEST = 1000  # items, ids or queries
NUMBERS_PER_REQUEST = 1_000_000
_STEPS = 1000  # of a progress bar


def silent(done: int, total: int) -> None:
    """Show no progress."""


class Client:
    """Use a collection that is served over HTTP.

    A request that gets no answer, or the answer to come back later, is sent again. That is safe: every change has a
    key, by which the service knows one that it has applied already although its answer was lost.

    Items and queries are sent in batches of at most 1000, or of fewer if the service takes or gives no more at a
    time. Each batch of a change is applied as a whole or not at all.

    Parameters
    ----------
    url : str
        Address of the service, such as ``"http://127.0.0.1:8000"``.
    key : str, optional
        API key, if the service requires one.
    collection : str, optional
        Name of the collection, if the service has several.
    timeout : float, default=30
        Seconds to wait for an answer.
    retries : int, default=5
        Number of times a request is sent again, after pauses that double.
    **options
        Options of ``httpx.Client``, such as ``verify``, ``proxy``, ``headers`` or ``limits``.

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

    def __init__(
        self,
        url: str,
        key: str | None = None,
        *,
        collection: str | None = None,
        timeout: float = 30.0,
        retries: int = 5,
        **options: Any,
    ) -> None:
        self._http = Transport(url, key, timeout, retries, collection, options)

    def close(self) -> None:
        """Close all connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __len__(self) -> int:
        return self.stats().n_items

    def __getitem__(self, id: int | str) -> Item:
        demand_single(id)
        return self.get(id)[0]

    def __contains__(self, id: object) -> bool:
        try:
            return is_single(id) and bool(self.get(id))
        except (UnknownIdError, InvalidInputError):
            return False

    def items(
        self,
        *,
        labels: Any = None,
        where: Any = None,
        order: str = "id",
        descending: bool = False,
        after: int | str | None = None,
        limit: int | None = None,
        chunk: int = 1000,
    ) -> Iterator[Item]:
        """Yield items in order, as :meth:`Collection.items`, one request per chunk.

        Parameters
        ----------
        labels, where, order, descending, after, limit, chunk
        """
        given = {"labels": labels, "where": where, "order": order, "descending": descending}
        for page in self._pages(**given, after=after, limit=limit, chunk=chunk):
            yield from page.items

    def _pages(
        self, *, after: int | str | None = None, limit: int | None = None, chunk: int = 1000, **options: Any
    ) -> Iterator[ItemPage]:
        """Yield pages of at most ``chunk`` items."""
        left, cursor = limit, None
        while left is None or left > 0:
            page = self.page(**options, after=after, cursor=cursor, limit=chunk if left is None else min(chunk, left))
            yield page
            after, cursor, left = None, page.cursor, None if left is None else left - len(page.items)
            if cursor is None:
                return

    # ------------------------------------------------------------------ changing

    def upsert(
        self,
        ids: Any,
        vectors: ArrayLike | None = None,
        labels: Any = None,
        payload: Any = None,
        *,
        documents: Any = None,
        checkpoint: Mapping[str, Any] | None = None,
    ) -> None:
        """Insert items or replace existing ones, as :meth:`Collection.upsert`.

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
        checkpoint : mapping of str to JSON value, optional
            JSON committed in the same transaction as the items; with the last batch, if there are several.
        """
        given = {"labels": labels, "payload": payload, "documents": documents}
        columns = {name: column for name, column in given.items() if column is not None}
        self._write("PUT", ids, vectors, columns, checkpoint)

    def update(
        self,
        ids: Any,
        vectors: ArrayLike | None = None,
        labels: Any = ...,
        payload: Any = ...,
        *,
        documents: Any = None,
        checkpoint: Mapping[str, Any] | None = None,
    ) -> None:
        """Change existing items and keep what is not given, as :meth:`Collection.update`.

        Parameters
        ----------
        ids, vectors, labels, payload, documents, checkpoint
            As for :meth:`upsert`.
        """
        given = {"labels": labels, "payload": payload, "documents": ... if documents is None else documents}
        columns = {name: column for name, column in given.items() if column is not ...}
        self._write("PATCH", ids, vectors, columns, checkpoint)

    def _write(
        self, method: str, ids: Any, vectors: Any, columns: dict[str, Any], checkpoint: Mapping[str, Any] | None
    ) -> None:
        """Send items in batches; a column that is None is removed from them."""
        listed, single = check_item_ids(ids, None, ordered=True), is_single(ids)
        if not listed:
            vectors, columns = None, {}
        n_rows, given = len(listed), dict(columns)
        rows = None if vectors is None else check_queries(vectors, None, None)[0]
        if rows is not None and len(rows) != n_rows:
            found = f"vectors has {counted(len(rows), 'row')} for {counted(n_rows, 'id')}"
            raise InvalidFeaturesError(f"{found}; pass one vector or document per id.")
        if columns.get("labels") is not None:
            given["labels"] = [labels_of(text) for text in label_texts(columns["labels"], n_rows, single, None)]
        if columns.get("payload") is not None:
            given["payload"] = records([columns["payload"]] if single else columns["payload"], n_rows)
        if columns.get("documents") is not None:
            given["documents"] = [columns["documents"]] if single else list(columns["documents"])
            if len(given["documents"]) != n_rows:
                given_texts, wanted = counted(len(given["documents"]), "value"), counted(n_rows, "id")
                raise InvalidInputError(f"documents has {given_texts} for {wanted}; pass one per id.")

        removed = {name: None for name, column in given.items() if column is None}
        listings = {name: column for name, column in given.items() if column is not None}
        self._send(method, "/items", {"ids": listed, **listings}, removed, rows, checkpoint)

    def _send(
        self,
        method: str,
        path: str,
        columns: Mapping[str, Sequence[Any]],
        body: Mapping[str, Any] | None = None,
        rows: NDArray[Any] | None = None,
        checkpoint: Mapping[str, Any] | None = None,
    ) -> list[Any]:
        """Return the answers for columns of the body and vectors, some rows at a time; fewer where so many are refused.

        The checkpoint goes with the last of them, or alone where there are none.
        """
        n_rows, size = len(next(iter(columns.values()), rows if rows is not None else [])), ROWS_PER_REQUEST
        if rows is not None:
            if rows.dtype.kind != "f" or rows.dtype.itemsize > 8:
                rows = rows.astype(np.float64)
            size = max(1, min(ROWS_PER_REQUEST, NUMBERS_PER_REQUEST // int(rows.shape[1])))
        for name, value in (checkpoint or {}).items() if not n_rows else ():
            self._http.ask("PUT", f"/checkpoints/{quote(name, safe='')}", {"value": value})
        answers, start = list[Any](), 0
        while start < n_rows:
            some, sent = slice(start, start + size), dict(body or {})
            for name, column in columns.items():
                sent[name] = column[some]
            if checkpoint is not None and some.stop >= n_rows:
                sent["checkpoint"] = dict(checkpoint)
            try:
                answers.append(self._http.ask(method, path, sent or None, None if rows is None else rows[some]))
                start += size
            except OverLimitError:
                size = min(size, n_rows - start) // 2
                if size == 0:
                    raise
        return answers

    def delete(
        self,
        ids: Any = None,
        *,
        where: Any = None,
        missing: str = "raise",
        unlearn: bool = False,
        checkpoint: Mapping[str, Any] | None = None,
    ) -> int:
        """Delete items, and return their number.

        Parameters
        ----------
        ids : int or str, or several
        where : mapping
            Instead of ids: delete all items whose payload passes, as for :meth:`Collection.search`.
        missing : "raise" or "ignore", default="raise"
            With "raise", nothing of a batch is deleted if any of its ids is unknown.
        unlearn : bool, default=False
            Also remove the items from what the hasher has learned; supported by HROH.
        checkpoint : mapping of str to JSON value, optional
            As for :meth:`upsert`.
        """
        if (ids is None) == (where is None):
            raise InvalidInputError("delete takes ids or where, one of the two.")
        body = {"where": where, "missing": missing, "unlearn": unlearn}
        if ids is None:
            answers = [self._http.ask("POST", "/items/delete", {**body, "checkpoint": checkpoint and dict(checkpoint)})]
        else:
            listed = {"ids": check_item_ids(ids, None)}
            answers = self._send("POST", "/items/delete", listed, body, checkpoint=checkpoint)
        return sum(int(answer.get("changed", 0)) for answer in answers)

    def link(self, ids: Any, *, checkpoint: Mapping[str, Any] | None = None) -> int | str:
        """Say that items belong together, and return the label that they share now, as :meth:`Collection.link`.

        Parameters
        ----------
        ids : several ids
            All are sent in one request.
        checkpoint : mapping of str to JSON value, optional
            As for :meth:`upsert`.
        """
        body = {"ids": check_item_ids(ids, None), "checkpoint": checkpoint and dict(checkpoint)}
        label: int | str = self._http.ask("POST", "/link", body)["label"]
        return label

    def unlink(self, ids: Any, *, checkpoint: Mapping[str, Any] | None = None) -> None:
        """Take items out of what they were linked with, as :meth:`Collection.unlink`.

        Parameters
        ----------
        ids : int or str, or several
        checkpoint : mapping of str to JSON value, optional
            As for :meth:`upsert`.
        """
        self._send("POST", "/unlink", {"ids": check_item_ids(ids, None)}, checkpoint=checkpoint)

    def merge_labels(self, label: int | str, into: int | str, *, checkpoint: Mapping[str, Any] | None = None) -> int:
        """Give all items of a label another that other items have, as :meth:`Collection.merge_labels`.

        Parameters
        ----------
        label, into : int or str
        checkpoint : mapping of str to JSON value, optional
            As for :meth:`upsert`.
        """
        body = {"label": label, "into": into, "checkpoint": checkpoint and dict(checkpoint)}
        return int(self._http.ask("POST", "/merge_labels", body)["changed"])

    def rename_label(self, label: int | str, to: int | str, *, checkpoint: Mapping[str, Any] | None = None) -> int:
        """Give all items of a label another, which no item has, as :meth:`Collection.rename_label`.

        Parameters
        ----------
        label, to : int or str
        checkpoint : mapping of str to JSON value, optional
            As for :meth:`upsert`.
        """
        body = {"label": label, "to": to, "checkpoint": checkpoint and dict(checkpoint)}
        return int(self._http.ask("POST", "/rename_label", body)["changed"])

    def create_index(self, path: str) -> None:
        """Make filters by a path in the payload fast, as :meth:`Collection.create_index`.

        Parameters
        ----------
        path : str
        """
        self._http.ask("POST", "/indexes", {"path": path})

    def drop_index(self, path: str) -> None:
        """Drop the index of a path in the payload.

        Parameters
        ----------
        path : str
        """
        self._http.ask("DELETE", f"/indexes/{quote(path, safe='')}")

    # ------------------------------------------------------------------ reading

    def get(self, ids: Any) -> list[Item]:
        """Return items in the order of their ids.

        Parameters
        ----------
        ids : int or str, or several
        """
        answers = self._send("POST", "/items/get", {"ids": check_item_ids(ids, None)})
        return [item for answer in answers for item in _items(answer)]

    def page(
        self,
        *,
        labels: Any = None,
        where: Any = None,
        order: str = "id",
        descending: bool = False,
        after: int | str | None = None,
        cursor: str | None = None,
        limit: int = 100,
    ) -> ItemPage:
        """Return some items and a cursor for those that follow, as :meth:`Collection.page`.

        Parameters
        ----------
        labels, where, order, descending, after, cursor, limit
        """
        body = {"where": where, "order": order, "descending": descending, "after": after, "cursor": cursor}
        body["labels"] = search_filter(labels, None, None, {}).labels
        while True:
            try:
                answer = self._http.ask("POST", "/items/list", body | {"limit": limit})
                return ItemPage(_items(answer), answer["cursor"])
            except OverLimitError:  # then fewer, if the service gives no more at a time
                if limit == 1:
                    raise
                limit //= 2

    def count(self, where: Any = None, *, labels: Any = None) -> int:
        """Return the number of items, or of those with a label or a payload that passes a filter."""
        wanted = search_filter(labels, None, None, {}).labels
        return int(self._http.ask("POST", "/items/count", {"where": where, "labels": wanted})["n_items"])

    def indexes(self) -> list[str]:
        """Return the paths in the payload that have an index."""
        return list(self._http.ask("GET", "/indexes")["indexes"])

    def search(
        self,
        vectors: Any,
        k: int = 10,
        *,
        labels: Any = None,
        ids: Sequence[int | str] | None = None,
        where: Any = None,
        rescore: str | None = "auto",
        asymmetric: bool = False,
        include: Sequence[str] = (),
    ) -> SearchResult[list[Any]]:
        """Find the k nearest items of every query, as :meth:`Collection.search`.

        Parameters
        ----------
        vectors : array-like of shape (n_queries, n_features), or (n_features,) for one query
            Or one text or a list of them, or the bytes of one image, if the service has an embedder.
        k : int, default=10
        labels : label or several, optional
            Search only items that have any of these labels.
        ids : several ids, optional
            Search only these items.
        where, rescore, asymmetric, include
            As for :meth:`Collection.search`.
        """
        options = {"k": check_positive_int("k", k), "rescore": rescore, "asymmetric": asymmetric}
        return self._search(vectors, options, labels, ids, where, include)

    def range_search(
        self,
        vectors: Any,
        radius: int,
        *,
        labels: Any = None,
        ids: Sequence[int | str] | None = None,
        where: Any = None,
        include: Sequence[str] = (),
    ) -> SearchResult[list[Any]]:
        """Find all items at most ``radius`` bits away from every query, as :meth:`Collection.range_search`.

        Parameters
        ----------
        vectors, labels, ids, where, include
            As for :meth:`search`.
        radius : int
        """
        return self._search(vectors, {"radius": radius}, labels, ids, where, include)

    def search_by_id(
        self, ids: Any, k: int = 10, *, labels: Any = None, rescore: str | None = "auto"
    ) -> SearchResult[list[Any]]:
        """Find the k nearest items of stored items, which do not find themselves.

        Parameters
        ----------
        ids : int or str, or several
        k, labels, rescore
            As for :meth:`search`.
        """
        options = {"k": check_positive_int("k", k), "rescore": rescore}
        return self._search(check_item_ids(ids, None), options, labels, by_id=True, single=is_single(ids))

    def _search(
        self,
        queries: Any,
        options: dict[str, Any],
        labels: Any,
        ids: Any = None,
        where: Any = None,
        include: Sequence[str] = (),
        *,
        by_id: bool = False,
        single: bool = False,
    ) -> SearchResult[list[Any]]:
        """Search some queries at a time; the result has a version if all batches were searched with one encoder."""
        among = search_filter(labels, ids, where, {})
        body = {"labels": among.labels, "ids": among.ids, "where": where, "include": list(include), **options}
        if by_id:
            answers = self._send("POST", "/search", {"by_id": queries}, body)
        else:
            answers, single = self._ask_about("/search", queries, body)
        parts = list[SearchResult[list[Any]]]()
        for found in answers or [{"ids": [], "distances": []}]:
            if "array" in found:
                ends = np.cumsum([len(row) for row in found["ids"][:-1]], dtype=int)
                found["vectors"] = np.split(found.pop("array"), ends)
            if "labels" in found:
                found["labels"] = [
                    [tuple(one) if isinstance(one, list) else one for one in row] for row in found["labels"]
                ]
            parts.append(SearchResult(**found))
        result = SearchResult.concatenate(parts)
        return result[0] if single else result

    def _ask_about(self, path: str, queries: Any, body: dict[str, Any]) -> tuple[list[Any], bool]:
        """Return the answers for vectors, texts or an image, some at a time, and whether there is one query alone."""
        if isinstance(queries, bytes):
            return self._send("POST", path, {"images": [b64encode(queries).decode()]}, body), True
        if isinstance(queries, str):
            return self._send("POST", path, {"documents": [queries]}, body), True
        if isinstance(queries, (list, tuple)) and queries and isinstance(queries[0], str):
            return self._send("POST", path, {"documents": queries}, body), False
        rows, single = check_queries(queries, None, None)
        return self._send("POST", path, {}, body, rows), single

    # ------------------------------------------------------------------ decisions

    def classify(
        self, vectors: Any, *, max_error: float = 0.02, unknown_share: float = 0.0, n_neighbours: int = 3
    ) -> Decision | list[Decision]:
        """Say what every row is, or leave it open where the error would be too large: :meth:`Collection.classify`.

        Parameters
        ----------
        vectors : as for :meth:`search`
        max_error : float, default=0.02
        unknown_share : float, default=0.0
        n_neighbours : int, default=3
        """
        body = {"max_error": max_error, "unknown_share": unknown_share, "n_neighbours": n_neighbours}
        answers, single = self._ask_about("/classify", vectors, body)
        decisions = _read([one for answer in answers for one in answer["decisions"]], list[Decision])
        return decisions[0] if single else decisions

    def suspects(self, n: int = 100, *, labels: Any = None) -> list[Suspect]:
        """Return the items whose label the other items contradict, as :meth:`Collection.suspects`.

        Parameters
        ----------
        n : int, default=100
        labels : label or several, optional
        """
        body = {"n": check_positive_int("n", n), "labels": search_filter(labels, None, None, {}).labels}
        return _read(self._http.ask("POST", "/suspects", body)["suspects"], list[Suspect])

    def review(self, n: int = 100, *, by: str = "uncertain") -> list[ReviewItem]:
        """Return the items without a label whose labels would teach most, as :meth:`Collection.review`.

        Parameters
        ----------
        n : int, default=100
        by : "uncertain", "unknown" or "diverse", default="uncertain"
        """
        body = {"n": check_positive_int("n", n), "by": by}
        return _read(self._http.ask("POST", "/review", body)["items"], list[ReviewItem])

    def encode(self, vectors: ArrayLike) -> Codes:
        """Return the packed codes of vectors, made by the encoder in use.

        Parameters
        ----------
        vectors : array-like of shape (n_vectors, n_features), or (n_features,) for one
        """
        rows, single = check_queries(vectors, None, None)
        found = self._send("POST", "/encode", {}, None, rows)
        packed: Codes = np.concatenate([answer["array"] for answer in found])
        return packed[0] if single else packed

    def label_counts(self, where: Any = None) -> dict[int | str | None, int]:
        """Return the number of items per label, None for items without, as :meth:`Collection.label_counts`.

        Parameters
        ----------
        where : mapping, optional
        """
        found = self._http.ask("POST", "/label_counts", {"where": where})
        counts = {one["label"]: one["n_items"] for one in found["label_counts"]}
        return counts | {None: found["n_unlabelled"]} if found["n_unlabelled"] else counts

    def stats(self) -> Stats:
        """Return statistics of the collection."""
        return _read(self._http.ask("GET", "/stats"), Stats)

    def map(self, limit: int = 1500) -> ItemMap:
        """Return a random sample of the items in the plane, as :meth:`Collection.map`.

        Parameters
        ----------
        limit : int, default=1500
        """
        return _read(self._http.ask("POST", "/map", {"limit": limit}), ItemMap)

    def history(self) -> History:
        """Return the encoders used so far, and the quality along the stream, as :meth:`Collection.history`."""
        return _read(self._http.ask("GET", "/history"), History)

    def refresh(self, *, wait: bool = True) -> None:
        """Encode all items again with the current hasher.

        Parameters
        ----------
        wait : bool, default=True
            Return when the new codes are in use; raise if the refresh fails.
        """
        n_learned = None
        for _ in range(2):  # one that had begun before ends first
            state = self._http.ask("POST", "/refresh")
            n_learned = state["n_learned"] if n_learned is None else n_learned
            if not wait or (self._await_codes(silent)["version"] or 0) >= n_learned:
                break

    def _await_codes(self, progress: Progress) -> dict[str, Any]:
        """Wait until no refresh runs, and return the statistics; raise if it has failed."""
        for n_asked in count():
            state: dict[str, Any] = self._http.ask("GET", "/stats")
            if state["refresh_error"] is not None:
                raise ServiceError(f"The refresh failed: {state['refresh_error']}")
            if not state["refreshing"]:
                break
            progress(int(_STEPS * state["progress"]), _STEPS)
            pause(n_asked)
        return state

    # ------------------------------------------------------------------ maintenance

    def checkpoint(self, name: str) -> Any:
        """Return what a change last stored under a name; None if nothing.

        Parameters
        ----------
        name : str
        """
        return self._http.ask("GET", f"/checkpoints/{quote(name, safe='')}")["value"]

    def backup(self, path: str | os.PathLike[str], *, progress: Progress = silent) -> None:
        """Write a copy of the collection to a file, which is itself a collection.

        The service copies the collection as it is at one moment, and checks the copy. It takes its place here when all
        of it has come and its digest is right; an older backup stays until then. Requires a write key.

        Parameters
        ----------
        path : path
            A new file, or an older backup that is not open for writing. Any other file is refused.
        progress : callable, optional
            Called as ``progress(done, total)``.
        """
        with replacing(Path(path)) as aside, whole_file(aside) as file:
            n_bytes = self._job("/backup", None, lambda done, total: progress(done, 2 * total))["n_bytes"]
            self._http.download("/backup", file, lambda done: progress(n_bytes + done, 2 * n_bytes))
        self._http.ask("DELETE", "/backup")

    def check(self, *, sample: int = 1000, progress: Progress = silent) -> CheckReport:
        """Verify everything that is stored, and return what is wrong, as :meth:`Collection.check`.

        Parameters
        ----------
        sample : int, default=1000
            Items whose codes are computed again, about.
        progress : callable, optional
            Called as ``progress(done, total)``.
        """
        return _read(self._job("/check", {"sample": sample}, progress), CheckReport)

    def compact(self, *, progress: Progress = silent) -> int:
        """Give unused space back to the disk, and return the number of bytes, as :meth:`Collection.compact`.

        Parameters
        ----------
        progress : callable, optional
            Called as ``progress(done, total)``.
        """
        return int(self._job("/compact", None, progress)["n_bytes"])

    def change_hasher(self, hasher: OnlineHasher | str | int, *, progress: Progress = silent) -> None:
        """Learn with another hasher, and encode all items again, as :meth:`Collection.change_hasher`.

        Parameters
        ----------
        hasher : hasher, name of one, or number of bits
            Of a hasher, the name and the parameters are sent, not what it has learned.
        progress : callable, optional
            Called as ``progress(done, total)``.
        """
        self._job("/change_hasher", _recipe(hasher), lambda done, total: progress(done, 2 * total))
        self._await_codes(lambda done, total: progress(total + done, 2 * total))

    def _job(self, path: str, body: Any, progress: Progress) -> dict[str, Any]:
        """Start a job, wait for its end, and return its result."""
        state = self._http.ask("POST", path, body)
        number = state["number"]
        for n_asked in count():
            progress(int(_STEPS * state["progress"]), _STEPS)
            if state["state"] != "running" or state["number"] != number:
                break
            pause(n_asked)
            state = self._http.ask("GET", "/job")
        if state["number"] != number:
            raise ServiceError(
                "The service has started another job since, so that the result of this one is not known."
            )
        if state["state"] != "done":
            raise ServiceError(f"The service could not do this: {state['error']}")
        return dict(state["result"] or {})


def _recipe(hasher: OnlineHasher | str | int) -> dict[str, Any]:
    """Return the name and the parameters of a hasher."""
    if isinstance(hasher, int):
        return {"n_bits": hasher}
    if isinstance(hasher, str):
        return {"method": hasher}
    params = hasher.get_params(deep=False)
    return {"method": hasher.name, "n_bits": params.pop("n_bits"), "params": params}


def _read(found: Any, kind: type[T]) -> T:
    """Return JSON as a dataclass."""
    return msgspec.convert(found, kind, dec_hook=_as_array)


def _as_array(kind: type, found: Any) -> NDArray[Any]:
    """Return numbers as an array, and hexadecimal digits as a packed code."""
    return np.frombuffer(bytes.fromhex(found), np.uint8) if isinstance(found, str) else np.asarray(found)


def _items(answer: dict[str, Any]) -> list[Item]:
    rows = zip(answer["items"], answer["array"], strict=True)
    return _read([{**found, "vectors": vectors} for found, vectors in rows], list[Item])
