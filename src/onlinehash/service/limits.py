"""Limits of one request, and of all together."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from onlinehash._internal.validation import check_positive_int
from onlinehash.service.problems import Problem


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
    max_body_bytes : int, default=64 MiB
        Bytes per request body.
    max_batch_size : int, default=10000
        Items, ids or queries per request.
    max_dimensions : int, default=65536
        Values per vector.
    max_k : int, default=1000
        Neighbours per query.
    max_hits : int, default=100000
        Neighbours per request, over all queries.
    max_values : int, default=4000000
        Values (numbers, strings, lists) in a JSON body, and numbers in an answer; arrays are limited by their bytes.
    max_payload_bytes : int, default=64 MiB
        Bytes of all payloads in an answer.
    max_searches, max_changes : int, default=256, 64
        Requests that run or wait: those that read, those that write.
    n_threads : int, default=4
        Threads that search.
    max_memory_bytes : int, default=512 MiB
        Bytes of all request bodies in memory.
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

    max_body_bytes: int = 64 << 20
    max_batch_size: int = 10_000
    max_dimensions: int = 65_536
    max_k: int = 1000
    max_hits: int = 100_000
    max_values: int = 4_000_000
    max_payload_bytes: int = 64 << 20
    max_searches: int = 256
    max_changes: int = 64
    n_threads: int = 4
    max_memory_bytes: int = 512 << 20
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
