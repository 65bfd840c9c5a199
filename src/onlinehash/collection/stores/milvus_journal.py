"""Journal: the one row whose insertion commits a change to a collection in Milvus, which has no transactions.

A change is made in steps. What nobody looks at yet is written ahead; then a new head is inserted, and that is the
commit; then what it says is done. Whoever opens the collection to write does once more what the last head says, all of
which may be done twice, and removes what was written ahead of a head that never came.
"""

from __future__ import annotations

import base64
import json
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from onlinehash.exceptions import FileFormatError
from onlinehash.indexes.engines._milvus import INTEGER, LONGEST, TEXT, Fields, Milvus, both, code

_LAYOUT = 1
_FIELDS: Fields = {
    "id": INTEGER,
    "kind": TEXT,
    "value": TEXT,
    "log": TEXT,
    "nothing": code(8),  # Milvus wants a vector
}

Blob = tuple[int, int]
"""Bytes: their first row, and the one after the last."""

Step = tuple[str, dict[str, Any]]
"""Something to do after the commit: its name, and with what."""


@dataclass
class Generation:
    """What a head says about a generation."""

    n_bits: int
    encoder: Blob
    cursor: int = 0


@dataclass
class Head:
    """All that is small of a collection, and the steps of the change that led there.

    Examples
    --------
    >>> head = Head(settings={"colour": "red"}, log=[("drop", {"number": 1})])
    >>> head.next().settings, head.next().log
    ({'colour': 'red'}, [])
    """

    id: int = 0
    seq: int = 0
    generation: int = 0
    n_begun: int = 0
    settings: dict[str, Any] = field(default_factory=dict)
    state: Blob = (0, 0)
    state_seq: int = 0
    generations: dict[int, Generation] = field(default_factory=dict)
    log: list[Step] = field(default_factory=list)
    texts: list[Blob] = field(default_factory=list)  # where what is too long for a field is

    def next(self) -> Head:
        """Return a copy to change, with no steps yet."""
        others = {number: replace(each) for number, each in self.generations.items()}
        return replace(self, settings=dict(self.settings), generations=others, log=[], texts=[])


class Journal:
    """The heads of a collection, and the bytes they refer to, in a collection of Milvus.

    A head takes the place of the one before by its larger ``id``; an upsert might delete that and then fail.

    Parameters
    ----------
    milvus : Milvus
    name : str
    """

    def __init__(self, milvus: Milvus, name: str) -> None:
        self._milvus, self._name = milvus, f"{name}_journal"
        self._last = 0

    def exists(self) -> bool:
        """Tell whether there is a head."""
        return self._milvus.has(self._name) and bool(self._heads())

    def create(self) -> None:
        """Make room for heads."""
        self._milvus.create(self._name, _FIELDS)

    # ------------------------------------------------------------------ heads

    def newest(self, known: Head | None = None) -> Head:
        """Return the last head that was committed; an empty one before the first."""
        while True:
            newest = max(self._heads(), default=0)
            if known is not None and newest == known.id:
                return known
            self._last = newest
            if not newest:
                return Head()
            head = self._read_head(newest)
            if head is not None:  # or else there is a newer one by now
                return head

    def _heads(self) -> list[int]:
        return [row["id"] for row in self._milvus.page(self._name, 'kind == "head"', ["id"])]

    def _read_head(self, number: int) -> Head | None:
        rows = self._milvus.page(self._name, f"id == {number}", ["id", "value", "log"])
        if not rows:
            return None
        texts = [rows[0]["value"], rows[0]["log"]]
        blobs = [_blob(text[1:].split()) for text in texts if text.startswith("@")]
        contents = {blob: self.read(blob) for blob in blobs}
        if None in contents.values():
            return None
        value, log = (
            json.loads(contents[_blob(text[1:].split())] or b"" if text.startswith("@") else text) for text in texts
        )
        if value.pop("layout") > _LAYOUT:
            raise FileFormatError(f"{self._name} was written by a later version. Upgrade onlinehash.")
        generations = {
            int(each): Generation(**{**about, "encoder": _blob(about["encoder"])})
            for each, about in value.pop("generations").items()
        }
        state, steps = _blob(value.pop("state")), [(name, given) for name, given in log]
        return Head(id=number, state=state, generations=generations, log=steps, texts=blobs, **value)

    def commit(self, head: Head) -> None:
        """Insert a head: from now on it is the last."""
        packed = asdict(head)
        del packed["id"], packed["texts"]
        log = self._short(json.dumps(packed.pop("log")), head)
        value = self._short(json.dumps({"layout": _LAYOUT, **packed}), head)
        self._last += 1
        head.id = self._last
        self._insert([(head.id, "head", value, log)])

    def _short(self, text: str, head: Head) -> str:
        """Return a text that fits into a field: itself, or where it is."""
        if len(text) <= LONGEST:
            return text
        head.texts.append(self.write(text.encode()))
        first, end = head.texts[-1]
        return f"@{first} {end}"

    def sweep(self, head: Head) -> None:
        """Remove all but a head and what it refers to."""
        kept = [(head.id, head.id + 1), head.state, *head.texts, *(each.encoder for each in head.generations.values())]
        others = both("id > 0", *(f"id < {first} or id >= {end}" for first, end in kept))
        self._milvus.delete(self._name, [others])

    # ------------------------------------------------------------------ bytes

    def write(self, content: bytes) -> Blob:
        """Write bytes ahead of the head that will refer to them."""
        text = base64.b64encode(content).decode()
        parts = [text[start : start + LONGEST] for start in range(0, len(text), LONGEST)]
        first = self._last + 1
        self._last += len(parts)
        self._insert([(number, "blob", part, "") for number, part in enumerate(parts, first)])
        return first, first + len(parts)

    def read(self, blob: Blob) -> bytes | None:
        """Return bytes; None if they are gone."""
        first, end = blob
        pages = self._milvus.pages(self._name, f"id >= {first} and id < {end}", ["id", "value"])
        parts = [row["value"] for rows in pages for row in rows]
        return base64.b64decode("".join(parts)) if len(parts) == end - first else None

    # ------------------------------------------------------------------ claims

    def claims(self) -> dict[int, Any]:
        """Return who says that they write, by number."""
        rows = self._milvus.page(self._name, 'kind == "claim"', ["id", "value"])
        return {row["id"]: json.loads(row["value"]) for row in rows}

    def claim(self, number: int, value: Any) -> None:
        """Write a claim under a number below 0."""
        self._insert([(number, "claim", json.dumps(value), "")])

    def unclaim(self, number: int) -> None:
        """Remove a claim."""
        self._milvus.delete(self._name, [f"id == {number}"])

    def _insert(self, rows: list[tuple[int, str, str, str]]) -> None:
        self._milvus.insert(
            self._name,
            ({"id": i, "kind": kind, "value": value, "log": log, "nothing": b"\0"} for i, kind, value, log in rows),
        )


def _blob(ends: Any) -> Blob:
    first, end = map(int, ends)
    return first, end
