"""The sound of a tick, for the page: level, tones, and direction if it can be told."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from devmind.agent.agent import Agent
from devmind.agent.features import interaural_lags, log_mel
from devmind.moment import TICK_SAMPLES

COLUMNS = 4
BANDS = 64
SILENCE_DB = -120.0
QUIET_DB = -50.0
"""Below this level no direction is claimed."""
LEAST_LIKENESS = 0.4
"""Least peak of the ears' cross-correlation: sound from everywhere has no direction."""
MOST_DIFFERENCE = 0.4
"""Largest difference between the sine of a sound's azimuth and the one with the ears exchanged, reversed."""
DIRECTION_HEAD = "sound_direction"


def level_db(sound: np.ndarray) -> float:
    """Root mean square of sound [C, S] in decibels of full scale; -120 for silence."""
    power = float(np.square(sound, dtype=np.float64).mean()) if sound.size else 0.0
    return 10 * math.log10(power) if power > 1e-12 else SILENCE_DB


def mel_columns(sound: np.ndarray) -> list[list[float]]:
    """Log-mel of the last 100 ms of sound [C, S], mean of the ears: four columns of 64 bands in 0..1, low tones first.

    0 is a power of 1e-6 or less, 1 is 100 or more.
    """
    mono = np.zeros(TICK_SAMPLES, np.float32)
    latest = sound.mean(0)[-TICK_SAMPLES:]
    mono[TICK_SAMPLES - len(latest) :] = latest
    columns = (log_mel(torch.from_numpy(mono), hop=TICK_SAMPLES // COLUMNS, n_mels=BANDS)[:COLUMNS] + 2) / 4
    return [[round(value, 2) for value in column] for column in columns.clamp(0, 1).tolist()]


@torch.no_grad()
def direction_deg(agent: Agent, sound: np.ndarray) -> float | None:
    """Direction of sound [C, S], -90..90 degrees from straight ahead, positive to the left.

    The head `sound_direction` answers with sine and cosine of the azimuth. Only the sine is used: two ears hardly tell
    front from back. None where it cannot be told at all: one ear, two that hear the same or nothing alike, a faint
    sound, no such head, or an answer that does not change sides when the ears are exchanged.
    """
    two_ears = len(sound) == 2 and not np.array_equal(sound[0], sound[1])
    if DIRECTION_HEAD not in agent.heads or not two_ears or level_db(sound) < QUIET_DB:
        return None
    ears = torch.from_numpy(np.stack([sound, sound[::-1]]))
    if float(interaural_lags(ears[0, 0], ears[0, 1]).max()) < LEAST_LIKENESS:
        return None
    seen = agent.encode_senses({"sound": ears}, names=["sound"])
    sine, exchanged = agent.run_heads([DIRECTION_HEAD], seen)[DIRECTION_HEAD].mode()[:, 0].tolist()
    if abs(sine + exchanged) > MOST_DIFFERENCE:
        return None
    return round(math.degrees(math.asin(min(1.0, max(-1.0, (sine - exchanged) / 2)))), 1)


def heard(agent: Agent, sound: np.ndarray) -> dict[str, Any]:
    """Level, direction and tones of a tick's sound [C, S]."""
    return {
        "level_db": round(level_db(sound), 1),
        "direction_deg": direction_deg(agent, sound),
        "mel": mel_columns(sound),
    }
