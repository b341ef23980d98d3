"""The lessons of the stage and their budgets: steps by size, and the minutes of nursery on 2 x 100 GFLOP/s.

All that is done with a page is one lesson, batch by batch: reading, following, naming, answering, conversing. They
share the layers that pages go through and the head that writes. Taught one after the other, names fell from 0.59 to
0.08 while answers were learned; and layers that had learned to read learned to follow worse than new ones (a loss of
0.53 and 0.21 after 240 steps; docs/log.md, 2026-11-25).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from devmind.curriculum.stage import Context, Lesson
from devmind.learners.gradient import Loss
from devmind.learners.joint import JointLoss
from devmind.learners.review import turn_of
from devmind.worlds.minigrid import installed
from stages.language import seeing
from stages.language.answer import lesson as answer
from stages.language.converse import lesson as converse
from stages.language.follow import lesson as follow
from stages.language.name import lesson as name
from stages.language.new_words import lesson as new_words
from stages.language.read import lesson as read
from stages.language.senses import lesson as senses
from stages.language.teaching import taught

PAGES = "pages"
STEPS = {"tiny": 64, "nursery": 2560, "child": 11000, "adult": 32000}
ROWS = 32
TURNS = (
    "read", "answer", "follow", "name", "read", "converse", "read", "answer",
    "name", "follow", "read", "answer", "converse", "name", "read", "senses",
)  # fmt: skip
"""What a step is of, again and again; without MiniGrid nobody follows."""
OF = {"name": name, "answer": answer, "converse": converse, "read": read, "follow": follow, "senses": senses}
LOSSES: dict[str, Loss] = {
    **dict.fromkeys(("name", "answer", "converse"), seeing.loss),
    **{"read": read.loss, "follow": follow.loss, "senses": JointLoss(senses.LOSSES, senses.WEIGHTS)},
}
_ELSEWHERE = 2_000_000
"""Things from here on are not those of the lesson `senses`."""


def lessons(context: Context) -> Sequence[Lesson]:
    """In the order they are taught."""
    return [senses.lesson(context), pages(context), new_words.lesson(context)]


def pages(context: Context) -> Lesson:
    """Everything that is done with a page, in turn."""
    skills = dict.fromkeys(turn for turn in turns() if turn != senses.NAME) | {"grammar": None}
    more: dict[str, Any] = {"skills": tuple(skills), "learns_from": (read.group(context),)}
    loss = JointLoss(LOSSES, dict.fromkeys(LOSSES, 1.0))
    return taught(context, PAGES, loss, pages_batch, STEPS, ROWS, 3e-3, 15.0, **more)


def turns() -> tuple[str, ...]:
    """TURNS of which everything is installed."""
    return tuple(part for part in TURNS if part != "follow" or installed())


def pages_batch(context: Context, update: int, rows: int) -> dict[str, Any]:
    """A batch of the part whose turn it is, by its name. Pages of a text are long, so there are half as many."""
    part, number = turn_of(turns(), update)
    number += _ELSEWHERE if part == senses.NAME else 0
    return {part: OF[part].lesson_batch(context, number, max(1, rows // 2) if part == "read" else rows)}
