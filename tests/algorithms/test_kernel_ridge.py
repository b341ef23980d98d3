"""Kernel ridge against sums by hand, and on what a linear rule cannot divide."""

import numpy as np
import pytest

from devmind.algorithms.kernel_ridge import PENALTY, fit_kernel_classifier
from devmind.algorithms.ridge import fit_ridge_classifier


@pytest.mark.parametrize("width", [1.0, 0.25])
def test_kernel_ridge_learns_what_no_line_divides(width):
    """A second implementation by hand: (K + penalty I)^-1 Y, and a ring around a disc."""
    rng = np.random.default_rng(0)
    points = rng.uniform(-1, 1, (120, 2))
    labels = 3 + 2 * (np.linalg.norm(points, axis=1) > 0.7).astype(int)
    fitted = fit_kernel_classifier(points, labels, width=width)
    apart = ((points[:, None] - points) ** 2).sum(-1)
    by_hand = np.exp(-apart / (width * apart.mean()))
    weights = np.linalg.inv(by_hand + PENALTY * np.eye(120)) @ np.where(labels[:, None] == [3, 5], 1.0, -1.0)
    np.testing.assert_allclose(fitted.scores(points), by_hand @ weights, atol=1e-6)
    asked = rng.uniform(-1, 1, (200, 2))
    wanted = np.where(np.linalg.norm(asked, axis=1) <= 0.7, 3, 5)
    assert (fitted.predict(asked) == wanted).mean() > 0.85
    assert (fit_ridge_classifier(points, labels).predict(asked) == wanted).mean() < 0.8
