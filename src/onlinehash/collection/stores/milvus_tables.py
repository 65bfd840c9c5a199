"""The items of a collection, and their codes by generation, as collections of Milvus have them.

Texts that filters name, keys and labels, are kept in hexadecimal digits: they need no escapes, and sort as they do in
Python.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinehash.collection.stores.protocol import Among, GenerationGone, Rows
from onlinehash.collection.types import Key, Label
from onlinehash.exceptions import InvalidInputError, StorageError
from onlinehash.indexes.engines._milvus import (
    INTEGER,
    LONGEST,
    MOST,
    TEXT,
    CodeScan,
    Milvus,
    above,
    both,
    code,
    one_of,
    vector,
)
from onlinehash.types import Codes

_MOST_FEATURES = 32768  # in a vector, says Milvus
_LABELS = 100  # in one filter
_PAGE = 8 << 20  # bytes of features read at a time
_KEYS = {"INTEGER": INTEGER, "TEXT": TEXT}
_COLUMNS = ("seq", "key", "labels", "payload", "features")


class Tables:
    """One collection of Milvus for items, by sequence number, and one a generation for codes, by key.

    Parameters
    ----------
    milvus : Milvus
    name : str
    """

    def __init__(self, milvus: Milvus, name: str) -> None:
        self._milvus, self._name, self._items = milvus, name, f"{name}_items"

    def _codes(self, number: int) -> str:
        return f"{self._name}_codes_{number}"

    def create_items(self, key_kind: str, n_features: int) -> None:
        """Make room for items."""
        what = {"seq": INTEGER, "key": _KEYS[key_kind], "labels": TEXT, "payload": TEXT}
        self._milvus.create(self._items, {**what, "features": vector(max(2, n_features))})

    def create_codes(self, number: int, key_kind: str, n_bits: int) -> None:
        """Make room for codes."""
        what = {"key": _KEYS[key_kind], "seq": INTEGER, "labels": TEXT, "code": code(n_bits)}
        self._milvus.create(self._codes(number), what)

    def keep(self, numbers: Iterable[int], *, items: bool) -> None:
        """Drop the codes of all other generations, and the items if they are not to be kept; load the rest."""
        kept = {self._codes(number) for number in numbers} | ({self._items} if items else set())
        ours = re.compile(rf"{self._name}_(items|codes_\d+)")
        for name in filter(ours.fullmatch, self._milvus.names()):
            if name in kept:
                self._milvus.load(name)
            else:
                self._milvus.drop(name)

    def drop_codes(self, number: int) -> None:
        """Drop the codes of a generation."""
        self._milvus.drop(self._codes(number))

    @contextmanager
    def _looking(self, number: int) -> Iterator[str]:
        """Give the name of the codes of a generation; say so if they are gone."""
        name = self._codes(number)
        try:
            yield name
        except StorageError:
            if self._milvus.has(name):
                raise
            raise GenerationGone(number) from None

    # ------------------------------------------------------------------ items

    def insert_items(self, rows: Rows) -> None:
        """Write items whose sequence numbers are new."""
        self._milvus.insert(self._items, _as_items(rows))

    def put_items(self, rows: Rows) -> None:
        """Write items in place of those with the same sequence numbers."""
        self._milvus.put(self._items, _as_items(rows))

    def delete_items(self, seqs: Iterable[int]) -> None:
        """Delete items."""
        self._milvus.delete(self._items, one_of("seq", seqs))

    def delete_items_after(self, seq: int) -> None:
        """Delete all items after a sequence number."""
        self._milvus.delete(self._items, [above("seq", seq)])

    def items(self, seqs: Sequence[int], shape: tuple[int, str]) -> Rows:
        """Return items by sequence number, in that order, without those that are not there."""
        found: dict[int, dict[str, Any]] = {}
        step = _page(shape)
        for start in range(0, len(seqs), step):
            rows = self._milvus.find(self._items, one_of("seq", seqs[start : start + step]), _COLUMNS)
            found.update((row["seq"], row) for row in rows)
        return _as_rows([found[seq] for seq in seqs if seq in found], shape)

    def items_between(
        self, after: int, last: int, limit: int, shape: tuple[int, str] | None = None, *, labelled: bool = False
    ) -> Rows:
        """Return the next items up to a sequence number, as many as fit into a page; without ``shape`` no features."""
        where = both(f"seq > {after}", f"seq <= {last}", 'labels != ""' if labelled else "")
        most = MOST if shape is None else _page(shape)
        fields = _COLUMNS[:3] if shape is None else _COLUMNS
        return _as_rows(self._milvus.page(self._items, where, fields, min(limit, most)), shape)

    # ------------------------------------------------------------------ codes

    def put_codes(self, number: int, rows: Rows, codes: Codes) -> None:
        """Write codes, with the place and the labels of their items."""
        self._milvus.put(
            self._codes(number),
            (
                {"key": to_text(key), "seq": seq, "labels": _joined(labels), "code": code.tobytes()}
                for key, seq, labels, code in zip(rows.keys, rows.seqs, rows.labels, codes, strict=True)
            ),
        )

    def delete_codes(self, number: int, keys: Sequence[Key]) -> None:
        """Delete the codes of keys."""
        self._milvus.delete(self._codes(number), one_of("key", map(to_text, keys)))

    def seqs(self, number: int, keys: Iterable[Key]) -> dict[Key, int]:
        """Return where those items are that have a code."""
        with self._looking(number) as name:
            rows = self._milvus.find(name, one_of("key", map(to_text, keys)), ["key", "seq"])
        return {from_text(row["key"]): row["seq"] for row in rows}

    def keys_at(self, number: int, seqs: Sequence[int]) -> list[Key]:
        """Return the keys of those sequence numbers that have a code."""
        with self._looking(number) as name:
            return [from_text(row["key"]) for row in self._milvus.find(name, one_of("seq", seqs), ["key"])]

    def keys_after(self, number: int, key: Key | None, limit: int = MOST) -> list[Key]:
        """Return the next keys in order."""
        where = "" if key is None else above("key", to_text(key))
        with self._looking(number) as name:
            return [from_text(row["key"]) for row in self._milvus.page(name, where, ["key"], limit)]

    def count(self, number: int) -> int:
        """Return the number of codes."""
        with self._looking(number) as name:
            return self._milvus.count(name)

    @contextmanager
    def scan(self, number: int, n_bits: int, among: Among) -> Iterator[CodeScan]:
        """Give what searches the codes of a generation."""
        filters = [""] if among.keys is None else one_of("key", map(to_text, among.keys))
        if among.labels is not None:
            filters = [both(each, other) for each in filters for other in _labelled(among.labels)]
        with self._looking(number) as name:
            yield CodeScan(self._milvus, name, n_bits, filters)


def to_text(key: Key) -> Key:
    """Return a key as Milvus has it.

    Examples
    --------
    >>> to_text(7), to_text("shoe"), from_text("73686f65")
    (7, '73686f65', 'shoe')
    """
    return key.encode().hex() if isinstance(key, str) else key


def from_text(key: Key) -> Key:
    """Return a key that Milvus has."""
    return bytes.fromhex(key).decode() if isinstance(key, str) else key


def check_fits(rows: Rows) -> None:
    """Raise if Milvus has no room for something."""
    if rows.features.shape[1] > _MOST_FEATURES:
        raise InvalidInputError(f"X has {rows.features.shape[1]} features; Milvus takes at most {_MOST_FEATURES}.")
    if isinstance(rows.keys[0], str) and max(len(key.encode()) for key in rows.keys) > LONGEST // 2:
        raise InvalidInputError(f"keys holds a string of over {LONGEST // 2} bytes; Milvus takes no longer ones.")
    for name, texts in (("labels", rows.labels), ("payload", rows.payloads)):
        if max(len(text or "") for text in texts) > LONGEST:
            raise InvalidInputError(
                f"{name} has an entry of over {LONGEST} characters of JSON; Milvus takes no longer ones."
            )
    if max(len(_joined(text)) for text in set(rows.labels)) > LONGEST:
        raise InvalidInputError(
            f"labels has an entry of over {LONGEST} hexadecimal digits; Milvus takes no longer ones."
        )


def _label(label: Label) -> str:
    return f"s{label.encode().hex()}" if isinstance(label, str) else str(label)


def _joined(text: str | None) -> str:
    """Return labels in one text, each between commas: Milvus Lite fails to answer nothing where there are arrays."""
    labels = [] if text is None else json.loads(text)
    return f",{','.join(map(_label, labels if isinstance(labels, list) else [labels]))},"


def _labelled(labels: Sequence[Label]) -> list[str]:
    """Return filters that together let items pass that have any of the labels."""
    likes = [f'labels like "%,{_label(label)},%"' for label in labels]
    return [" or ".join(likes[start : start + _LABELS]) for start in range(0, len(likes), _LABELS)]


def _page(shape: tuple[int, str]) -> int:
    return max(1, min(MOST, _PAGE // (4 * shape[0])))


def _as_items(rows: Rows) -> Iterator[dict[str, Any]]:
    features = rows.features.astype(np.float32)
    if features.shape[1] == 1:
        features = np.pad(features, ((0, 0), (0, 1)))  # one number is no vector to Milvus
    columns = zip(rows.seqs, rows.keys, rows.labels, rows.payloads, features, strict=True)
    for seq, key, labels, payload, row in columns:
        yield {"seq": seq, "key": to_text(key), "labels": labels or "", "payload": payload or "", "features": row}


def _as_rows(found: list[dict[str, Any]], shape: tuple[int, str] | None) -> Rows:
    features: NDArray[Any] = np.empty((len(found), 0), np.float32)
    if shape is not None:
        width, dtype = shape
        features = np.array([row["features"] for row in found], np.float32).reshape(len(found), -1 if found else width)[
            :, :width
        ]
        features = features.astype(dtype)
    return Rows(
        [from_text(row["key"]) for row in found],
        [row["seq"] for row in found],
        features,
        [row["labels"] or None for row in found],
        [row.get("payload") or None for row in found],
    )
