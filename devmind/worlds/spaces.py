"""Gymnasium spaces of the standard senses and effectors, with the same names and sizes in every world."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces

from devmind.moment import PERIPHERY_SIZE, SIGHT_SIZE, TICK_SAMPLES

WORDS_MAX_LENGTH = 64
"""Words that an agent hears or reads in one tick, in bytes of UTF-8 (`agent.batch.WORDS_BYTES`)."""
PAGE_MAX_LENGTH = 500
"""Longest page that a world shows: it fits the 512 tokens of one Moment, with a few bytes to spare."""
_PRINTABLE = "".join(chr(code) for code in range(32, 127))
BODY = (
    "pan_sin",
    "pan_cos",
    "tilt",
    "hand_x",
    "hand_y",
    "hand_z",
    "touch",
    "holding",
    "lean",
    "look_pan",
    "look_tilt",
    "grip",
)
"""Names of the numbers in the nursery's `body`, in order; a room with a camera has those of the gaze. tilt is /60 deg,
the hand /0.75 m (torso frame), lean /0.3 m; the last three are the last tick's commands; touch and holding are 0 or
1."""


def sight(size: int = SIGHT_SIZE) -> spaces.Box:
    """A square RGB picture, uint8 [size, size, 3]."""
    return spaces.Box(0, 255, (size, size, 3), np.uint8)


def periphery() -> spaces.Box:
    """Change in the wide view since the last tick, float32 [1, 16, 16] in 0..1."""
    return spaces.Box(0.0, 1.0, (1, PERIPHERY_SIZE, PERIPHERY_SIZE), np.float32)


def sound(channels: int = 2) -> spaces.Box:
    """One tick of sound, float32 [channels, 1600] in -1..1."""
    return spaces.Box(-1.0, 1.0, (channels, TICK_SAMPLES), np.float32)


def body(size: int) -> spaces.Box:
    """`size` numbers of the body, float32, unbounded."""
    return spaces.Box(-np.inf, np.inf, (size,), np.float32)


def words() -> spaces.Text:
    """Any text of this tick, up to 64 characters; an empty text means that `words` is absent."""
    return spaces.Text(WORDS_MAX_LENGTH, min_length=0, charset=_PRINTABLE)


def page() -> spaces.Text:
    """A page in view, up to 500 characters."""
    return spaces.Text(PAGE_MAX_LENGTH, charset=_PRINTABLE)


def effector(size: int) -> spaces.Box:
    """A command of `size` numbers in -1..1."""
    return spaces.Box(-1.0, 1.0, (size,), np.float32)
