"""PayloadIndexes: indexes of paths in the payload, which make filters fast."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import AbstractContextManager

from onlinehash.collection.filters import parse_path
from onlinehash.collection.reader import CollectionReader
from onlinehash.exceptions import InvalidInputError


class PayloadIndexes(CollectionReader):
    """Create and drop indexes of paths in the payload."""

    @abstractmethod
    def _writing(self) -> AbstractContextManager[None]: ...

    def create_index(self, path: str) -> None:
        """Make filters by a path in the payload fast, now and for all items to come.

        It costs some time and space per item, and pays off where few items pass. Nothing happens if there is one.

        Parameters
        ----------
        path : str
            Keys joined by dots, as in ``where``.

        Examples
        --------
        >>> from tempfile import TemporaryDirectory
        >>> from onlinehash import Collection
        >>> with TemporaryDirectory() as folder, Collection.open(f"{folder}/shop.oh", "hcoh") as shop:
        ...     shop.create_index("maker.country")
        ...     shop.indexes()
        ['maker.country']
        """
        keys = parse_path(path)
        with self._writing():
            known = self.indexes()
            if path not in known:
                with self._store.writing():
                    self._store.put_setting("indexes", [*known, path])
                    self._store.create_index(keys)

    def drop_index(self, path: str) -> None:
        """Drop the index of a path in the payload; filters by it work as before, slowly.

        Parameters
        ----------
        path : str
        """
        keys = parse_path(path)
        with self._writing():
            known = self.indexes()
            if path not in known:
                raise InvalidInputError(f"There is no index of {path!r}; there are: {', '.join(known) or 'none'}.")
            with self._store.writing():
                self._store.put_setting("indexes", [name for name in known if name != path])
                self._store.drop_index(keys)
