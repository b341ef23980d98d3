"""When it may ask by itself "What is that?" about what is held up: when somebody is there and there is time for it.

That is when one thing was held up for two seconds, and nobody is teaching; once for one thing, and not again within
twenty seconds. Whether it knows the thing is not told here: by the head that the exam of conversing asks
(`wondering.py`), or, of an agent without that head, by naming, which has to say "unknown" for all of these two seconds.
A question keeps the pictures that it means, so that the answer names what it asked about, also when that was put down
to type.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from devmind.live.remembering.held import SAME, Square
from devmind.live.remembering.press import Showing
from devmind.memory import Named

WHAT = "What is that?"
STEADY_S = 2.0
"""So long one thing has to be held up without a name; `benchmarks/asks.py` compares other rules."""
REST_S = 20.0
"""Between two questions, at least."""
GONE_S = 1.0
"""What is lost for less and comes back to its place is the same thing."""
OPEN_S = 120.0
"""A question that nobody answers is dropped after so long."""


class Doubt(NamedTuple):
    """What it makes of one look at a thing.

    Attributes:
        asks: whether it asks what that is.
        share: the probability that it has no right word for it.
        nearest: the word that is likeliest, '' where none came to mind.
    """

    asks: bool
    share: float
    nearest: str


@dataclass(frozen=True)
class Question:
    """What it asked.

    Attributes:
        number: counts the questions of one life from 1.
        time_s: when, on the clock that `Asking.see` gets.
        shown: the pictures it means.
        named: the answer of naming, with the nearest name; None where no name was taught.
        doubt: what the head made of it that exams ask, where the agent has it; then that stands for naming.
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
        """For the recording; without the nearest name, which would outlive there what memory forgets.

        `confidence` is the probability of that name, `doubt` that it has no right one, of an agent that can tell.
        """
        confidence = 1 - self.doubt.share if self.doubt else self.named.confidence if self.named else 0.0
        told = {"number": self.number, "text": WHAT, "confidence": round(confidence, 3)}
        return told | ({"doubt": round(self.doubt.share, 3)} if self.doubt else {})


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

    def see(self, time_s: float, square: Square | None, unsure: bool, busy: bool = False) -> bool:
        """A tick has passed that somebody watched; gives whether to ask now. Ticks that nobody watched are left out.

        Args:
            time_s: when it was, on any clock.
            square: round what is held up; None when nothing is.
            unsure: whether it may have no name.
            busy: a name is just being taught.
        """
        if self.question and time_s - self.question.time_s > OPEN_S:
            self.question = None
        if square is None:
            return False
        if time_s - self._seen_s > GONE_S or square.overlap(self._square) < SAME:
            self._is_settled, self._since_s = False, time_s
        self._square, self._seen_s = square, time_s
        if busy or not unsure:
            self._since_s = time_s
        is_free = self.on and not self._is_settled and time_s - self._asked_s >= REST_S
        return is_free and time_s - self._since_s >= STEADY_S

    def ask(self, shown: Showing, named: Named | None = None, doubt: Doubt | None = None) -> Question:
        """It asks, about these pictures of what was held up last."""
        self._count += 1
        self._asked_s, self._is_settled = self._seen_s, True
        self.question = Question(self._count, self._seen_s, shown, named, doubt)
        return self.question

    def know(self) -> None:
        """A look has told what is held up: it looks again when the thing was held up for as long once more."""
        self._since_s = self._seen_s

    def settle(self) -> None:
        """What is held up was given a name: there is nothing to ask about it any more."""
        self.question, self._is_settled = None, True

    def allow(self, on: bool) -> None:
        """Whether it may ask from here on; if not, what it asked is dropped too."""
        self.on = on
        if not on:
            self.question = None
