"""The lessons of the stage and their budgets: steps by size, and minutes at size nursery on 2 x 100 GFLOP/s.

`read` and `talk` change the skill with each batch, because all skills share the layers for pages and the writing head.
Taught one after the other, names fell from 0.59 to 0.08 while answers were learned (docs/log.md, 2026-11-25). Grammar
has no turn: a few minimal pairs are added to batches of reading.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from devmind.curriculum.stage import Context, Lesson
from devmind.learners.gradient import Loss
from devmind.learners.joint import JointLoss
from devmind.learners.review import turn_of
from devmind.worlds.minigrid import minigrid_installed
from stages.language import calling, seeing
from stages.language.answer import lesson as answer
from stages.language.converse import lesson as converse
from stages.language.follow import lesson as follow
from stages.language.grammar import lesson as grammar
from stages.language.name import lesson as name
from stages.language.new_words import lesson as new_words
from stages.language.read import lesson as read
from stages.language.senses import lesson as senses
from stages.language.teaching import supervised_lesson

READ, TALK, GRAMMAR = "read", "talk", "grammar"
STEPS = {
    READ: {"tiny": 32, "nursery": 1290, "child": 5000, "adult": 16000},
    TALK: {"tiny": 32, "nursery": 2080, "child": 6000, "adult": 16000},
}
MINUTES = {READ: 8.0, TALK: 13.0}
ROWS, PAGES, LEARNING_RATE = 32, 16, 3e-3
"""Rows of a batch, and pages of a batch of reading: these are long."""
PAIRED = 16
"""One of so many pages makes room for a minimal pair of grammar, whose four pages are short."""
TURNS = {
    READ: (*("read",) * 5, "follow"),
    TALK: (
        "answer", "read", "name", "converse", "answer", "read", "name",
        "follow", "answer", "read", "converse", "name", "senses",
    ),
}  # fmt: skip
"""By lesson, the skill of each step, in a cycle; without MiniGrid `follow` is left out. A step of it costs as much as
three of reading, and following owes most to its head, which has a lesson of its own."""
OF = {
    "name": name,
    "answer": answer,
    "converse": converse,
    "read": read,
    GRAMMAR: grammar,
    "follow": follow,
    "senses": senses,
}
LOSSES: dict[str, Loss] = {
    **dict.fromkeys(("name", "answer", "converse"), seeing.loss),
    **{"read": read.loss, GRAMMAR: grammar.loss, "follow": follow.loss},
    "senses": JointLoss(senses.LOSSES, senses.WEIGHTS),
}
WEIGHTS = dict.fromkeys(LOSSES, 1.0) | {GRAMMAR: 0.1}
"""Of each loss in a step. A pair goes along with fifteen pages: at weight 1 reading stood at 1.755 nats behind 540
steps, at 0.1 at 1.602, and other faults were told apart again (docs/log.md, 2026-11-28)."""
BEFORE = ("read", "follow", "senses")
_ELSEWHERE = 2_000_000
"""In `talk`, batches of skills from BEFORE are numbered from here on, so that they are new."""


def lessons(context: Context) -> Sequence[Lesson]:
    """The lessons, in the order in which they are taught."""
    follows = [follow.lesson(context)] if minigrid_installed() else []
    turns = [in_turns(context, READ), calling.lesson(context), senses.lesson(context), in_turns(context, TALK)]
    return [*turns, *follows, new_words.lesson(context)]


def in_turns(context: Context, lesson: str) -> Lesson:
    """A lesson whose batches change the skill in turn."""
    skills = dict.fromkeys(turn for turn in turns(lesson) if turn != senses.NAME) | {GRAMMAR: None}
    more: dict[str, Any] = {"skills": tuple(skills), "learns_from": (read.group(context),)}
    loss = JointLoss(LOSSES, WEIGHTS)

    def make(context: Context, update: int, rows: int) -> dict[str, Any]:
        return batch_in_turn(context, lesson, update, rows)

    return supervised_lesson(context, lesson, loss, make, STEPS[lesson], ROWS, LEARNING_RATE, MINUTES[lesson], **more)


def turns(lesson: str) -> tuple[str, ...]:
    """The turns of a lesson, without `follow` if MiniGrid is not installed."""
    return tuple(part for part in TURNS[lesson] if part != "follow" or minigrid_installed())


def batch_in_turn(context: Context, lesson: str, update: int, rows: int) -> dict[str, Any]:
    """The batch of this update, by the name of the skill whose turn it is. Reading has PAGES pages where others have
    ROWS rows; some of these make room for minimal pairs.
    """
    part, number = turn_of(turns(lesson), update)
    number += _ELSEWHERE if lesson == TALK and part in BEFORE else 0
    if part != "read":
        return {part: OF[part].lesson_batch(context, number, rows)}
    pages = max(1, rows * PAGES // ROWS)
    pairs = pages // PAIRED
    paired = {GRAMMAR: grammar.lesson_batch(context, number, pairs)} if pairs else {}
    return {part: read.lesson_batch(context, number, pages - pairs), **paired}
