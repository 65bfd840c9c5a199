"""Changes that are sent again because their answer was lost: each is applied once."""

from __future__ import annotations

from typing import Any

from onlinehash.collection import Collection
from onlinehash.service.problems import invalid

CHECKPOINT = "service/changes"
_KEPT = 128  # changes
_LONGEST = 128  # characters of a key


class RecentChanges:
    """The last changes by the key that their client gave them; used by the one thread that writes.

    They are committed in the same transaction as the items, so that a change and its key are stored both or not at
    all.

    Parameters
    ----------
    collection : Collection
    """

    def __init__(self, collection: Collection) -> None:
        self._collection = collection
        self._recent: list[list[Any]] | None = None  # key, checksum of the request, number of items changed
        self._key, self._checksum = "", 0

    def begin(self, key: str, checksum: int) -> int | None:
        """Begin a change; return the number of items that it has changed if it was applied already.

        Parameters
        ----------
        key : str
            Empty if the client gave none.
        checksum : int
            Of the request; the same key for another request is refused.
        """
        self._key, self._checksum = key, checksum
        if not key:
            return None
        if len(key) > _LONGEST or not key.isascii() or not key.isprintable():
            raise invalid("Idempotency-Key", f"Idempotency-Key is not 1 to {_LONGEST} printable ASCII characters.", key)
        if self._recent is None:
            self._recent = self._collection.checkpoint(CHECKPOINT) or []
        for known, checked, changed in self._recent:
            if known == key:
                if checked != checksum:
                    rule = "Idempotency-Key was used for another request; make a new one."
                    raise invalid("Idempotency-Key", rule, key)
                return int(changed)
        return None

    def checkpoint(self, changed: int) -> dict[str, Any] | None:
        """Return what to commit with the change that has begun."""
        if not self._key:
            return None
        return {CHECKPOINT: [*(self._recent or []), [self._key, self._checksum, changed]][-_KEPT:]}

    def committed(self, checkpoint: dict[str, Any] | None) -> None:
        """Remember a change that was applied."""
        if checkpoint is not None:
            self._recent = checkpoint[CHECKPOINT]
