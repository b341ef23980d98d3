"""What an agent writes in its own words about what it sees, and where it points: by the head that the exams ask.

Only questions as its lessons ask them are answered, and only if it is sure.
"""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from devmind.acting.abilities import LAPSE_S
from devmind.acting.sentences import is_question
from devmind.agent.agent import Agent
from devmind.agent.batch import collate
from devmind.agent.output import Output
from devmind.agent.writing import Conversation
from devmind.errors import MomentError, PluginError
from devmind.moment import Moment, Sense
from devmind.plugins import load
from stages.language.parts import POINT, SIGHT, TEXT

LONGEST = 32
"""Bytes of what it writes."""
THERE = "there."
"""The word with which it points."""
SPELLED = {"color": "colour", "colors": "colours", "colored": "coloured", "gray": "grey", "center": "centre"}
"""American spellings of words that lessons spell in the British way."""
_SHORT_IS = re.compile(r"\b(what|where|who|how|that|there|it)['’]s\b")
_ONE_THING = re.compile(r"\b(?:this|it)(?=\?$)")


class OwnWords(NamedTuple):
    """What it writes itself, how sure it is of it, and where it points: -1 to 1 from left to right and from top to
    bottom of its view; None where its words do not say that it points.
    """

    text: str
    sure: float
    points: tuple[float, float] | None


@cache
def _questions(stage: str) -> dict[str, tuple[str, ...]]:
    """The questions of a stage's lessons by kind (`Stage`), as `as_in_lessons` writes them; empty if it names none."""
    try:
        asked = getattr(load("stages", stage)(), "questions", None)
    except PluginError:  # an agent can live on without the stage that taught it
        asked = None
    return {kind: tuple(every) for kind, every in asked().items()} if asked else {}


def questions(agent: Agent) -> Mapping[str, tuple[str, ...]]:
    """The questions that lessons taught this agent to answer in writing, by kind, the plainest of each first; empty if
    it cannot write, or the stage that taught it does not say. The first call imports that stage.
    """
    if not can_write(agent):
        return {}
    [taught_by] = [head.get("stage") for head in agent.config.heads if head["name"] == TEXT]
    return _questions(taught_by) if taught_by in agent.config.stages else {}


def example_questions(agent: Agent) -> list[str]:
    """A few of `questions`, no two with the same two words at the beginning, for people to choose from."""
    first = [every[0] for every in questions(agent).values() if every and is_question(every[0])]
    chosen = dict[tuple[str, ...], str]()
    for question in first:
        chosen.setdefault(tuple(question.split()[:2]), question)
    return list(chosen.values())


def can_write(agent: Agent) -> bool:
    """Whether it was taught to write."""
    return TEXT in agent.encoders and TEXT in agent.heads


class Dialogue:
    """The agent's answers in its own words about what it sees, each turn continuing from the turns before.

    Args:
        sure: the probability from which an answer is given.
    """

    def __init__(self, sure: float = 0.0) -> None:
        self.sure = sure
        self._talk: Conversation | None = None
        self._said_s = 0.0
        self._speaking = threading.Lock()  # each page speaks in a thread of its own

    def reply(self, agent: Agent, text: str, sight: Sense | None, now_s: float) -> OwnWords | None:
        """Its next turn.

        None if it was never taught to write or writes nothing, if it is not sure, if the text is empty or longer than a
        page, or if its lessons never ask that. What is not said is no part of the dialogue, which then starts again.

        Args:
            now_s: on a monotonic clock; after LAPSE_S of silence, and with another agent, the dialogue starts again.
        """
        if not can_write(agent) or not text.strip() or not is_in_lessons(text, questions(agent)):
            return None
        with self._speaking:
            return self._reply(agent, text, sight, now_s)

    def _reply(self, agent: Agent, text: str, sight: Sense | None, now_s: float) -> OwnWords | None:
        anew = self._talk is None or self._talk.agent is not agent or now_s - self._said_s > LAPSE_S
        talk = Conversation(agent, sense=TEXT) if anew or self._talk is None else self._talk
        # In the dark there is nothing to point at.
        heads = [POINT] if POINT in agent.heads and sight is not None else []
        seen = {} if sight is None else {SIGHT: sight}
        if seen and not anew:  # a pause between two turns, as in the lessons
            talk.listen(collate([[Moment(now_s, seen)]]))
        try:
            turn = talk.turn(
                collate([[Moment(now_s, {**seen, TEXT: as_in_lessons(text)}, first=anew)]]), LONGEST, heads
            )
        except MomentError:
            return None
        self._talk, self._said_s = talk, now_s
        said = turn.texts[0].strip()
        if not said or turn.sure[0] < self.sure:
            self._talk = None
            return None
        points = _place(turn.outputs[POINT]) if heads and said == THERE else None
        return OwnWords(said, turn.sure[0], points)


def _place(pointed: Output) -> tuple[float, float]:
    """The middle of the likeliest cell of a square grid."""
    return middle_of(int(pointed.mode().flatten()[0]), math.isqrt(pointed.numbers().shape[-1]))


def middle_of(cell: int, side: int = 8) -> tuple[float, float]:
    """The middle of a cell, counted row by row, `side` in a row: -1 to 1, left to right and top to bottom."""
    row, column = divmod(cell, side)
    return (2 * column + 1) / side - 1, (2 * row + 1) / side - 1


def as_in_lessons(text: str) -> str:
    """The typed text in the caregiver's style: small letters, single blanks, a mark at the end.

    A capital letter at the beginning, which a phone writes on its own, a missing mark, American spelling, "what's", and
    "this" or "it" for "that" at the end of a question do not change the question.
    """
    plain = _SHORT_IS.sub(r"\1 is", " ".join(text.lower().split()))
    plain = re.sub(r"\w+", lambda word: SPELLED.get(word[0], word[0]), plain)
    if plain and plain[-1] not in ".?!":
        plain += "?" if is_question(plain) else "."
    return _ONE_THING.sub("that", plain) if is_question(plain) else plain


def is_in_lessons(text: str, known: Mapping[str, tuple[str, ...]]) -> bool:
    """Whether lessons ask this (`questions`), or say nothing about what they ask."""
    return not known or any(as_in_lessons(text) in every for every in known.values())
