"""What is heard in a tick, for the page: how loud, which tones, and from where if that can be told."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from devmind.agent.features import log_mel
from devmind.agent.output import Output
from devmind.moment import TICK_SAMPLES

COLUMNS = 4
BANDS = 64
SILENCE_DB = -120.0
QUIET_DB = -50.0
"""Below this nothing is said about where a sound comes from."""
LEAST_LENGTH = 0.8
"""The direction head was taught sine and cosine by squared error: the less sure it is, the shorter its answer."""


def level_db(sound: np.ndarray) -> float:
    """Root mean square of sound [C, S] in decibels of full scale; -120 for silence."""
    power = float(np.square(sound, dtype=np.float64).mean()) if sound.size else 0.0
    return 10 * math.log10(power) if power > 1e-12 else SILENCE_DB


def mel_columns(sound: np.ndarray) -> list[list[float]]:
    """Log-mel of the last 100 ms of sound [C, S], mean of the ears: four columns of 64 bands in 0..1, low tones first.

    0 is 1e-6 in power or less, 1 is 100 or more.
    """
    mono = np.zeros(TICK_SAMPLES, np.float32)
    latest = sound.mean(0)[-TICK_SAMPLES:]
    mono[TICK_SAMPLES - len(latest) :] = latest
    columns = (log_mel(torch.from_numpy(mono), hop=TICK_SAMPLES // COLUMNS, n_mels=BANDS)[:COLUMNS] + 2) / 4
    return [[round(value, 2) for value in column] for column in columns.clamp(0, 1).tolist()]


def direction_deg(sound: np.ndarray, output: Output | None, level: float) -> float | None:
    """Azimuth of the sound from straight ahead, positive to the left; None if it cannot be told.

    One ear cannot tell, nor two that hear the same; neither is anything said of faint sounds or unsure answers.

    Args:
        output: of the head `sound_direction`: (sine, cosine) [1, 2] of the azimuth.
    """
    if output is None or level < QUIET_DB or len(sound) < 2 or np.array_equal(sound[0], sound[1]):
        return None
    sine, cosine = (float(value) for value in output.mode().reshape(-1)[:2])
    if math.hypot(sine, cosine) < LEAST_LENGTH:
        return None
    return round(math.degrees(math.atan2(sine, cosine)), 1)


def heard(sound: np.ndarray, output: Output | None) -> dict[str, Any]:
    """Level, direction and tones of a tick's sound [C, S]."""
    level = level_db(sound)
    return {
        "level_db": round(level, 1),
        "direction_deg": direction_deg(sound, output, level),
        "mel": mel_columns(sound),
    }
