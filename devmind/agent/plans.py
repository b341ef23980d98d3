"""A head's plan, in a form that can be drawn into the picture of the room, and the information that it lacks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Plan:
    """The planned path of something, such as a hand, for one agent at one tick.

    Places are measured in the whole picture of the room, from its middle, in halves of its width: x to the right, y
    down. So x = 1 is the right edge, and larger values are outside of the picture. All numbers are finite.

    Attributes:
        points_halfwidths: float [H, 2], the key points in order.
        grips: bool [H], whether the hand is closed after the point.
        words: H symbols, one for each point; "" is none.
        at: number of the next point; H: the plan is at its end.
        now_halfwidths: float [2], where the moving thing is now; None if that is not known.
        share: the head's own probability of these words, 0..1; None if it gives none.
        number: number of plans made so far, including this one.
    """

    points_halfwidths: np.ndarray
    grips: np.ndarray
    words: tuple[str, ...]
    at: int
    now_halfwidths: np.ndarray | None = None
    share: float | None = None
    number: int = 1


@dataclass(frozen=True)
class Lack:
    """Information that one agent lacks, at one tick, to follow an instruction.

    Attributes:
        question: in words, such as "Where is a red ball?"; it stays the same while the same thing is lacking.
        restated: `(answer) -> page`: the instruction with the answer filled in, which is read like any page.
        looks_s: how long the agent searches by itself before it asks; 0: it asks at once.
    """

    question: str
    restated: Callable[[str], str]
    looks_s: float = 0.0


@dataclass(frozen=True)
class Course:
    """A path that a head has sampled for some given symbols of its plan; the caller follows it.

    Attributes:
        points: float32 [H, C], in the units of the senses that the head reads; [1 + H, C] if it begins with the place
            from which the first symbol leads.
        words: H symbols, the given ones and those that the head chose for the rest.
        missed: numbers of the given symbols that the points do not realise.
        near: distance to the last point, in points, at which who gets no further has arrived all the same.
    """

    points: np.ndarray
    words: tuple[str, ...]
    missed: tuple[int, ...] = ()
    near: float = 1.0
