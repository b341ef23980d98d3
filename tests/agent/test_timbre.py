"""Timbre describes the character of a sound, whatever its length and loudness."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from devmind.agent.timbre import timbre

RATE_HZ, SIZE = 16_000, 161
PITCH = slice(133, 138)
PEAKS = slice(138, 140)
SPECTRUM = slice(0, 71)


def tone(hz: float, seconds: float = 1.0) -> np.ndarray:
    return (0.2 * np.sin(2 * np.pi * hz * np.arange(round(seconds * RATE_HZ)) / RATE_HZ)).astype(np.float32)


def noise(seconds: float = 1.0, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 0.1, round(seconds * RATE_HZ)).astype(np.float32)


@pytest.mark.parametrize("samples", [1, 100, 1600, 4001, 80_000])
def test_timbre_describes_sounds_of_any_length_and_silence(samples: int) -> None:
    for sound in (noise(5)[:samples], np.zeros(samples, np.float32)):
        found = timbre(sound)
        assert found.shape == (SIZE,)
        assert found.dtype == np.float32
        assert np.isfinite(found).all()


def test_timbre_finds_a_pitch_in_tones_and_none_in_noise() -> None:
    for hz in (110.0, 220.0, 500.0):
        assert timbre(tone(hz))[PITCH][0] > 0.9
    assert timbre(noise())[PITCH][0] < 0.4


def many_sounds(number: int = 24, seconds: int = 2) -> Iterator[np.ndarray]:
    """White and coloured noise, tones and fluctuating noise, each drawn anew."""
    rng, samples = np.random.default_rng(1), seconds * RATE_HZ
    time_s = np.arange(samples) / RATE_HZ
    for _ in range(number // 4):
        white, low, still, slow = rng.normal(0, 0.1, (4, samples))
        spectrum = np.fft.rfft(low)
        coloured = np.fft.irfft(spectrum / np.maximum(np.arange(len(spectrum)), 20) ** rng.uniform(0.3, 1.2))
        yield white.astype(np.float32)
        yield (0.1 * coloured / coloured.std()).astype(np.float32)
        yield tone(rng.uniform(100, 2000), seconds) + 1e-3 * still.astype(np.float32)
        yield (slow * (1 + np.sin(2 * np.pi * rng.uniform(1, 20) * time_s))).astype(np.float32)


def test_timbre_changes_less_with_loudness_and_length_than_with_the_sound() -> None:
    """In units of the deviation over many sounds, as memory standardises features by those of strangers: over the three
    alone, the deviation of a number in which they happen to agree is near zero, and this number decides.
    """
    kinds = [noise(2), np.cumsum(noise(2)).astype(np.float32) * 0.02, tone(300, 2)]
    scale = np.stack([timbre(sound) for sound in many_sounds()]).std(0) + 1e-3
    every = np.stack([timbre(kind) / scale for kind in kinds])[:, SPECTRUM]
    for number, (kind, described) in enumerate(zip(kinds, every, strict=True)):
        other = min(np.linalg.norm(described - each) for each in np.delete(every, number, 0))
        for same in (0.5 * kind, kind[:RATE_HZ]):
            assert np.linalg.norm((timbre(same) / scale)[SPECTRUM] - described) < 0.5 * other
    # All bands of white noise are far above the floor of the logarithm.
    np.testing.assert_allclose(timbre(0.5 * kinds[0]) / scale, timbre(kinds[0]) / scale, atol=0.01, rtol=0)


def test_timbre_finds_the_rate_of_modulation_and_clicks() -> None:
    time_s = np.arange(2 * RATE_HZ) / RATE_HZ
    slow, fast = (noise(2) * (1 + np.sin(2 * np.pi * hz * time_s)) for hz in (2.0, 20.0))
    modulation = [timbre(sound)[71:127].reshape(8, 7)[:, -1] for sound in (slow, fast)]
    assert modulation[0].argmax() == 1, "1.5 to 2.5 Hz"
    assert modulation[1].argmax() == 6, "16 to 26 Hz"
    clicks = 0.001 * noise(2)
    clicks[::4000] = 1
    assert (timbre(clicks)[PEAKS] > timbre(noise(2))[PEAKS] + 1).all()
