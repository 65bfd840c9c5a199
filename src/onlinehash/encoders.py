"""Encoders: frozen, versioned functions from features to codes.

Indexes, collections and metrics use encoders, which never change, and not hashers, which do.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onlinehash._arrays import Place, is_on_device
from onlinehash._containers import check_feature_names
from onlinehash._device_encoder import DeviceEncoder
from onlinehash._files import Source, complete, pack_arrays, read_arrays, write_bytes
from onlinehash._kernel import kernel, read_only
from onlinehash._onnx import OnnxGraph
from onlinehash._validation import check_features, check_finite
from onlinehash.codes import code_width, pack_signs
from onlinehash.exceptions import InvalidFeaturesError
from onlinehash.features import Centring, FeatureMap, Identity, pack_features, unpack_features
from onlinehash.types import Codes, Features, Signs

_LAYOUT = 1
_LEAST = 1e-30  # sum of the projections of a row whose products do not vanish in single precision
_FEW = 1 << 16  # products of rows and weights; for more, those of BLAS are faster
_CHUNK = 1 << 19  # elements of X processed at a time: bounded memory, and they stay in cache


@dataclass(frozen=True, eq=False)
class Encoder:
    """Hash features to packed codes: centre, project, take signs.

    With ``codewords``, the first columns of the projection are scores of classes. They are sharpened, and combine the
    codewords to the first bits::

        f(s) = expm1(sharpness s / max |s|) / expm1(sharpness),   values = f(s) T

    with the maximum over the scores s of a row. The highest score becomes 1, lower ones much less.

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
        Positive with codewords.

    Notes
    -----
    Encoding costs O(n_inputs n_columns) per row, in chunks of rows: a memory-mapped X may be larger than memory.

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

    def __post_init__(self) -> None:
        for array in (self.weights, self.intercept, self.codewords, *pack_features(self.features)[1].values()):
            if array is not None:
                array.flags.writeable = False

    @property
    def n_features(self) -> int:
        """Number of input features."""
        return self.features.n_inputs or int(self.weights.shape[0])

    @property
    def n_bits(self) -> int:
        """Length of the codes."""
        n_columns = int(self.weights.shape[1])
        return n_columns if self.codewords is None else n_columns + self.codewords.shape[1] - len(self.codewords)

    def project(self, X: ArrayLike) -> Features:
        """Return the real values whose signs are the bits, shape (n_samples, n_bits)."""
        rows = self._check(X)
        if is_on_device(rows):
            return self._on_device_of(rows).project(rows)  # type: ignore[no-any-return]
        return np.concatenate([self._project_chunk(chunk) for chunk in self._chunks(rows)])

    def scores(self, X: ArrayLike) -> Features:
        """Return the scores of the classes, shape (n_samples, n_classes), before they are sharpened.

        Without codewords there are none, and these are the projections.

        Examples
        --------
        >>> words = np.array([[1, 1], [1, -1]], np.int8)
        >>> Encoder(np.eye(2), codewords=words, sharpness=3.0).scores([[0.2, 0.4]])
        array([[0.2, 0.4]])
        """
        if self.codewords is None:
            return self.project(X)
        chunks = [self._project_chunk(chunk, combined=False) for chunk in self._chunks(self._check(X))]
        return np.concatenate(chunks)[:, : len(self.codewords)]

    def encode(self, X: ArrayLike) -> Codes:
        """Return packed codes, shape (n_samples, ceil(n_bits / 8))."""
        rows = self._check(X)
        if is_on_device(rows):
            return self._on_device_of(rows).encode(rows)  # type: ignore[no-any-return]
        if rows.size * self.weights.shape[1] <= _FEW and (few := self._encode_few(rows)) is not None:
            return few
        codes = [pack_signs(self._project_chunk(chunk, signs=True)) for chunk in self._chunks(rows)]
        return codes[0] if len(codes) == 1 else np.concatenate(codes)

    def encode_asymmetric(self, X: ArrayLike) -> Features:
        """Return asymmetric queries, shape (n_samples, n_bits): the tanh of the projections, from -1 to 1.

        The sign is the bit, the magnitude its confidence. Such a query ranks codes more finely than a packed one; see
        :func:`onlinehash.codes.asymmetric_distances` and :meth:`onlinehash.FlatIndex.search`.

        Examples
        --------
        >>> Encoder(np.array([[1.0, -0.2]])).encode_asymmetric([[2.0]]).round(2)
        array([[ 0.96, -0.38]])
        """
        if is_on_device(X):
            return self._on_device_of(self._check(X)).encode_asymmetric(X)  # type: ignore[no-any-return]
        values = self.project(X)
        return np.tanh(values, out=values)

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
        if self.feature_names is not None:
            header["feature_names"] = list(self.feature_names)
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
        values = graph.node("MatMul", graph.features(self.features, "vectors"), graph.array(self.weights))
        if self.intercept is not None:
            values = graph.node("Add", values, graph.array(self.intercept))
        if self.codewords is not None:
            values = graph.combined(values, self.codewords, self.sharpness)
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
            return cls(
                arrays["weights"],
                arrays.get("intercept"),
                features,
                header["version"],
                header["method"],
                names,
                arrays.get("codewords"),
                header.get("sharpness", 0.0),
            )

    def __repr__(self) -> str:
        name = self.method or "custom"
        return f"<Encoder {name} version {self.version}: {self.n_features} features to {self.n_bits} bits>"

    def _check(self, X: ArrayLike) -> NDArray[Any]:
        check_feature_names(X, self.feature_names)
        return check_features(X, n_features=self.n_features, owner=type(self).__name__, on_device=True)

    def _on_device_of(self, X: Any) -> DeviceEncoder:
        """Return the copy of this encoder where X is."""
        place, copies = Place.of(X), _COPIES.setdefault(self, {})
        if place not in copies:
            copies[place] = DeviceEncoder(self, place)
        return copies[place]

    def _chunks(self, X: NDArray[Any]) -> list[NDArray[Any]]:
        step = max(1, _CHUNK // X.shape[1])
        if len(X) <= step:
            return [X]
        return [X[start : start + step] for start in range(0, len(X), step)]

    def _encode_few(self, X: NDArray[Any]) -> Codes | None:
        """Return the codes of a few rows, in a third of the time of separate steps; None where it takes these."""
        n_inputs, n_bits = self.weights.shape
        plain = self.intercept is None and self.codewords is None and isinstance(self.features, Centring)
        if not plain or X.shape[1] != n_inputs or X.dtype != self.weights.dtype:
            return None
        values, codes = np.empty(n_bits, X.dtype), np.zeros((len(X), code_width(n_bits)), np.uint8)
        mean = read_only(self.features.mean)  # type: ignore[union-attr]
        return codes if _write_codes(read_only(X), mean, read_only(self.weights), values, codes) else None

    def _project_chunk(self, chunk: NDArray[Any], *, signs: bool = False, combined: bool = True) -> Features:
        """Return projections, of combined scores; with ``signs`` only their signs matter, and rows are not scaled."""
        unscaled = signs and self.intercept is None and isinstance(self.features, Centring)
        transform = self.features.subtract if unscaled else self.features.transform  # type: ignore[union-attr]
        with np.errstate(over="ignore", invalid="ignore"):  # reported below, as an error
            rows = chunk.astype(self.weights.dtype, copy=False)
            values: Features = transform(rows) @ self.weights
        if self.intercept is not None:
            values += self.intercept
        # NaN or infinity in a row spreads to its projections: looking there costs a fraction of looking at X.
        if not np.isfinite(values).all():
            check_finite(chunk, self.weights.dtype)
            raise InvalidFeaturesError(
                f"X holds values so large that their projections overflow {rows.dtype}; scale X first."
            )
        return self._combined(values) if combined and self.codewords is not None else values

    def _combined(self, values: Features) -> Features:
        """Return the codewords combined by sharpened scores, then the values that are no scores."""
        assert self.codewords is not None
        n_classes, words = len(self.codewords), self.codewords.astype(values.dtype)
        scores = values[:, :n_classes]
        largest = np.maximum(scores.max(axis=1, keepdims=True), -scores.min(axis=1, keepdims=True))
        largest[largest == 0.0] = 1.0
        sharpened = scores / largest
        sharpened *= values.dtype.type(self.sharpness)
        np.exp(sharpened, out=sharpened)
        # The 1 that expm1 takes off every score takes the sum of the codewords off the bits: exp alone is fast.
        bits = (sharpened @ words - words.sum(axis=0)) / np.expm1(values.dtype.type(self.sharpness))
        return bits if values.shape[1] == n_classes else np.hstack([bits, values[:, n_classes:]])


@kernel(fastmath={"contract"})
def _write_codes(X: Any, mean: Any, weights: Any, values: Any, out: Any) -> bool:
    """Set the bits of the codes of centred rows; return False if a row is too short or long for it."""
    number = weights.dtype.type
    n_inputs, n_bits = weights.shape
    for i in range(X.shape[0]):
        for b in range(n_bits):
            values[b] = number(0)
        for f in range(n_inputs):
            centred, row = number(X[i, f] - mean[f]), weights[f]
            for b in range(n_bits):
                values[b] += centred * row[b]
        total = number(0)
        for b in range(n_bits):
            out[i, b >> 3] |= np.uint8(values[b] >= 0) << np.uint8(b & 7)
            total += abs(values[b])
        if not _LEAST < total < np.inf:  # NaN included
            return False
    return True


_COPIES: WeakKeyDictionary[Encoder, dict[Place, DeviceEncoder]] = WeakKeyDictionary()
