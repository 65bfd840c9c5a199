"""What a killed writer has left in the write-ahead log of a SQLite file, and whether all of it can be read.

SQLite applies the log up to the first frame that does not match its checksum: that is where a writer was interrupted.
Where a byte in the middle has changed, it drops all later transactions as well, and says nothing.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_HEADER = 32  # bytes of the log's header
_FRAME = 24  # bytes of a frame's header: page, pages after a commit or 0, two salts, two checksums
_ORDERS = {0x377F0682: "<u4", 0x377F0683: ">u4"}  # of the words in checksums, by the first word of the log
_PAGE_SIZE = 4096  # of all files of ours
_INDEX_SIZE = 48  # bytes of the header of the index, which stands there twice
_AT_A_TIME = 1 << 24  # bytes of the log


class _Head(NamedTuple):
    """The header of a log; ``intact`` if it matches its checksum, without which SQLite reads no frame."""

    content: bytes
    page_size: int
    order: str
    salts: bytes
    checksum: NDArray[np.uint32]
    intact: bool


class _Frames(NamedTuple):
    """Frames of the log: which are commits, and which continue the one before."""

    commits: NDArray[np.bool_]
    linked: NDArray[np.bool_]


def unreadable_commits(path: Path, *, shared: bool = True) -> int:
    """Return how many transactions, at least, were committed to the log of a file and cannot be read any more.

    The last one counts only if the index of the log, which dies with the machine, knows it: in the log alone it looks
    like one that was interrupted.

    Parameters
    ----------
    path : Path
        The file, without symbolic links.
    shared : bool
        Read the index too. It must not be read where this process has the file open: closing it would release locks.

    Examples
    --------
    >>> unreadable_commits(Path("there-is-no-such-file.oh"))
    0
    """
    log, index = (path.with_name(f"{path.name}{suffix}") for suffix in ("-wal", "-shm"))
    while True:
        head = _head(log)
        if head is None:
            return 0
        n_known = _n_known(index, head) if shared else 0
        n_lost = _count(_frames(log, head), head.intact, n_known)
        now = _head(log)
        if not n_lost or (now is not None and now.content == head.content):  # else a writer has begun it again
            return n_lost


def _head(log: Path) -> _Head | None:
    try:
        with log.open("rb") as file:
            content, first = file.read(_HEADER), file.read(_FRAME)
    except OSError:
        return None
    if len(first) < _FRAME:
        return None
    stored = np.frombuffer(content, ">u4", 2, offset=24).astype(np.uint32)
    for magic, order in _ORDERS.items():
        summed = np.frombuffer(content, order, 6).astype(np.uint32) @ _weights(3)[0]
        if int.from_bytes(content[:4], "big") == magic and (summed == stored).all():
            return _Head(content, int.from_bytes(content[8:12], "big"), order, content[16:24], stored, True)
    order = "<u4" if sys.byteorder == "little" else ">u4"
    return _Head(content, _PAGE_SIZE, order, first[8:16], stored, False)


def _n_known(index: Path, head: _Head) -> int:
    """Return how many frames of this log were committed, by its index; 0 if it does not say."""
    try:
        with index.open("rb") as file:
            content = file.read(2 * _INDEX_SIZE)
    except OSError:
        return 0
    if len(content) < 2 * _INDEX_SIZE or content[:_INDEX_SIZE] != content[_INDEX_SIZE:]:
        return 0
    n_frames = int.from_bytes(content[16:20], sys.byteorder)
    return n_frames if content[32:40] == head.salts else 0


def _count(frames: _Frames, intact: bool, n_known: int) -> int:
    broken = np.flatnonzero(~frames.linked).tolist() if intact else [0]
    first = broken[0] if broken else len(frames.linked)
    commits = frames.commits[first:]
    # A commit is written after the one before is on disk. With a second one behind the break, linked to what is before
    # it, the first was whole once.
    later = np.flatnonzero(commits[1:] & frames.linked[first + 1 :])
    proven = int(commits[: later[-1] + 2].sum()) - 1 if len(later) else 0
    known = max(1, int(commits[: n_known - first].sum())) if n_known > first else 0
    return max(proven, known)


def _frames(log: Path, head: _Head) -> _Frames:
    width = _FRAME + head.page_size
    weights, power = _weights((8 + head.page_size) // 8)
    before, salts = head.checksum, np.frombuffer(head.salts, np.uint8)
    commits, linked = [np.empty(0, bool)], [np.empty(0, bool)]
    with log.open("rb") as file:
        file.seek(_HEADER)
        while len(content := file.read(max(1, _AT_A_TIME // width) * width)) >= width:
            rows = np.frombuffer(content, np.uint8, len(content) // width * width).reshape(-1, width)
            own = (rows[:, 8:16] == salts).all(axis=1)  # others are of an older log
            stored = np.ascontiguousarray(rows[:, 16:24]).view(">u4").astype(np.uint32)
            summed = np.ascontiguousarray(np.hstack([rows[:, :8], rows[:, _FRAME:]])).view(head.order).astype(np.uint32)
            expected = np.vstack([before, stored[:-1]]) @ power + summed @ weights
            commits.append(own & rows[:, 4:8].any(axis=1))
            linked.append(own & (expected == stored).all(axis=1))
            before = stored[-1]
    return _Frames(np.concatenate(commits), np.concatenate(linked))


def _weights(n_steps: int) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """Return what the words of a frame, and the checksum before it, contribute to its checksum (modulo 2 ** 32).

    A step adds two words: ``s = s + x + t; t = t + z + s``. That is linear, so a frame is one product.
    """
    step, words = np.array([[1, 1], [1, 2]], np.uint32), np.array([[1, 1], [0, 1]], np.uint32)
    weights, power = np.empty((n_steps, 2, 2), np.uint32), np.eye(2, dtype=np.uint32)
    for i in reversed(range(n_steps)):
        weights[i] = words @ power
        power = power @ step
    return weights.reshape(2 * n_steps, 2), power
