"""Asking by itself: "What is that?" about what is held up, when it does not know it and somebody is there.

It asks when one thing was held up for two seconds, naming said "unknown" for most of them, and nobody is teaching;
once for one thing, and not again within twenty seconds. A question keeps the pictures that it means, so that the answer
names what it asked about, also when that was put down to type.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np

from devmind.live.remembering.held import SAME, Square
from devmind.live.remembering.press import Showing
from devmind.memory import Named

WHAT = "What is that?"
STEADY_S = 2.0
"""So long one thing has to be held up."""
UNSURE = 0.8
"""Share of that time's answers that have to be "unknown": a thing in the hand is turned, and known in between."""
REST_S = 20.0
"""Between two questions, at least."""
GONE_S = 1.0
"""What is lost for less and comes back to its place is the same thing."""
OPEN_S = 120.0
"""A question that nobody answers is dropped after so long."""


@dataclass(frozen=True)
class Question:
    """What it asked.

    Attributes:
        number: counts the questions of one life from 1.
        time_s: when, on the clock that `Asking.see` gets.
        shown: the pictures it means.
        named: the answer of naming, with the nearest name; None where no name was taught.
    """

    number: int
    time_s: float
    shown: Showing
    named: Named | None = None

    def note(self) -> dict[str, Any]:
        """For the recording; without the nearest name, which would outlive there what memory forgets."""
        confidence = self.named.confidence if self.named else 0.0
        return {"number": self.number, "text": WHAT, "confidence": round(confidence, 3)}


class Asking:
    """Says when to ask; the loop tells every tick that somebody watches.

    Attributes:
        on: whether it may ask.
        question: what it asked and nobody answered yet.
    """

    def __init__(self, on: bool = True) -> None:
        self.on = on
        self.question: Question | None = None
        self._count, self._asked_s = 0, -np.inf
        self._square, self._seen_s, self._since_s = Square(0.5, 0.5, 0.0), -np.inf, 0.0
        self._is_settled = False
        self._unsure: deque[tuple[float, bool]] = deque()

    def see(self, time_s: float, square: Square | None, unsure: bool, busy: bool = False) -> bool:
        """A tick has passed that somebody watched; gives whether to ask now. Ticks that nobody watched are left out.

        Args:
            time_s: when it was, on any clock.
            square: round what is held up; None when nothing is.
            unsure: whether that has no name.
            busy: a name is just being taught.
        """
        if self.question and time_s - self.question.time_s > OPEN_S:
            self.question = None
        if square is None:
            return False
        if time_s - self._seen_s > GONE_S or square.overlap(self._square) < SAME:
            self._is_settled = False
            self._begin(time_s)
        self._square, self._seen_s = square, time_s
        if busy:
            self._begin(time_s)
        self._unsure.append((time_s, unsure))
        while self._unsure[0][0] < time_s - STEADY_S:
            self._unsure.popleft()
        if not self.on or self._is_settled or time_s - self._asked_s < REST_S or time_s - self._since_s < STEADY_S:
            return False
        return sum(one for _, one in self._unsure) >= UNSURE * len(self._unsure)

    def _begin(self, time_s: float) -> None:
        self._since_s = time_s
        self._unsure.clear()

    def ask(self, shown: Showing, named: Named | None = None) -> Question:
        """It asks, about these pictures of what was held up last."""
        self._count += 1
        self._asked_s, self._is_settled = self._seen_s, True
        self.question = Question(self._count, self._seen_s, shown, named)
        return self.question

    def settle(self) -> None:
        """What is held up was given a name: there is nothing to ask about it any more."""
        self.question, self._is_settled = None, True

    def allow(self, on: bool) -> None:
        """Whether it may ask from here on; if not, what it asked is dropped too."""
        self.on = on
        if not on:
            self.question = None
