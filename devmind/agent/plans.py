"""What a head means to do, in a form that can be drawn into the picture of the room, and what it lacks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Plan:
    """Where something, such as a hand, is to go, of one agent at one tick.

    Places are told in the whole picture that its room shows, in halves of that picture's width from its middle: x to
    the right, y down, so that 1 is its right edge; what lies further is out of the picture. Finite numbers.

    Attributes:
        points_halfwidths: float [H, 2], the key points in their order.
        grips: bool [H], where a hand is closed behind the point.
        words: H symbols, one a point; "" is none.
        at: the number of the point that comes next; H: the plan is at its end.
        now_halfwidths: float [2], where what moves is now; None where that is not known.
        share: how sure the head is of these words, 0..1, of what it says of itself; None where it does not tell.
        number: how many plans it has made, this one among them.
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
    """What an agent would have to be told before it can do as it was told, of one agent at one tick.

    Attributes:
        question: in words, such as "Where is a red ball?"; the same as long as the same is lacking.
        restated: `(answer) -> page`: what it was told, as it stands with the answer in it. It is read like any page.
        looks_s: how long it looks by itself before it asks; 0: there is nothing that it could do by itself.
    """

    question: str
    restated: Callable[[str], str]
    looks_s: float = 0.0


@dataclass(frozen=True)
class Course:
    """A way that a head has drawn with some of its plan's symbols given, to be followed by who asked for it.

    Attributes:
        points: float32 [H, C], in the head's own senses' numbers.
        words: H symbols, those that were given and those that were drawn for the rest.
        missed: numbers of given symbols that the points do not make.
    """

    points: np.ndarray
    words: tuple[str, ...]
    missed: tuple[int, ...] = ()
