"""Which combinations of shape, colour and texture lessons leave out: a quarter, so that exams have what nobody showed.

Of each shape, each colour and each texture, and of each two of these, some are in lessons. A thing's tone follows from
its shape, its texture and its size: to the ears no combination is new, to the eye those left out are.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from devmind.seeding import EXAM_SEEDS_FROM
from devmind.worlds.nursery.chance import integers
from devmind.worlds.nursery.state import TEXTURES

ONE_IN = 4
GROUP = f"nursery looks:shape + colour + texture not a multiple of {ONE_IN}"
"""How a stage whose lessons leave them out lists that in the agent's `trained_on`: the split, by its rule."""


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
