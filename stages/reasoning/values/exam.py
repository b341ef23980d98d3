"""The exam values: CartPole-v1, and MiniGrid's empty room from every start, by the action of highest value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import torch

from devmind.acting import Policy, Senses, returns, rollout
from devmind.acting.carts import MOST, balance_ticks, carts
from devmind.acting.rollout import Actions
from devmind.agent.agent import Agent
from devmind.curriculum.episodes import identities
from devmind.curriculum.exam import Exam, Measure, Parts, in_parts
from devmind.curriculum.gate import Gate, Threshold
from devmind.curriculum.stage import Context
from devmind.seeding import exam_seeds, lesson_seeds, numpy_rng
from devmind.worlds import minigrid
from stages.reasoning import parts
from stages.reasoning.values.lesson import DRILLS
from stages.reasoning.values.rooms import ROOM, STARTS, all_starts, goal_in_view, rooms, shortest

CARTPOLE, ROOMS = "values/cartpole", "values/rooms"
EPISODES = 400
GATE = Gate([Threshold(CARTPOLE, 475.0), Threshold(ROOMS, 0.90, when_absent="skip")])
ABSENT = "; MiniGrid is not installed (extra 'worlds'): its room was not examined"


def examine(agent: Agent, context: Context) -> Exam:
    """The returns of CartPole-v1, and of the empty room from each of its sixty starts."""
    return Exam.joined(
        [_cartpole(agent, context), *([_rooms(agent, context)] if minigrid.minigrid_installed() else ())]
    )


def lesson_episodes(context: Context, n: int) -> np.ndarray:
    """The identities of carts as lessons begin them, int64 [n]."""
    return episode_names(context.make_world("cartpole", "", lesson_seeds(n, context.seed, "values", "episodes")))


def best_action_policy(agent: Agent, head: str, sense: str, effector: str) -> Policy:
    """A policy that takes the action of highest value by a head of the agent, from each Moment alone."""

    def policy(senses: Senses, first: np.ndarray) -> Actions:
        sense_input = {sense: torch.from_numpy(np.asarray(senses[sense]))}
        return {effector: agent.evaluate(sense_input, [head])[head].mode().cpu().numpy()}

    return policy


def by_angle(senses: Senses, first: np.ndarray) -> Actions:
    """Push to the side to which the pole falls: the sign of angle plus angular velocity."""
    return {"push": (senses["body"][:, 2] + senses["body"][:, 3] > 0).astype(np.int64)}


def _policy(agent: Agent, name: str, head: str = "") -> Policy:
    drill = DRILLS[name.removeprefix("values/")]
    return best_action_policy(agent, head or drill.examined, drill.sense, drill.effector)


@in_parts
def _cartpole(agent: Agent, context: Context) -> Parts:
    n = context.episodes(EPISODES)
    seeds = exam_seeds(n, context.seed, CARTPOLE)
    measure = Measure(
        CARTPOLE, "return of CartPole-v1", balance_ticks(seeds, _policy(agent, CARTPOLE)), chance=22.0, ceiling=MOST,
        reference="CartPole-v1 counts as solved at 475; Stable-Baselines3's DQN in 50,000 steps: 500 (RL Zoo)",
        note="by a head on the body's numbers, without the trunk" + ("" if minigrid.minigrid_installed() else ABSENT),
        episodes=episode_names(carts(seeds)),
    )  # fmt: skip
    yield [measure]
    rng = numpy_rng(context.seed, CARTPOLE, "random")
    rules: Mapping[str, Policy] = {
        "random": lambda senses, first: {"push": rng.integers(0, 2, n)},
        "the sign of angle and turn": by_angle,
    }
    floors = _floors(rules, lambda policy: balance_ticks(seeds, policy))
    yield [replace(measure, chance=floors["random"], floors=floors)]


@in_parts
def _rooms(agent: Agent, context: Context) -> Parts:
    """All starts, also in a glimpse."""
    seeds = all_starts(context.seed)
    best = float(shortest(seeds).mean())
    measure = Measure(
        ROOMS, f"return of {ROOM}", found_way(seeds, _policy(agent, ROOMS)), chance=0.0, ceiling=best, exhaustive=True,
        reference=f"the shortest paths from all starts return {best:.3f} on average",
        note="every start, each once",
    )  # fmt: skip
    yield [measure]
    rng = numpy_rng(context.seed, ROOMS, "random")
    rules: Mapping[str, Policy] = {
        "random": lambda senses, first: {"choose": rng.integers(0, minigrid.ACTIONS, len(seeds))},
        "turn until the goal is in view": goal_in_view,
    }
    floors = _floors(rules, lambda policy: returns(policy, rooms(seeds)))
    glance = found_way(seeds, _policy(agent, ROOMS, parts.CHOICE_GLANCES))
    rows = {"without the trunk": float(glance.mean())}
    yield [replace(measure, chance=floors["random"], floors=floors, rows=rows)]


def found_way(seeds: np.ndarray, policy: Policy) -> np.ndarray:
    """The room's return from each start, float64 [N], for a policy that acts alike where it sees alike.

    An episode that takes as many steps as there are places and headings without reaching the goal goes in a circle.
    """
    total = np.zeros(len(seeds))
    for tick in rollout(policy, rooms(seeds), STARTS):
        total += tick.reward
    return total


def _floors(rules: Mapping[str, Policy], play: Callable[[Policy], np.ndarray]) -> dict[str, float]:
    return {name: float(play(rule).mean()) for name, rule in rules.items()}


def episode_names(world: object) -> np.ndarray:
    """The identities of N carts' episodes, by their first reading."""
    return identities({"body": world.observe()["body"]})  # type: ignore[attr-defined]
