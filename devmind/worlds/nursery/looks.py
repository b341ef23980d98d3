"""What lessons leave out of looks and of tones, so that exams have what nobody showed.

Of the combinations of shape, colour and texture it is a quarter. Of each shape, each colour and each texture, and of
each two of these, some are in lessons. Of tones it is a band of pitches: a thing's pitch follows from its size, its
timbre from shape and texture, so things that may sound have no size of that band. Rooms themselves are all of one size.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from devmind.seeding import EXAM_SEEDS_FROM
from devmind.worlds.nursery.chance import integers
from devmind.worlds.nursery.state import TEXTURES

ONE_IN = 4
GROUP = f"nursery looks:shape + colour + texture not a multiple of {ONE_IN}"
"""How a stage whose lessons leave them out lists that in the agent's `trained_on`: the split, by its rule."""

SMALLEST_M, LARGEST_M = 0.08, 0.2
"""Radius, or half an edge, of things that may sound, where a level says nothing else."""
BAND_M = (0.137, 0.16)
"""Sizes that no thing that may sound has in lessons, from and below: a fifth of those there are, all between others.
They sound from 188 to 219 Hz, others from 150 to 375.
"""
TONES = f"nursery tones:of no thing from {BAND_M[0]} m on and below {BAND_M[1]} m"
"""As GROUP, of tones."""
WITHOUT = (GROUP, TONES)
"""What a newborn's first lesson lists first."""


def left_out(shape: Any, colour: Any, texture: Any) -> np.ndarray:
    """Whether lessons leave this combination out, bool of the arguments' shape: indices into the nursery's names."""
    return np.asarray((shape + colour + texture) % ONE_IN == 0)


def textures(seeds: np.ndarray, shape: np.ndarray, colour: np.ndarray, texture: np.ndarray) -> np.ndarray:
    """The textures [N, O] of things in rooms of `seeds` int64 [N]: another one, each as likely, where a room of a
    lesson would show what lessons leave out. Rooms of exams stay as they are drawn.
    """
    kept = left_out(shape, colour, texture) & (seeds < EXAM_SEEDS_FROM)[:, None]
    others = 1 + integers(seeds, "texture instead", len(TEXTURES) - 1, texture.shape[1:])
    return np.where(kept, (texture + others) % len(TEXTURES), texture)


def never_met(trained_on: Sequence[str], group: str) -> bool:
    """Whether all lessons of an agent, whose `trained_on` this is, have left out what `group` of WITHOUT leaves out.

    One that was raised before lessons did so lists other groups first, or none.
    """
    first = WITHOUT[: WITHOUT.index(group) + 1]
    return tuple(trained_on[: len(first)]) == first


def unheard(size_m: Any) -> np.ndarray:
    """Whether lessons leave the tone of a thing of this size out, bool of the argument's shape."""
    return np.asarray((size_m >= BAND_M[0]) & (size_m < BAND_M[1]))


def sizes(seeds: np.ndarray, size_m: np.ndarray) -> np.ndarray:
    """The sizes [N, ...] of things in rooms of `seeds` int64 [N], drawn evenly from SMALLEST_M to LARGEST_M: in rooms
    of lessons evenly from what is left of that, in the same order. Rooms of exams stay as they are drawn.
    """
    low, high = BAND_M
    left = SMALLEST_M + (size_m - SMALLEST_M) * (1 - (high - low) / (LARGEST_M - SMALLEST_M))
    left = np.where(left < low, left, left + (high - low))
    lesson = (np.asarray(seeds) < EXAM_SEEDS_FROM).reshape(-1, *[1] * (size_m.ndim - 1))
    return np.where(lesson, left, size_m)
