"""The calibration error of probabilities."""

from __future__ import annotations

import numpy as np
import pytest

from devmind.algorithms.calibration import calibration_error


def test_calibration_error_is_small_for_true_probabilities() -> None:
    rng = np.random.default_rng(0)
    told = rng.random(20_000)
    assert calibration_error(told, rng.random(20_000) < told) < 0.02
    assert calibration_error(told, rng.random(20_000) < 0.5) == pytest.approx(0.25, abs=0.02)
    assert calibration_error(np.array([1.0, 0.0]), np.array([True, False])) == 0.0


def test_weight_counts_as_repeated_samples() -> None:
    told, happened = np.array([0.9, 0.9, 0.2]), np.array([1.0, 0.0, 0.0])
    often = calibration_error(np.repeat(told, [3, 1, 2]), np.repeat(happened, [3, 1, 2]))
    assert calibration_error(told, happened, np.array([3.0, 1.0, 2.0])) == pytest.approx(often)
