"""The skills of the stage, each with its exam and its gate. A further exam is one line here."""

from __future__ import annotations

from collections.abc import Sequence

from devmind.curriculum.stage import Skill
from stages.memory import remembering

SKILLS: Sequence[Skill] = (
    Skill("memory_len", remembering.examine, remembering.GATE, "a sign seen once, named 50 steps later"),
)
