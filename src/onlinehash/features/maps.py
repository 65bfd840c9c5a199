"""Maps from preprocessed rows to curved features: similarities to anchors, and random Fourier features."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinehash._internal.kernels import kernel, read_only
from onlinehash._internal.walsh import transform_columns
from onlinehash.exceptions import InvalidInputError
from onlinehash.features.centring import Centring, Identity
from onlinehash.types import Features

ROWS_PER_TILE = 32  # transformed together: whole vector registers, and a tile that stays in cache


class _CurvedMap:
    """A map of rows that its inner map has preprocessed."""

    inner: Any

    def transform(self, X: Features) -> Features:
        """Return the features of the rows of X, shape (n_samples, n_outputs), in the precision of X."""
        return self.map(self.inner.transform(X))

    def map(self, rows: Features) -> Features:
        """Return the features of rows already mapped by ``inner``."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class Anchors(_CurvedMap):
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

    def map(self, rows: Features) -> Features:
        """Return the similarities of rows already mapped by ``inner``."""
        similar = np.exp(
            squared_distances(rows, self.anchors.astype(rows.dtype, copy=False)) / -rows.dtype.type(self.width)
        )
        return np.hstack([similar, np.ones_like(rows[:, :1])]) if self.constant else similar


@dataclass(frozen=True, eq=False)
class Fourier(_CurvedMap):
    """Map a row to cosines of random frequencies: sqrt(2 / D) cos(w . x + b).

    With Gaussian w of variance 1 / bandwidth and uniform b, the inner product of two maps approximates the kernel
    exp(-|x - y|^2 / (2 bandwidth)). Costs one product with all frequencies per row.

    Parameters
    ----------
    frequencies : ndarray of shape (n_components, n_features)
    phases : ndarray of shape (n_components,)
    inner : Identity or Centring
        Preprocessing of a row.

    References
    ----------
    A. Rahimi and B. Recht. Random Features for Large-Scale Kernel Machines. NIPS 2007.

    Examples
    --------
    >>> fourier = Fourier.draw(n_features=2, n_components=4096, bandwidth=1.0, seed=0)
    >>> x, y = fourier.transform(np.array([[0.0, 0.0], [1.0, 0.0]]))
    >>> round(float(x @ y), 1), round(float(np.exp(-1 / 2)), 1)
    (0.6, 0.6)
    """

    frequencies: NDArray[Any]
    phases: NDArray[Any]
    inner: Identity | Centring = Identity()  # noqa: RUF009 (immutable)

    @classmethod
    def draw(cls, n_features: int, n_components: int, bandwidth: float, seed: int) -> Fourier:
        """Draw frequencies and phases."""
        rng = np.random.default_rng([seed, n_components, 4])
        frequencies = rng.standard_normal((n_components, n_features)) / np.sqrt(bandwidth)
        return cls(frequencies, rng.uniform(0.0, 2.0 * np.pi, n_components))

    @property
    def n_inputs(self) -> int:
        """Number of input features."""
        return int(self.frequencies.shape[1])

    @property
    def n_outputs(self) -> int:
        """Number of output features."""
        return len(self.frequencies)

    def map(self, rows: Features) -> Features:
        """Return the cosines of rows already mapped by ``inner``."""
        return _cosines(rows @ self.frequencies.T.astype(rows.dtype, copy=False), self.phases)


