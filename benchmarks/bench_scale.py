"""Learning a data set in Parquet with two workers, against one process that reads the same files."""

from __future__ import annotations

import resource
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, sleep
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from benchmarks.measure import Row
from onlinehash import HROH, Encoder, scale

N_ROWS, D, N_CLASSES, N_BITS = 1_000_000, 128, 100, 64
N_FILES, ROW_GROUP, BATCH = 4, 1 << 16, 4096
GIB = 1 << 30


def write(folder: Path, n_rows: int) -> None:
    """Write rows around the centres of classes, more of which come as the stream goes on."""
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((N_CLASSES, D), dtype=np.float32)
    for file in range(N_FILES):
        ids = np.arange(file * n_rows // N_FILES, (file + 1) * n_rows // N_FILES)
        y = np.minimum(rng.integers(0, N_CLASSES, len(ids)), 20 + ids * N_CLASSES // n_rows)
        X = centres[y] + rng.standard_normal((len(ids), D), dtype=np.float32)
        table = pa.table({"id": ids, "vectors": pa.FixedSizeListArray.from_arrays(X.ravel(), D), "label": y})
        pq.write_table(table, folder / f"{file}.parquet", row_group_size=ROW_GROUP)


def batches(folder: Path) -> Any:
    for path in sorted(folder.glob("*.parquet")):
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(BATCH, use_threads=False):
                yield batch.column("vectors").flatten().to_numpy().reshape(-1, D), batch.column("label").to_numpy()


def learn_alone(folder: Path) -> HROH:
    hasher = HROH(N_BITS, random_state=0)
    for X, y in batches(folder):
        hasher.partial_fit(X, y)
    return hasher


def encode_alone(folder: Path, encoder: Encoder) -> NDArray[np.uint8]:
    return np.concatenate([encoder.encode(X) for X, _ in batches(folder)])


def difference(one: HROH, other: HROH) -> float:
    """Return the largest difference of the sums, relative to the least square and to the largest sum of a feature."""
    mine, theirs = one._sums.statistics, other._sums.statistics
    squares = np.abs(mine.gram - theirs.gram).max() / mine.gram.diagonal().min()
    return float(max(squares, np.abs(mine.sums - theirs.sums).max() / np.abs(mine.sums).max()))


def peak() -> int:
    """Return the most memory that this process has had, when another has had time to be asked too."""
    sleep(0.3)
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def timed(work: Any, *args: Any) -> tuple[float, Any]:
    start = perf_counter()
    result = work(*args)
    return perf_counter() - start, result


def run(n_rows: int = N_ROWS) -> list[Row]:
    """Measure on the wall, once: it takes minutes, and equality is what it is about."""
    with TemporaryDirectory() as name, scale.cluster(n_workers=2) as workers:
        folder = Path(name) / "data"
        (Path(name) / "small").mkdir()
        folder.mkdir()
        write(Path(name) / "small", 4_000)
        scale.learn(Path(name) / "small", HROH(N_BITS, random_state=0))  # both workers have imported all now
        write(folder, n_rows)
        with threadpool_limits(1):
            alone, one = timed(learn_alone, folder)
            snapshot, _ = timed(HROH.load(one.to_bytes()).snapshot)
        together, other = timed(scale.learn, folder, HROH(N_BITS, random_state=0))
        codes, others = (encode_alone(folder, hasher.snapshot()) for hasher in (one, other))
        memory = max(map(workers.get, [workers.call(peak) for _ in range(4)]))
    apart, differing = difference(one, other), int((others != codes).any(axis=1).sum())
    what = f"{n_rows} x {D}, {N_BITS} bits"
    seconds = {"one process": alone, "two workers": together, "a snapshot": snapshot}
    rows = [
        (f"learning {what}", alone / together, "one process / two workers", "-", seconds),
        (f"sums of {what}", apart / 1e-9, "relative difference / 1e-9", "at most 1", {}),
        (f"codes of {what}", float(differing), "rows whose codes differ", "0", {}),
        (f"peak memory of a worker, {what}", memory / GIB, "bytes / 1 GiB", "at most 1", {}),
    ]
    return [Row.of(what, [ratio], meaning, bar, times) for what, ratio, meaning, bar, times in rows]
