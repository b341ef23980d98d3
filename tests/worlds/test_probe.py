"""The probe on sensors whose rate, losses and skew are known."""

from __future__ import annotations

import math

import numpy as np
import pytest

from devmind.errors import StaleReading
from devmind.worlds.probe import Probed, probe, skew_s
from sensors.synthetic import SyntheticCamera, SyntheticMicrophone

RATE_HZ = 16_000


class Silent:
    """A sensor that never gives anything."""

    sense, drops = "sight", 0

    def read_latest(self, max_age_s):
        raise StaleReading("The lens is covered.")


class Torn(SyntheticMicrophone):
    """Every other tenth of a second is lost."""

    def read_window(self, start_s, end_s):
        samples = super().read_window(start_s, end_s)
        if math.floor(start_s * 10) % 2:
            raise StaleReading("lost")
        return samples


def test_the_probe_measures_rates_losses_and_level(monkeypatch):
    monkeypatch.setattr("devmind.worlds.probe.FIRST_S", 0.1)
    monkeypatch.setattr("devmind.worlds.probe.LAG_S", 0.05)
    with SyntheticCamera(0.4, 25, flash_s=0.04) as camera, SyntheticMicrophone(0.4) as ear, Torn() as torn:
        found = probe({"camera": camera, "ear": ear, "torn": torn, "blind": Silent()}, 1.0)
    assert found["camera"].capture_hz == pytest.approx(25, rel=0.1)
    assert found["camera"].frame.shape == (240, 320, 3)
    assert found["ear"].asked == 10
    assert found["ear"].missing == 0
    assert found["torn"].missing == pytest.approx(0.5, abs=0.15)
    assert found["ear"].level_dbfs == pytest.approx(-24, abs=3)  # clicks of 5 ms in 450, and a hum
    assert not found["blind"].works
    assert found["blind"].fault == "The lens is covered."
    skew, events = skew_s(found["camera"], found["ear"], RATE_HZ)
    assert skew == pytest.approx(-0.02, abs=0.04)  # a flash is seen in the frame after it, on average half a frame late
    assert 1 <= events <= 3


def recorded(seen, heard, seconds=5.0):
    """Data of a camera with 30 frames a second and of a microphone, with events at these times."""
    times = np.arange(0, seconds, 1 / 30)
    changes = [0.001 + (0.3 if any(0 <= at_s - event < 1 / 30 for event in seen) else 0) for at_s in times]
    sound = np.random.default_rng(0).normal(0, 0.001, int(seconds * RATE_HZ)).astype(np.float32)
    for event in heard:
        sound[int(event * RATE_HZ) : int(event * RATE_HZ) + 80] = 0.5
    windows = [(k / 10, sound[None, k * 1600 : (k + 1) * 1600]) for k in range(int(seconds * 10))]
    return Probed("eye", "sight", list(times), changes), Probed("ear", "sound", windows=windows, asked=len(windows))


@pytest.mark.parametrize("skew", [-0.2, 0.0, 0.12])
def test_a_known_skew_is_found(skew):
    events = np.array([0.7, 1.5, 2.4, 3.6, 4.4])
    found, count = skew_s(*recorded(events, events + skew), RATE_HZ)
    assert found == pytest.approx(skew, abs=0.035)
    assert count == 5


@pytest.mark.parametrize(("seen", "heard"), [([], [1.0]), ([1.0], []), ([1.0], [3.0])])
def test_there_is_no_skew_without_an_event_in_both(seen, heard):
    assert skew_s(*recorded(seen, heard), RATE_HZ) is None


def test_silence_and_missing_data_have_levels():
    quiet = Probed("ear", "sound", windows=[(0.0, np.zeros((1, 1600), np.float32))], asked=1)
    assert quiet.level_dbfs == float("-inf")
    assert math.isnan(Probed("ear", "sound").level_dbfs)
    assert math.isnan(Probed("eye", "sight").capture_hz)
