"""PayloadIndexes: indexes of paths in the payload, which make filters fast."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onlinehash.collection._validation import checkpoint_settings
from onlinehash.collection.filters import parse_path
from onlinehash.collection.reader import CollectionReader
from onlinehash.exceptions import InvalidInputError


class PayloadIndexes(CollectionReader):
    """Create and drop indexes of paths in the payload."""

    def create_index(self, path: str, *, checkpoint: Mapping[str, Any] | None = None) -> None:
        """Make filters by a path in the payload fast, now and for all items to come.

        It costs some time and space per item, and pays off where few items pass. Nothing happens if there is one.

        Parameters
        ----------
        path : str
            Keys joined by dots, as in ``where``. ``"$labels"`` makes listing and counting by label fast instead.
        checkpoint : mapping of str to JSON value, optional
            As for :meth:`Collection.upsert`.

        Examples
        --------
        >>> from tempfile import TemporaryDirectory
        >>> from onlinehash import Collection
        >>> with TemporaryDirectory() as folder, Collection.open(f"{folder}/shop.oh", "hcoh") as shop:
        ...     shop.create_index("maker.country")
        ...     shop.indexes()
        ['maker.country']
        """
        keys, noted = parse_path(path), checkpoint_settings(checkpoint)
        with self._writing():
            known = self.indexes()
            if path not in known:
                noted["indexes"] = [*known, path]
            with self._store.writing():
                self._put_settings(noted)
                if path not in known:
                    self._store.create_index(keys)

    def drop_index(self, path: str, *, checkpoint: Mapping[str, Any] | None = None) -> None:
        """Drop the index of a path in the payload; filters by it work as before, slowly.

        Parameters
        ----------
        path : str
        checkpoint : mapping of str to JSON value, optional
            As for :meth:`Collection.upsert`.
        """
        keys, noted = parse_path(path), checkpoint_settings(checkpoint)
        with self._writing():
            known = self.indexes()
            if path not in known:
                raise InvalidInputError(f"There is no index of {path!r}; there are: {', '.join(known) or 'none'}.")
            with self._store.writing():
                self._put_settings(noted | {"indexes": [name for name in known if name != path]})
                self._store.drop_index(keys)
