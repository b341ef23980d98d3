"""scikit-learn's ridge on standardised features, for baselines and read-outs on frozen features.

The penalty minimises the exact leave-one-out error (Allen 1974's PRESS; Golub, Heath and Wahba 1979, eq. 1.4).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from devmind.errors import DevmindError

PENALTIES = tuple(10.0 ** (e / 2) for e in range(-4, 13))


@dataclass(frozen=True)
class Ridge:
    """A fitted read-out: `weights` float64 [D, K] and `intercept` [K] for raw, not standardised features.

    `classes` [K] are sorted for a classifier, else None; `penalty` is the one used.
    """

    weights: np.ndarray
    intercept: np.ndarray
    penalty: float
    classes: np.ndarray | None = None

    def predict(self, features: np.ndarray) -> np.ndarray:
        """Targets float64 [n, K], or class labels [n] of a classifier, for features [n, D]."""
        scores = self.scores(features)
        return scores if self.classes is None else self.classes[scores.argmax(axis=1)]

    def scores(self, features: np.ndarray) -> np.ndarray:
        """Outputs before the choice of a class, float64 [n, K]."""
        return np.asarray(features, np.float64) @ self.weights + self.intercept


def fit_ridge(features: np.ndarray, targets: np.ndarray, penalty: float | None = None) -> Ridge:
    """Minimise |Y - X W - b|^2 + penalty |W|^2 with X standardised and b free (Hoerl and Kennard 1970, eq. 2.1).

    Args:
        features: [n, D]; a constant feature gets weight 0.
        targets: [n, K] or [n].
        penalty: on the scale of standardised features; None takes the best of `PENALTIES` by leave-one-out.

    Raises:
        DevmindError: there are fewer than two examples, lengths differ, a value is not finite, or the penalty is <= 0.
    """
    from sklearn.linear_model import Ridge as Solver
    from sklearn.linear_model import RidgeCV
    from sklearn.preprocessing import StandardScaler

    x, y = _checked(features, targets, penalty)
    scaler = StandardScaler().fit(x)
    solver = RidgeCV(PENALTIES) if penalty is None else Solver(penalty)
    solver.fit(scaler.transform(x), y)
    weights = np.where(scaler.var_ > 0, solver.coef_ / scaler.scale_, 0.0).reshape(-1, x.shape[1]).T
    used = solver.alpha_ if penalty is None else penalty
    return Ridge(weights, y.mean(0) - scaler.mean_ @ weights, float(used))


def fit_ridge_classifier(features: np.ndarray, labels: np.ndarray, penalty: float | None = None) -> Ridge:
    """Ridge on targets +1 for an example's class and -1 for the others; the highest score is the answer.

    Args:
        features: [n, D].
        labels: [n], of any type that sorts; at least two classes.

    Raises:
        DevmindError: as `fit_ridge`, or there is only one class.
    """
    labels = np.asarray(labels)
    classes = np.unique(labels)
    if len(classes) < 2:
        raise DevmindError(f"A ridge classifier needs two classes at least; got {len(classes)}. Give more examples.")
    fitted = fit_ridge(features, np.where(labels[:, None] == classes, 1.0, -1.0), penalty)
    return Ridge(fitted.weights, fitted.intercept, fitted.penalty, classes)


def _checked(features: np.ndarray, targets: np.ndarray, penalty: float | None) -> tuple[np.ndarray, np.ndarray]:
    x, y = np.asarray(features, np.float64), np.asarray(targets, np.float64)
    y = y[:, None] if y.ndim == 1 else y
    if x.ndim != 2 or y.ndim != 2 or len(x) != len(y) or len(x) < 2:
        raise DevmindError(
            f"Ridge needs features [n, D] and targets [n, K] with the same n >= 2; got {x.shape} and {y.shape}."
        )
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise DevmindError("Ridge needs finite features and targets; got NaN or infinity. Drop those examples.")
    if penalty is not None and not penalty > 0:
        raise DevmindError(f"The ridge penalty must be above 0; got {penalty}. Leave it out to have it chosen.")
    return x, y
