"""Other views of a memory: the same thing shifted, nearer, darker, louder, in other noise.

A memory holds one look at a thing. Learning by heart from that look alone would learn the pixels, not the thing; so
replayed memories are varied as looks vary (data augmentation: Simard et al. 2003, "Best practices for convolutional
neural networks", section 2). Senses other than sight and sound stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from devmind.moment import Sense

SHIFT = 0.12
"""Largest shift of a picture, as a share of its side."""
ZOOM = 0.25
BRIGHTNESS = 0.2
GRAIN = 3.0
"""Standard deviation of a picture's noise, of 255."""
LOUDNESS_DB = 3.0
ASIDE_DB = 2.0
"""Largest change of the level of one ear relative to the other."""
FADE = 1 / 8
"""Part of a sound on each side of the seam that is faded: a click there would be stronger than the sound."""
HISS_DB = -36.0
"""Power of the added noise relative to the sound."""


def other_view(senses: Mapping[str, Sense], rng: np.random.Generator) -> dict[str, Sense]:
    """A payload as another look might have sensed it: equal names, dtypes and shapes."""
    varied = dict(senses)
    sight, sound = senses.get("sight"), senses.get("sound")
    if isinstance(sight, np.ndarray):
        varied["sight"] = _picture(sight, rng)
    if isinstance(sound, np.ndarray):
        varied["sound"] = _sound(sound, rng)
    return varied


def _picture(picture: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """uint8 [H, W, 3], moved and zoomed to the nearest pixel; the edge is repeated outside."""
    height, width = picture.shape[:2]
    zoom = 1 + rng.uniform(-ZOOM, ZOOM)
    rows, columns = (
        np.rint((np.arange(size) - size / 2) / zoom + size / 2 + size * rng.uniform(-SHIFT, SHIFT))
        .clip(0, size - 1)
        .astype(np.int64)
        for size in (height, width)
    )
    moved = picture[rows][:, columns].astype(np.float32)
    light = (1 + rng.uniform(-BRIGHTNESS, BRIGHTNESS)) * moved
    return np.clip(light + rng.normal(0, GRAIN, picture.shape), 0, 255).astype(np.uint8)


def _sound(sound: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """float32 [C, S], with another loudness, side and start (it wraps around), with noise; within -1..1."""
    channels, samples = sound.shape
    aside = rng.uniform(-ASIDE_DB, ASIDE_DB) * np.linspace(-0.5, 0.5, channels)
    gain = 10 ** ((rng.uniform(-LOUDNESS_DB, LOUDNESS_DB) + aside[:, None]) / 20)
    seam = int(rng.integers(0, max(1, samples)))
    away = np.abs((np.arange(samples) - seam + samples / 2) % max(1, samples) - samples / 2)
    fade = np.clip((away + 0.5) / max(1.0, FADE * samples), 0.0, 1.0)
    turned = gain * fade * np.roll(sound, seam, axis=1)
    hiss = float(np.sqrt(np.mean(np.square(turned)))) * 10 ** (HISS_DB / 20)
    return np.clip(turned + rng.normal(0, hiss, sound.shape), -1, 1).astype(np.float32)
