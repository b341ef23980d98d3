"""Kernel ridge classification (Saunders, Gammerman and Vovk 1998): a baseline where no line divides the classes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

PENALTY = 0.03


@dataclass(frozen=True)
class KernelRidge:
    """A fitted classifier: `weights` float64 [M, K] of Gaussian kernels around `known` [M, F], exp(-squared distance /
    `width`), and `classes` [K], sorted.
    """

    known: np.ndarray
    weights: np.ndarray
    width: float
    classes: np.ndarray

    def scores(self, features: np.ndarray) -> np.ndarray:
        """Outputs before the choice of a class, float64 [N, K], for features [N, F]."""
        return np.asarray(np.exp(-_apart(features, self.known) / self.width) @ self.weights)

    def predict(self, features: np.ndarray) -> np.ndarray:
        """Class labels [N]."""
        return np.asarray(self.classes[self.scores(features).argmax(1)])


def fit_kernel_classifier(
    features: np.ndarray, labels: np.ndarray, penalty: float = PENALTY, width: float = 1.0
) -> KernelRidge:
    """Fitted on features [M, F] with labels [M], in closed form; memory grows with M squared.

    Args:
        penalty: is added to the kernels' diagonal, where they are 1.
        width: of the kernels, as a share of the mean squared distance of two known ones.
    """
    classes, apart = np.unique(labels), _apart(features, features)
    wide = max(width * float(apart.mean()), 1e-6)
    likeness = np.exp(-apart / wide) + penalty * np.eye(len(apart))
    weights = np.linalg.solve(likeness, np.where(np.asarray(labels)[:, None] == classes, 1.0, -1.0))
    return KernelRidge(features, weights, wide, classes)


def _apart(features: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Squared distances of features [N, F] to the known ones, [N, M]."""
    squares = (features**2).sum(1)[:, None] - 2.0 * features @ known.T + (known**2).sum(1)
    return np.asarray(squares, np.float64)
