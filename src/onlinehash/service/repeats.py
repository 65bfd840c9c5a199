"""Changes that are sent again because their answer was lost: each is applied once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from onlinehash.collection import Collection
from onlinehash.service.problems import invalid

_RESERVED = "service/"
_CHECKPOINT = f"{_RESERVED}changes"
_KEPT = 128  # changes
_LONGEST = 128  # characters of a key


def own_name(name: str) -> str:
    """Return the name of a checkpoint; refuse those of the service."""
    if name.startswith(_RESERVED):
        raise invalid("checkpoint", f"checkpoint names that begin with {_RESERVED!r} belong to the service.", name)
    return name


class RecentChanges:
    """The last changes by the key that their client gave them; used by the one thread that writes.

    They are committed in the same transaction as the items, so that a change and its key are stored both or not at
    all.
    """

    def __init__(self, collection: Collection) -> None:
        self._collection = collection
        self._recent: list[list[Any]] | None = None  # key, checksum of the request, number of items changed
        self._key, self._checksum = "", 0

    def begin(self, key: str, checksum: int) -> int | None:
        """Begin a change; return the number of items that it has changed if it was applied already.

        The key is empty if the client gave none. The same key for a request of another checksum is refused.
        """
        self._key, self._checksum = key, checksum
        if not key:
            return None
        if len(key) > _LONGEST or not key.isascii() or not key.isprintable():
            raise invalid("Idempotency-Key", f"Idempotency-Key is not 1 to {_LONGEST} printable ASCII characters.", key)
        if self._recent is None:
            self._recent = self._collection.checkpoint(_CHECKPOINT) or []
        for known, checked, changed in self._recent:
            if known == key:
                if checked != checksum:
                    rule = "Idempotency-Key was used for another request; make a new one."
                    raise invalid("Idempotency-Key", rule, key)
                return int(changed)
        return None

    def apply(self, changed: int, checkpoint: dict[str, Any] | None, change: Callable[..., object]) -> None:
        """Apply the change that has begun to a number of items, with ``checkpoint=`` for what is committed with it."""
        for name in checkpoint or ():
            own_name(name)
        if not self._key:
            change(checkpoint=checkpoint)
            return
        recent = [*(self._recent or []), [self._key, self._checksum, changed]][-_KEPT:]
        change(checkpoint={**(checkpoint or {}), _CHECKPOINT: recent})
        self._recent = recent
