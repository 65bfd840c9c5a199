"""MilvusStore: a collection in Milvus, which searches it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

import numpy as np

from onlinehash.codes import code_width
from onlinehash.collection.stores.milvus_changes import MilvusChanges, packed
from onlinehash.collection.stores.milvus_journal import Blob, Generation, Head
from onlinehash.collection.stores.milvus_tables import check_fits, from_text
from onlinehash.collection.stores.protocol import Among, Answers, GenerationGone, GenerationRow, Position, Rows
from onlinehash.collection.types import Key
from onlinehash.encoders import Encoder
from onlinehash.exceptions import StorageError
from onlinehash.indexes.engines._milvus import MOST, CodeScan
from onlinehash.types import Codes, SoftCodes

T = TypeVar("T")
_TRIES = 10  # questions about something that another process changes
_NO_BITS = 8  # of what takes the place of codes in generation 0


class MilvusStore(MilvusChanges):
    """Keep a collection in Milvus, and search it there.

    What was written survives as Milvus lets it: :mod:`onlinehash.collection.stores.milvus_journal` says how. Other
    processes may read what is on a server meanwhile. They may see a change half done for a moment, and not see an item
    while it is replaced; if the learner was killed in that moment, until a learner opens the collection again. A file
    of Milvus Lite is for one process. Answers of more than 8192 items, or more than 16383 within a radius, and all of
    asymmetric searches, are made by reading all codes.

    Parameters
    ----------
    name : str
        The collections in Milvus are ``<name>_journal``, ``<name>_items`` and ``<name>_codes_<number>``.
    uri : str
        ``"http://user:password@host:19530"``, or the path of a file that ends in ``.db``, for Milvus Lite.
    readonly : bool
        Read what another process writes.
    create : bool
        Make it if there is none.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> folder = TemporaryDirectory()
    >>> store = MilvusStore("things", f"{folder.name}/milvus.db")
    >>> with store.writing():
    ...     store.put_setting("colour", "red")
    >>> store.setting("colour"), store.count()
    ('red', 0)
    >>> store.close()
    >>> folder.cleanup()
    """

    # ------------------------------------------------------------------ settings

    def setting(self, name: str, default: Any = None) -> Any:
        """Return a setting."""
        return self._look().settings.get(name, default)

    def put_setting(self, name: str, value: Any) -> None:
        """Write a setting."""
        self._look().settings[name] = value

    # ------------------------------------------------------------------ items

    def count(self) -> int:
        """Return the number of items."""
        return int(self.setting("n_items", 0))

    def size(self) -> int:
        """Return the number of bytes of the file; of features and codes, where a server does not tell."""
        head = self._look()
        if self._milvus.file is not None:
            return self._milvus.file.stat().st_size
        widths = [code_width(each.n_bits) for each in head.generations.values()]
        return int(head.settings.get("n_items", 0)) * (4 * _shape(head)[0] + sum(widths))

    def _in_use(self, ask: Callable[[int], T], otherwise: T) -> T:
        """Ask about the generation in use, and again about the next one where that is dropped meanwhile."""
        for _ in range(_TRIES):
            head = self._look()
            if "key_kind" not in head.settings:
                return otherwise
            try:
                return ask(head.generation)
            except GenerationGone:
                continue
        raise StorageError(f"The codes of generation {head.generation} of {self._place} are missing.")

    def seqs(self, keys: Sequence[Key]) -> list[int | None]:
        """Return where items are in the stream; None of unknown keys."""
        moved: dict[Key, int | None] = self._local.moved if self._is_writing() else {}
        nothing: dict[Key, int] = {}
        others = [key for key in keys if key not in moved]
        found = self._in_use(lambda number: self._tables.seqs(number, others), nothing)
        return [moved[key] if key in moved else found.get(key) for key in keys]

    def keys(self) -> Iterator[Key]:
        """Yield all keys in order."""
        last: Key | None = None
        while keys := self._keys_after(last, MOST):
            yield from keys
            last = keys[-1]

    def _keys_after(self, key: Key | None, limit: int) -> list[Key]:
        return self._in_use(lambda number: self._tables.keys_after(number, key, limit), [])

    def label_counts(self) -> dict[str | None, int]:
        """Return how many items have which labels, as JSON; None for those without. Reads all items."""
        counts: Counter[str | None] = Counter()
        last: Key | None = None
        while len(rows := self.rows_after(last, MOST)):
            counts.update(rows.labels)
            last = rows.keys[-1]
        return dict(counts)

    def rows(self, keys: Sequence[Key]) -> Rows:
        """Return the items of keys, in that order, without those that are unknown."""
        for _ in range(_TRIES):
            seqs = [seq for seq in self.seqs(keys) if seq is not None]
            if not seqs:
                return _NOTHING
            rows = self._tables.items(seqs, _shape(self._look()))
            if len(rows) == len(seqs):  # or else an item was replaced between the questions
                return rows
        raise StorageError(f"Items of {self._place} are missing.")

    def rows_after(self, key: Key | None, limit: int) -> Rows:
        """Return the next items in order of key."""
        while keys := self._keys_after(key, limit):
            rows = self.rows(keys)
            if len(rows):  # or else all were deleted between the questions
                return rows
            key = keys[-1]
        return _NOTHING

    def _is_writing(self) -> bool:
        return getattr(self._local, "pending", None) is not None

    def put(self, rows: Rows, codes: Mapping[int, Codes]) -> None:
        """Write items and their codes by generation, in place of those with the same keys."""
        check_fits(rows)
        head = self._look()
        if "key_kind" not in head.settings:
            kind = "TEXT" if isinstance(rows.keys[0], str) else "INTEGER"
            head.settings.update({"key_kind": kind, "n_features": rows.features.shape[1]})
            self._tables.create_items(kind, rows.features.shape[1])
            self._tables.create_codes(0, kind, _NO_BITS)
        before = [seq for seq in self.seqs(rows.keys) if seq is not None]
        self._tables.insert_items(rows)
        texts = {str(number): packed(some) for number, some in codes.items()}
        if not head.generation:
            texts["0"] = packed(np.zeros((len(rows), _NO_BITS // 8), np.uint8))
        head.log.append(("put", {"first": rows.seqs[0], "last": rows.seqs[-1], "codes": texts}))
        self._retire(head, before)
        self._local.rows[rows.seqs[0]] = rows
        self._local.moved.update(zip(rows.keys, rows.seqs, strict=True))
        head.settings["n_items"] = self.count() + len(rows) - len(before)
        head.seq = rows.seqs[-1]

    def put_payloads(self, keys: Sequence[Key], payloads: Sequence[str | None]) -> None:
        """Write the payloads of known keys."""
        old = self.rows(keys)
        check_fits(Rows(old.keys, old.seqs, old.features, old.labels, list(payloads)))
        # An upsert that is cut off may have deleted a row: all of it is in the log.
        given = {"keys": old.keys, "seqs": old.seqs, "labels": old.labels, "payloads": list(payloads)}
        features = packed(old.features.astype(np.float32))
        self._look().log.append(("replace", {**given, "features": features}))

    def delete(self, keys: Sequence[Key], first_seq: int) -> None:
        """Delete known keys and their codes; the sequence numbers of that start at ``first_seq``."""
        head, before = self._look(), [seq for seq in self.seqs(keys) if seq is not None]
        head.log.append(("delete", {"keys": list(keys), "numbers": sorted({head.generation, *head.generations})}))
        self._retire(head, before)
        self._local.moved.update(dict.fromkeys(keys))
        head.settings["n_items"] = self.count() - len(before)
        head.seq = first_seq + len(keys) - 1

    def _retire(self, head: Head, seqs: Sequence[int]) -> None:
        """Drop rows of the stream; those that the hasher has learned since its last state wait for the next."""
        dead = [seq for seq in seqs if seq <= head.state_seq]
        if dead:
            head.log.append(("dead", {"seqs": dead}))

    # ------------------------------------------------------------------ the stream and the state

    def position(self) -> Position:
        """Return where the store stands."""
        head = self._look()
        return Position(head.seq, head.generation)

    def vectors(self, after: int, limit: int) -> Rows:
        """Return keys, sequence numbers and features of the next instances."""
        return self.stream(after, limit)

    def stream(self, after: int, limit: int, *, retired: bool = False, labelled: bool = False) -> Rows:
        """Return the next instances of the stream."""
        parts: list[Rows] = []
        n_rows, head = 0, self._look()
        while n_rows < limit and "key_kind" in head.settings:
            rows = self._tables.items_between(after, head.seq, limit - n_rows, _shape(head), labelled=labelled)
            if not len(rows):
                break
            after = rows.seqs[-1]
            parts.append(rows if retired else _some(rows, self._in_use(partial(self._are_live, rows), [])))
            n_rows += len(parts[-1])
        return _joined(parts)

    def state(self) -> bytes:
        """Return the last state of the hasher."""
        return self._blob(lambda head: head.state)

    def _blob(self, where: Callable[[Head], Blob]) -> bytes:
        for _ in range(_TRIES):
            content = self._journal.read(where(self._look()))
            if content is not None:  # or else another took its place meanwhile
                return content
        raise StorageError(f"Bytes of {self._place} are missing.")

    def state_seq(self) -> int:
        """Return the sequence number up to which that state has learned."""
        return self._look().state_seq

    def put_state(self, state: bytes, learned_to: int) -> None:
        """Write the state of the hasher; what was kept of the stream up to there may go."""
        head = self._look()
        head.state = self._journal.write(state)
        if "key_kind" in head.settings:
            head.log.append(("forget", {"after": head.state_seq, "last": learned_to}))
        head.state_seq = learned_to

    def commits(self, after: int) -> list[int]:
        """Return nothing: Milvus does not remember batches."""
        return []

    # ------------------------------------------------------------------ generations

    def generations(self) -> list[GenerationRow]:
        """Return the generations: the one in use, one that is being made, or both."""
        for _ in range(_TRIES):
            head = self._look()
            encoders = {number: self._journal.read(each.encoder) for number, each in head.generations.items()}
            found = [
                GenerationRow(number, number == head.generation, encoder, head.generations[number].cursor)
                for number, encoder in encoders.items()
                if encoder is not None
            ]
            if len(found) == len(encoders):
                return found
        raise StorageError(f"Encoders of {self._place} are missing.")

    def begin_generation(self, encoder: bytes) -> int:
        """Start a generation in place of any that was being made; return its number."""
        head = self._look()
        self._drop_others(head)
        head.n_begun += 1
        n_bits = Encoder.load(encoder).n_bits
        self._tables.create_codes(head.n_begun, head.settings["key_kind"], n_bits)
        head.generations[head.n_begun] = Generation(n_bits, self._journal.write(encoder))
        return head.n_begun

    def finish_generation(self, number: int) -> None:
        """Take a generation into use and drop the others."""
        head = self._look()
        if not head.generation:
            head.log.append(("drop", {"number": 0}))
        head.generation = number
        self._drop_others(head)

    def _drop_others(self, head: Head) -> None:
        for number in [each for each in head.generations if each != head.generation]:
            del head.generations[number]
            head.log.append(("drop", {"number": number}))

    def put_codes(self, number: int, after: int, cursor: int, codes: Codes) -> None:
        """Write the codes of the instances from one sequence number to another; the generation is complete up to it."""
        head = self._look()
        rows = self._between(after, cursor)
        # Ahead of the commit: nobody looks at this generation yet, and without the cursor they are written again.
        self._tables.put_codes(number, _some(rows, self._are_live(rows, head.generation)), codes)
        head.generations[number].cursor = cursor

    # ------------------------------------------------------------------ searching

    @contextmanager
    def _scan(self, number: int, among: Among) -> Iterator[CodeScan]:
        generation = self._look().generations.get(number)
        if generation is None:
            raise GenerationGone(number)
        with self._tables.scan(number, generation.n_bits, among) as scan:
            yield scan

    def codes(self, number: int) -> tuple[list[Any], Codes]:
        """Return all keys that have a code, in order, and the codes."""
        with self._scan(number, Among()) as scan:
            keys, codes = scan.read()
        return [from_text(key) for key in keys], codes

    def search(self, number: int, queries: Codes, k: int, among: Among) -> Answers:
        """Return the k nearest items of every query, of the codes of a generation."""
        with self._scan(number, among) as scan:
            return _answers(scan.search(queries, k))

    def search_soft(self, number: int, queries: SoftCodes, k: int, among: Among) -> Answers:
        """Return the k nearest items of every query that keeps its real values, by asymmetric distance."""
        with self._scan(number, among) as scan:
            return _answers(scan.search_soft(queries, k))

    def range_search(self, number: int, queries: Codes, radius: int, among: Among) -> Answers:
        """Return all items at most ``radius`` away from every query."""
        with self._scan(number, among) as scan:
            return _answers(scan.range_search(queries, radius))

    def coded(self, number: int, keys: Sequence[Key]) -> list[bool]:
        """Tell which keys have a code in a generation."""
        found = self._tables.seqs(number, keys)
        return [key in found for key in keys]

    def n_coded(self, number: int) -> int:
        """Return how many items have a code in a generation."""
        return self._tables.count(number)

    def sample(self, number: int, n_items: int, seed: int) -> list[Any]:
        """Return keys that have a code in a generation, at random, all different."""
        rng, last = np.random.default_rng(seed), self._look().seq
        keys: list[Any] = []
        if last > 8 * n_items:  # most sequence numbers are those of items
            keys = self._tables.keys_at(number, np.unique(rng.integers(1, last + 1, 4 * n_items)).tolist())
        if len(keys) < n_items:
            keys = []
            while some := self._tables.keys_after(number, keys[-1] if keys else None):
                keys += some
        chosen = rng.choice(len(keys), min(n_items, len(keys)), replace=False)
        return [keys[place] for place in sorted(chosen.tolist())]


_NOTHING = Rows([], [], np.empty((0, 0), np.float32), [], [])


def _shape(head: Head) -> tuple[int, str]:
    """Return the width of the vectors and the precision they are stored in."""
    return head.settings.get("n_features", 1), head.settings.get("feature_dtype", "float32")


def _answers(found: list[tuple[list[Any], list[Any]]]) -> Answers:
    return [([from_text(key) for key in keys], distances) for keys, distances in found]


def _some(rows: Rows, kept: Sequence[bool]) -> Rows:
    """Return those rows that are to be kept."""
    if all(kept):
        return rows
    places = [place for place, keep in enumerate(kept) if keep]
    return Rows(
        [rows.keys[place] for place in places],
        [rows.seqs[place] for place in places],
        rows.features[places],
        [rows.labels[place] for place in places],
        [rows.payloads[place] for place in places] if rows.payloads else [],
    )


def _joined(parts: list[Rows]) -> Rows:
    if len(parts) < 2:
        return parts[0] if parts else _NOTHING
    return Rows(
        [key for part in parts for key in part.keys],
        [seq for part in parts for seq in part.seqs],
        np.concatenate([part.features for part in parts]),
        [labels for part in parts for labels in part.labels],
        [payload for part in parts for payload in part.payloads],
    )
