"""MemoryStage: its five members. Each skill has a folder with its lesson and its exam; budgets are in `lessons.py`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from devmind.agent.agent import Agent
from devmind.curriculum.stage import Context, Lesson, Skill
from stages.memory import parts
from stages.memory.fetch import exam as fetch
from stages.memory.lessons import lessons
from stages.memory.match import exam as match
from stages.memory.match import lesson as match_lesson
from stages.memory.maze import exam as maze
from stages.memory.memory_len import exam as memory_len
from stages.memory.permanence import exam as permanence
from stages.memory.recall import exam as recall
from stages.memory.recall import lesson as recall_lesson
from stages.memory.repeat_previous import exam as repeat_previous
from stages.memory.sleep import exam as sleep

SKILLS: Sequence[Skill] = (
    Skill(
        "memory_len", memory_len.examine, memory_len.GATE, "a sign seen once, named 100 steps later",
        memory_len.lesson_episodes,
    ),
    Skill(
        "maze", maze.examine, maze.GATE, "which way to turn at the end of a corridor, by a sign at its start",
        maze.lesson_episodes,
    ),
    Skill(
        "repeat_previous", repeat_previous.examine, repeat_previous.GATE, "the suit of the card dealt three cards ago",
        repeat_previous.lesson_episodes,
    ),
    Skill(
        "recall", recall.examine, recall.GATE,
        "the name of a thing, told once and no longer in the window of attention", recall_lesson.lesson_episodes,
    ),
    Skill(
        "sleep", sleep.examine, sleep.GATE, "names that are still known after a night of sleep, with the store off",
        recall_lesson.things_of_lessons,
        "Ten nights cost more time than a stage's lessons; recall, which is retained, tests what nights need.",
    ),
    Skill(
        "permanence", permanence.examine, permanence.GATE,
        "where a thing out of sight is, and when it is no longer there", permanence.lesson_episodes,
    ),
    Skill(
        "match", match.examine, match.GATE,
        "which of two things was seen or heard ten Moments ago, with other things in between",
        match_lesson.lesson_episodes,
    ),
    Skill(
        "fetch", fetch.examine, fetch.GATE, "reach for a hidden thing that was in view nine Moments ago",
        fetch.lesson_episodes,
    ),
)  # fmt: skip


class MemoryStage:
    """Memory: it keeps in mind what it no longer sees or hears, and recalls what it once met.

    For seconds the trunk keeps it, permanently the store; and what was learned is kept through sleep.
    """

    name = "memory"
    requires = ("reflex",)
    skills = SKILLS
    part_classes: ClassVar = {
        "head.memory-match": "stages.memory.match.heads:MatchHead",
    }

    def admit(self, agent: Agent) -> None:
        """Add the senses of the tests and of beliefs, the heads and the tracker."""
        parts.admit(agent)

    def lessons(self, context: Context) -> Sequence[Lesson]:
        """Single boards and a sign, things and beliefs, fetch, the tests, recall, match, hidden things, review."""
        return lessons(context)
