"""Acting of agents in worlds: one driver for the rollouts of lessons, exams, sleep, the live loop and the replay check.

All of them run this code, so that what an exam shows also holds live. `Actor` takes Moments and gives Actions,
`rollout` lets any policy (an Actor, a rule, a batched network) act in any world, and `recall` turns memories into
tokens.
"""

from devmind.acting.actor import Actor
from devmind.acting.rollout import (
    Policy,
    Senses,
    Transition,
    constant_policy,
    is_rolling,
    observations,
    returns,
    rollout,
    still,
)

__all__ = [
    "Actor",
    "Policy",
    "Senses",
    "Transition",
    "constant_policy",
    "is_rolling",
    "observations",
    "returns",
    "rollout",
    "still",
]
