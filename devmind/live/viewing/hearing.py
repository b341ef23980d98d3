"""The sound of a tick, for the page: level and tones."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from devmind.agent.features import level_db, log_mel
from devmind.moment import TICK_SAMPLES

COLUMNS = 4
BANDS = 64


def mel_columns(sound: np.ndarray) -> list[list[float]]:
    """Log-mel of the last 100 ms of sound [C, S], mean of the ears: four columns of 64 bands in 0..1, low tones first.

    0 is a power of 1e-6 or less, 1 is 100 or more.
    """
    mono = np.zeros(TICK_SAMPLES, np.float32)
    latest = sound.mean(0)[-TICK_SAMPLES:]
    mono[TICK_SAMPLES - len(latest) :] = latest
    columns = (log_mel(torch.from_numpy(mono), hop=TICK_SAMPLES // COLUMNS, n_mels=BANDS)[:COLUMNS] + 2) / 4
    return [[round(value, 2) for value in column] for column in columns.clamp(0, 1).tolist()]


def view_sound(sound: np.ndarray) -> dict[str, Any]:
    """Level and tones of a tick's sound [C, S]; an ability may tell its direction."""
    return {"level_db": round(level_db(sound), 1), "direction_deg": None, "mel": mel_columns(sound)}
