"""Ridge regression and classification in closed form, for baselines and read-outs on frozen features.

The penalty minimises the exact leave-one-out error (Allen 1974's PRESS; Golub, Heath and Wahba 1979, eq. 1.4), which
needs nothing beyond the one singular value decomposition.
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
    x, y = _checked(features, targets, penalty)
    mean, scale = x.mean(0), x.std(0)
    scale[scale <= np.finfo(np.float64).eps * np.abs(mean) * len(x)] = np.inf
    y_mean = y.mean(0)
    left, sizes, right = np.linalg.svd((x - mean) / scale, full_matrices=False)
    turned = left.T @ (y - y_mean)
    if penalty is None:
        penalty = _best_penalty(left, sizes, turned, y - y_mean)
    shrunk = sizes / (sizes**2 + penalty)
    weights = (right.T @ (shrunk[:, None] * turned)) / scale[:, None]
    return Ridge(weights, y_mean - mean @ weights, penalty)


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


def _best_penalty(left: np.ndarray, sizes: np.ndarray, turned: np.ndarray, y: np.ndarray) -> float:
    """The one of PENALTIES of least leave-one-out squared error: residual / (1 - leverage), summed over examples and
    outputs."""
    errors = []
    for penalty in PENALTIES:
        kept = sizes**2 / (sizes**2 + penalty)
        # The free intercept is a further direction that is never shrunk; its leverage is 1/n everywhere.
        leverage = left**2 @ kept + 1 / len(y)
        residual = y - left @ (kept[:, None] * turned)
        errors.append(np.square(residual / (1 - leverage)[:, None]).sum())
    return PENALTIES[int(np.argmin(errors))]


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
