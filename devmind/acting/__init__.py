"""Where an agent meets a world: the one driver of lessons' rollouts, exams, sleep, the live loop and the replay check.

What an exam proves, life must be able to do, so both run this code: `Actor` takes Moments and gives Actions, `rollout`
lets any policy (an Actor, a rule, a batched network) act in any world, `recall` turns memories into tokens.
"""

from devmind.acting.actor import Actor
from devmind.acting.rollout import (
    Policy,
    Senses,
    Transition,
    is_rolling,
    observations,
    returns,
    rollout,
    scripted,
    still,
)

__all__ = [
    "Actor",
    "Policy",
    "Senses",
    "Transition",
    "is_rolling",
    "observations",
    "returns",
    "rollout",
    "scripted",
    "still",
]
