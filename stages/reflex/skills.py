"""The ten skills of the stage, each with its exam and its gate."""

from __future__ import annotations

from collections.abc import Sequence

from devmind.agent.agent import Agent
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


SKILLS: Sequence[Skill] = (
    Skill("see", see.examine, see.gate, "unseen handwritten digits"),
    Skill("hear", _hear, HEAR_GATE, "unseen nursery sounds, and spoken digits when recordings are given"),
    Skill("bind", binding.examine, binding.GATE, "which of four visible objects made this sound"),
    Skill("locate", locate.examine, locate.GATE, "boxes, masks and depth in unseen rooms"),
    Skill(
        "orient", looking.examine_orient, looking.ORIENT_GATE, "turn within a second to a seen, heard or moving object"
    ),
    Skill("track", looking.examine_track, looking.TRACK_GATE, "keep a moving object within 5 degrees"),
    Skill("reach", reacting.examine_reach, reacting.REACH_GATE, "touch the object of the named colour"),
    Skill(
        "startle",
        reacting.examine_startle,
        reacting.STARTLE_GATE,
        "withdraw from a bang or a looming object, and only then",
    ),
    Skill("foresee", foresee.examine, foresee.GATE, "how the tokens of sight and sound change until the next Moment"),
    Skill("balance", balance.examine, balance.GATE, "keep CartPole's pole up for 500 steps"),
)
