"""Insight: what a collection has learned, for people to look at."""

from __future__ import annotations

from onlinehash.collection.history import History, read_history
from onlinehash.collection.reader import CollectionReader
from onlinehash.hashers import HASHERS


class WithInsight(CollectionReader):
    """Show what the encoder in use makes of the items."""

    @property
    def generation(self) -> int:
        """Number of the generation of codes in use; 0 before the first."""
        return self._store.position().generation

    @property
    def embeds(self) -> str | None:
        """What kind of documents the collection embeds, "text" or "image"; None if it cannot."""
        return self._documents.takes

    @property
    def unlearns(self) -> bool:
        """Whether the hasher can unlearn items."""
        hasher = self._learner.hasher or HASHERS.get(self._store.setting("method"))
        return hasher is not None and hasher.unlearns

    def history(self) -> History:
        """Return the encoders used so far, and the quality along the stream, where :meth:`measure_quality` measures it.

        The last 256 of each are kept in the collection.

        Examples
        --------
        >>> from tempfile import TemporaryDirectory
        >>> import onlinehash as oh
        >>> X, y = oh.load_dataset("digits").split().stream
        >>> with TemporaryDirectory() as folder, oh.Collection.open(f"{folder}/digits.oh", "hroh") as digits:
        ...     digits.measure_quality()
        ...     for start in (0, 500):
        ...         digits.upsert(range(start, start + 500), X[start : start + 500], y[start : start + 500])
        ...     digits.refresh()
        ...     history = digits.history()
        >>> [(one.generation, one.version, one.n_items) for one in history.encoders]
        [(1, 500, 500), (2, 1000, 1000)]
        >>> history.quality[0].n_learned, history.quality[0].n_queries, history.quality[0].precision > 0.8
        (1000, 16, True)
        """
        return read_history(self._store)
