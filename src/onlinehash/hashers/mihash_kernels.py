"""Kernels of MIHash: mutual information, its gradient, and the projections of the reservoir."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinehash._internal.kernels import kernel
from onlinehash._internal.validation import check_codes
from onlinehash.codes.distances import as_words, distance_dtype
from onlinehash.codes.kernels import distances
from onlinehash.exceptions import InvalidInputError
from onlinehash.hashers._block import apply_tanh, subtract_earlier

NO_LABEL = -1


def share_a_label(left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return for every pair of rows whether they have a number in common; -1 pads rows that have fewer."""
    if left.shape[1] == right.shape[1] == 1:
        return np.asarray(left.astype(np.int32) == right.T.astype(np.int32))  # twice as fast as with 64 bits
    shared = np.zeros((len(left), len(right)), bool)
    for mine in left.T[..., np.newaxis]:
        for theirs in np.where(right == NO_LABEL, NO_LABEL - 1, right).T:
            shared |= mine == theirs
    return shared


def mutual_information(codes: NDArray[np.uint8], neighbours: NDArray[np.bool_], n_bits: int) -> float:
    """Return the mutual information of Hamming distance and being a neighbour, in bits, averaged over the items.

    Every item is compared with all items, itself included; the two largest distances share a bin, as published.
    """
    check_codes(codes, n_bits)
    if neighbours.shape != (len(codes), len(codes)) or neighbours.dtype != np.bool_:
        raise InvalidInputError(
            f"neighbours is {neighbours.dtype} of shape {neighbours.shape}; {len(codes)} codes need one bool per pair."
        )
    table = np.arange(len(codes) + 1, dtype=np.float64)
    table[1:] *= np.log2(table[1:])
    buffer = np.empty(len(codes), distance_dtype(codes.shape[1]))
    return float(_mutual_information(as_words(codes), neighbours.view(np.uint8), n_bits, table, buffer))


@kernel()
def _mutual_information(words: Any, neighbours: Any, n_bits: int, n_log_n: Any, buffer: Any) -> Any:
    n_items = words.shape[0]
    fours = n_items - n_items % 4
    places = np.empty(n_items, np.uint16)  # of a distance: an even one for far, the next for near items
    counts = np.empty((4, 2 * n_bits + 2), np.int32)  # four tables: equal neighbours do not wait for each other
    c0, c1, c2, c3 = counts[0], counts[1], counts[2], counts[3]
    total = 0.0
    for j in range(n_items):
        distances(words[j], words, buffer)
        is_near = neighbours[j]
        for i in range(n_items):
            places[i] = np.uint16(2) * np.uint16(buffer[i]) + np.uint16(is_near[i])
        counts[:] = 0
        for i in range(0, fours, 4):
            c0[places[i]] += 1
            c1[places[i + 1]] += 1
            c2[places[i + 2]] += 1
            c3[places[i + 3]] += 1
        for i in range(fours, n_items):
            c0[places[i]] += 1
        for p in range(2 * n_bits + 2):
            c0[p] += c1[p] + c2[p] + c3[p]
        c0[2 * n_bits - 2] += c0[2 * n_bits]  # the two largest distances
        c0[2 * n_bits - 1] += c0[2 * n_bits + 1]
        # n H = n log n - sum of c log c: entropies of counts, from a table of n log n.
        gain = n_log_n[n_items]
        n_near = 0
        for d in range(n_bits):
            far, near = c0[2 * d], c0[2 * d + 1]
            n_near += near
            gain += n_log_n[near] + n_log_n[far] - n_log_n[near + far]
        gain -= n_log_n[n_near] + n_log_n[n_items - n_near]
        total += max(0.0, gain / n_items)
    return total / n_items


