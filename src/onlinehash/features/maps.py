"""Maps from rows to curved features: similarities to anchors, and random Fourier features; on the host and on a GPU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinehash._internal.arrays import DeviceArray, Place
from onlinehash._internal.kernels import kernel, read_only
from onlinehash._internal.walsh import transform_columns
from onlinehash.exceptions import InvalidInputError
from onlinehash.features.centring import MAX_SQUARES, MIN_SQUARES, Centring, Identity
from onlinehash.types import Features

ROWS_PER_TILE = 32  # transformed together: whole vector registers, and a tile that stays in cache


@dataclass(frozen=True, eq=False)
class Anchors:
    """Map a row to its Gaussian similarities to a few anchors: exp(-|x - a|^2 / width).

    Parameters
    ----------
    anchors : ndarray of shape (n_anchors, n_features)
    width : float
        "2 sigma^2", in squared distances.
    constant : bool, default=False
        Append a feature that is always 1.
    inner : Identity or Centring
        Preprocessing of a row.

    Examples
    --------
    >>> Anchors(np.zeros((1, 2)), width=1.0, constant=True).transform(np.array([[0.0, 0.0]]))
    array([[1., 1.]])
    """

    anchors: NDArray[Any]
    width: float
    constant: bool = False
    inner: Identity | Centring = Identity()  # noqa: RUF009 (immutable)

    @property
    def n_inputs(self) -> int:
        """Number of input features."""
        return int(self.anchors.shape[1])

    @property
    def n_outputs(self) -> int:
        """Number of output features."""
        return len(self.anchors) + self.constant

    def transform(self, X: Features) -> Features:
        """Return the features of the rows of X, shape (n_samples, n_outputs), in the precision of X."""
        return self.map(self.inner.transform(X))

    def map(self, rows: Features) -> Features:
        """Return the similarities of rows already mapped by ``inner``."""
        similar = np.exp(
            squared_distances(rows, self.anchors.astype(rows.dtype, copy=False)) / -rows.dtype.type(self.width)
        )
        return np.hstack([similar, np.ones_like(rows[:, :1])]) if self.constant else similar


@dataclass(frozen=True, eq=False)
class Fourier:
    """Map a row to itself, followed by cosines of random frequencies: sqrt(2 / D) cos(w . x + b).

    With Gaussian w of variance 1 / bandwidth and uniform b, the inner product of the cosines of two rows approximates
    the kernel exp(-|x - y|^2 / (2 bandwidth)). The frequencies w are rows of sqrt(p / bandwidth) H S3 H S2 H S1, with H
    the orthonormal Hadamard matrix of order p, the smallest power of two that is at least n_features, and S random
    signs. They are never stored; they are orthogonal, which approximates the kernel better than independent ones, and
    take O(log p) additions per component instead of n_features products.

    Parameters
    ----------
    signs : ndarray of int8, shape (n_blocks, 3, p)
        Each block gives p components; those of the last block beyond n_components are dropped.
    phases : ndarray of shape (n_components,)
    bandwidth : float
    n_inputs : int
        Number of input features.
    inner : Identity or Centring
        Preprocessing of a row.

    References
    ----------
    A. Rahimi and B. Recht. Random Features for Large-Scale Kernel Machines. NIPS 2007.

    F. X. Yu, A. T. Suresh, K. Choromanski, D. Holtmann-Rice, S. Kumar. Orthogonal Random Features. NIPS 2016.

    Examples
    --------
    >>> fourier = Fourier.draw(n_features=2, n_components=4096, bandwidth=1.0, seed=0)
    >>> x, y = fourier.transform(np.array([[0.0, 0.0], [1.0, 0.0]]))
    >>> y[:2]
    array([1., 0.])
    >>> round(float(x[2:] @ y[2:]), 1), round(float(np.exp(-1 / 2)), 1)
    (0.6, 0.6)
    """

    signs: NDArray[np.int8]
    phases: NDArray[Any]
    bandwidth: float
    n_inputs: int
    inner: Identity | Centring = Identity()  # noqa: RUF009 (immutable)

    @classmethod
    def draw(cls, n_features: int, n_components: int, bandwidth: float, seed: int) -> Fourier:
        """Draw signs and phases."""
        rng = np.random.default_rng([seed, n_components, 5])
        order = max(16, 1 << (n_features - 1).bit_length())  # fewer rows would repeat too few frequencies
        n_blocks = -(-n_components // order)
        signs = rng.choice(np.array([-1, 1], np.int8), (n_blocks, 3, order))
        return cls(signs, rng.uniform(0.0, 2.0 * np.pi, n_components), bandwidth, n_features)

    @property
    def n_outputs(self) -> int:
        """Number of output features."""
        return self.n_inputs + len(self.phases)

    def transform(self, X: Features) -> Features:
        """Return the features of the rows of X, shape (n_samples, n_outputs), in the precision of X."""
        return self.map(self.inner.transform(X))

    def map(self, rows: Features) -> Features:
        """Return rows already mapped by ``inner``, followed by their cosines."""
        if rows.shape[1] != self.n_inputs:
            raise InvalidInputError(f"Rows of shape {rows.shape} do not fit a map of {self.n_inputs} features.")
        cosines = self._angles(rows)
        cosines += self.phases.astype(rows.dtype, copy=False)
        np.cos(cosines, out=cosines)
        cosines *= rows.dtype.type(self.scale)
        return np.hstack([rows, cosines])

    @property
    def scale(self) -> float:
        """Factor of the cosines."""
        return float(np.sqrt(2.0 / len(self.phases)))

    def frequencies(self) -> NDArray[np.float64]:
        """Return the frequencies as a matrix of shape (n_components, n_inputs).

        Examples
        --------
        >>> fourier, X = Fourier.draw(n_features=2, n_components=16, bandwidth=1.0, seed=0), np.array([[0.3, -0.4]])
        >>> cosines = fourier.scale * np.cos(X @ fourier.frequencies().T + fourier.phases)
        >>> bool(np.allclose(cosines, fourier.transform(X)[:, 2:]))
        True
        """
        return np.asarray(self._angles(np.eye(self.n_inputs)).T)

    def _angles(self, rows: Features) -> Features:
        """Return the products of rows with all frequencies."""
        order = self.signs.shape[2]
        # three orthonormal transforms are left unscaled: together a factor p^(3/2)
        scale = np.sqrt(order / self.bandwidth) / order**1.5
        columns, tile = np.empty((2, order, ROWS_PER_TILE), rows.dtype)
        angles = np.empty((len(rows), len(self.phases)), rows.dtype)
        _rotate(read_only(rows), read_only(self.signs), rows.dtype.type(scale), columns, tile, angles)
        return angles


FeatureMap = Identity | Centring | Anchors | Fourier
"""The immutable feature map of an encoder, with ``transform(X)``."""


_MAPS = {"identity": Identity, "centring": Centring, "anchors": Anchors, "fourier": Fourier}


def pack_features(features: FeatureMap) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return a map as JSON and arrays, for a file.

    Examples
    --------
    >>> pack_features(Identity())
    ({'map': 'identity'}, {})
    """
    header: dict[str, Any] = {"map": next(name for name, kind in _MAPS.items() if type(features) is kind)}
    arrays: dict[str, NDArray[Any]] = {}
    for field in fields(features):
        value = getattr(features, field.name)
        if isinstance(value, np.ndarray):
            arrays[field.name] = value
        elif is_dataclass(value):
            header[field.name], inner = pack_features(value)  # type: ignore[arg-type]
            arrays |= inner
        else:
            header[field.name] = value
    return header, arrays


