"""scikit-learn's kernel ridge as a classifier (Saunders, Gammerman, Vovk 1998), where no line divides the classes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from sklearn.kernel_ridge import KernelRidge as Solver

PENALTY = 0.03


class KernelRidge:
    """A classifier: Gaussian kernels exp(-squared distance / (width x mean squared distance)) around known features
    [M, F] with labels [M], fitted in closed form; memory grows with M squared.

    Args:
        penalty: is added to the kernels' diagonal, where they are 1.
        width: of the kernels, as a share of the mean squared distance of two known ones.
    """

    def __init__(self, features: np.ndarray, labels: np.ndarray, penalty: float, width: float) -> None:
        from sklearn.kernel_ridge import KernelRidge as Solver

        self.classes = np.unique(labels)
        x = np.asarray(features, np.float64)
        mean_apart = 2.0 * x.var(0).sum()  # over all pairs, each thing with itself as well
        targets = np.where(np.asarray(labels)[:, None] == self.classes, 1.0, -1.0)
        gamma = 1 / max(width * mean_apart, 1e-6)
        self._solver: Solver = Solver(alpha=penalty, kernel="rbf", gamma=gamma).fit(x, targets)

    def scores(self, features: np.ndarray) -> np.ndarray:
        """Outputs before the choice of a class, float64 [N, K], for features [N, F]."""
        return np.asarray(self._solver.predict(np.asarray(features, np.float64)))

    def predict(self, features: np.ndarray) -> np.ndarray:
        """Class labels [N]."""
        return np.asarray(self.classes[self.scores(features).argmax(1)])


def fit_kernel_classifier(
    features: np.ndarray, labels: np.ndarray, penalty: float = PENALTY, width: float = 1.0
) -> KernelRidge:
    """The fitted classifier."""
    return KernelRidge(features, labels, penalty, width)
