"""MemoryStage: its five members. What is taught is in `lessons.py`, what is examined in `skills.py`."""

from __future__ import annotations

from collections.abc import Sequence

from devmind.agent.agent import Agent
from devmind.curriculum.stage import Context, Lesson
from stages.memory import parts
from stages.memory.lessons import lessons
from stages.memory.skills import SKILLS


class MemoryStage:
    """Memory, the second stage: to act on what is not seen any more, for seconds by the trunk and for good by the
    store, and to keep what was learned through sleep.
    """

    name = "memory"
    requires = ("reflex",)
    skills = SKILLS

    def admit(self, agent: Agent) -> None:
        """Add the senses of the memory tests, and the head that chooses."""
        parts.admit(agent)

    def lessons(self, context: Context) -> Sequence[Lesson]:
        """Short-term first: a sign over growing gaps, then all tests in turn."""
        return lessons(context)
