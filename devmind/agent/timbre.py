"""The timbre of a whole sound: statistics that do not depend on its length or loudness.

They are the spectrum (mean and deviation of mel cepstra, Davis and Mermelstein 1980) and its rate of change; the
fluctuation of loudness in bands (the modulation spectrum, as in McDermott and Simoncelli 2011, "Sound texture
perception"); the pitch and its strength; impulsiveness; and the rough course from beginning to end. Loud frames weigh
more than quiet ones, so that the background counts less.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import torch

from devmind.agent.features import log_mel
from devmind.moment import SOUND_RATE_HZ

CEPSTRA = 24
FRAME_HZ = 100
"""Frames a second of `log_mel`."""
BANDS, WINDOW = 6, 128
"""Number of mel bands whose fluctuation is measured, and of frames in a window for it."""
MODULATION_HZ = (0.5, 1.5, 2.5, 4.0, 6.5, 10.0, 16.0, 26.0, 50.1)
PITCH_FRAME, PITCH_HOP, PITCH_LAGS = 640, 320, (20, 400)
"""In samples; these lags are pitches of 40 to 800 Hz."""
COURSE_PARTS, COURSE_CEPSTRA, COURSE_WAVES = 16, 7, 3


def timbre(sound: np.ndarray) -> np.ndarray:
    """Timbre float32 [161] of one ear's sound [S] at 16 kHz, S >= 1."""
    mels = log_mel(torch.from_numpy(np.asarray(sound, np.float32))).numpy().astype(np.float64)
    power = np.exp(mels)
    level = np.log(power.sum(1) + 1e-10)
    weight = np.exp(0.5 * (level - level.max()))
    weight /= weight.sum()
    cepstra = mels @ _cosines(mels.shape[1], CEPSTRA).T
    mean = weight @ cepstra
    spread = np.log(np.sqrt(weight @ np.square(cepstra - mean) + 1e-6))
    change = np.sqrt(np.square(np.diff(cepstra, axis=0)).mean(0)) if len(cepstra) > 1 else np.zeros(CEPSTRA)
    parts = (mean[1:], spread, np.log(change + 1e-3), _modulation(power, level), _spectrum(mels, power, weight))
    return np.concatenate((*parts, _pitch(sound), _peaks(sound), _course(cepstra))).astype(np.float32)


def _cosines(points: int, waves: int) -> np.ndarray:
    """The first rows of the discrete cosine transform, [waves, points]."""
    return np.cos(np.pi * np.outer(np.arange(waves), np.arange(points) + 0.5) / points) * np.sqrt(2 / points)


def _modulation(power: np.ndarray, level: np.ndarray) -> np.ndarray:
    """Log power of the fluctuations of each band and of the whole, by frequency (Welch 1967), [8 x 7]."""
    bands = [np.log(part.sum(1) + 1e-8) for part in np.array_split(power, BANDS, axis=1)]
    course = np.stack([*bands, level], 1)
    course = course - course.mean(0)
    if len(course) < 32:
        course = np.vstack([course, np.zeros((32 - len(course), course.shape[1]))])
    size = min(WINDOW, len(course))
    windows = np.lib.stride_tricks.sliding_window_view(course, size, axis=0)[:: size // 2]
    windows = (windows - windows.mean(-1, keepdims=True)) * np.hanning(size)
    spectrum = np.square(np.abs(np.fft.rfft(windows, 2 * WINDOW))).mean(0) / size
    hz = np.fft.rfftfreq(2 * WINDOW, 1 / FRAME_HZ)
    means = [spectrum[:, (hz >= low) & (hz < high)].mean(1) for low, high in pairwise(MODULATION_HZ)]
    return np.log(np.stack(means) + 1e-3).ravel()


def _spectrum(mels: np.ndarray, power: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Flatness, centroid and width of the spectrum: mean and deviation of each, [6]."""
    flatness, place = mels.mean(1) - np.log(power.mean(1) + 1e-10), np.arange(mels.shape[1])
    total = power.sum(1) + 1e-10
    middle = power @ place / total
    width = np.sqrt((power * np.square(place - middle[:, None])).sum(1) / total)
    around = np.sqrt(weight @ np.square(middle - weight @ middle))
    return np.array([weight @ flatness, flatness.std(), weight @ middle, around, weight @ width, width.std()])


def _pitch(sound: np.ndarray) -> np.ndarray:
    """Pitch by autocorrelation, [5]: mean and deviation of its strength, mean and deviation of its octave, and the 90 %
    quantile of its strength. The pitch found may be a whole fraction of the true one.
    """
    sound = np.pad(sound, (0, max(0, PITCH_FRAME - len(sound)))).astype(np.float64)
    taper, first, last = np.hanning(PITCH_FRAME), *PITCH_LAGS
    frames = np.lib.stride_tricks.sliding_window_view(sound, PITCH_FRAME)[::PITCH_HOP] * taper

    def correlation(of: np.ndarray) -> np.ndarray:
        spectrum = np.square(np.abs(np.fft.rfft(of, 2048)))
        return np.asarray(np.fft.irfft(spectrum)[..., :last])

    own, usual = correlation(frames), correlation(taper)
    alike = (own / (own[:, :1] + 1e-9) / np.maximum(usual / usual[0], 0.1))[:, first:]
    height, octave = alike.max(1), np.log2(SOUND_RATE_HZ / (alike.argmax(1) + first))
    weight = np.sqrt(frames.var(1) + 1e-12)
    weight /= weight.sum()
    voiced = weight * np.square(np.clip(height, 1e-6, 1))
    voiced /= voiced.sum()
    mean, pitch = weight @ height, voiced @ octave
    spread, turn = np.sqrt(weight @ np.square(height - mean)), np.sqrt(voiced @ np.square(octave - pitch))
    return np.array([mean, spread, pitch, turn, np.quantile(height, 0.9)])


def _peaks(sound: np.ndarray) -> np.ndarray:
    """Impulsiveness: logarithms of crest factor and fourth moment, [2]."""
    unit = sound / (sound.std() + 1e-9)
    return np.array([np.log(np.abs(unit).max() + 1e-9), np.log1p(np.mean(unit**4))])


def _course(cepstra: np.ndarray) -> np.ndarray:
    """The course of the lowest cepstra, independent of the length: their first cosine waves over time, [3 x 7]."""
    places = np.linspace(0, len(cepstra), COURSE_PARTS + 1)
    ends = [(int(low), max(int(low) + 1, int(high))) for low, high in pairwise(places)]
    parts = np.stack([cepstra[low:high, :COURSE_CEPSTRA].mean(0) for low, high in ends])
    return np.asarray(_cosines(COURSE_PARTS, COURSE_WAVES + 1)[1:] @ (parts - parts.mean(0))).ravel()
