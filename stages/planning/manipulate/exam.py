"""The exam of manipulate: rooms that no lesson had, in which the agent pushes, grasps and lifts, and puts in.

Floors: the reach arc, which touches the thing asked for; an untaught agent of the same size; chance. The ceiling is the
lesson's script, which knows where everything is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from devmind.acting import Actor, Policy, Senses, rollout
from devmind.acting.rollout import Actions
from devmind.agent.agent import Agent
from devmind.agent.batch import collate_tick
from devmind.curriculum.episodes import of_lessons, of_worlds
from devmind.curriculum.exam import Exam, Measure
from devmind.curriculum.gate import Gate, Threshold
from devmind.curriculum.stage import Context
from devmind.seeding import exam_seeds, numpy_rng
from devmind.worlds.nursery.handling import ASKED, BOX_COLOUR, GOAL, PILLAR_COLOUR, TASKS, held_out
from devmind.worlds.nursery.state import HAND_HIGH, HAND_LOW, MAX_REACH_M
from stages.planning import parts
from stages.planning.manipulate import lesson
from stages.planning.manipulate.demonstrations import HAND_SCALE_M, HORIZON, MIDDLE_M, UNIT_M, plans
from stages.planning.manipulate.head import HAND, NEAR_M, PATIENCE, SLOW, TRUNK, in_room

NAME = lesson.NAME
GATE = Gate([Threshold(f"{NAME}/{task}", 0.75, beats_floor=True) for task in TASKS])
EPISODES, FEW = 200, 20
"""Rooms of each task; rooms of floors and rows, as seeing rooms tick by tick takes long."""
REACH_ALONE, UNTAUGHT = "the reach skill alone", "untaught agent"
BY_SCRIPT = "the script, with the places that the head reads"
USUAL_SIZE_M = 0.05
NOTES = {
    "push": "a thing is pushed to within 0.1 m of a pillar",
    "grasp": "the named thing is lifted above all others, whatever was held before",
    "put-in": "the named thing lies in a box, released",
}


def examine(agent: Agent, context: Context) -> Exam:
    """For each task, the share of rooms in which it is done within 4 s."""
    return Exam.joined(_of_task(agent, context, task) for task in TASKS)


def _of_task(agent: Agent, context: Context, task: str) -> Exam:
    seeds = exam_seeds(context.episodes(EPISODES), context.seed, NAME, task)
    actor = handler(agent, len(seeds))
    values = tasks_done(actor, context, task, seeds)
    measure = Measure(
        f"{NAME}/{task}",
        "episodes with success",
        values,
        0.0,
        1.0,
        rate=True,
        episodes=of_worlds(context.make_world, "nursery", f"handle/{task}", seeds),
        answered=actor.counts,
        note=NOTES[task] + "; the ceiling is the script of the lessons with the true places",
    )
    return Exam([measure], lambda: [_beside(agent, context, task, seeds, measure)])


def lesson_episodes(context: Context, n: int) -> np.ndarray:
    """Rooms that lessons may show."""
    levels = [f"handle/{task}" for task in TASKS]
    return of_lessons(context.make_world, n, context.seed, "nursery", levels)


def tasks_done(policy: Policy, context: Context, task: str, seeds: np.ndarray, with_truth: bool = False) -> np.ndarray:
    """Whether a policy does the task in each room, float64 [N] of 0 and 1.

    Args:
        with_truth: the policy gets the truth in place of the senses.
    """
    world = context.make_world("nursery", f"handle/{task}", seeds)
    done = np.zeros(len(seeds), bool)

    def knowing(senses: Senses, first: np.ndarray) -> Actions:
        return policy(world.truth(), first)

    for tick in rollout(knowing if with_truth else policy, world, sparing=True):
        done |= tick.terminated
    return done.astype(np.float64)


def handler(agent: Agent, n: int, without: Sequence[str] = ()) -> Actor:
    """The agent, with the hand moved by the head `manipulate` alone."""
    return Actor(agent, n, effectors=[parts.REACH], without=without, standing={parts.REACH: (parts.MANIPULATE,)})


def _beside(agent: Agent, context: Context, task: str, seeds: np.ndarray, measure: Measure) -> Measure:
    """The measure with floors, rows, chance and ceiling, on the first rooms."""
    few, values = seeds[: context.episodes(FEW)], measure.values
    n, floors = len(few), {}

    def share(policy: Policy, with_truth: bool = False) -> float:
        return float(tasks_done(policy, context, task, few, with_truth).mean())

    by_chance = share(at_random(numpy_rng(context.seed, NAME, "random")))
    floors[UNTAUGHT] = share(handler(parts.untrained_agent(agent), n))
    if any(not agent.tap_of(name).on_trunk for name in agent.heads_of(parts.REACH)):
        floors[REACH_ALONE] = share(Actor(agent, n, effectors=[parts.REACH], trunk=False))
    rows = {"words off": share(handler(agent, n, ["words"])), "sight off": share(handler(agent, n, ["sight"]))}
    sight, script = Sight(agent, n), Script(task)
    rows[BY_SCRIPT] = share(lambda senses, first: script(sight(senses, first), first))
    with ablate_trunk(agent):
        rows["the trunk's features silenced"] = share(handler(agent, n))
    apart = held_out(context.make_world("nursery", f"handle/{task}", seeds).truth())
    if apart.any() and not apart.all():
        rows["held-out combination: a blue or green thing on the left"] = float(values[apart].mean())
        rows["without the held-out combination"] = float(values[~apart].mean())
    best = share(Script(task), with_truth=True)
    return replace(measure, chance=by_chance, ceiling=best, floors=floors, rows=rows)


@contextmanager
def ablate_trunk(agent: Agent) -> Iterator[None]:
    """A context in which the head gets no features of the trunk."""
    head: Any = agent.head(parts.MANIPULATE)
    head.silenced = frozenset({TRUNK})
    try:
        yield
    finally:
        head.silenced = frozenset()


def at_random(rng: np.random.Generator) -> Policy:
    """A random command each tick."""
    return lambda senses, first: {parts.REACH: rng.uniform(-1, 1, (len(first), 4)).astype(np.float32)}


class Sight:
    """What the script needs to know of a room, as the head reads it from the senses: for the row that shows what
    imagining adds to reading.
    """

    def __init__(self, agent: Agent, n: int) -> None:
        self.actor = Actor(agent, n, effectors=(), heads=(parts.MANIPULATE,))

    def __call__(self, senses: Senses, first: np.ndarray) -> dict[str, np.ndarray]:
        """`position` [N, 2, 3] and `size` [N, 2] (ASKED and GOAL), and `hand` [N, 3], in metres."""
        read: Any = self.actor.act(collate_tick(senses, first)).outputs[parts.MANIPULATE]
        places = in_room(read.places, read.body).cpu().numpy().astype(np.float64)
        likelier = read.places[:, [PILLAR_COLOUR, BOX_COLOUR], 0].argmax(-1).cpu().numpy()
        goal = places[np.arange(len(places)), np.array([PILLAR_COLOUR, BOX_COLOUR])[likelier]]
        hand = read.body[:, HAND].cpu().numpy() * HAND_SCALE_M
        position = np.zeros((len(places), 2, 3))
        position[:, ASKED], position[:, GOAL] = places[:, -1], goal
        return {"position": position, "size": np.full((len(places), 2), USUAL_SIZE_M), "hand": hand}


class Script:
    """Carries out the lesson's plans, knowing where everything is; makes a new one at the end of each."""

    def __init__(self, task: str) -> None:
        self.task = task

    def __call__(self, truth: Mapping[str, Any], first: np.ndarray) -> Actions:
        """`reach` float32 [N, 4]."""
        n = len(first)
        if first.all():
            self.at, self.waited, self.grip = np.full(n, HORIZON), np.zeros(n, int), np.full(n, -1.0)
            self.plan = np.zeros((n, *plans(truth, self.task)[0].shape[1:]))
        anew = self.at >= HORIZON
        self.plan = np.where(anew[:, None, None], plans(truth, self.task)[0], self.plan)
        self.at, self.waited = np.where(anew, 0, self.at), np.where(anew, 0, self.waited)
        aim = self.plan[np.arange(n), np.minimum(self.at, HORIZON - 1)]
        apart = np.clip(aim[:, :3] * UNIT_M + MIDDLE_M, HAND_LOW, HAND_HIGH) - truth["hand"]
        most = np.abs(apart).max(1)
        there = (most <= NEAR_M) | (self.waited >= PATIENCE)
        self.grip = np.where(there, np.sign(aim[:, 3]), self.grip)
        pace = MAX_REACH_M * np.where(aim[:, 4] > 0, 1.0, SLOW)
        move = np.where(there[:, None], 0.0, apart * np.minimum(1.0, pace / np.maximum(most, 1e-6))[:, None])
        self.at, self.waited = self.at + there, np.where(there, 0, self.waited + 1)
        return {parts.REACH: np.column_stack((move / MAX_REACH_M, self.grip)).astype(np.float32)}
