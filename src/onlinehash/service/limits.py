"""Limits of one request, and of all together."""

from __future__ import annotations

from dataclasses import dataclass, fields
from threading import Lock
from time import monotonic
from typing import Any

from starlette.types import Receive, Scope

from onlinehash._internal.validation import check_positive_int
from onlinehash.service.problems import LATER, Problem

UNCOUNTED_BYTES = 1 << 16  # of a request or an answer: their number is limited by that of the connections


def check_limit(field: str, value: int, most: int, way_out: str, status: int = 422) -> None:
    """Refuse a value beyond a limit."""
    if value > most:
        detail = f"{field} is {value}, more than {most}, the limit of this service; {way_out}."
        raise Problem(status, "over-limit", detail, field=field, value=value)


@dataclass(frozen=True)
class Limits:
    """Request limits.

    Parameters
    ----------
    max_body_bytes : int, default=16 MiB
        Bytes per request body.
    max_batch_size : int, default=10000
        Items, ids or queries per request.
    max_dimensions : int, default=65536
        Values per vector.
    max_k : int, default=1000
        Neighbours per query.
    max_hits : int, default=100000
        Neighbours per request, over all queries.
    max_values : int, default=1000000
        Values (numbers, strings, lists) in a JSON body, and numbers in an answer; arrays are limited by their bytes.
    max_payload_bytes : int, default=8 MiB
        Bytes of all payloads in an answer.
    max_searches, max_changes : int, default=256, 64
        Requests that run or wait: those that read, those that write.
    n_threads : int, default=4
        Threads that search.
    max_memory_bytes : int, default=64 MiB
        Bytes of all requests and answers in memory, until these are sent; one takes at most half.
    max_connections : int, default=1024
    body_timeout : int, default=30
        Seconds for a body to arrive.
    timeout : int, default=30
        Seconds for a request that reads, from its arrival to its answer.
    max_wrong_keys : int, default=100
        Wrong API keys per minute and address; further ones are refused unread.

    Examples
    --------
    >>> Limits(max_k=50).max_k
    50
    """

    max_body_bytes: int = 16 << 20
    max_batch_size: int = 10_000
    max_dimensions: int = 65_536
    max_k: int = 1000
    max_hits: int = 100_000
    max_values: int = 1_000_000
    max_payload_bytes: int = 8 << 20
    max_searches: int = 256
    max_changes: int = 64
    n_threads: int = 4
    max_memory_bytes: int = 64 << 20
    max_connections: int = 1024
    body_timeout: int = 30
    timeout: int = 30
    max_wrong_keys: int = 100

    def __post_init__(self) -> None:
        for field in fields(self):
            check_positive_int(field.name, getattr(self, field.name))

    def check_batch(self, *lists: Any) -> None:
        """Refuse more items, ids, labels or queries than the service takes; what is not a list is not counted."""
        for some in lists:
            if hasattr(some, "__len__") and not isinstance(some, (str, dict)):
                check_limit("batch", len(some), self.max_batch_size, "send several smaller requests")


def too_long() -> Problem:
    """Return the problem of a request whose time is up."""
    rule = "timeout: this took longer than the limit of this service; send fewer queries at a time, or ask for less."
    return Problem(422, "over-limit", rule, field="timeout")


class Memory:
    """The bytes that requests and answers hold, of all connections together."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes, self.n_bytes, self.lock = max_bytes, 0, Lock()


class Call:
    """One request, and what it takes: time, until it must end, and memory.

    That holds its body, what is decoded from it, then its answer until that is sent.
    """

    def __init__(self, scope: Scope, receive: Receive, limits: Limits, memory: Memory) -> None:
        self.scope, self.receive, self.is_read = scope, receive, False
        self.pattern = "other"  # of the path, for metrics: there are few
        self.headers: dict[bytes, bytes] = dict(scope["headers"])
        self.end, self._memory, self._n_bytes, self._is_over = monotonic() + limits.timeout, memory, 0, False

    def header(self, name: bytes) -> str:
        """Return a header; empty if there is none."""
        return self.headers.get(name, b"").decode("latin-1")

    def release(self) -> None:
        """Give the memory back; a thread may still be at work whose client has left."""
        with self._memory.lock:
            self._memory.n_bytes -= self._n_bytes
            self._n_bytes, self._is_over = 0, True

    def watch(self, *progress: int) -> None:
        """Raise if the time is up; work that reports its progress to this ends then."""
        if monotonic() > self.end:
            raise too_long()

    def hold(self, n_bytes: int) -> None:
        """Hold another number of bytes from now on; refuse the request if others hold the memory."""
        memory = self._memory
        counted = 0 if n_bytes <= UNCOUNTED_BYTES else min(n_bytes, memory.max_bytes // 2)
        if counted == self._n_bytes:
            return
        with memory.lock:
            if self._is_over:
                return
            if counted > self._n_bytes and memory.n_bytes + counted - self._n_bytes > memory.max_bytes:
                held = f"Requests and answers that are not read yet hold {memory.n_bytes} bytes of {memory.max_bytes}"
                raise Problem(503, "busy", f"{held}; wait a moment and ask again.", headers=LATER)
            memory.n_bytes += counted - self._n_bytes
            self._n_bytes = counted
