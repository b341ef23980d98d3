"""ClockFit on synthetic clocks with known truth: 100 ppm of drift, jitter, and late callbacks."""

from __future__ import annotations

import numpy as np
import pytest

from devmind.errors import WorldError
from devmind.worlds.clock import ClockFit

RATE_HZ = 16_000
BLOCK = 320
START_S = 123_456.789


def callbacks(rng, seconds, drift_ppm, jitter_s=0.003, late_share=0.1, late_s=0.25):
    """(index, true host seconds, observed host seconds) of every block of a device; a tenth of them come late."""
    index = np.arange(1, int(seconds * RATE_HZ / BLOCK) + 1) * float(BLOCK)
    true_s = START_S + index / (RATE_HZ * (1 + drift_ppm * 1e-6))
    late = rng.random(len(index)) < late_share
    return index, true_s, true_s + rng.normal(0, jitter_s, len(index)) + late * rng.uniform(0, late_s, len(index))


@pytest.mark.parametrize("drift_ppm", [100.0, -100.0, 0.0])
@pytest.mark.parametrize("seed", range(5))
def test_host_times_are_within_5_ms_despite_drift_jitter_and_late_callbacks(drift_ppm, seed):
    clock = ClockFit(RATE_HZ)
    worst_s = 0.0
    for count, (index, true_s, seen_s) in enumerate(
        zip(*callbacks(np.random.default_rng(seed), 60, drift_ppm), strict=True)
    ):
        clock.observe(index, seen_s)
        if count >= 50 and count % 25 == 0:  # from the first second on
            worst_s = max(worst_s, abs(clock.host_s(index) - true_s))
    assert worst_s <= 0.005
    assert clock.drift_ppm == pytest.approx(drift_ppm, abs=40)
    assert 0.001 < clock.jitter_s < 0.01


def test_the_robust_fit_is_accurate_where_least_squares_is_not():
    index, true_s, seen_s = callbacks(np.random.default_rng(0), 20, 100, late_share=0.2, late_s=0.5)
    clock = ClockFit(RATE_HZ)
    for one, at_s in zip(index, seen_s, strict=True):
        clock.observe(one, at_s)
    plain = np.polyval(np.polyfit(index - index[0], seen_s - START_S, 1), index[-1] - index[0]) + START_S
    assert abs(plain - true_s[-1]) > 0.02
    assert abs(clock.host_s(index[-1]) - true_s[-1]) < 0.005


def test_the_window_forgets_an_old_rate():
    clock = ClockFit(RATE_HZ, window_s=5)
    host_s = START_S
    for block in range(2000):
        host_s += BLOCK / RATE_HZ * (1 + (2e-4 if block < 1000 else -2e-4))
        clock.observe(block * BLOCK, host_s)
    assert clock.drift_ppm == pytest.approx(200, abs=20)


def test_index_at_is_the_inverse_of_host_s():
    clock = ClockFit(RATE_HZ)
    for index, _, seen_s in zip(*callbacks(np.random.default_rng(1), 10, 100), strict=True):
        clock.observe(index, seen_s)
    assert clock.index_at(clock.host_s(12_345.0)) == pytest.approx(12_345.0, abs=0.01)


def test_a_restart_keeps_the_drift_and_forgets_the_times():
    clock = ClockFit(RATE_HZ)
    for index, _, seen_s in zip(*callbacks(np.random.default_rng(2), 30, 300, late_share=0), strict=True):
        clock.observe(index, seen_s)
    clock.restart()
    assert len(clock) == 0
    clock.observe(0, START_S + 100)
    assert clock.host_s(0) == pytest.approx(START_S + 100)
    assert clock.drift_ppm == pytest.approx(300, abs=40)


def test_fast_callbacks_are_thinned_and_the_newest_is_kept():
    clock = ClockFit(1000, window_s=10, points=16)
    for index in range(10_000):
        clock.observe(index, index / 1000)
    assert len(clock) == 16
    assert clock.host_s(9_999) == pytest.approx(9.999, abs=1e-6)


def test_an_empty_clock_and_invalid_settings_raise_a_world_error():
    with pytest.raises(WorldError, match="observed nothing yet"):
        ClockFit(RATE_HZ).host_s(0)
    with pytest.raises(WorldError, match="rate_hz > 0"):
        ClockFit(0)
