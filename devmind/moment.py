"""Moment and Action: one tick of experience, and what was done in it.

A sense that was not sensed is left out, never filled with zeros, and an old reading is never repeated. Cameras,
microphones, simulated rooms and recorded sessions all give Moments, and the agent cannot tell them apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from devmind.errors import MomentError

TICK_HZ = 10
SOUND_RATE_HZ = 16_000
TICK_SAMPLES = SOUND_RATE_HZ // TICK_HZ
SIGHT_SIZE = 64
PERIPHERY_SIZE = 16
WIDE_SIZE = 48
"""Cells per side of the wide view from which `periphery` is computed."""

Sense = np.ndarray | str


@dataclass(frozen=True)
class StandardSense:
    """The dtype and shape that every source of a standard sense must give. None in `shape` means any size."""

    dtype: str
    shape: tuple[int | None, ...]
    meaning: str


STANDARD_SENSES: Mapping[str, StandardSense] = {
    "sight": StandardSense("uint8", (None, None, 3), "the fovea's picture, RGB [H, W, 3]"),
    "periphery": StandardSense("float32", (1, 16, 16), "change in the wide view since the last tick, 0..1"),
    "sound": StandardSense("float32", (None, None), "[C, S] at 16 kHz, -1..1; C is 1 or 2 (left, right)"),
    "words": StandardSense("str", (), "text heard or read in this tick"),
    "body": StandardSense("float32", (None,), "proprioception and other numbers [K]"),
    "board": StandardSense("int8", (None, None, None), "planes of a board [C, H, W]"),
    "position": StandardSense("int8", (None, None, None), "planes of all that a game shows [C, H, W]"),
    "puzzle": StandardSense("int8", (None, None, None), "planes of all that a puzzle shows [C, H, W]"),
    "text": StandardSense("str", (), "a page that is read, or the beginning of one to be written"),
}


@dataclass(frozen=True, eq=False)
class Moment:
    """One tick of experience.

    Args:
        time_s: seconds on the source's own clock; they never decrease within an episode.
        senses: arrays by name (str for `words` and `text`); what was not sensed is not in the mapping.
        reward: reward received with this Moment.
        first: this Moment begins an episode; the agent's state is reset before it.
        last: this Moment ends an episode (by truncation, or with `terminal`).
        terminal: the episode ended by its own rules, so no value is bootstrapped beyond it.

    Raises:
        MomentError: a standard sense has a wrong dtype or shape, or `terminal` is set without `last`.
    """

    time_s: float
    senses: Mapping[str, Sense] = field(default_factory=dict)
    reward: float = 0.0
    first: bool = False
    last: bool = False
    terminal: bool = False

    def __post_init__(self) -> None:
        for name, value in self.senses.items():
            check_sense(name, value)
        if self.terminal and not self.last:
            raise MomentError("A terminal Moment must also be last; got terminal=True, last=False.")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Moment):
            return NotImplemented
        return (
            (self.time_s, self.reward, self.first, self.last, self.terminal)
            == (other.time_s, other.reward, other.first, other.last, other.terminal)
        ) and same_arrays(self.senses, other.senses)

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True, eq=False)
class Action:
    """What was done in one tick: arrays by effector. An effector that did nothing is not in the mapping."""

    effectors: Mapping[str, np.ndarray] = field(default_factory=dict)

    def __eq__(self, other: object) -> bool:
        return same_arrays(self.effectors, other.effectors) if isinstance(other, Action) else NotImplemented

    __hash__ = None  # type: ignore[assignment]


def check_sense(name: str, value: Sense) -> None:
    """Raise MomentError unless `value` fits the sense `name`; a sense of your own may be any numeric array."""
    law = STANDARD_SENSES.get(name)
    if law is None:
        if not isinstance(value, np.ndarray) or value.dtype.kind not in "buif":
            raise MomentError(f"Sense '{name}' must be a numeric numpy array; got {type(value).__name__}.")
        return
    if law.dtype == "str":
        if not isinstance(value, str):
            raise MomentError(f"Sense '{name}' must be str ({law.meaning}); got {type(value).__name__}.")
        return
    # The dtype's name is made for the sentence alone: that takes longer than all the comparisons.
    got = value.shape if isinstance(value, np.ndarray) and value.dtype == law.dtype else None
    if (
        got is None
        or len(got) != len(law.shape)
        or any(w not in (None, g) for w, g in zip(law.shape, got, strict=True))
    ):
        wanted = "x".join("?" if size is None else str(size) for size in law.shape)
        came = f"{value.dtype} {list(value.shape)}" if isinstance(value, np.ndarray) else f"{type(value).__name__} []"
        raise MomentError(f"Sense '{name}' must be {law.dtype} [{wanted}] ({law.meaning}); got {came}.")


def same_arrays(a: Mapping[str, Sense], b: Mapping[str, Sense]) -> bool:
    """True when both mappings hold the same names with bit-equal values of the same dtype and shape."""
    if a.keys() != b.keys():
        return False
    for name, left in a.items():
        right = b[name]
        if isinstance(left, str) or isinstance(right, str):
            if left != right:
                return False
        elif left.dtype != right.dtype or left.shape != right.shape or left.tobytes() != right.tobytes():
            return False
    return True
