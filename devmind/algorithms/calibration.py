"""Calibration of probabilities: how well they match the frequency of the event."""

from __future__ import annotations

import numpy as np


def calibration_error(
    probability: np.ndarray, happened: np.ndarray, weights: np.ndarray | None = None, bins: int = 10
) -> float:
    """Expected calibration error (Naeini, Cooper and Hauskrecht 2015), in 0..1.

    Args:
        probability: the predictions, float [N].
        happened: the outcomes, bool or float [N].
        weights: of the predictions, [N]; equal by default.
    """
    weights = np.ones(len(probability)) if weights is None else weights
    at = np.minimum((probability * bins).astype(int), bins - 1)
    gaps = np.bincount(at, weights * (probability - happened), bins)
    return float(np.abs(gaps).sum() / weights.sum())
