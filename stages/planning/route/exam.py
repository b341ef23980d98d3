"""The exam of route: OGBench's five tasks in each maze, by plans; beside them simpler methods and the oracle."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
import torch
from scipy.spatial import cKDTree

from devmind.acting import Actor, Policy, Senses, rollout
from devmind.agent.agent import Agent
from devmind.curriculum.episodes import of_lessons, of_worlds
from devmind.curriculum.exam import Exam, Measure, Parts, in_parts
from devmind.curriculum.gate import Gate, Threshold
from devmind.curriculum.stage import Context
from devmind.seeding import exam_seeds, numpy_rng
from devmind.worlds.pointmaze import TASKS
from stages.planning.parts import ROUTE, SENSES, WALK
from stages.planning.planner import SYMBOLS, TRUNK, PlannerHead
from stages.planning.reinforce.finetune import reinforced
from stages.planning.reinforce.plans import holding
from stages.planning.route import lesson, trips
from stages.planning.route.shortest import shortest

EPISODES = 200
FEW = 20
"""Episodes with something silenced: few of them arrive, so most last all of their 1,000 ticks."""
GATE = Gate(
    [
        Threshold("route/medium", 0.95, beats_floor=True),
        Threshold("route/medium SPL", 0.85),
        Threshold("route/large", 0.90, beats_floor=True, when_absent="skip"),
        Threshold("route/large SPL", 0.85, when_absent="skip"),
        Threshold("route/giant", 0.95, goal=True, when_absent="skip"),
    ]
)
REFERENCE = {
    "medium": "HIQL 0.79, GCBC 0.09 from 1,000,000 steps (OGBench's table); ours from 100,000 in both mazes",
    "large": "HIQL 0.58, GCBC 0.29 from 1,000,000 steps (OGBench's table); ours from 100,000 in both mazes",
    "giant": "HIQL 0.46, QRL 0.68, GCBC 0.01 from 1,000,000 steps (OGBench's table); ours from 50,000",
}
STUCK_TICKS, STUCK = 100, 0.5
"""A rule without memory that moves no row further than this (OGBench's units) in so many ticks is cut."""
NEIGHBOURS = 10
SILENCED = {
    f"trajectory only (symbols silenced; {FEW} episodes)": SYMBOLS,
    f"the trunk's features silenced ({FEW} episodes)": TRUNK,
}

SOUND = "first plans that cross no wall"
"""A row beside arrivals, as an agent that plans anew and feels walls also arrives by plans that do not hold."""
SOUND_BY_CRITIC = f"{SOUND}, without the judge"
SOUND_REINFORCED = f"{SOUND}, after reinforcement (implicit Q-learning, plans by advantage)"

Found = TypeVar("Found")


@dataclass(frozen=True)
class TripResults:
    """Results of episodes: whether each arrived, and success weighted by path length (Anderson et al. 2018)."""

    arrived: np.ndarray
    spl: np.ndarray


def examine(agent: Agent, context: Context) -> Exam:
    """Success and SPL in each maze."""
    return Exam.joined(_maze(agent, context, name) for name in lesson.LEVELS[context.config.size])


def lesson_episodes(context: Context, n: int) -> np.ndarray:
    """Episodes of lessons: trips that they show begin and end like these."""
    return of_lessons(context.make_world, n, context.seed, "pointmaze", lesson.LEVELS[context.config.size])


@in_parts
def _maze(agent: Agent, context: Context, name: str) -> Parts:
    seeds = exam_seeds(context.episodes(EPISODES), context.seed, "route", name)
    actor = Actor(agent, len(seeds), effectors=[WALK])
    ours = walk(actor, context, name, seeds)
    episodes = of_worlds(context.make_world, "pointmaze", name + TASKS, seeds)
    note = "SPL: the length of the shortest path divided by that of the path taken; 0 without arrival"
    arrived = Measure(
        f"route/{name}", "arrived", ours.arrived, 0.0, 1.0, rate=True, reference=REFERENCE[name], note=note,
        answered=actor.counts, episodes=episodes,
    )  # fmt: skip
    spl = Measure(f"route/{name} SPL", "SPL", ours.spl, 0.0, 1.0, note=note, answered=actor.counts, episodes=episodes)
    yield [arrived, spl]
    data = lesson.oracle_trips(context)[lesson.LEVELS[context.config.size].index(name)]
    floors = {
        "straight on": walk(straight_on, context, name, seeds, rule=True),
        "behaviour cloning (10 nearest)": walk(cloning_policy(data), context, name, seeds, rule=True),
    }
    by_chance = walk(at_random(name), context, name, seeds)
    ceiling = walk(trips.oracle(name), context, name, seeds)
    few = seeds[: context.episodes(FEW)]

    def again() -> TripResults:
        return walk(Actor(agent, len(few), effectors=[WALK]), context, name, few)

    ways = cloning_policy(lesson.join_trip(context, data))
    rows = {
        "the oracle": ceiling,
        "a rule: the ten nearest in the joined paths": walk(ways, context, name, seeds, rule=True),
        **{condition: find_ablated(agent, what, again) for condition, what in SILENCED.items()},
    }

    def beside(measure: Measure, part: str) -> Measure:
        def means(of: dict[str, TripResults]) -> dict[str, float]:
            return {way: float(getattr(walked, part).mean()) for way, walked in of.items()}

        chance, best = means({"chance": by_chance, "best": ceiling}).values()
        return replace(measure, chance=chance, ceiling=best, floors=means(floors), rows=means(rows))

    full = beside(arrived, "arrived")
    sound = _sound_rows(agent, context, data, seeds)
    yield [replace(full, rows={**full.rows, **sound}), beside(spl, "spl")]


def walk(
    policy: Policy, context: Context, name: str, seeds: np.ndarray, rule: bool = False, ticks: int | None = None
) -> TripResults:
    """Let a policy walk OGBench's tasks, until all have arrived or 1,000 ticks are over.

    Args:
        rule: the policy has no memory and no chance, so it may be cut when no row gets any further.
        ticks: after which episodes are cut, for experiments.
    """
    world = context.make_world("pointmaze", name + TASKS, seeds)
    goal, at = world.truth()["goal"], world.truth()["at"]
    least, length, mark = shortest(name, at, goal), np.zeros(len(seeds)), at
    arrived = np.zeros(len(seeds), bool)
    for tick in rollout(policy, world, ticks, sparing=True):
        now = world.truth()["at"]
        length, at = length + np.linalg.norm(now - at, axis=1), now
        arrived |= tick.reward > 0
        if rule and tick.tick % STUCK_TICKS == STUCK_TICKS - 1:
            if np.linalg.norm(now - mark, axis=1).max() < STUCK:
                break
            mark = now
    # Being near counts as arrival, so a path may be shorter than the shortest one to the goal itself.
    return TripResults(arrived.astype(float), np.where(arrived, least / np.maximum(least, length), 0.0))


def sound_plans(agent: Agent, context: Context, name: str, seeds: np.ndarray) -> dict[str, np.ndarray]:
    """Whether the first plan of each episode, planned without the trunk, leads through no wall, float64 [N]: chosen by
    critic and judge, and by the critic of strides alone among the same candidates."""
    senses, head = context.make_world("pointmaze", name + TASKS, seeds).observe(), agent.head(ROUTE)
    assert isinstance(head, PlannerHead)
    tensors = [torch.from_numpy(np.asarray(senses[sense])).float().to(agent.device) for sense in SENSES]
    with torch.inference_mode():
        read = head.thinking(*tensors)
        candidates = head.search(read)
        chosen = {SOUND: candidates.chosen, SOUND_BY_CRITIC: head.marks(candidates.plans, read.maze).argmax(-1)}
    rows = torch.arange(len(seeds), device=agent.device)
    return {
        way: holding(name, candidates.plans[rows, which].cpu().numpy()).astype(float) for way, which in chosen.items()
    }


def _sound_rows(agent: Agent, context: Context, data: trips.Trips, seeds: np.ndarray) -> dict[str, float]:
    """Shares of first plans that hold: chosen by critic and judge, by the critic of strides alone, and as the first by
    a planner that was reinforced."""
    taught = sound_plans(reinforced(agent, data, context), context, data.maze, seeds)[SOUND]
    ways = {**sound_plans(agent, context, data.maze, seeds), SOUND_REINFORCED: taught}
    return {way: float(sound.mean()) for way, sound in ways.items()}


def find_ablated(agent: Agent, what: str, way: Callable[[], Found]) -> Found:
    """The result of `way` with a planner that lacks something (`PlannerHead.silenced`)."""
    head: Any = agent.head(ROUTE)
    head.silenced = frozenset({what})
    try:
        return way()
    finally:
        head.silenced = frozenset()


def straight_on(senses: Senses, first: np.ndarray) -> dict[str, np.ndarray]:
    """Towards the goal, as if there were no walls."""
    return {WALK: senses["goal"] - senses["body"]}


def cloning_policy(data: trips.Trips) -> Policy:
    """Behaviour cloning by nearest neighbours: the mean of what the oracle did where place and goal were most alike."""
    trip = np.repeat(np.arange(len(data)), np.diff(data.begin))
    tree = cKDTree(np.concatenate((data.at, data.goal[trip]), 1))

    def way(senses: Senses, first: np.ndarray) -> dict[str, np.ndarray]:
        _, near = tree.query(np.concatenate((senses["body"], senses["goal"]), 1), NEIGHBOURS)
        return {WALK: data.walk[near].mean(1)}

    return way


def at_random(name: str) -> Policy:
    """A random command each tick."""
    rng = numpy_rng("route", name, "at random")
    return lambda senses, first: {WALK: rng.uniform(-1, 1, (len(first), 2))}
