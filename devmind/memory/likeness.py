"""How alike things are to taught examples: a cosine that counts little what varies among examples of one kind.

Features are standardised and whitened by what made-up strangers, of which there are several examples a kind, say of the
covariance within kinds, shrunk halfway to a multiple of the identity (within-class covariance normalisation: Hatch,
Kajarekar and Stolcke 2006; the shrinkage as in Friedman 1989, "Regularized discriminant analysis", eq. 18, with gamma =
0.5). So one example is enough to begin with: what does not matter was learned before. It is found from inner products
of the strangers alone, as they are fewer than their features.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

SHRINKAGE = 0.5
SHARES_WEIGHT = 0.6
"""Of the cosine of shares, where there are any, beside that of the other features."""
_LEAST_VARIANCE = 1e-3
"""Of the mean variance: a feature that hardly varies among strangers must not be blown up."""


@dataclass(frozen=True, eq=False)
class Strangers:
    """Things of one sense that nobody taught, described by the encoder of the examples they are compared with.

    Args:
        features: float32 [m, F].
        kinds: int64 [m]: what is of one kind differs only in what does not matter. By default all differ.
        shares: how many of the last features are square roots of shares, which are compared as they are.
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
    """Makes rows of length 1 of features, whose inner products are the cosines.

    Args:
        size: F, how many features there are.
        strangers: without any, features are neither centred nor whitened: the plain cosine.
    """

    def __init__(self, size: int, strangers: Strangers | None = None) -> None:
        self._size = size = size - (strangers.shares if strangers is not None else 0)
        self._mean, self._scale = np.zeros(size), np.ones(size)
        self._axes, self._gains, self._rest = np.zeros((size, 0)), np.zeros(0), 1.0
        if strangers is None or len(strangers) < 2:
            return
        known = np.asarray(strangers.features[:, :size], np.float64)
        variance = known.var(0)
        if variance.any():
            self._mean, self._scale = known.mean(0), np.sqrt(variance + _LEAST_VARIANCE * variance.mean())
        residuals = _within((known - self._mean) / self._scale, strangers.kinds)
        if not np.square(residuals).sum() > 0:
            return  # nothing is known of how things of one kind differ
        # The covariance's eigenvectors with values above zero, from the smaller matrix of inner products.
        values, turned = np.linalg.eigh(residuals @ residuals.T / len(residuals))
        kept = values > 1e-9 * values[-1]
        values = values[kept]
        self._axes = residuals.T @ turned[:, kept] / np.sqrt(values * len(residuals))
        mean_variance = values.sum() / size
        self._rest = 1 / np.sqrt(SHRINKAGE * mean_variance)
        self._gains = 1 / np.sqrt((1 - SHRINKAGE) * values + SHRINKAGE * mean_variance) - self._rest

    def rows(self, features: np.ndarray) -> np.ndarray:
        """Features [n, F] as float64 [n, F] of length 1; zeros stay zeros."""
        features = np.asarray(features, np.float64)
        standard = (features[:, : self._size] - self._mean) / self._scale
        rows = unit(self._rest * standard + ((standard @ self._axes) * self._gains) @ self._axes.T)
        if features.shape[1] == self._size:
            return rows
        shares = unit(features[:, self._size :])
        return unit(np.hstack((np.sqrt(1 - SHARES_WEIGHT) * rows, np.sqrt(SHARES_WEIGHT) * shares)))


def unit(rows: np.ndarray) -> np.ndarray:
    """Rows [..., F] at length 1; zeros stay zeros."""
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=-1, keepdims=True), 1e-12))


def _within(features: np.ndarray, kinds: np.ndarray | None) -> np.ndarray:
    """Differences [r, F] from the mean of their kind, of all rows that are not the only one of it."""
    if kinds is None:
        return features[:0]
    _, kind = np.unique(kinds, return_inverse=True)
    counts = np.bincount(kind)
    sums = np.zeros((len(counts), features.shape[1]))
    np.add.at(sums, kind, features)
    return (features - (sums / counts[:, None])[kind])[counts[kind] > 1]