@kernel(fastmath={"contract"})
def replay(
    projections: Any,
    gram: Any,
    in_block: Any,
    halves: Any,
    cross: Any,
    neighbours: Any,
    n_items: int,
    places: Any,
    rates: Any,
    slope: float,
    n_bins: int,
    exact: bool,
) -> None:
    """Turn the projections of a block into gradients, in place and in stream order; the reservoir follows.

    ``halves`` are the projections of the reservoir times slope / 2, ``cross`` the products of the block with its items
    and ``neighbours`` their relation; ``gram`` and ``in_block`` are the same within the block, for the rows whose
    ``places`` in the reservoir are not -1.
    """
    n_rows, n_bits = projections.shape
    half = halves.dtype.type(slope / 2)
    soft = halves.copy()
    before = np.empty_like(projections[0])
    for i in range(n_rows):
        row, place = projections[i], places[i]
        subtract_earlier(projections, gram, i, i)
        before[:] = row
        apply_tanh(soft[:n_items].reshape(-1))  # 2 phi - 1
        _ascend(row, soft[:n_items], neighbours[i], slope, n_bins, rates[i], exact)
        for s in range(n_items):  # r W changes by -(r x) g^T
            step = half * cross[i, s]
            for b in range(n_bits):
                halves[s, b] -= step * row[b]
                soft[s, b] = halves[s, b]
        if place >= 0:
            for b in range(n_bits):
                halves[place, b] = half * (before[b] - gram[i, i] * row[b])
                soft[place, b] = halves[place, b]
            for later in range(i + 1, n_rows):
                cross[later, place] = gram[later, i]
                neighbours[later, place] = in_block[later, i]
            n_items = max(n_items, place + 1)


@kernel(fastmath={"contract", "reassoc", "nsz"}, inner=True)
def _ascend(row: Any, soft: Any, neighbours: Any, slope: float, n_bins: int, rate: float, exact: bool) -> None:
    """Turn the projection of one instance into its gradient, in place, by the soft distances to the reservoir."""
    n_items, n_bits = soft.shape
    mine = np.empty_like(row)
    for b in range(n_bits):
        mine[b] = row[b] * slope / 2
    apply_tanh(mine)
    # Soft histogram: a distance between two centres is shared by them. Place 0 stands for a centre below the first.
    width = n_bits / n_bins
    upper = np.empty(n_items, np.int32)
    below = np.empty(n_items)  # share of the lower centre
    for s in range(n_items):
        product = row.dtype.type(0)
        for b in range(n_bits):
            product += mine[b] * soft[s, b]
        below[s] = (n_bits - np.float64(product)) / 2 / width
    for s in range(n_items):
        position = below[s]
        place = np.ceil(position)
        place = place if place > 0.0 else 0.0
        place = place if place < n_bins else float(n_bins)
        upper[s] = np.int32(place)
        below[s] = place - position
    counts = np.zeros((2, n_bins + 2))
    n_near = 0
    for s in range(n_items):
        near, u = np.int64(neighbours[s]), upper[s]
        n_near += int(near)
        counts[near, u + 1] += 1 - below[s]
        counts[near, u] += below[s]
    # d(-MI)/dD of an item: the slope, between its two centres, of log p(D) - log p(D | near or far).
    surprise = np.zeros((2, n_bins + 2))
    for c in range(1, n_bins + 2):
        both = _one_plus_log2((counts[0, c] + counts[1, c]) / n_items)
        surprise[0, c] = both - _one_plus_log2(counts[0, c] / max(n_items - n_near, 1))
        surprise[1, c] = both - _one_plus_log2(counts[1, c] / max(n_near, 1))
    slopes = ((surprise[:, 1:] - surprise[:, :-1]) / (width * n_items)).astype(row.dtype)
    row[:] = 0
    total = row.dtype.type(0)
    for s in range(n_items):
        pull = slopes[np.int64(neighbours[s]), upper[s]]
        total += pull
        for b in range(n_bits):
            row[b] += pull * soft[s, b]
    for b in range(n_bits):
        # dD/dphi is -(2 phi_s - 1) = -soft; the published code takes -phi_s / 2 = -(soft + 1) / 4.
        inner = -row[b] if exact else -(row[b] + total) / 4
        row[b] = rate * slope * (1 - mine[b] * mine[b]) / 4 * inner


@kernel(inner=True)
def _one_plus_log2(share: float) -> float:
    return 1.0 + np.log2(share) if share > 0 else 1.0