def unpack_features(header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> FeatureMap:
    """Return the map that :func:`pack_features` packed.

    Examples
    --------
    >>> unpack_features(*pack_features(Identity()))
    Identity()
    """
    kind: Any = _MAPS[header["map"]]
    values: dict[str, Any] = {}
    for field in fields(kind):
        value = header[field.name] if field.name in header else arrays[field.name]
        values[field.name] = unpack_features(value, arrays) if isinstance(value, dict) else value
    return kind(**values)  # type: ignore[no-any-return]


def squared_distances(rows: Features, anchors: Features) -> Features:
    """Return |x - a|^2 for every row and anchor, shape (n_rows, n_anchors).

    Examples
    --------
    >>> squared_distances(np.array([[0.0, 0.0]]), np.array([[3.0, 4.0], [0.0, 1.0]]))
    array([[25.,  1.]])
    """
    lengths = np.square(rows).sum(axis=1)[:, None] + np.square(anchors).sum(axis=1)
    return np.asarray(np.maximum(lengths - 2 * (rows @ anchors.T), 0))


@kernel()
def _rotate(rows: Any, signs: Any, scale: Any, columns: Any, tile: Any, out: Any) -> None:
    """Write the products of rows with the frequencies of all blocks to ``out``, a tile of rows at a time."""
    n_rows, n_features = rows.shape
    n_components = out.shape[1]
    order, width = tile.shape
    columns[:] = 0  # a row is a column here, so that rows are transformed side by side
    for start in range(0, n_rows, width):
        n = min(width, n_rows - start)
        for f in range(n_features):
            for i in range(n):
                columns[f, i] = rows[start + i, f] * scale
        for block in range(len(signs)):
            for turn in range(3):
                source = columns if turn == 0 else tile
                for f in range(order):
                    sign = tile.dtype.type(signs[block, turn, f])
                    for i in range(width):
                        tile[f, i] = source[f, i] * sign
                transform_columns(tile)
            first = block * order
            for f in range(min(order, n_components - first)):
                for i in range(n):
                    out[start + i, first + f] = tile[f, i]


# ---------------------------------------------------------------------- on a device

DeviceMap = Callable[[DeviceArray], DeviceArray]
"""A function that maps rows where they are."""


def place_features(features: FeatureMap, place: Place, dtype: str) -> DeviceMap:
    """Return the function that maps rows on a device, with a copy of the map's arrays there.

    It computes in ``dtype``, the precision of the rows. Frequencies that are never stored on the host are stored here:
    one product with all of them is what a GPU does best.
    """
    xp = place.xp
    if isinstance(features, Identity):
        return lambda rows: rows
    if isinstance(features, Centring):
        mean = place.put(features.mean)[None, :]
        return lambda rows: xp.astype(_to_unit_length(rows, mean, xp), rows.dtype, copy=False)
    inner = place_features(features.inner, place, dtype)
    if isinstance(features, Anchors):
        anchors, width, constant = place.put(features.anchors, dtype), features.width, features.constant
        lengths = xp.sum(anchors * anchors, axis=1)

        def similarities(rows: DeviceArray) -> DeviceArray:
            rows = inner(rows)
            distances = xp.sum(rows * rows, axis=1)[:, None] + lengths[None, :] - 2.0 * (rows @ anchors.T)
            similar = xp.exp(xp.where(distances > 0.0, distances, xp.zeros_like(distances)) / -width)
            return xp.concat([similar, xp.ones_like(similar[:, :1])], axis=1) if constant else similar

        return similarities
    turned, phases = place.put(features.frequencies().T, dtype), place.put(features.phases, dtype)
    scale = features.scale

    def with_cosines(rows: DeviceArray) -> DeviceArray:
        rows = inner(rows)
        return xp.concat([rows, xp.cos(rows @ turned + phases[None, :]) * scale], axis=1)

    return with_cosines


def _to_unit_length(rows: DeviceArray, mean: DeviceArray, xp: Any) -> DeviceArray:
    """Return rows less the mean, scaled to unit length, in double precision: squares of single precision overflow."""
    rows = xp.astype(rows, xp.float64, copy=False) - mean
    with np.errstate(over="ignore"):
        squares = xp.sum(rows * rows, axis=1)
    odd = ~((squares > MIN_SQUARES) & (squares < MAX_SQUARES))
    if bool(xp.any(odd)):
        largest = xp.max(xp.abs(rows), axis=1)
        rows = rows / xp.where(odd & (largest > 0.0), largest, xp.ones_like(largest))[:, None]
        squares = xp.sum(rows * rows, axis=1)
    return rows / xp.sqrt(xp.where(squares > 0.0, squares, xp.ones_like(squares)))[:, None]