@dataclass(frozen=True, eq=False)
class HadamardFourier(_CurvedMap):
    """Map a row to cosines of random frequencies that are never stored.

    The frequencies are rows of sqrt(p / bandwidth) H S3 H S2 H S1, with H the orthonormal Hadamard matrix of order p,
    the smallest power of two that is at least n_features, and S random signs. They are orthogonal, which approximates
    the kernel better than independent ones, and take O(log p) additions per component instead of n_features products.
    Otherwise as :class:`Fourier`.

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
    F. X. Yu, A. T. Suresh, K. Choromanski, D. Holtmann-Rice, S. Kumar. Orthogonal Random Features. NIPS 2016.

    Examples
    --------
    >>> fourier = HadamardFourier.draw(n_features=2, n_components=4096, bandwidth=1.0, seed=0)
    >>> x, y = fourier.transform(np.array([[0.0, 0.0], [1.0, 0.0]]))
    >>> round(float(x @ y), 1), round(float(np.exp(-1 / 2)), 1)
    (0.6, 0.6)
    """

    signs: NDArray[np.int8]
    phases: NDArray[Any]
    bandwidth: float
    n_inputs: int
    inner: Identity | Centring = Identity()  # noqa: RUF009 (immutable)

    @classmethod
    def draw(cls, n_features: int, n_components: int, bandwidth: float, seed: int) -> HadamardFourier:
        """Draw signs and phases."""
        rng = np.random.default_rng([seed, n_components, 5])
        order = max(16, 1 << (n_features - 1).bit_length())  # fewer rows would repeat too few frequencies
        n_blocks = -(-n_components // order)
        signs = rng.choice(np.array([-1, 1], np.int8), (n_blocks, 3, order))
        return cls(signs, rng.uniform(0.0, 2.0 * np.pi, n_components), bandwidth, n_features)

    @property
    def n_outputs(self) -> int:
        """Number of output features."""
        return len(self.phases)

    def map(self, rows: Features) -> Features:
        """Return the cosines of rows already mapped by ``inner``."""
        if rows.shape[1] != self.n_inputs:
            raise InvalidInputError(f"Rows of shape {rows.shape} do not fit a map of {self.n_inputs} features.")
        return _cosines(self._angles(rows), self.phases)

    def dense_frequencies(self) -> NDArray[np.float64]:
        """Return the frequencies as a matrix of shape (n_components, n_inputs), as :class:`Fourier` stores them.

        Examples
        --------
        >>> fourier = HadamardFourier.draw(n_features=2, n_components=16, bandwidth=1.0, seed=0)
        >>> dense, X = Fourier(fourier.dense_frequencies(), fourier.phases), np.array([[0.3, -0.4]])
        >>> bool(np.allclose(dense.transform(X), fourier.transform(X)))
        True
        """
        return np.asarray(self._angles(np.eye(self.n_inputs)).T)

    def _angles(self, rows: Features) -> Features:
        """Return the products of rows with all frequencies."""
        order = self.signs.shape[2]
        # three orthonormal transforms are left unscaled: together a factor p^(3/2)
        scale = np.sqrt(order / self.bandwidth) / order**1.5
        columns, tile = np.empty((2, order, ROWS_PER_TILE), rows.dtype)
        angles = np.empty((len(rows), self.n_outputs), rows.dtype)
        _rotate(read_only(rows), read_only(self.signs), rows.dtype.type(scale), columns, tile, angles)
        return angles


@dataclass(frozen=True, eq=False)
class WithInputs(_CurvedMap):
    """Keep the rows, preprocessed, and append the features of a map: a linear and a curved part together.

    Parameters
    ----------
    curved : Anchors, Fourier or HadamardFourier
        Its ``inner`` map preprocesses a row.

    Examples
    --------
    >>> WithInputs(Anchors(np.zeros((1, 2)), width=1.0)).transform(np.array([[0.0, 0.0]]))
    array([[0., 0., 1.]])
    """

    curved: Anchors | Fourier | HadamardFourier

    @property
    def inner(self) -> Identity | Centring:
        """Preprocessing of a row."""
        return self.curved.inner

    @property
    def n_inputs(self) -> int:
        """Number of input features."""
        return self.curved.n_inputs

    @property
    def n_outputs(self) -> int:
        """Number of output features."""
        return self.curved.n_inputs + self.curved.n_outputs

    def map(self, rows: Features) -> Features:
        """Return rows already mapped by the inner map, followed by their features."""
        return np.hstack([rows, self.curved.map(rows)])


FeatureMap = Identity | Centring | Anchors | Fourier | HadamardFourier | WithInputs
"""The immutable feature map of an encoder, with ``transform(X)``."""


_MAPS = {
    "identity": Identity,
    "centring": Centring,
    "anchors": Anchors,
    "fourier": Fourier,
    "hadamard_fourier": HadamardFourier,
    "with_inputs": WithInputs,
}


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


def _cosines(angles: Features, phases: NDArray[Any]) -> Features:
    """Turn angles into scaled cosines, in place."""
    angles += phases.astype(angles.dtype, copy=False)
    np.cos(angles, out=angles)
    angles *= angles.dtype.type(np.sqrt(2.0 / len(phases)))
    return angles


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
