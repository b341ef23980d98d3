"""The exam navigate: held-out rooms from the first view to the target, by the agent's reading of cells.

Map, paths and exploration are algorithms; the agent says what stands in a cell. A table of MiniGrid's numbers does that
without an error. The same navigator with this table is a baseline, and a frontier rule with it is the reference for
steps.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice

import numpy as np

from devmind.acting import Policy, Senses, rollout
from devmind.acting.rollout import Actions
from devmind.agent.agent import Agent
from devmind.agent.threads import stepping_threads
from devmind.algorithms.grid import SIDE, UNSEEN
from devmind.curriculum.exam import Exam, Measure, Parts, in_parts
from devmind.curriculum.gate import Gate, Threshold
from devmind.curriculum.stage import Context
from devmind.seeding import exam_seeds, lesson_seeds, numpy_rng
from devmind.worlds.minigrid import FORWARD, minigrid_installed
from stages.reasoning import parts
from stages.reasoning.navigate.cells import Reading, by_head, by_planes
from stages.reasoning.navigate.lesson import FOUR_ROOMS, NAME
from stages.reasoning.navigate.lesson import ROOMS as TAUGHT
from stages.reasoning.navigate.navigator import Navigator
from stages.reasoning.navigate.rooms import episode_names, mission_rooms

KEY_CORRIDOR = "MiniGrid-KeyCorridorS3R1-v0"
KINDS = {f"{NAME}/four rooms": FOUR_ROOMS, f"{NAME}/key corridor": KEY_CORRIDOR}
FURTHER = ("MiniGrid-LockedRoom-v0", "MiniGrid-DoorKey-16x16-v0", "MiniGrid-SimpleCrossingS11N5-v0")
"""Kinds of rooms that no lesson shows."""
FURTHER_STEPS = 400
"""Steps of an episode in these rooms, at most. MiniGrid grants up to 2,560; an agent that misreads cells would take all
of them, which was half of a tiny childhood. The navigator with a table needs fewer.
"""
EPISODES, FEW = 200, 40
STEPS = "{} steps"
GATE = Gate(
    [Threshold(name, 0.95, when_absent="skip") for name in KINDS]
    + [Threshold(STEPS.format(name), 1.25, lower_is_better=True, when_absent="skip") for name in KINDS]
)
ZOO = {FOUR_ROOMS: 0.573, KEY_CORRIDOR: 0.949}
"""Returns of PPO in the RL Baselines3 Zoo, after 5 and 0.5 million steps."""
TABLE = "the navigator with a table of MiniGrid's numbers"
NEAREST = 5.0
"""A patience at which only distance counts: the nearest frontier (Yamauchi 1997)."""


@dataclass(frozen=True)
class RoomResults:
    """The results of N episodes.

    Attributes:
        reached: float64 [N] of 0 and 1, whether each reached its target.
        steps: float64 [N]; all that MiniGrid grants if the target was not reached.
        earned: float64 [N], MiniGrid's return.
    """

    reached: np.ndarray
    steps: np.ndarray
    earned: np.ndarray


def examine(agent: Agent, context: Context) -> Exam:
    """Success in both kinds of rooms, and steps relative to the frontier rule; nothing without MiniGrid."""
    if not minigrid_installed():
        return Exam([])
    return Exam.joined(_of_kind(agent, context, name) for name in KINDS)


def lesson_episodes(context: Context, n: int) -> np.ndarray:
    """The identities of lesson rooms, int64 [n]."""
    return episode_names(TAUGHT, lesson_seeds(n, context.seed, NAME, "episodes"))


def walk_rooms(kind: str, seeds: np.ndarray, policy: Policy, most: int | None = None) -> RoomResults:
    """One episode for each seed, of at most `most` steps; by default all that MiniGrid grants."""
    rooms = mission_rooms((kind,), seeds)
    earned, steps, on = np.zeros(len(seeds)), np.zeros(len(seeds)), np.ones(len(seeds), bool)
    with stepping_threads():
        for tick in islice(rollout(policy, rooms), most):
            steps += on
            earned += tick.reward
            on &= ~tick.ended
    reached = earned > 0
    return RoomResults(reached.astype(np.float64), np.where(reached, steps, rooms.most_steps), earned)


def navigator(agent: Agent) -> Navigator:
    """The navigator with the agent's reading, for exams and for `devmind navigate`. In a life, procedures lead the same
    navigator (`procedures/walking.py`).
    """
    return Navigator(by_head(agent, parts.CELLS))


def blind(senses: Senses) -> np.ndarray:
    """A reading that sees nothing."""
    return np.full((len(senses["board"]), SIDE, SIDE), UNSEEN)


@in_parts
def _of_kind(agent: Agent, context: Context, name: str) -> Parts:
    kind, n = KINDS[name], context.episodes(EPISODES)
    seeds = exam_seeds(n, context.seed, name)
    own, rule = walk_rooms(kind, seeds, navigator(agent)), _frontier(kind, tuple(seeds.tolist()))
    episodes, mean = episode_names((kind,), seeds), float(rule.steps.mean())
    ratio = float(own.steps.mean()) / mean
    reached = Measure(
        name, "reached the goal", own.reached, chance=0.0, ceiling=1.0, rate=True, episodes=episodes,
        reference=f"PPO of the RL Baselines3 Zoo returns {ZOO[kind]}; this navigator {own.earned.mean():.3f}",
        note=f"{kind}; the agent reads only the content of cells, from the board's own features, without the trunk",
    )  # fmt: skip
    steps = Measure(
        # The mean is the ratio of the means, and the spread is that ratio's (linearised, as both have errors).
        STEPS.format(name), "steps, divided by those of a frontier rule with perfect perception",
        ratio + (own.steps - ratio * rule.steps) / mean,
        chance=float(mission_rooms((kind,), seeds).most_steps.mean()) / mean, ceiling=0.0, higher_is_better=False,
        episodes=episodes,
        note=f"the rule takes {mean:.1f} steps and reaches the goal in {rule.reached.mean():.3f} of the rooms",
    )  # fmt: skip
    yield [reached, steps]
    floors = _floors(agent, context, kind, seeds)
    arrivals = {name: float(one.reached.mean()) for name, one in floors.items()}
    taken = {name: float(one.steps.mean()) / mean for name, one in floors.items()}
    rows = _rows(agent, context, kind, seeds)
    yield [replace(reached, floors=arrivals, rows=rows), replace(steps, floors=taken)]


@lru_cache(maxsize=8)
def _frontier(kind: str, seeds: tuple[int, ...]) -> RoomResults:
    return walk_rooms(kind, np.array(seeds), Navigator(by_planes, patience=NEAREST))


def _floors(agent: Agent, context: Context, kind: str, seeds: np.ndarray) -> dict[str, RoomResults]:
    rng, few = numpy_rng(context.seed, NAME, "rules"), seeds[: context.episodes(FEW)]

    def at_random(senses: Senses, first: np.ndarray) -> Actions:
        return {"choose": rng.integers(0, parts.ACTIONS, len(first))}

    def wandering(senses: Senses, first: np.ndarray) -> Actions:
        """Go forward, turn now and then, pick up nothing."""
        return {"choose": np.where(rng.random(len(first)) < 0.7, FORWARD, rng.integers(0, FORWARD, len(first)))}

    policies: dict[str, Policy] = {
        "random": at_random,
        "wandering blindly": wandering,
        "the navigator of an untaught agent": navigator(parts.untrained_agent(agent)),
        TABLE: Navigator(by_planes),
    }
    return {name: walk_rooms(kind, few, policy) for name, policy in policies.items()}


def _rows(agent: Agent, context: Context, kind: str, seeds: np.ndarray) -> dict[str, float]:
    few = seeds[: context.episodes(FEW)]

    def reached(kind: str, read: Reading, most: int | None = None) -> float:
        return float(walk_rooms(kind, few, Navigator(read), most).reached.mean())

    own = by_head(agent, parts.CELLS)
    rows = {"board off": reached(kind, blind)}
    if kind == FOUR_ROOMS:  # once is enough
        rows |= {further: reached(further, own, FURTHER_STEPS) for further in FURTHER}
    return rows
