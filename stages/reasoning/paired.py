"""Ratios as measures: own mistakes or nodes, divided by another player's on the same cases."""

from __future__ import annotations

import numpy as np


def ratio(own: np.ndarray, others: np.ndarray, bound: float) -> np.ndarray:
    """Values float [N] whose mean is `own.mean() / others.mean()`, and whose interval is right at `bound`.

    The mean's bound lies below `bound` exactly if the bound of `own - bound * others` lies below 0 (Fieller 1954). So
    the other player's results count as a sample too, and cases are compared in pairs.
    """
    share = max(float(others.mean()), 1 / len(others))
    scaled = np.asarray(bound + (own - bound * others) / share)
    return scaled - bound * (1 - float(others.mean()) / share)
