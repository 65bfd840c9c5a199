"""Insight: what a collection has learned, for people to look at."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinehash._validation import check_positive_int
from onlinehash.codes import code_width, pack_signs, unpack_bits
from onlinehash.collection._validation import labels_of
from onlinehash.collection.history import History, read_history
from onlinehash.collection.reader import CollectionReader
from onlinehash.collection.results import rows_in_pieces
from onlinehash.collection.types import Id, Label
from onlinehash.encoders import Encoder
from onlinehash.hashers import HASHERS, load_hasher
from onlinehash.types import Codes

_SAMPLE = 50_000  # items whose bits are counted
_CLASSES = 256  # the largest ones
_SHARES = 1 << 18  # shares of ones, over all classes and bits
_VALUES = 20_000_000  # real values that a map is made of


@dataclass(frozen=True, eq=False)
class ItemMap:
    """Items in the plane.

    Parameters
    ----------
    version : int or None
        Version of the encoder in use; None before the first.
    ids : list of ids
    labels : list of labels
        One label, a tuple of them, or None per item.
    x, y : ndarray of shape (n_items,)
    explained : tuple of two floats
        Share of the variance along each axis.

    Examples
    --------
    >>> ItemMap(None, [], [], np.empty(0), np.empty(0), (0.0, 0.0)).ids
    []
    """

    version: int | None
    ids: list[Id]
    labels: list[Label | tuple[Label, ...] | None]
    x: NDArray[Any]
    y: NDArray[Any]
    explained: tuple[float, float]


@dataclass(frozen=True, eq=False)
class ClassBits:
    """The bits of a class.

    Parameters
    ----------
    label : int or str
    n_items : int
    codeword : ndarray of uint8 or None
        What its codes are learned towards, packed; None if the method has no codewords.
    ones : ndarray of shape (n_bits,)
        Share of ones per bit, among some of its items; empty if none of them is in the sample.

    Examples
    --------
    >>> ClassBits("cat", 2, None, np.array([0.5, 1.0])).ones.round()
    array([0., 1.])
    """

    label: Label
    n_items: int
    codeword: Codes | None
    ones: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Codewords:
    """The bits of the largest classes.

    Parameters
    ----------
    version : int or None
        Version of the encoder in use; None before the first.
    n_bits : int
        Length of the codes.
    n_class_bits : int
        Length of the codewords: the first bits of a code. 0 if there are none.
    n_classes : int
        Number of all classes.
    classes : list of ClassBits
        Largest first.

    Examples
    --------
    >>> Codewords(None, 32, 0, 0, []).classes
    []
    """

    version: int | None
    n_bits: int
    n_class_bits: int
    n_classes: int
    classes: list[ClassBits]


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

    def map(self, limit: int = 2000) -> ItemMap:
        """Return a random sample of the items in the plane: two principal components of what the encoder makes of them.

        That is the scores of the classes where the encoder has them, else the real values whose signs are the bits.

        Parameters
        ----------
        limit : int, default=2000
            Items at most.

        Examples
        --------
        >>> from tempfile import TemporaryDirectory
        >>> import onlinehash as oh
        >>> X, y = oh.load_dataset("digits").split().stream
        >>> with TemporaryDirectory() as folder, oh.Collection.open(f"{folder}/digits.oh", "hroh") as digits:
        ...     digits.upsert(range(1000), X[:1000], y[:1000])
        ...     shown = digits.map(limit=300)
        >>> len(shown.ids), shown.x.shape, 0 < shown.explained[1] <= shown.explained[0] < 1
        (300, (300,), True)
        """
        limit, encoder = check_positive_int("limit", limit), self.encoder
        if encoder is None:
            return ItemMap(None, [], [], np.empty(0), np.empty(0), (0.0, 0.0))
        wanted = self._index.sample(min(limit, max(2, _VALUES // encoder.weights.shape[1])), 0)
        ids, labels, values = list[Id](), list[Any](), list[NDArray[Any]]()
        for rows in rows_in_pieces(self._store, wanted):
            if rows.vectors.shape[1] == encoder.n_features:  # else the embedding model was changed meanwhile
                ids += rows.ids
                labels += map(labels_of, rows.labels)
                values.append(encoder.scores(rows.vectors))
        points, explained = _principal(np.concatenate(values) if values else np.empty((0, 1)))
        return ItemMap(encoder.version, ids, labels, points[:, 0], points[:, 1], explained)

    def codewords(self) -> Codewords:
        """Return the codewords of the largest classes, at most 256, beside the bits that their items have.

        The bits are those of a random sample of at most 50 000 items.

        Examples
        --------
        >>> from tempfile import TemporaryDirectory
        >>> import onlinehash as oh
        >>> X, y = oh.load_dataset("digits").split().stream
        >>> with TemporaryDirectory() as folder, oh.Collection.open(f"{folder}/digits.oh", oh.HCOH(16)) as digits:
        ...     digits.upsert(range(1000), X[:1000], y[:1000])
        ...     words = digits.codewords()
        >>> words.n_classes, words.n_class_bits, words.classes[0].codeword.shape, words.classes[0].ones.shape
        (10, 16, (2,), (16,))
        """
        encoder = self.encoder
        counts = {label: n for label, n in self.label_counts().items() if label is not None}
        n_bits = self._store.setting("n_bits") if encoder is None else encoder.n_bits
        largest = Counter(counts).most_common(max(1, min(_CLASSES, _SHARES // n_bits)))
        words = {} if encoder is None else self._words(encoder)
        known = {label: place for place, (label, _) in enumerate(largest)}
        ones, n_sampled = np.zeros((len(largest), n_bits)), np.zeros(len(largest))
        if encoder is not None and largest:
            labels, codes = self._index.labelled_codes(self._index.sample(_SAMPLE, 0))
            rows: dict[frozenset[Label], list[int]] = {}
            for row, some in enumerate(labels):
                rows.setdefault(some, []).append(row)
            for some, there in rows.items():
                places = [known[label] for label in some if label in known]
                if places and codes.shape[1] == code_width(n_bits):
                    ones[places] += unpack_bits(codes[there], n_bits).sum(axis=0)
                    n_sampled[places] += len(there)
        shares = [row / n if n else row[:0] for row, n in zip(ones, n_sampled.tolist(), strict=True)]
        return Codewords(
            None if encoder is None else encoder.version,
            n_bits,
            max((len(word) for word in words.values()), default=0),
            len(counts),
            [
                ClassBits(label, n, pack_signs(words[label][None])[0] if label in words else None, share)
                for (label, n), share in zip(largest, shares, strict=True)
            ],
        )

    def _words(self, encoder: Encoder) -> dict[Label, NDArray[np.int8]]:
        """Return the codewords by label, as far as it is known which is whose."""
        with self._exclusive():
            hasher = self._learner.hasher or load_hasher(self._store.state())
            labels = getattr(hasher, "classes_", None)
            words = encoder.codewords
            if words is None:
                words = getattr(hasher, "codewords_", None)
            elif getattr(hasher, "n_unlearned_", 0):  # the encoder may lack classes in the middle
                return {}
        return {} if labels is None or words is None else dict(zip(labels.tolist(), words, strict=False))


def _principal(values: NDArray[Any]) -> tuple[NDArray[np.float64], tuple[float, float]]:
    """Return the two principal components of rows, and their shares of the variance."""
    from sklearn.decomposition import PCA

    rows, points, shares = np.asarray(values, np.float64), np.zeros((len(values), 2)), [0.0, 0.0]
    n_axes = min(2, *rows.shape)
    if n_axes and np.ptp(rows, axis=0).any():
        pca = PCA(n_axes, svd_solver="randomized", n_oversamples=6, iterated_power=12, random_state=0)
        points[:, :n_axes] = pca.fit_transform(rows)
        shares[:n_axes] = pca.explained_variance_ratio_.tolist()
    return points, (shares[0], shares[1])
