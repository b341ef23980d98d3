"""Looks and tones that lessons leave out, so that exams have held-out ones.

Of the combinations of shape, colour and texture a quarter is held out. Each shape, each colour, each texture, and each
pair of these occurs in lessons. Of tones a band of pitches is held out. Pitch follows from a thing's size, timbre from
shape and texture, so in lessons no thing that may sound has a size of that band. All rooms have the same size.
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
"""The entry for this split in `trained_on` of agents whose lessons leave these looks out."""

SMALLEST_M, LARGEST_M = 0.08, 0.2
"""Default radius, or half an edge, of things that may sound."""
BAND_M = (0.137, 0.16)
"""Held-out sizes of things that may sound, from and below: a fifth of all, with others on both sides. They sound from
188 to 219 Hz, others from 150 to 375.
"""
TONES = f"nursery tones:of no thing from {BAND_M[0]} m on and below {BAND_M[1]} m"
"""As GROUP, for tones."""
WITHOUT = (GROUP, TONES)
"""The first entries of the first lesson of a newborn."""


def left_out(shape: Any, colour: Any, texture: Any) -> np.ndarray:
    """Whether lessons leave this combination out, bool of the arguments' shape: indices into the nursery's names."""
    return np.asarray((shape + colour + texture) % ONE_IN == 0)


def textures(seeds: np.ndarray, shape: np.ndarray, colour: np.ndarray, texture: np.ndarray) -> np.ndarray:
    """The textures [N, O] of things in rooms of `seeds` int64 [N]. In rooms of lessons a held-out look gets another
    texture, all equally likely. Rooms of exams stay as drawn.
    """
    kept = left_out(shape, colour, texture) & (seeds < EXAM_SEEDS_FROM)[:, None]
    others = 1 + integers(seeds, "texture instead", len(TEXTURES) - 1, texture.shape[1:])
    return np.where(kept, (texture + others) % len(TEXTURES), texture)


def never_met(trained_on: Sequence[str], group: str) -> bool:
    """Whether all lessons of an agent with this `trained_on` have left out `group` of WITHOUT.

    Agents that were raised before lessons had this split list other groups first, or none.
    """
    first = WITHOUT[: WITHOUT.index(group) + 1]
    return tuple(trained_on[: len(first)]) == first


def tone_held_out(size_m: Any) -> np.ndarray:
    """Whether the tone of a thing of this size is held out, bool of the argument's shape."""
    return np.asarray((size_m >= BAND_M[0]) & (size_m < BAND_M[1]))


def sizes(seeds: np.ndarray, size_m: np.ndarray) -> np.ndarray:
    """The sizes [N, ...] of things in rooms of `seeds` int64 [N], uniform from SMALLEST_M to LARGEST_M. In rooms of
    lessons they are uniform outside of the band, in the same order. Rooms of exams stay as drawn.
    """
    low, high = BAND_M
    left = SMALLEST_M + (size_m - SMALLEST_M) * (1 - (high - low) / (LARGEST_M - SMALLEST_M))
    left = np.where(left < low, left, left + (high - low))
    lesson = (np.asarray(seeds) < EXAM_SEEDS_FROM).reshape(-1, *[1] * (size_m.ndim - 1))
    return np.where(lesson, left, size_m)
