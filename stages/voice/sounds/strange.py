"""Sounds of no taught kind, made by rule: for lessons moving tones, narrow bands of noise and rows of clicks, for exams
sirens, bells and organs.

A network that only chooses among kinds is sure of whatever it hears. It learns to say "unknown" from sounds that are of
no kind (outlier exposure, Hendrycks et al. 2019, ICLR). The exam asks about others, which no lesson has.
"""

from __future__ import annotations

import numpy as np

from devmind.moment import SOUND_RATE_HZ

PEAK = 0.3


def make_sound(rng: np.random.Generator, seconds: float) -> np.ndarray:
    """One such sound, float32 [S], of two layers half of the time."""
    n = round(seconds * SOUND_RATE_HZ)
    wave = _layer(rng, n)
    if rng.random() < 0.5:
        wave = wave + rng.uniform(0.2, 1.0) * _layer(rng, n)
    wave = wave + 10 ** rng.uniform(-4.0, -2.0) * rng.standard_normal(n)
    return (PEAK / max(1e-6, float(np.abs(wave).max())) * wave).astype(np.float32)


def unmet(rng: np.random.Generator, seconds: float) -> np.ndarray:
    """A siren, a bell that is struck, or chords of an organ, which no lesson has: float32 [S]."""
    n = round(seconds * SOUND_RATE_HZ)
    wave = (_siren, _bell, _organ)[int(rng.integers(3))](rng, n)
    wave = wave / max(1e-6, float(np.abs(wave).max())) + 10 ** rng.uniform(-4.0, -2.0) * rng.standard_normal(n)
    return (10 ** rng.uniform(-1.5, 0) * PEAK / float(np.abs(wave).max()) * wave).astype(np.float32)


def _siren(rng: np.random.Generator, n: int) -> np.ndarray:
    """Square waves whose pitch goes up and down by up to an octave, one to six times a second."""
    t = np.arange(n) / SOUND_RATE_HZ
    octaves = rng.uniform(0.3, 1.0) * np.sin(2 * np.pi * (_hz(rng, 1, 6) * t + rng.random()))
    return np.tanh(4 * np.sin(2 * np.pi * np.cumsum(_hz(rng, 400, 1600) * np.exp2(octaves)) / SOUND_RATE_HZ))


def _bell(rng: np.random.Generator, n: int) -> np.ndarray:
    """A church bell's partials (hum, prime, tierce, quint, nominal), struck once or more, dying away."""
    t, pitch_hz, wave = np.arange(n) / SOUND_RATE_HZ, _hz(rng, 250, 1200), np.zeros(n)
    every = int(SOUND_RATE_HZ * rng.uniform(0.4, 1.5))
    for place, partial in enumerate((0.5, 1.0, 1.2, 1.5, 2.0, 2.67)):
        dies_s = rng.uniform(0.3, 1.0) / (1 + 0.3 * place)
        since = (np.arange(n) + int(rng.integers(1600))) % every / SOUND_RATE_HZ
        wave += rng.uniform(0.3, 1) * np.exp(-since / dies_s) * np.sin(2 * np.pi * partial * pitch_hz * t)
    return wave


def _organ(rng: np.random.Generator, n: int) -> np.ndarray:
    """Chords of three notes with six harmonics each; a new one two to four times a second."""
    t, wave = np.arange(n) / SOUND_RATE_HZ, np.zeros(n)
    length = int(SOUND_RATE_HZ / rng.uniform(2, 4))
    for start in range(0, n, length):
        part = slice(start, start + length)
        for note in rng.choice(24, 3, replace=False):
            for harmonic in range(1, 7):
                wave[part] += np.sin(2 * np.pi * 130 * 2 ** (note / 12) * harmonic * t[part]) / harmonic
    return wave


def _layer(rng: np.random.Generator, n: int) -> np.ndarray:
    source = (_tones, _band, _clicks)[int(rng.integers(3))]
    wave = source(rng, n) * _course(rng, n)
    return wave / max(1e-6, float(np.sqrt(np.mean(wave**2))))


def _hz(rng: np.random.Generator, low: float, high: float) -> float:
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


def _tones(rng: np.random.Generator, n: int) -> np.ndarray:
    """A tone with up to five partials that are no harmonics, moving by up to an octave a second or standing."""
    t, wave = np.arange(n) / SOUND_RATE_HZ, np.zeros(n)
    glide, pitch_hz = float(rng.choice((0.0, rng.uniform(-1, 1)))), _hz(rng, 120, 2500)
    for _ in range(int(rng.integers(1, 6))):
        cycles = np.cumsum(pitch_hz * np.exp2(glide * t).clip(0.1, 8)) / SOUND_RATE_HZ
        wave += rng.uniform(0.2, 1) * np.sin(2 * np.pi * cycles)
        pitch_hz = min(7000.0, pitch_hz * rng.uniform(1.1, 2.4))
    return wave


def _band(rng: np.random.Generator, n: int) -> np.ndarray:
    """Noise of a third of an octave: broader noise would be rain."""
    hz, centre = np.fft.rfftfreq(n, 1 / SOUND_RATE_HZ), _hz(rng, 200, 5000)
    away = np.log2(np.maximum(hz, 1.0) / centre)
    return np.fft.irfft(np.fft.rfft(rng.standard_normal(n)) * np.exp(-0.5 * (away / 0.15) ** 2), n)


def _clicks(rng: np.random.Generator, n: int) -> np.ndarray:
    """Eight to sixty clicks a second, each ringing at one pitch."""
    wave, every = np.zeros(n), int(SOUND_RATE_HZ / _hz(rng, 8, 60))
    wave[int(rng.integers(every)) :: every] = 1.0
    t = np.arange(1600) / SOUND_RATE_HZ
    ring = np.exp(-t / _hz(rng, 0.002, 0.05)) * np.sin(2 * np.pi * _hz(rng, 300, 5000) * t)
    size = n + len(ring)
    return np.fft.irfft(np.fft.rfft(wave, size) * np.fft.rfft(ring, size), size)[:n]


def _course(rng: np.random.Generator, n: int) -> np.ndarray:
    """Loudness [n]: steady, swelling, or in events that are square."""
    beat = (np.arange(n) / SOUND_RATE_HZ * _hz(rng, 0.4, 8) + rng.random()) % 1
    return (np.ones(n), 0.5 - 0.45 * np.cos(2 * np.pi * beat), (beat < rng.uniform(0.2, 0.8)) + 1e-3)[
        int(rng.integers(3))
    ]
