"""The motor lesson: arcs learn by PPO on the tokens of encoders that perception has taught, which stay fixed here.

One training step is one update of one arc: it acts for some ticks in freshly seeded worlds, then the arc and its critic
learn from what came of it (`devmind.learners.policy`). The arcs take turns in a fixed cycle.
"""

from __future__ import annotations

from devmind.agent.agent import Agent
from devmind.curriculum.stage import Batches, Context, Lesson
from devmind.learners.policy import Drill, PolicyLearner
from devmind.learners.ppo import PPO

# Turning pays at once by how much nearer it brings, so a discount of zero learns fastest; orient stops one tick short
# of its closing bonus, which would drown that. Reaching must go round what stands in the way, so it looks ahead.
# Startle needs a high entropy at first: quiet ticks teach to rest long before the few looming objects are told apart.
DRILLS = {
    "orient": Drill("look", "nursery", ("orient/sight", "orient/sound", "orient/motion"), 32, 9, log_std=(-1.0, -2.0)),
    "track": Drill("look", "nursery", ("track",), 48, 12, log_std=(-1.0, -2.0)),
    "reach": Drill(
        "reach", "nursery", ("reach",), 160, 8, PPO(discount=0.9, epochs=4, batches=4), log_std=(-0.7, -1.5)
    ),
    "startle": Drill("move", "nursery", ("startle",), 64, 20, PPO(entropy=0.2, batches=4)),
    "balance": Drill(
        "push", "cartpole", ("",), 32, 32, PPO(0.98, 0.8, epochs=10, batches=4), learning_rate=2e-3, lasting=True
    ),
}
HEIRS = {"reach_arc": "whereabouts", "reach_value": "whereabouts", "move_arc": "event", "move_value": "event"}
"""Arcs and critics, and the heads of perception whose reading of the tokens they take over and keep: what perception
was told about thousands of rooms, rewards can only blur."""
KEEPERS = (*HEIRS, "look_arc")
"""Those that keep their reading while rewards teach them to answer; the looking arc has its from the lesson `gaze`."""
CYCLE = (
    "balance", "orient", "reach", "startle", "balance", "track", "reach", "startle",
    "balance", "track", "reach", "startle", "balance", "orient", "track", "reach", "startle",
)  # fmt: skip
UNREHEARSED = "It trains reflex arcs on encoders; later stages leave both as they are."
STEPS = {"tiny": 17, "nursery": 595, "child": 2380, "adult": 6800}


def learner(agent: Agent, context: Context, crowd: float | None = None) -> PolicyLearner:
    """The arcs' learner; at size tiny a tenth of the rows practise."""
    crowd = (0.1 if context.config.size == "tiny" else 1.0) if crowd is None else crowd
    return PolicyLearner(agent, context, DRILLS, heirs=HEIRS, keepers=KEEPERS, crowd=crowd)


def lesson(context: Context) -> Lesson:
    """The lesson as data, its length by the context's size."""

    def batches(agent: Agent, context: Context, steps: int) -> Batches:
        return Batches(lambda update: {"drill": CYCLE[update % len(CYCLE)]}, steps)

    steps = STEPS[context.config.size]
    # Nothing earlier uses the arcs, so there is nothing that teaching them could take away.
    return Lesson("motor", learner, batches, steps, 4.0, UNREHEARSED, rehearsal_every=0, skills=("orient", "balance"))
