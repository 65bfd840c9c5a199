"""Pages of a search: where one ends, and what follows it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from onlinehash.collection.stores.protocol import Answer, Answers
from onlinehash.exceptions import InvalidInputError
from onlinehash.types import SearchResult


class Cursor(NamedTuple):
    """The last item of a page: its distance and sequence number, the number of items up to it, and the version.

    Examples
    --------
    >>> Cursor.parse("3:1042:10:500")
    Cursor(distance=3, seq=1042, rank=10, version=500)
    """

    distance: Any
    seq: int
    rank: int
    version: int

    def __str__(self) -> str:
        return ":".join(map(repr, self))

    @classmethod
    def parse(cls, after: Any) -> Cursor:
        """Return the cursor of a page, or of its text."""
        text = after.cursor if isinstance(after, SearchResult) else after
        try:
            distance, *rest = str(text).split(":")
            seq, rank, version = map(int, rest)
            cursor = cls(float(distance) if "." in distance or "e" in distance else int(distance), seq, rank, version)
        except ValueError:
            cursor = None
        if cursor is None or not isinstance(text, str) or not 0 <= cursor.rank < 1 << 40:
            raise InvalidInputError(
                f"after={after!r} is no page that another follows; pass a result of one query, or its cursor, unless "
                "that is None: then nothing follows."
            )
        return cursor


def unpaged(answers: Answers, version: int, seq: int) -> SearchResult:
    """Return all items found by codes of a version, up to a sequence number."""
    return SearchResult([ids for ids, _, _ in answers], [found for _, found, _ in answers], version, seq)


def nothing_found(n_queries: int, seq: int) -> SearchResult:
    """Return the result before there are any codes."""
    return SearchResult([[] for _ in range(n_queries)], [[] for _ in range(n_queries)], None, seq)


def paged(ask: Callable[[int], Answers], k: int, after: Cursor | None, version: int, seq: int) -> SearchResult:
    """Return the k items that follow a page for one query, or the first k of every query.

    ``ask(n)`` returns the n nearest items of every query, by codes of a version, up to a sequence number.
    """
    if after is None:
        pages = [(answer, 0) for answer in ask(k)]
    else:
        if after.version != version:
            raise InvalidInputError(
                f"after is a page of version {after.version}, but the codes have version {version} now, and other "
                "distances; start again."
            )
        pages = [_following(ask, k, after)]
    rows: Answers = []
    cursors: list[str | None] = []
    for answer, start in pages:
        ids, distances, seqs = (column[start : start + k] for column in answer)
        rows.append((ids, distances, seqs))
        cursors.append(str(Cursor(distances[-1], seqs[-1], start + k, version)) if len(ids) == k else None)
    return replace(unpaged(rows, version, seq), cursor=cursors)


def _following(ask: Callable[[int], Answers], k: int, after: Cursor) -> tuple[Answer, int]:
    """Return what was found, and where the page begins; items before it may have come or gone."""
    wanted = after.rank + k
    while True:
        answer = ask(wanted)[0]
        distances, seqs = np.asarray(answer[1]), np.asarray(answer[2])
        before = (distances < after.distance) | ((distances == after.distance) & (seqs <= after.seq))
        start = int(np.count_nonzero(before))
        if len(seqs) < wanted or len(seqs) >= start + k:
            return answer, start
        wanted *= 2
