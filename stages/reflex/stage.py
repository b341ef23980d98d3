"""ReflexStage: its five members. Each skill has a folder with its lesson and its exam; budgets are in `lessons.py`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

import numpy as np

from devmind.agent.agent import Agent
from devmind.curriculum.episodes import of_lessons
from devmind.curriculum.stage import Context, Lesson, Skill
from stages.reflex import parts
from stages.reflex.balance import exam as balance
from stages.reflex.bind import exam as bind
from stages.reflex.foresee import exam as foresee
from stages.reflex.foresee import lesson as foresee_lesson
from stages.reflex.hear import exam as hear
from stages.reflex.hear import lesson as hear_lesson
from stages.reflex.lessons import lessons
from stages.reflex.locate import exam as locate
from stages.reflex.locate import lesson as locate_lesson
from stages.reflex.orient import exam as orient
from stages.reflex.reach import exam as reach
from stages.reflex.see import exam as see
from stages.reflex.see import lesson as see_lesson
from stages.reflex.startle import exam as startle
from stages.reflex.track import exam as track


def _shown(*levels: str) -> Callable[[Context, int], np.ndarray]:
    """A function that gives episodes of lessons in these levels of the nursery."""
    return lambda context, n: of_lessons(context.make_world, n, context.seed, "nursery", levels)


def _sounds(context: Context, n: int) -> np.ndarray:
    return np.concatenate((_shown("hear")(context, n), hear_lesson.clips_of_lessons(context, n)))


SKILLS: Sequence[Skill] = (
    Skill("see", see.examine, see.GATE, "unseen handwritten digits", see_lesson.lesson_pictures),
    Skill(
        "hear", hear.examine, hear.GATE, "unseen nursery sounds, and spoken digits when recordings are given", _sounds,
    ),
    Skill("bind", bind.examine, bind.GATE, "which of four visible objects made this sound", _shown("bind")),
    Skill(
        "locate", locate.examine, locate.GATE, "boxes, masks and depth in unseen rooms",
        _shown(*dict.fromkeys(locate_lesson.LEVELS)),
    ),
    Skill(
        "orient", orient.examine, orient.GATE, "turn within a second to a seen, heard or moving object",
        _shown(*(f"orient/{cue}" for cue in orient.CUES)),
    ),
    Skill("track", track.examine, track.GATE, "keep a moving object within 5 degrees", _shown("track")),
    Skill("reach", reach.examine, reach.GATE, "touch the object of the named colour", _shown("reach")),
    Skill(
        "startle", startle.examine, startle.GATE, "withdraw from a bang or a looming object, and only then",
        _shown("startle"),
    ),
    Skill(
        "foresee", foresee.examine, foresee.GATE, "how the tokens of sight and sound change until the next Moment",
        _shown(*foresee_lesson.LEVELS),
    ),
    Skill("balance", balance.examine, balance.GATE, "keep CartPole's pole up for 500 steps", balance.lesson_episodes),
)  # fmt: skip


class ReflexStage:
    """Senses and reflexes, the first stage: it sees and hears, turns to what moves or sounds, reaches for it, and
    startles.

    It also tells which object sounds, follows and withdraws, and keeps a pole up.
    """

    name = "reflex"
    requires = ()
    skills = SKILLS
    reflexes = ("move_arc", "push_arc")
    part_classes: ClassVar = {
        "head.reflex-scene": "stages.reflex.locate.scene:SceneHead",
        "head.reflex-bind": "stages.reflex.heads:BindHead",
        "head.reflex-pick": "stages.reflex.heads:PickHead",
        "head.reflex-pick-value": "stages.reflex.heads:PickValueHead",
        "head.reflex-aim": "stages.reflex.heads:AimHead",
        "head.reflex-places": "stages.reflex.heads:PlacesHead",
    }

    def admit(self, agent: Agent) -> None:
        """Add the standard senses, the perceiving heads, the arcs with their critics, and the same on the trunk."""
        parts.admit(agent)

    def lessons(self, context: Context) -> Sequence[Lesson]:
        """Watch, perceive, gaze, motor reflexes, together."""
        return lessons(context)
