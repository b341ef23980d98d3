"""ReflexStage: its five members. What is taught is in `lessons.py`, what is examined in `skills.py`."""

from __future__ import annotations

from collections.abc import Sequence

from devmind.agent.agent import Agent
from devmind.curriculum.stage import Context, Lesson
from stages.reflex import parts
from stages.reflex.lessons import lessons
from stages.reflex.skills import SKILLS


class ReflexStage:
    """Senses and reflexes, the first stage: to see, to hear and to tell which sound is whose; to turn to what moves or
    sounds, follow it, reach for it, draw back from it, and keep a pole up.
    """

    name = "reflex"
    requires = ()
    skills = SKILLS
    optional = (*parts.COPIES, *parts.FORESEEN)
    """Heads that agents raised by an older devmind lack: their rows are left out of the exams then."""

    def admit(self, agent: Agent) -> None:
        """Add the standard senses, the perceiving heads, the arcs with their critics, and the same on the trunk."""
        parts.admit(agent)

    def lessons(self, context: Context) -> Sequence[Lesson]:
        """Watch, perceive, gaze, motor reflexes, together."""
        return lessons(context)
