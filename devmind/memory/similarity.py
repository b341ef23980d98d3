"""The similarity of things to taught examples: a cosine weighted by how well each direction separates kinds.

Features are standardised and whitened by the covariance within kinds of made-up strangers, which have several examples
a kind. Then each direction is weighted by its variance between kinds (linear discriminant analysis with the weights of
a two-covariance model: Ioffe 2006, "Probabilistic linear discriminant analysis"). Both covariances are shrunk towards
multiples of the identity (Friedman 1989, "Regularized discriminant analysis", eq. 18), because the made-up things do
not cover everything. So one example is enough at first: the irrelevant directions are already known.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

WITHIN_SHRINKAGE, BETWEEN_SHRINKAGE = 0.4, 0.05
SHARES_WEIGHT = 0.6
"""Weight of the cosine of shares relative to that of the other features, where shares count."""
FIXED_POINT = 2.0**40
"""Steps in 1 of a number that is summed exactly: 2^22 rows fit, and a step is far below what tells things apart."""
_LEAST_VARIANCE = 1e-3
"""Least variance, relative to the mean: a feature that hardly varies among strangers must not be amplified."""


@dataclass(frozen=True, eq=False)
class Strangers:
    """Untaught things of one sense, described by the encoder of the examples that they are compared with.

    Args:
        features: float32 [m, F].
        kinds: int64 [m]: things of one kind differ only in irrelevant ways. By default all kinds differ.
        shares: number of last features that are square roots of shares, which are compared as they are.
    """

    features: np.ndarray
    kinds: np.ndarray | None = None
    shares: int = 0

    def __post_init__(self) -> None:
        if self.features.ndim != 2 or (self.kinds is not None and self.kinds.shape != self.features.shape[:1]):
            shape = None if self.kinds is None else list(self.kinds.shape)
            raise ValueError(
                f"Strangers are features [m, F] of kinds [m]; got {list(self.features.shape)} and {shape}."
            )

    def __len__(self) -> int:
        return len(self.features)


class Likeness:
    """Makes rows from features, whose inner products are cosines; shares, if any, have a cosine of their own.

    Args:
        size: F, the number of features.
        strangers: without any, features are neither centred nor whitened: the plain cosine.
    """

    def __init__(self, size: int, strangers: Strangers | None = None) -> None:
        self._size = size = size - (strangers.shares if strangers is not None else 0)
        self._mean, self._scale = np.zeros(size), np.ones(size)
        self._span, self._map, self._rest = np.zeros((size, 0)), np.zeros((0, 0)), 1.0
        if strangers is None or len(strangers) < 2:
            return
        known = np.asarray(strangers.features[:, :size], np.float64)
        variance = known.var(0)
        if variance.any():
            self._mean, self._scale = known.mean(0), np.sqrt(variance + _LEAST_VARIANCE * variance.mean())
        standard = (known - self._mean) / self._scale
        if strangers.kinds is None or len(np.unique(strangers.kinds)) == len(strangers):
            return  # the differences within one kind are unknown
        # There are fewer strangers than features: all their information is in the space that they span.
        values, turned = np.linalg.eigh(standard @ standard.T)
        kept = values > 1e-9 * values[-1]
        self._span = standard.T @ turned[:, kept] / np.sqrt(values[kept])
        self._discriminate(standard @ self._span, strangers.kinds)

    def _discriminate(self, rows: np.ndarray, kinds: np.ndarray) -> None:
        """Choose the weights of directions: of strangers' rows [m, S] in the space they span, and outside of it."""
        _, kind = np.unique(kinds, return_inverse=True)
        counts = np.bincount(kind)
        means = sums_of(rows, kind, len(counts)) / counts[:, None]
        residuals = rows - means[kind]
        within = residuals.T @ residuals / max(1, len(rows) - len(counts))
        between = np.cov(means.T, bias=True)
        if not np.trace(within) > 0:
            self._span = self._span[:, :0]
            return
        floor, identity = WITHIN_SHRINKAGE * np.trace(within) / self._size, np.eye(rows.shape[1])
        within = (1 - WITHIN_SHRINKAGE) * within + floor * identity
        between = (1 - BETWEEN_SHRINKAGE) * between * self._size / max(np.trace(between), 1e-12)
        between = between + BETWEEN_SHRINKAGE * identity
        values, axes = np.linalg.eigh(within)
        whitener = (axes / np.sqrt(values)) @ axes.T
        ratios, turned = np.linalg.eigh(whitener @ between @ whitener)
        weights = np.sqrt(np.maximum(ratios, 0) / (1 + np.maximum(ratios, 0)))
        # Rotated back, so that the parts inside and outside the space form one row.
        self._map = (whitener @ turned) * weights @ turned.T
        self._rest = float(np.sqrt(BETWEEN_SHRINKAGE / (floor + BETWEEN_SHRINKAGE) / floor))

    def rows(self, features: np.ndarray) -> np.ndarray:
        """Features [n, F] as float64 [n, F]: shares normalised to length 1, and the others too; zeros stay zeros."""
        features = np.asarray(features, np.float64)
        standard = (features[:, : self._size] - self._mean) / self._scale
        inside = standard @ self._span
        mapped = self._rest * standard + (inside @ self._map - self._rest * inside) @ self._span.T
        return unit(np.hstack((mapped, features[:, self._size :])), features.shape[1] - self._size)


def unit(rows: np.ndarray, shares: int = 0) -> np.ndarray:
    """Rows [..., F] normalised to length 1, the last `shares` of them separately; zeros stay zeros."""
    if shares:
        return np.concatenate((unit(rows[..., :-shares]), unit(rows[..., -shares:])), axis=-1)
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=-1, keepdims=True), 1e-12))


def sums_of(rows: np.ndarray, place: np.ndarray, count: int) -> np.ndarray:
    """Rows [n, F] summed by their place, [count, F]."""
    sums = np.zeros((count, rows.shape[1]))
    np.add.at(sums, place, rows)
    return sums


def exact_sums(rows: np.ndarray, place: np.ndarray, count: int) -> np.ndarray:
    """`sums_of` rows of numbers from -1 to 1, in integers of FIXED_POINT: the same bits in any order.

    So a name's model is in closed form what `devmind.algorithms.closed_form` sums for a class, and what is left when a
    name is forgotten is what would be there if it had never been taught.
    """
    sums = np.zeros((count, rows.shape[1]), np.int64)
    np.add.at(sums, place, np.rint(rows * FIXED_POINT).astype(np.int64))
    return sums / FIXED_POINT
