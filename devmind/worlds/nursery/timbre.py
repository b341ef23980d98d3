"""Timbres as one-cycle tables: a tone's overtones follow an object's shape and texture, its pitch the size.

Each table holds the sound as it leaves the source and a dull twin without its highs, for ears in the head's shadow.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from devmind.moment import SOUND_RATE_HZ
from devmind.seeding import numpy_rng
from devmind.worlds.nursery.state import SHAPES, TEXTURES

TABLE_SIZE = 2048
TABLE_NOISE = len(SHAPES) * len(TEXTURES)
TABLE_KNOCK = TABLE_NOISE + 1
TABLE_VOWEL = TABLE_KNOCK + len(SHAPES)
NOISE_HZ = SOUND_RATE_HZ / TABLE_SIZE
_KNOCK_HZ = 60.0
_FORMANTS_HZ = ((730, 1090, 2440), (530, 1840, 2480), (300, 2290, 3010), (400, 800, 2600))
_KNOCKS = ((7, 18, 34), (5, 9, 13), (11, 12, 27))


def tone_hz(size: np.ndarray) -> np.ndarray:
    """Pitch of an object: the smaller, the higher; 120..480 Hz, so that 16 overtones stay below 8 kHz."""
    return np.clip(30.0 / size, 120.0, 480.0)


def knock_hz(size: np.ndarray) -> np.ndarray:
    """Cycles a second of the knock tables for an object of `size`."""
    return _KNOCK_HZ * np.clip(0.12 / size, 0.6, 1.8)


def _overtones(shape: int, texture: int) -> np.ndarray:
    h = np.arange(1, 17)
    level = (1.0 / h**1.7, np.where(h % 2 == 1, 1.0 / h, 0.02), np.where(np.isin(h, (1, 2, 3, 5, 8, 13)), 0.8, 0.1))[
        shape
    ]
    factor = (1.0 + 0.0 * h, np.where(h % 2 == 0, 4.0, 1.0), h**0.6, np.where(h >= 8, 4.0, 1.0))[texture]
    return level * factor / np.sqrt(1 + (h / 12) ** 4)


def _cycle(numbers: np.ndarray, levels: np.ndarray, corner: float, name: str) -> np.ndarray:
    """[TABLE_SIZE + 1, 2] of partials at whole `numbers`; the dull twin rolls off above partial number `corner`."""
    phases = numpy_rng("timbre", name).uniform(0, 2 * np.pi, len(numbers))
    angle = 2 * np.pi * numbers[:, None] * (np.arange(TABLE_SIZE + 1) / TABLE_SIZE) + phases[:, None]
    wave = np.sin(angle)
    bright = (levels[:, None] * wave).sum(0)
    dull = (levels[:, None] / (1 + (numbers[:, None] / corner) ** 2) * wave).sum(0)
    return np.stack([bright, dull], axis=1) / np.sqrt(np.mean(bright[:-1] ** 2))


@cache
def tables() -> np.ndarray:
    """All tables, float32 [K, TABLE_SIZE + 1, 2] (bright, dull); the bright ones have an RMS of 1."""
    every: list[np.ndarray] = []
    harmonics = np.arange(1, 17)
    for shape, shape_name in enumerate(SHAPES):
        for texture, texture_name in enumerate(TEXTURES):
            every.append(_cycle(harmonics, _overtones(shape, texture), 5.0, f"{shape_name} {texture_name}"))
    partials = np.arange(8, TABLE_SIZE // 2 - 8)
    every.append(_cycle(partials, np.ones(len(partials)), 1500 / NOISE_HZ, "noise"))
    for shape, centres in enumerate(_KNOCKS):
        numbers = np.arange(3, 60)
        level = sum(np.exp(-(((numbers - centre) / 1.2) ** 2)) for centre in centres) + 0.05
        every.append(_cycle(numbers, np.asarray(level), 20.0, f"knock {SHAPES[shape]}"))
    for vowel, formants in enumerate(_FORMANTS_HZ):
        numbers = np.arange(1, 24)
        level = sum(
            g * np.exp(-(((numbers * 230 - f) / 130) ** 2)) for f, g in zip(formants, (1, 0.6, 0.3), strict=True)
        )
        every.append(_cycle(numbers, np.asarray(level) + 0.1 / numbers, 6.0, f"vowel {vowel}"))
    return np.stack(every).astype(np.float32)
