"""Searches: concurrent ones joined into one scan, long ones cut into pieces that look at their deadline."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from time import monotonic, perf_counter, thread_time
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from onlinehash.collection import Collection
from onlinehash.exceptions import LargeResultError, TooManyResultsError
from onlinehash.service.executors import Deadline, Executor
from onlinehash.service.limits import Limits
from onlinehash.service.problems import LESS_PAYLOAD, over_limit
from onlinehash.types import SearchResult

_QUIET = 10.0  # seconds without a search after which the next one may wait for a refresh
_SHORT = 0.005  # seconds that a search may take on the event loop; others wait no longer than that
_PIECE = 0.05  # seconds of work between two looks at the deadline
_WAITS = 8  # times as long a piece may take as it works
_JOINED = 16  # queries of a request that may share a scan with others
_TRIES = 3
_encode = msgspec.json.Encoder().encode
_COLUMNS = ("ids", "distances", "cursor", "labels", "payload", "vectors")


@dataclass(frozen=True)
class Search:
    """A search: queries, and either k or a radius; ``options`` are further arguments of the collection.

    The queries are vectors, or a list of documents. A range search finds at most ``max_hits``.
    """

    queries: NDArray[Any] | list[str]
    k: int
    radius: int | None
    options: dict[str, Any]
    max_hits: int

    @property
    def is_plain(self) -> bool:
        """Whether the search can share a scan with others."""
        alone = self.radius is not None or self.options or isinstance(self.queries, list)
        return not alone and len(self.queries) <= _JOINED


class Searches:
    """The searches of a collection.

    Requests that arrive together, or while a scan runs, are searched in one scan, which costs far less than one per
    request. A short scan runs on the event loop, a longer one in a thread.
    """

    def __init__(self, collection: Collection, executor: Executor, limits: Limits) -> None:
        self._collection, self._executor, self._limits = collection, executor, limits
        in_memory = collection.stats().index in ("flat", "buckets")
        # A reader looks for changes of the writer before every search, and other engines are asked over a network.
        self._may_run_here = in_memory and not collection.readonly
        self._per_query = 0.0  # seconds of processor time, as last measured
        self._searched = -_QUIET  # time.monotonic() of the last search
        self._joined: dict[Any, list[tuple[NDArray[Any], asyncio.Future[SearchResult]]]] = {}
        self._n_running = 0

    async def run(self, search: Search, deadline: Deadline) -> SearchResult:
        """Return the neighbours of all queries."""
        self._executor.check()
        now = monotonic()
        wait, self._searched = self._collection.readonly or now - self._searched >= _QUIET, now
        if not search.is_plain or wait:
            return await deadline.wait(self._executor.submit(lambda: self._in_pieces(search, wait, deadline)))
        assert isinstance(search.queries, np.ndarray)
        loop = asyncio.get_running_loop()
        future: asyncio.Future[SearchResult] = loop.create_future()
        if not self._joined:
            loop.call_soon(self._start)
        key = (search.k, search.queries.shape[1], search.queries.dtype)
        self._joined.setdefault(key, []).append((search.queries, future))
        if self._may_run_here and self._per_query < _SHORT:
            return await future
        return await deadline.wait(future)

    # ------------------------------------------------------------------ joined

    def _start(self) -> None:
        """Search for all requests that have arrived, as many scans at a time as there are threads."""
        while self._joined and self._n_running < self._limits.n_threads:
            key = next(iter(self._joined))
            requests = [one for one in self._joined.pop(key) if not one[1].done()]
            if not requests:
                continue
            queries = requests[0][0] if len(requests) == 1 else np.concatenate([some for some, _ in requests])
            if self._may_run_here and len(queries) * self._per_query < _SHORT:
                self._finish(requests, self._try(queries, key[0]), key[0])
            else:
                self._start_thread(requests, queries, key[0])

    def _start_thread(self, requests: list[Any], queries: NDArray[Any], k: int) -> None:
        try:
            scan = self._executor.submit(lambda: self._try(queries, k))
        except Exception as error:  # the executor is full or closed
            self._finish(requests, error, k)
            return
        self._n_running += 1

        def end(done: asyncio.Future[SearchResult | Exception]) -> None:
            self._n_running -= 1
            try:
                self._finish(requests, done.result(), k)
            finally:  # those who wait have nobody else to start them
                if self._joined:
                    self._start()

        scan.add_done_callback(end)

    def _try(self, queries: NDArray[Any], k: int) -> SearchResult | Exception:
        """Return the neighbours of queries, or the error."""
        start = thread_time()
        try:
            found = self._collection.search(queries, k, wait=False)
        except Exception as error:
            return error
        self._per_query += 0.2 * ((thread_time() - start) / len(queries) - self._per_query)
        return found

    def _finish(self, requests: list[Any], found: SearchResult | Exception, k: int) -> None:
        """Give every request its part; an error of one must not be that of others."""
        row = 0
        for queries, future in requests:
            if len(requests) == 1:
                part = found
            elif isinstance(found, Exception):
                part = self._try(queries, k)
            else:
                some = slice(row, row + len(queries))
                part = replace(found, **{name: column[some] for name, column in _columns(found)})
            row += len(queries)
            if future.done():
                continue
            if isinstance(part, Exception):
                future.set_exception(part)
            else:
                future.set_result(part)

    # ------------------------------------------------------------------ in pieces

    def _in_pieces(self, search: Search, wait: bool, deadline: Deadline) -> SearchResult:
        """Search some queries at a time; all are answered by one version of the encoder."""
        for _ in range(_TRIES):
            parts: list[SearchResult] = []
            done, size, n_hits, n_bytes = 0, 1, 0, 0
            while done < len(search.queries) and (not parts or parts[0].version == parts[-1].version):
                deadline.check()
                start, cpu = perf_counter(), thread_time()
                parts.append(self._piece(search, slice(done, done + size), wait and not done, n_hits, n_bytes))
                done += size
                n_hits += sum(map(len, parts[-1].ids))
                n_bytes += sum(len(payload) for row in parts[-1].payload or () for payload in row)
                # Of its own time: where others keep the processor busy, smaller pieces would only cost more of it.
                taken = max(thread_time() - cpu, (perf_counter() - start) / _WAITS)
                size = max(1, int(min(8.0, _PIECE / taken) * size))
            if parts[0].version == parts[-1].version:
                break
        else:  # refreshes come faster than pieces
            parts = [self._piece(search, slice(None), False, 0, 0)]
        columns: dict[str, Any] = {
            name: [row for part in parts for row in getattr(part, name)] for name, _ in _columns(parts[0])
        }
        return replace(parts[0], **columns)

    def _piece(self, search: Search, some: slice, wait: bool, n_hits: int, n_bytes: int) -> SearchResult:
        """Search some of the queries; payloads are returned as JSON, which the event loop need not write."""
        queries, most = search.queries[some], self._limits.max_payload_bytes
        given = {**search.options, "wait": wait, "max_payload_bytes": most - n_bytes}
        try:
            if search.radius is None:
                found = self._collection.search(queries, search.k, **given)
            else:
                left = search.max_hits - n_hits
                found = self._collection.range_search(queries, search.radius, **given, max_results=left)
        except LargeResultError:
            raise over_limit("payload", most + 1, most, LESS_PAYLOAD) from None
        except TooManyResultsError:
            most = search.max_hits
            raise over_limit("hits within radius", most + 1, most, "use a smaller radius, or fewer queries") from None
        if found.payload is None:
            return found
        return replace(found, payload=[[msgspec.Raw(_encode(payload)) for payload in row] for row in found.payload])


def _columns(found: SearchResult) -> list[tuple[str, Any]]:
    """Return what a result of several queries has one row per query of."""
    columns = ((name, getattr(found, name)) for name in _COLUMNS)
    return [(name, column) for name, column in columns if column is not None]
