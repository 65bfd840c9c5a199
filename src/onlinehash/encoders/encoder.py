"""Encoders: frozen, versioned functions from features to codes.

Indexes, collections and metrics use encoders, which never change, and not hashers, which do.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onlinehash._internal.arrays import Place, is_on_device, to_host
from onlinehash._internal.files import Source, complete, pack_arrays, read_arrays, write_bytes
from onlinehash._internal.threads import single_threaded_products
from onlinehash._internal.validation import check_feature_names, check_features
from onlinehash.codes import pack_signs
from onlinehash.encoders.calibration import MAX_LISTED_CLASSES, Calibration, ClassLists
from onlinehash.encoders.device import DeviceEncoder, combine, doubted, order_of_equal, overflow
from onlinehash.encoders.onnx import OnnxGraph
from onlinehash.encoders.shortlist import Shortlist, score_listed
from onlinehash.exceptions import InvalidInputError
from onlinehash.features import FeatureMap, Identity, pack_features, unpack_features
from onlinehash.types import Codes, Features, Signs

_LAYOUT = 1
_SHORTLIST = ("weights", "intercept", "codes", "lengths")
VALUES_PER_CHUNK = 1 << 19  # elements of X processed at a time: bounded memory, and they stay in cache


@dataclass(frozen=True, eq=False)
class Encoder:
    """Hash features to packed codes: centre, project, take signs.

    With ``codewords``, the first columns of the projection are scores of classes. They are sharpened, and combine the
    codewords to the first bits::

        f(s) = expm1(sharpness s / max |s|) / expm1(sharpness),   values = f(s) T

    with the maximum over the scores s of a row. The highest score becomes 1, lower ones much less. With sharpness 0 the
    scores are taken as they are. With a ``shortlist``, classes that are not on it have the score 0.

    Parameters
    ----------
    weights : ndarray of shape (n_inputs, n_bits), or (n_inputs, n_classes + n_other_bits) with codewords
        One hash function or class per column. Its precision is that of the computation.
    intercept : ndarray of shape (n_columns,), optional
    features : a map of :mod:`onlinehash.features`
        Preprocessing of a row before it is projected.
    version : int
        Number of instances the hasher had learned from. It identifies the encoder of a code.
    method : str
        Name of the hasher.
    feature_names : tuple of str, optional
        Names of the columns that X must have, in this order, if it is a DataFrame or Table.
    codewords : ndarray of int8, shape (n_classes, n_class_bits), optional
        "T": -1 and +1.
    sharpness : float, default=0.0
    classes : tuple of int or str, optional
        Labels of the classes that have codewords.
    calibration : Calibration, optional
        How far the scores of classes can be trusted.
    shortlist : Shortlist, optional
        Finds the classes to score, where they are many.
    confidence_bits : int, default=0
        How many class bits are inverted at most where the class of a row is not sure: those nearest to zero. Codes of
        queries should have none inverted: :attr:`for_queries` makes them.

    Notes
    -----
    Encoding costs O(n_inputs n_columns) per row, in chunks of rows: a memory-mapped X may be larger than memory. With a
    shortlist it is O(n_inputs) and O(n_classes), not their product.

    An X of PyTorch or CuPy that is on a GPU is encoded there, and the result is an array of the same library on the
    same GPU. The first such call copies the encoder to it. Values that are zero but for rounding may have another sign
    than on the CPU.

    Examples
    --------
    >>> encoder = Encoder(np.array([[1.0, -1.0], [1.0, 1.0]]))
    >>> encoder.encode([[2.0, 1.0], [0.0, -3.0]])
    array([[1],
           [0]], dtype=uint8)

    Two classes, whose codewords differ in the second bit:

    >>> words = np.array([[1, 1], [1, -1]], np.int8)
    >>> Encoder(np.eye(2), codewords=words, sharpness=3.0).project([[0.2, 0.4]]).round(2)
    array([[ 1.18, -0.82]])
    """

    weights: NDArray[Any]
    intercept: NDArray[Any] | None = None
    features: FeatureMap = Identity()  # noqa: RUF009 (immutable)
    version: int = 0
    method: str = ""
    feature_names: tuple[str, ...] | None = None
    codewords: Signs | None = None
    sharpness: float = 0.0
    classes: tuple[int | str, ...] | None = None
    calibration: Calibration = Calibration()  # noqa: RUF009 (immutable)
    shortlist: Shortlist | None = None
    confidence_bits: int = 0

    def __post_init__(self) -> None:
        if self.shortlist is not None and not self.weights.flags.f_contiguous:  # classes are read one by one
            object.__setattr__(self, "weights", np.asfortranarray(self.weights))
        for array in (self.weights, self.intercept, self.codewords, *pack_features(self.features)[1].values()):
            if array is not None:
                array.flags.writeable = False

    @cached_property
    def n_features(self) -> int:
        """Number of input features."""
        return self.features.n_inputs or int(self.weights.shape[0])

    @cached_property
    def n_bits(self) -> int:
        """Length of the codes."""
        n_columns = int(self.weights.shape[1])
        return n_columns if self.codewords is None else n_columns + self.codewords.shape[1] - len(self.codewords)

    @cached_property
    def has_class_lists(self) -> bool:
        """Whether rows have class lists, by which the learned order compares them."""
        return 0 < len(self.classes or ()) <= MAX_LISTED_CLASSES

    @cached_property
    def for_queries(self) -> Encoder:
        """The encoder of queries: this one, unless it has ``confidence_bits``.

        An item whose class is not sure has some bits inverted, which puts it behind the sure ones. A query that is not
        sure looks for sure items, too, so none of its bits is inverted.

        Examples
        --------
        >>> words = np.array([[1, 1, 1], [1, -1, -1]], np.int8)
        >>> encoder = Encoder(np.eye(2), codewords=words, sharpness=3.0, confidence_bits=1)
        >>> encoder.encode([[0.3, 0.2]]), encoder.for_queries.encode([[0.3, 0.2]])
        (array([[5]], dtype=uint8), array([[7]], dtype=uint8))
        """
        return replace(self, confidence_bits=0) if self.confidence_bits else self

    def project(self, X: ArrayLike) -> Features:
        """Return the real values whose signs are the bits, shape (n_samples, n_bits)."""
        rows = self._check(X)
        if not isinstance(rows, np.ndarray):
            return self._on_device_of(rows).project(rows)
        return np.concatenate(list(self._projections(rows)))

    def class_scores(self, X: ArrayLike) -> Features:
        """Return the scores of the classes, shape (n_samples, n_classes), before they are sharpened.

        Examples
        --------
        >>> words = np.array([[1, 1], [1, -1]], np.int8)
        >>> Encoder(np.eye(2), codewords=words, sharpness=3.0).class_scores([[0.2, 0.4]])
        array([[0.2, 0.4]])
        """
        if self.codewords is None:
            raise InvalidInputError(
                f"The encoder of {self.method or 'this method'} has no scores of classes; HROH's has."
            )
        return self.encode_and_score(X)[1]

    def class_lists(self, X: ArrayLike) -> ClassLists:
        """Return the most probable classes of rows, most probable first, shape (n_samples, 5): 20 bytes per row.

        An entry has 32 bits: the number of a class among ``classes``, 16 bits; 255 times its probability, 8 bits; 255
        times its sharpened score, 8 bits. What is left of 5 where there are fewer classes is 0. They say more of an
        item than a code of the same size, how sure its class is, and nothing of classes that were never learned.
        :class:`onlinehash.indexes.ClassListIndex` searches them. On a device, they are computed on the host.

        Examples
        --------
        >>> words = np.array([[1, 1], [1, -1]], np.int8)
        >>> lists = Encoder(np.eye(2), codewords=words, sharpness=3.0).class_lists([[0.2, 0.3]])
        >>> (lists >> 16).tolist(), (lists >> 8 & 255).tolist()
        ([[1, 0, 0, 0, 0]], [[225, 30, 0, 0, 0]])
        """
        scores = self.class_scores(X)
        if scores.shape[1] > MAX_LISTED_CLASSES:
            raise InvalidInputError(f"{scores.shape[1]} classes are more than the {MAX_LISTED_CLASSES} of class lists.")
        return self.calibration.class_lists(to_host(scores) if is_on_device(scores) else scores)

    def encode(self, X: ArrayLike) -> Codes:
        """Return packed codes, shape (n_samples, ceil(n_bits / 8))."""
        rows = self._check(X)
        if not isinstance(rows, np.ndarray):
            there = self._on_device_of(rows)
            return there.packed(there.project(rows))
        return np.concatenate(list(map(pack_signs, self._projections(rows))))

    def encode_and_score(self, X: ArrayLike) -> tuple[Codes, Features]:
        """Return what :meth:`encode` and :meth:`class_scores` do, computed together."""
        rows, n_classes = self._check(X), len(self.codewords) if self.codewords is not None else 0
        if not isinstance(rows, np.ndarray):
            there = self._on_device_of(rows)
            columns = there.columns(rows)
            return there.packed(there.combined(columns)), columns[:, :n_classes]
        parts = [(pack_signs(self._combined(columns)), columns[:, :n_classes]) for columns in self._columns(rows)]
        codes, scores = zip(*parts, strict=True)
        return np.concatenate(codes), np.concatenate(scores)

    def encode_asymmetric(self, X: ArrayLike) -> Features:
        """Return asymmetric queries, shape (n_samples, n_bits): the tanh of the projections, from -1 to 1.

        The sign is the bit, the magnitude its confidence. Such a query ranks codes more finely than a packed one; see
        :func:`onlinehash.codes.asymmetric_distances` and :meth:`onlinehash.FlatIndex.search`.

        Examples
        --------
        >>> Encoder(np.array([[1.0, -0.2]])).encode_asymmetric([[2.0]]).round(2)
        array([[ 0.96, -0.38]])
        """
        values = self.for_queries.project(X)
        return np.tanh(values, out=values) if isinstance(values, np.ndarray) else Place.of(values).xp.tanh(values)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the encoder to one file (safetensors, no pickle)."""
        write_bytes(path, self.to_bytes())

    def to_bytes(self) -> bytes:
        """Return the file that :meth:`save` writes."""
        features, arrays = pack_features(self.features)
        arrays["weights"] = self.weights
        if self.intercept is not None:
            arrays["intercept"] = self.intercept
        header: dict[str, Any] = {"version": self.version, "method": self.method, "features": features}
        if self.codewords is not None:
            arrays["codewords"], header["sharpness"] = self.codewords, self.sharpness
        if self.confidence_bits:
            header["confidence_bits"] = self.confidence_bits
        if self.feature_names is not None:
            header["feature_names"] = list(self.feature_names)
        if self.classes is not None:
            known = self.calibration
            header["classes"] = list(self.classes)
            header["calibration"] = [known.temperature, known.known_score, known.spread, known.near_cosine]
            arrays |= {"probabilities": known.probabilities, "correct": known.correct.astype(np.uint8)}
        if self.shortlist is not None:
            arrays |= {f"shortlist_{name}": getattr(self.shortlist, name) for name in _SHORTLIST}
        return pack_arrays("encoder", _LAYOUT, header, arrays)

    def to_onnx(self, path: str | os.PathLike[str], *, double: bool = False) -> None:
        """Write the encoder to an ONNX file, which makes the same codes without this library.

        Its input ``vectors`` is float32 of shape (n, n_features). Its outputs are the packed ``codes``, uint8 of shape
        (n, ceil(n_bits / 8)), and ``values``, float32 of shape (n, n_bits), whose signs are the bits. The order of
        additions differs from one library to the next, so a bit whose value is within rounding of zero may differ, as
        it may here between one row and many: one bit in some millions.

        Parameters
        ----------
        path : path
        double : bool, default=False
            Compute in double precision, in a file of twice the size; otherwise in the precision of the encoder.
        """
        graph = OnnxGraph(np.float64 if double else self.weights.dtype)
        rows = graph.features(self.features, "vectors")
        values = graph.node("MatMul", rows, graph.array(self.weights))
        if self.intercept is not None:
            values = graph.node("Add", values, graph.array(self.intercept))
        if self.shortlist is not None:
            values = graph.listed(values, rows, self.shortlist)
        if self.codewords is not None:
            scores, values = values, graph.combined(values, self.codewords, self.sharpness)
            if self.confidence_bits and len(self.codewords) > 1:
                values = graph.doubted(values, scores, self.codewords.shape, self.confidence_bits)
        about = {"method": self.method, "version": str(self.version), "n_bits": str(self.n_bits)}
        if self.feature_names is not None:
            about["feature_names"] = json.dumps(self.feature_names)
        write_bytes(path, graph.model(self.n_features, self.n_bits, values, graph.packed(values, self.n_bits), about))

    @classmethod
    def load(cls, source: Source) -> Encoder:
        """Read an encoder that :meth:`save` wrote, from a path or from its bytes."""
        header, arrays = read_arrays(source, "encoder", _LAYOUT)
        with complete(source, "encoder"):
            features = unpack_features(header["features"], arrays)
            names = tuple(header["feature_names"]) if "feature_names" in header else None
            classes, calibration, shortlist = None, Calibration(), None
            if "shortlist_codes" in arrays:
                shortlist = Shortlist(*(arrays[f"shortlist_{name}"] for name in _SHORTLIST))
            if "classes" in header:
                classes, correct = tuple(header["classes"]), arrays["correct"].astype(bool)
                known = header["calibration"]
                calibration = Calibration(known[0], known[1], known[2], arrays["probabilities"], correct, known[3])
            return cls(
                arrays["weights"],
                arrays.get("intercept"),
                features,
                header["version"],
                header["method"],
                names,
                arrays.get("codewords"),
                header.get("sharpness", 0.0),
                classes,
                calibration,
                shortlist,
                header.get("confidence_bits", 0),
            )

    def __repr__(self) -> str:
        name = self.method or "custom"
        return f"<Encoder {name} version {self.version}: {self.n_features} features to {self.n_bits} bits>"

    def _check(self, X: ArrayLike) -> NDArray[Any]:
        if type(X) is not np.ndarray:
            check_feature_names(X, self.feature_names)
        return check_features(X, n_features=self.n_features, owner=type(self).__name__, on_device=True)

    def _on_device_of(self, X: Any) -> DeviceEncoder:
        """Return the copy of this encoder where X is."""
        place, copies = Place.of(X), _COPIES.setdefault(self, {})
        if place not in copies:
            copies[place] = DeviceEncoder(self, place)
        return copies[place]

    def _projections(self, X: NDArray[Any]) -> Iterator[Features]:
        """Yield the projections of chunks of rows."""
        return self._columns(X) if self.codewords is None else map(self._combined, self._columns(X))

    def _combined(self, columns: Features) -> Features:
        """Return the real values whose signs are the bits, from the projections on all columns."""
        words, dtype = self.codewords, self.weights.dtype
        if words is None:
            return columns
        scores = columns[:, : len(words)]
        if self.shortlist is not None:  # a score of 0 adds nothing
            listed = np.flatnonzero(columns[:, : len(words)].any(axis=0))
            columns, words = np.hstack([columns[:, listed], columns[:, len(words) :]]), words[listed]
        with single_threaded_products(len(columns)):
            values = combine(columns, words.astype(dtype), self.sharpness, dtype)
            order = order_of_equal(words.shape[1]).astype(dtype)
            doubtful: Features = doubted(values, scores, order, self.confidence_bits)
            return doubtful

    def _columns(self, X: NDArray[Any]) -> Iterator[Features]:
        """Yield the projections of chunks of rows on all columns of the weights."""
        step = max(1, VALUES_PER_CHUNK // max(X.shape[1], self.weights.shape[1]))
        for start in range(0, len(X), step):
            chunk, dtype = X[start : start + step], self.weights.dtype
            with single_threaded_products(len(chunk)), np.errstate(over="ignore", invalid="ignore"):  # reported below
                values = self._values(self.features.transform(chunk.astype(dtype, copy=False)))
                # NaN or infinity in a row spreads to its projections: looking there costs a fraction of looking at X.
                if not np.isfinite(values).all():
                    raise overflow(chunk, dtype)
            yield values

    def _values(self, rows: Features) -> Features:
        """Return the projections of rows of features; the classes that are not on their shortlists have 0."""
        if self.shortlist is None:
            values: Features = rows @ self.weights
            return values if self.intercept is None else values + self.intercept
        n_classes, columns, intercept = len(self.shortlist.codes), self.weights.T, self.intercept
        assert intercept is not None
        values = np.zeros((len(rows), len(columns)), rows.dtype)
        values[:, n_classes:] = rows @ self.weights[:, n_classes:] + intercept[n_classes:]
        score_listed(rows, columns, intercept, self.shortlist.find(rows), values)
        return values


_COPIES: WeakKeyDictionary[Encoder, dict[Place, DeviceEncoder]] = WeakKeyDictionary()
