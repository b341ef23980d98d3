"""When the agent may ask on its own "What is that?" about a thing held up: when somebody is there and has time.

The conditions: one thing was held up for two seconds, and nobody is teaching. It asks once for each thing, and not
again within twenty seconds. Other code decides whether it knows the thing: the head that the exam of conversing asks
(an ability's `doubt`), or for an agent without that head, naming, which has to say "unknown" throughout these two
seconds. A question keeps the pictures that it is about, so that the answer names the right thing even if that was put
down to type.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from devmind.acting.abilities import Doubt
from devmind.live.remembering.held_object import SAME, Square
from devmind.live.remembering.press import Showing
from devmind.memory import Named

WHAT = "What is that?"
STEADY_S = 2.0
"""So long one thing has to be held up without a name, chosen among other rules (docs/log.md)."""
REST_S = 20.0
"""Between two questions, at least."""
GONE_S = 1.0
"""What is lost for less and comes back to its place is the same thing."""
SLOW_TICKS, SLOWEST_S = 1.5, 3.0
"""A slow machine may lose it for so many times the seconds between its last two ticks, or the most that counts."""
OPEN_S = 120.0
"""A question that nobody answers is dropped after so long."""


@dataclass(frozen=True)
class Question:
    """A question of the agent.

    Attributes:
        number: counts the questions of one life from 1.
        time_s: when it was asked, on the clock that `Asking.see` gets.
        shown: the pictures that it is about.
        named: the answer of naming, with the nearest name; None where no name was taught.
        doubt: the answer of the head that the exams ask, if the agent has it; then it replaces naming.
    """

    number: int
    time_s: float
    shown: Showing
    named: Named | None = None
    doubt: Doubt | None = None

    @property
    def nearest(self) -> str:
        """The likeliest name; '' where there is none."""
        return self.doubt.nearest if self.doubt else self.named.nearest if self.named else ""

    def note(self) -> dict[str, Any]:
        """A note for the recording; without the nearest name, which would outlive there what memory forgets.

        `confidence` is the probability of that name, `doubt` that it has no right one, for an agent that can tell.
        """
        confidence = 1 - self.doubt.share if self.doubt else self.named.confidence if self.named else 0.0
        fields = {"number": self.number, "text": WHAT, "confidence": round(confidence, 3)}
        return fields | ({"doubt": round(self.doubt.share, 3)} if self.doubt else {})


class Asking:
    """Decides when to ask; the loop reports every watched tick.

    Attributes:
        on: whether it may ask.
        question: its open question.
    """

    def __init__(self, on: bool = True) -> None:
        self.on = on
        self.question: Question | None = None
        self._count, self._asked_s = 0, -np.inf
        self._square, self._seen_s, self._since_s = Square(0.5, 0.5, 0.0), -np.inf, 0.0
        self._tick_s, self._gap_s = -np.inf, 0.0
        self._is_settled = False

    def see(self, time_s: float, square: Square | None, unsure: bool, busy: bool = False) -> bool:
        """Take a tick that somebody watched; returns whether to ask now. Unwatched ticks are left out.

        Args:
            time_s: time of the tick, on any clock.
            square: the square around the thing held up; None when nothing is.
            unsure: whether it may have no name.
            busy: whether a name is being taught.
        """
        if self.question and time_s - self.question.time_s > OPEN_S:
            self.question = None
        gone_s = max(GONE_S, SLOW_TICKS * self._gap_s)
        self._tick_s, self._gap_s = time_s, min(time_s - self._tick_s, SLOWEST_S)
        if square is None:
            return False
        if time_s - self._seen_s > gone_s or square.overlap(self._square) < SAME:
            self._is_settled, self._since_s = False, time_s
        self._square, self._seen_s = square, time_s
        if busy or not unsure:
            self._since_s = time_s
        is_free = self.on and not self._is_settled and time_s - self._asked_s >= REST_S
        return is_free and time_s - self._since_s >= STEADY_S

    def ask(self, shown: Showing, named: Named | None = None, doubt: Doubt | None = None) -> Question:
        """Ask about these pictures of the thing held up last."""
        self._count += 1
        self._asked_s, self._is_settled = self._seen_s, True
        self.question = Question(self._count, self._seen_s, shown, named, doubt)
        return self.question

    def know(self) -> None:
        """A look has told the agent what is held up: it looks again after the thing was held up for the same time once
        more.
        """
        self._since_s = self._seen_s

    def settle(self) -> None:
        """The thing held up was given a name: there is nothing more to ask about it."""
        self.question, self._is_settled = None, True

    def allow(self, on: bool) -> None:
        """Set whether it may ask from here on; if not, its open question is dropped too."""
        self.on = on
        if not on:
            self.question = None
