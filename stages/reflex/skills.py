"""The ten skills of the stage, each with its exam and its gate."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from devmind.agent.agent import Agent
from devmind.curriculum.episodes import of_lessons
from devmind.curriculum.exam import Measure
from devmind.curriculum.gate import Gate, Threshold
from devmind.curriculum.stage import Context, Skill
from stages.reflex import balance, binding, foresee, hear, locate, looking, reacting, see, speech

HEAR_GATE = Gate(
    [
        Threshold("hear/sounds", 0.90),
        Threshold("hear/sounds/hear_trunk", 0.90, goal=True),
        Threshold("hear/speech", None, beats_floor=True, when_absent="skip"),
        Threshold("hear/speech read-out", None, beats_floor=True, when_absent="skip"),
    ]
)


def _hear(agent: Agent, context: Context, level: str) -> Sequence[Measure]:
    return [*hear.examine(agent, context, level), *speech.examine(agent, context, level)]


def _shown(*levels: str) -> Callable[[Context, int], np.ndarray]:
    """Episodes of lessons in these levels of the nursery."""
    return lambda context, n: of_lessons(context.make_world, n, context.seed, "nursery", levels)


def _sounds(context: Context, n: int) -> np.ndarray:
    return np.concatenate((_shown("hear")(context, n), speech.taught_clips(context, n)))


SKILLS: Sequence[Skill] = (
    Skill("see", see.examine, see.gate, "unseen handwritten digits", see.taught_pictures),
    Skill("hear", _hear, HEAR_GATE, "unseen nursery sounds, and spoken digits when recordings are given", _sounds),
    Skill("bind", binding.examine, binding.GATE, "which of four visible objects made this sound", _shown("bind")),
    Skill(
        "locate",
        locate.examine,
        locate.GATE,
        "boxes, masks and depth in unseen rooms",
        _shown(*dict.fromkeys(locate.LEVELS)),
    ),
    Skill(
        "orient",
        looking.examine_orient,
        looking.ORIENT_GATE,
        "turn within a second to a seen, heard or moving object",
        _shown(*(f"orient/{cue}" for cue in looking.CUES)),
    ),
    Skill("track", looking.examine_track, looking.TRACK_GATE, "keep a moving object within 5 degrees", _shown("track")),
    Skill(
        "reach", reacting.examine_reach, reacting.REACH_GATE, "touch the object of the named colour", _shown("reach")
    ),
    Skill(
        "startle",
        reacting.examine_startle,
        reacting.STARTLE_GATE,
        "withdraw from a bang or a looming object, and only then",
        _shown("startle"),
    ),
    Skill(
        "foresee",
        foresee.examine,
        foresee.GATE,
        "how the tokens of sight and sound change until the next Moment",
        _shown(*foresee.LEVELS),
    ),
    Skill("balance", balance.examine, balance.GATE, "keep CartPole's pole up for 500 steps", balance.taught),
)
