"""Compiled loops over packed codes.

Codes are seen as rows of machine words, so that one popcount covers up to 64 bits. Distances of
a tile of rows go into a small buffer first: that loop has no branch and becomes vector
instructions; whether any row of the tile is of interest is then one comparison.

An asymmetric query is a table for each byte of a code instead of a row of words (``fill_tables``): loops that take
queries take either, and codes are then rows of bytes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba.extending import intrinsic

from onlinehash._internal.kernels import kernel

TILE = 512  # distances of a tile fit the first-level cache


@intrinsic
def _popcount(typingctx: Any, word: Any) -> Any:
    """Count the set bits of an unsigned word (numba does not know ``np.bitwise_count``)."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> ir.Instruction:
        return builder.ctpop(args[0])

    return word(word), emit


popcount: Any = _popcount


@kernel()
def fill_tables(queries: Any, out: Any) -> None:
    """Fill ``out`` (n_queries, n_bytes, 256) with what each value of each byte of a code adds to a query's distance.

    A bit adds (1 - q) / 2 where it is set and (1 + q) / 2 where it is not. Each bit doubles the part of the table that
    is done; bits beyond the last add nothing. Sums of terms that are not negative are not negative, even rounded.
    """
    half = np.float32(0.5)
    for q in range(queries.shape[0]):
        for b in range(out.shape[1]):
            table = out[q, b]
            table[0] = 0.0
            for bit in range(8):
                size = 1 << bit
                unset, is_set = np.float32(0.0), np.float32(0.0)
                if 8 * b + bit < queries.shape[1]:
                    unset, is_set = half + half * queries[q, 8 * b + bit], half - half * queries[q, 8 * b + bit]
                for value in range(size):
                    table[size + value] = table[value] + is_set
                    table[value] += unset


@kernel(inner=True)
def _look_up(tables: Any, codes: Any, out: Any) -> None:
    """Write the distance of every row to the head of ``out``: the same sum, in the same order, for equal codes."""
    n_rows, n_bytes = codes.shape
    fours = n_bytes - n_bytes % 4
    out[:n_rows] = 0.0
    for b in range(0, fours, 4):  # four at a time: half the time of one by one
        t0, t1, t2, t3 = tables[b], tables[b + 1], tables[b + 2], tables[b + 3]
        for i in range(n_rows):
            out[i] += (t0[codes[i, b]] + t1[codes[i, b + 1]]) + (t2[codes[i, b + 2]] + t3[codes[i, b + 3]])
    for b in range(fours, n_bytes):
        table = tables[b]
        for i in range(n_rows):
            out[i] += table[codes[i, b]]


@kernel(inner=True)
def distances(query: Any, words: Any, out: Any) -> None:
    """Write the distance of every row to the head of ``out``."""
    n_rows, n_words = words.shape
    if query.ndim == 2:  # known when compiled: only one side is
        _look_up(query, words, out)
    elif n_words == 1:
        q0 = query[0]
        for i in range(n_rows):
            out[i] = popcount(words[i, 0] ^ q0)
    elif n_words == 2:
        q0, q1 = query[0], query[1]
        for i in range(n_rows):
            out[i] = popcount(words[i, 0] ^ q0) + popcount(words[i, 1] ^ q1)
    elif n_words == 4:
        q0, q1, q2, q3 = query[0], query[1], query[2], query[3]
        for i in range(n_rows):
            low = popcount(words[i, 0] ^ q0) + popcount(words[i, 1] ^ q1)
            out[i] = low + popcount(words[i, 2] ^ q2) + popcount(words[i, 3] ^ q3)
    else:
        for i in range(n_rows):
            distance = 0
            for w in range(n_words):
                distance += popcount(words[i, w] ^ query[w])
            out[i] = distance


@kernel()
def pairwise_distances(queries: Any, words: Any, out: Any) -> None:
    """Fill ``out`` (n_queries, n_rows) with distances."""
    for q in range(queries.shape[0]):
        distances(queries[q], words, out[q])


@kernel()
def count_by_distance(
    queries: Any, groups: Any, words: Any, row_groups: Any, buffer: Any, total: Any, relevant: Any
) -> None:
    """Count all rows at every distance from each query, and the relevant ones, which are those of its group."""
    n_rows = words.shape[0]
    for q in range(queries.shape[0]):
        for start in range(0, n_rows, TILE):
            stop = min(start + TILE, n_rows)
            distances(queries[q], words[start:stop], buffer)
            for i in range(stop - start):
                total[q, buffer[i]] += 1
                relevant[q, buffer[i]] += row_groups[start + i] == groups[q]


@kernel()
def rank_in_storage_order(
    queries: Any, groups: Any, words: Any, row_groups: Any, total: Any, relevant: Any, k: int,
    buffer: Any, out_sum: Any, out_found: Any,
) -> None:  # fmt: skip
    """Rank rows by distance, ties in storage order, down to rank ``k``.

    With the number of rows at every distance known (``total``, ``relevant``), the rank of a row is the number
    of nearer rows plus the number of rows at its distance met so far: one scan, no sort. ``out_sum`` gets the sum
    of the precisions at the relevant ranks, ``out_found`` the number of relevant rows.
    """
    n_rows = words.shape[0]
    n_distances = total.shape[1]
    rank = np.empty(n_distances, np.int64)
    hits = np.empty(n_distances, np.int64)
    for q in range(queries.shape[0]):
        nearer, nearer_hits = 0, 0
        for d in range(n_distances):
            rank[d], hits[d] = nearer, nearer_hits
            nearer += total[q, d]
            nearer_hits += relevant[q, d]
        precision_sum = 0.0
        found = 0
        for start in range(0, n_rows, TILE):
            stop = min(start + TILE, n_rows)
            distances(queries[q], words[start:stop], buffer)
            for i in range(stop - start):
                d = buffer[i]
                rank[d] += 1
                if row_groups[start + i] == groups[q]:
                    hits[d] += 1
                    if rank[d] <= k:
                        precision_sum += hits[d] / rank[d]
                        found += 1
        out_sum[q] = precision_sum
        out_found[q] = found
