"""Compiled loops that find the k nearest codes.

A search has two passes. The first writes the smallest distance of every tile of rows: it has no branch, becomes vector
instructions, and reads a tile once for several queries. The k-th smallest of them is a bound that k rows keep. The
second pass opens only the tiles that hold a row within the bound.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from onlinehash._kernel import kernel
from onlinehash.codes.kernels import distances, popcount

FAR = 0x7FFFFFFF  # more than any distance
NO_ID = 0x7FFFFFFFFFFFFFFF
_PRECISION = 1 / 8  # of the bound of distances that are no integers
_PART = 64  # rows of an open tile that are skipped at once


@kernel(fastmath={"nnan", "nsz"}, inner=True)  # else no vector loop for floats
def _lowest(values: Any) -> Any:
    """Return the smallest value."""
    smallest = values[0]
    for i in range(values.shape[0]):
        if values[i] < smallest:  # noqa: PLR1730 (min() would widen to 64 bits and lose the vector loop)
            smallest = values[i]
    return smallest


@intrinsic
def _write_eight(typingctx: Any, words: Any, row: Any, query: Any, out: Any) -> Any:
    """Write the distances of eight rows of four words, in any order.

    The bits of two rows are counted in one register, as they lie in memory, and sums of neighbours are added up. The
    compiler would sort the words to registers first, in twice the time.
    """

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        rows, queries, distances = (
            context.make_array(signature.args[i])(context, builder, args[i]).data for i in (0, 2, 3)
        )
        word, number = rows.type.pointee, distances.type.pointee
        if word.width != 64:  # never run: rows of four such words are rows of fewer wide ones
            return context.get_dummy_value()

        def at(start: Any, place: Any, kind: Any, n: int) -> Any:
            return builder.bitcast(builder.gep(start, [place]), ir.VectorType(kind, n).as_pointer())

        def shuffled(one: Any, other: Any, lanes: list[int]) -> Any:
            return builder.shuffle_vector(one, other, ir.Constant(ir.VectorType(ir.IntType(32), 8), lanes))

        def added(one: Any, other: Any, lanes: list[int], neighbours: list[int]) -> Any:
            return builder.add(shuffled(one, other, lanes), shuffled(one, other, neighbours))

        place = ir.IntType(64)
        query_words = builder.load(at(queries, place(0), word, 4), align=1)
        twice = shuffled(query_words, query_words, [0, 1, 2, 3, 0, 1, 2, 3])
        first = builder.mul(args[1], place(4))
        eight_words = ir.FunctionType(twice.type, [twice.type])
        count_bits = builder.module.declare_intrinsic("llvm.ctpop.v8i64", fnty=eight_words)
        counts = []
        for i in range(0, 32, 8):
            two_rows = builder.load(at(rows, builder.add(first, place(i)), word, 8), align=1)
            counts.append(builder.call(count_bits, [builder.xor(two_rows, twice)]))
        low, high = (
            added(one, other, [0, 8, 2, 10, 4, 12, 6, 14], [1, 9, 3, 11, 5, 13, 7, 15])
            for one, other in (counts[:2], counts[2:])
        )
        sums = added(low, high, [0, 1, 8, 9, 4, 5, 12, 13], [2, 3, 10, 11, 6, 7, 14, 15])
        builder.store(builder.trunc(sums, ir.VectorType(number, 8)), at(distances, args[1], number, 8), align=1)
        return context.get_dummy_value()

    return types.void(words, types.intp, query, out), emit


@kernel()
def nearest_in_tiles(queries: Any, words: Any, buffer: Any, out: Any) -> None:
    """Fill ``out`` (n_queries, n_tiles) with the smallest distance of every query in every tile."""
    tile_size = buffer.shape[0]
    for tile in range(out.shape[1]):
        rows = words[tile * tile_size : (tile + 1) * tile_size]
        for q in range(queries.shape[0]):
            if queries.ndim == 2 and words.shape[1] == 4 and rows.shape[0] % 8 == 0:  # the order does not matter here
                for row in range(0, rows.shape[0], 8):
                    _write_eight(rows, row, queries[q], buffer)  # type: ignore[call-arg]  # the first is numba's
            else:
                distances(queries[q], rows, buffer)
            out[q, tile] = _lowest(buffer[: rows.shape[0]])


@kernel()
def nearest_in_planes(queries: Any, words: Any, planes: Any, out: Any) -> None:
    """Do as :func:`nearest_in_tiles` for rows of three or four words, faster for several queries.

    A tile is transposed to ``planes``, four rows of a tile's size that are zero at first: the same word of successive
    rows then fills a vector register.
    """
    tile_size = planes.shape[1]
    p0, p1, p2, p3 = planes[0], planes[1], planes[2], planes[3]
    for tile in range(out.shape[1]):
        start = tile * tile_size
        size = min(tile_size, words.shape[0] - start)
        for w in range(words.shape[1]):
            for i in range(size):
                planes[w, i] = words[start + i, w]
        for q in range(queries.shape[0]):
            q0, q1, q2 = queries[q, 0], queries[q, 1], queries[q, 2]
            q3 = queries[q, 3] if words.shape[1] == 4 else p3[0]  # a plane of zeros
            smallest = popcount(p0[0] ^ q0) + popcount(p1[0] ^ q1) + popcount(p2[0] ^ q2) + popcount(p3[0] ^ q3)
            for i in range(1, size):
                distance = popcount(p0[i] ^ q0) + popcount(p1[i] ^ q1) + popcount(p2[i] ^ q2) + popcount(p3[i] ^ q3)
                smallest = min(smallest, distance)
            out[q, tile] = smallest


@kernel(inner=True)
def _sift_down(distances: Any, ids: Any, size: int) -> None:
    """Restore the heap (largest distance, then largest id, on top) after its top was replaced."""
    distance, id = distances[0], ids[0]
    hole = 0
    while True:
        child = 2 * hole + 1
        if child >= size:
            break
        right = child + 1
        if right < size and (
            distances[right] > distances[child] or (distances[right] == distances[child] and ids[right] > ids[child])
        ):
            child = right
        if distances[child] < distance or (distances[child] == distance and ids[child] < id):
            break
        distances[hole] = distances[child]
        ids[hole] = ids[child]
        hole = child
    distances[hole] = distance
    ids[hole] = id


@kernel(inner=True)
def _unwind(distances: Any, ids: Any) -> None:
    """Sort a heap: the worst goes to the end, then the next."""
    for size in range(ids.shape[0] - 1, 0, -1):
        distances[0], distances[size] = distances[size], distances[0]
        ids[0], ids[size] = ids[size], ids[0]
        _sift_down(distances, ids, size)


@kernel(inner=True)
def _start(nearest: Any, n_bits: int, best: Any, best_ids: Any) -> None:
    """Fill a heap with places that any row within the bound takes; the bound is far if there are fewer than k tiles."""
    bound = float(FAR)
    if best.shape[0] <= nearest.shape[0]:
        bound, step = float(n_bits), float(n_bits)
        while step > _PRECISION:
            step /= 2
            best[0] = bound - step  # rounded down where distances are integers
            limit, n_within = best[0], 0
            for i in range(nearest.shape[0]):
                n_within += nearest[i] <= limit
            if n_within >= best.shape[0]:
                bound -= step
    for i in range(best.shape[0]):
        best[i] = bound
        best_ids[i] = NO_ID


@kernel(inner=True)
def _is_masked(id: int, mask: Any, base: int) -> bool:
    """Return whether a mask of the ids from ``base`` on leaves an id out; an empty mask leaves out none."""
    place = id - base
    return mask.shape[0] > 0 and (place < 0 or place >= mask.shape[0] or mask[place] == 0)


@kernel()
def top_k(
    queries: Any, words: Any, pool: Any, starts: Any, sizes: Any, ordered: bool, mask: Any, base: int, nearest: Any,
    buffer: Any, out_distances: Any, out_ids: Any,
) -> None:  # fmt: skip
    """Find the k nearest items of each query that a mask leaves, ties by id; the largest id where there are fewer.

    Row ``r`` of the words is the code of the items ``pool[starts[r] : starts[r] + sizes[r]]``, sorted, or of the item
    ``pool[r]`` alone if ``starts`` is empty. A heap of the k best so far keeps the worst of them on top. The first item
    of a row that cannot win ends the row. Where ``ordered`` says that ids rise with the row, a tile of later rows at
    the same distance cannot win.
    """
    n_bits = 8 * words.shape[1] * words.itemsize
    tile_size = buffer.shape[0]
    k = out_ids.shape[1]
    for q in range(queries.shape[0]):
        best, best_ids = out_distances[q], out_ids[q]
        for bounded in (mask.shape[0] == 0, False):
            _start(nearest[q] if bounded else nearest[q, :0], n_bits, best, best_ids)
            for tile in range(nearest.shape[1]):
                start = tile * tile_size
                if nearest[q, tile] > best[0]:
                    continue
                if ordered and nearest[q, tile] == best[0] and pool[start] > best_ids[0]:
                    continue
                rows = words[start : start + tile_size]
                distances(queries[q], rows, buffer)
                for part in range(0, rows.shape[0], _PART):
                    last = part + _PART if part + _PART < rows.shape[0] else rows.shape[0]
                    bound = best[0]
                    if _lowest(buffer[part:last]) > bound:
                        continue
                    for i in range(part, last):
                        distance = buffer[i]
                        if distance > bound:
                            continue
                        first, size = start + i, 1
                        if starts.shape[0]:
                            first, size = starts[start + i], sizes[start + i]
                        for place in range(first, first + size):
                            id = pool[place]
                            if distance > bound or (distance == bound and id > best_ids[0]):
                                break
                            if _is_masked(id, mask, base):
                                continue
                            best[0] = distance
                            best_ids[0] = id
                            _sift_down(best, best_ids, k)
                            bound = best[0]
            if best_ids[0] != NO_ID or not bounded:
                break  # else empty rows were the nearest of some tiles, and fewer than k items are in the bound
        _unwind(best, best_ids)
