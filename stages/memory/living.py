"""Episodes in which things are hidden, as the agent lives them, with what it believes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np

from devmind.acting import Actor, Senses, observations
from devmind.acting.rollout import Actions
from devmind.agent.acting import StepOutput
from devmind.agent.agent import Agent, Percepts
from devmind.agent.batch import collate_tick
from devmind.agent.beliefs import Beliefs
from devmind.curriculum.stage import Context
from devmind.errors import ExamError
from devmind.worlds.nursery import hiding
from devmind.worlds.nursery.chance import uniform

SENSES = ("sight", "body", "words")


@dataclass(frozen=True)
class Tick:
    """One tick of N rows: what they sense, what the agent made of it and answered, what it believes, what is true."""

    senses: Mapping[str, Any]
    percepts: Percepts
    output: StepOutput
    beliefs: Beliefs
    truth: Mapping[str, np.ndarray]
    first: bool


def lived(agent: Agent, context: Context, kind: str, seeds: np.ndarray, actor: Actor | None = None) -> Iterator[Tick]:
    """Tick by tick until the last question of the rooms `seeds`, all of one delay; some heads are turned away.

    Args:
        actor: whose rows live through it, with `beliefs`; by default one that leaves the trunk out.
    """
    plan, n, passed = hiding.plan(seeds, kind), len(seeds), count()
    world = context.make_world("nursery", f"hide/{kind}", seeds)
    actor = actor or Actor(agent, n, effectors=[], trunk=False, beliefs=True)

    def turning(senses: Senses, first: np.ndarray) -> Actions:
        return {"look": turned(seeds, plan, next(passed))}

    for tick, observation in enumerate(observations(world, last_tick(plan) + 1, turning)):
        senses = {name: observation[name] for name in SENSES}
        percepts = actor.encode(collate_tick(senses, np.full(n, tick == 0)))
        output = actor.step(percepts)
        if output.beliefs is None:
            raise ExamError("Things out of sight are asked of an agent with a tracker; admit it to the stage 'memory'.")
        yield Tick(senses, percepts, output, output.beliefs, world.truth(), tick == 0)


def last_tick(plan: hiding.Plan) -> int:
    """The tick of the last question."""
    return int(plan.ask.max()) + hiding.SECOND_QUESTION + hiding.ASK_TICKS - 1


def turned(seeds: np.ndarray, plan: hiding.Plan, tick: int) -> np.ndarray:
    """How the head is turned at `tick`, [N, 2]: in half of the rooms away while things are hidden, and back in time."""
    hidden = plan.ask - plan.delay
    away = (uniform(seeds, "turns") < 0.5) & (plan.delay >= 4)
    way = np.where(uniform(seeds, "turn way") < 0.5, 1.0, -1.0) * away
    goes, returns = (tick >= hidden) & (tick < hidden + 2), (tick >= plan.ask - 2) & (tick < plan.ask)
    return np.stack((way * goes - way * returns, np.zeros(len(seeds))), 1)


def of_delay(seeds: np.ndarray, kind: str, delay: int) -> np.ndarray:
    """Those of `seeds` whose rooms have this delay."""
    return np.asarray(seeds[hiding.plan(seeds, kind).delay == delay])


def delays(kind: str) -> tuple[int, ...]:
    """The delays of a level in ticks."""
    return hiding.SHORT_DELAYS if kind == "a-not-b" else hiding.DELAYS
