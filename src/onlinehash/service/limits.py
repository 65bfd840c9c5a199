"""How much one request, and all of them together, may ask for."""

from __future__ import annotations

from dataclasses import dataclass, fields

from onlinehash._validation import check_positive_int


@dataclass(frozen=True)
class Limits:
    """What the service takes on before it says no, politely and early.

    Parameters
    ----------
    body : int, default=64 MiB
        Bytes of one request.
    batch : int, default=10000
        Items, keys or queries of one request.
    width : int, default=65536
        Numbers in a vector.
    k : int, default=1000
        Neighbours of a query.
    hits : int, default=100000
        Neighbours of all queries of a request together.
    searches, changes : int, default=256, 64
        Requests at work or waiting for their turn: those that read, those that write.
    threads : int, default=4
        Threads that search.
    memory : int, default=512 MiB
        Bytes of all bodies together.
    connections : int, default=1024
    seconds : int, default=30
        Time for a body to arrive.

    Examples
    --------
    >>> Limits(k=50).k
    50
    """

    body: int = 64 << 20
    batch: int = 10_000
    width: int = 65_536
    k: int = 1000
    hits: int = 100_000
    searches: int = 256
    changes: int = 64
    threads: int = 4
    memory: int = 512 << 20
    connections: int = 1024
    seconds: int = 30

    def __post_init__(self) -> None:
        for field in fields(self):
            check_positive_int(field.name, getattr(self, field.name))
