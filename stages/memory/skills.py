"""The skills of the stage, each with its exam and its gate. A further exam is one line here."""

from __future__ import annotations

from collections.abc import Sequence

from devmind.curriculum.stage import Skill
from stages.memory import cards, mazes, naming, permanence, recalling, remembering, sleeping

SKILLS: Sequence[Skill] = (
    Skill(
        "memory_len",
        remembering.examine,
        remembering.GATE,
        "a sign seen once, named 100 steps later",
        remembering.taught,
    ),
    Skill("maze", mazes.examine, mazes.GATE, "the turn at a way's end that something at its start told", mazes.taught),
    Skill("repeat_previous", cards.examine, cards.GATE, "the suit of the card dealt three cards ago", cards.taught),
    Skill(
        "recall",
        recalling.examine,
        recalling.GATE,
        "a thing's name, told once and long out of the window",
        naming.taught,
    ),
    Skill(
        "sleep",
        sleeping.examine,
        sleeping.GATE,
        "after a night the names are known with the store off",
        naming.things_taught,
    ),
    Skill(
        "permanence",
        permanence.examine,
        permanence.GATE,
        "where a thing is that is out of sight, and when not any more",
        permanence.taught,
    ),
)
