"""Episodes in which things are hidden, played by the agent tick by tick with its beliefs; and a pool of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
import torch
from torch import Tensor

from devmind.acting import Actor, Senses, observations
from devmind.acting.rollout import Actions
from devmind.agent.agent import Agent, StepOutput
from devmind.agent.batch import collate_tick, pad_body, stack_ticks
from devmind.agent.taps import Percepts
from devmind.agent.tracker import Beliefs, entries
from devmind.curriculum.stage import Context
from devmind.errors import ExamError
from devmind.seeding import lesson_seeds
from devmind.worlds.nursery import hiding
from devmind.worlds.nursery.chance import uniform
from stages.memory.blocks import latest
from stages.memory.permanence.detections import NAMES

SENSES = ("sight", "body", "words")
KINDS = ("unmoved", "moved", "a-not-b", "swapped", "unmoved", "moved", "unmoved", "swapped")
"""The turns of the lesson. In half of them nothing moves unseen, so the last seen place is the likeliest. With fewer of
the others, a quarter of the things believed lost lay where they had been seen, and nothing was learned."""
Episodes = dict[str, Tensor]


@dataclass(frozen=True)
class Tick:
    """One tick of N rows: senses, percepts, the agent's output, its beliefs, the truth."""

    senses: Mapping[str, Any]
    percepts: Percepts
    output: StepOutput
    beliefs: Beliefs
    truth: Mapping[str, np.ndarray]
    first: bool


def ticks(agent: Agent, context: Context, kind: str, seeds: np.ndarray, actor: Actor | None = None) -> Iterator[Tick]:
    """Tick by tick until the last question of the rooms `seeds`, all of one delay; some heads are turned away.

    Args:
        actor: whose rows live through it, with `beliefs`; by default one that leaves the trunk out.
    """
    plan, n, passed = hiding.plan(seeds, kind), len(seeds), count()
    world = context.make_world("nursery", f"hide/{kind}", seeds)
    actor = actor or Actor(agent, n, effectors=[], trunk=False)

    def turning(senses: Senses, first: np.ndarray) -> Actions:
        return {"look": head_turns(seeds, plan, next(passed))}

    for tick, observation in enumerate(observations(world, last_tick(plan) + 1, turning)):
        senses = {name: observation[name] for name in SENSES}
        percepts = actor.encode(collate_tick(senses, np.full(n, tick == 0)))
        output = actor.step(percepts)
        if output.beliefs is None:
            raise ExamError("Questions about things out of sight need a tracker; admit the agent to 'memory'.")
        yield Tick(senses, percepts, output, output.beliefs, world.truth(), tick == 0)


def last_tick(plan: hiding.Schedule) -> int:
    """The tick of the last question."""
    return int(plan.ask.max()) + hiding.SECOND_QUESTION + hiding.ASK_TICKS - 1


def head_turns(seeds: np.ndarray, plan: hiding.Schedule, tick: int) -> np.ndarray:
    """How the head is turned at `tick`, [N, 2]: in half of the rooms away while things are hidden, and back in time."""
    hidden = plan.ask - plan.delay
    away = (uniform(seeds, "turns") < 0.5) & (plan.delay >= 4)
    way = np.where(uniform(seeds, "turn way") < 0.5, 1.0, -1.0) * away
    turning, returns = (tick >= hidden) & (tick < hidden + 2), (tick >= plan.ask - 2) & (tick < plan.ask)
    return np.stack((way * turning - way * returns, np.zeros(len(seeds))), 1)


def of_delay(seeds: np.ndarray, kind: str, delay: int) -> np.ndarray:
    """Those of `seeds` whose rooms have this delay."""
    return np.asarray(seeds[hiding.plan(seeds, kind).delay == delay])


def delays(kind: str) -> tuple[int, ...]:
    """The delays of a level in ticks."""
    return hiding.SHORT_DELAYS if kind == "a-not-b" else hiding.DELAYS


def episodes(agent: Agent, context: Context, blocks: range, size: int) -> list[Episodes]:
    """`size` whole episodes of one level and delay for each block, by (seed, block) and the agent's fixed heads.

    sight, body [B, T, ...]; values [B, T, 8, 15], age_s and valid [B, T, 8]; places [B, T, 2] and what can be known
    of them [B, T, 2, 3]; colours [B, 2]. Blocks that are asked for again are not played again.
    """
    return latest(agent, "hidden", (context.seed, size), blocks, lambda block: _episodes(agent, context, block, size))


def _episodes(agent: Agent, context: Context, block: int, size: int) -> Episodes:
    kind = KINDS[block % len(KINDS)]
    all_delays = delays(kind)
    delay = all_delays[block // len(KINDS) % len(all_delays)] if context.config.size != "tiny" else all_delays[0]
    seeds = of_delay(lesson_seeds(20 * size, context.seed, "hidden", block), kind, delay)[:size]
    plan, moments = hiding.plan(seeds, kind), list[dict[str, np.ndarray]]()
    for number, tick in enumerate(ticks(agent, context, kind, seeds)):
        beliefs = dict(zip(("values", "age_s", "valid"), entries(tick.beliefs, len(NAMES)), strict=True))
        senses = {"sight": tick.senses["sight"], "body": pad_body(tick.senses["body"])}
        known = plan.known(np.full(len(seeds), number)).astype(np.float32)
        moments.append(senses | beliefs | {"places": tick.truth["places"], "known": known})
        colours = tick.truth["colour"][:, : hiding.THINGS]
    return stack_ticks(moments) | {"colours": torch.from_numpy(colours)}
