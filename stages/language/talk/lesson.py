"""The lesson `talk`: to name, to answer and to converse, batch by batch, with what was taught before in between.

All three write by one head, and what is taught by itself undoes what was written before: names fell from 0.59 to 0.08
while answers were taught, and behind 2,000 steps of answers 0.49 of them were right. In turn they help each other
(docs/log.md, 2026-11-25).
"""

from __future__ import annotations

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
from stages.language.read import lesson as read
from stages.language.senses import lesson as senses
from stages.language.teaching import taught

NAME = "talk"
STEPS = {"tiny": 16, "nursery": 1600, "child": 6000, "adult": 16000}
ROWS = 32
TURNS = (
    "answer", "read", "name", "converse", "answer", "senses", "name", "follow", "answer", "read", "converse", "name",
)  # fmt: skip
"""What a step is of, again and again; without MiniGrid nobody follows."""
OF = {"name": name, "answer": answer, "converse": converse, "read": read, "follow": follow, "senses": senses}
BEFORE = ("read", "follow", "senses")
"""Those that have lessons of their own before this one."""
LOSSES: dict[str, Loss] = {
    **dict.fromkeys(("name", "answer", "converse"), seeing.loss),
    **{"read": read.loss, "follow": follow.loss, "senses": JointLoss(senses.LOSSES, senses.WEIGHTS)},
}
_ELSEWHERE = 2_000_000
"""Pages, episodes and things from here on are not those of BEFORE's lessons."""


def lesson(context: Context) -> Lesson:
    """The lesson as data."""
    loss = JointLoss(LOSSES, dict.fromkeys(LOSSES, 1.0))
    skills = tuple(dict.fromkeys(turn for turn in turns() if turn != "senses"))
    more: dict[str, Any] = {"skills": skills, "learns_from": (read.group(context),), "deep": True}
    return taught(context, NAME, loss, lesson_batch, STEPS, ROWS, 3e-3, 8.0, **more)


def turns() -> tuple[str, ...]:
    """TURNS of which everything is installed."""
    return tuple(part for part in TURNS if part != "follow" or installed())


def lesson_batch(context: Context, update: int, rows: int) -> dict[str, Any]:
    """A batch of the part whose turn it is, by its name. Pages are long, so there are half as many."""
    part, number = turn_of(turns(), update)
    if part in BEFORE:
        number += _ELSEWHERE
    return {part: OF[part].lesson_batch(context, number, max(1, rows // 2) if part == "read" else rows)}
