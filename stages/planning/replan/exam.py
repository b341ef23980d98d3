"""The exam of replan: a passage closes on the way, the goal moves on the way, and rooms in which no way is left."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from devmind.acting import Actor, Policy, Senses, rollout
from devmind.acting.rollout import Transition
from devmind.agent.agent import Agent
from devmind.agent.config import by_size
from devmind.agent.device import place
from devmind.curriculum.episodes import of_lessons, of_worlds
from devmind.curriculum.exam import Measure, Parts, in_parts
from devmind.curriculum.gate import Gate, Threshold
from devmind.curriculum.stage import Context
from devmind.seeding import exam_seeds
from devmind.worlds.pointmaze import BLOCKED, CLOSING, MAZES, MOVING, UNIT, oracle_way
from devmind.worlds.side_by_side import Joined
from stages.planning.parts import ROUTE, WALK
from stages.planning.planner import BELIEF, REPLANNING
from stages.planning.route.exam import find_ablated
from stages.planning.route.lesson import LEVELS

CLOSED, MOVED, NO_WAY = "replan/closed", "replan/moved", "replan/no way"
# A goal that moves is seen: planning by the clock reaches it too, later, so that floor may be at the ceiling.
GATE = Gate([Threshold(name, 0.90, beats_floor=name != MOVED) for name in (CLOSED, MOVED, NO_WAY)])
EPISODES, FEW, FEWER = 200, 80, 40
"""Episodes of each kind in all mazes together: of an exam, of a glimpse, of the first plan alone, and of the two floors
that plan anew for 1,000 ticks, which cost most of an exam.
"""
HAPPENS = (CLOSING, MOVING, BLOCKED)
STILL_TICKS, STILL = 100, 0.1
"""An agent that follows one plan to its end and moves less than this (OGBench's units) in so many ticks stands at a
wall or at the end of its plan: its state will not change any more.
"""
SHUT_OFF_TICKS = 20
"""Ticks between two checks whether a way is left, for agents that never say that there is none: without a way their
result is known."""
TICKS = by_size(None, tiny=100)
"""Ticks after which episodes are cut at a size that only tries the code: an untaught agent would walk to the end."""
OPEN_LOOP, CLOCK, UNTAUGHT = "open loop: the first plan alone", "plans at fixed times, without memory", "untaught agent"


@dataclass(frozen=True)
class Outcome:
    """Results of episodes, bool [N]: whether each arrived, and whether the agent said that there is no plan."""

    arrived: np.ndarray
    none: np.ndarray

    @staticmethod
    def joined(parts: Sequence[Outcome]) -> Outcome:
        """The results of all parts, one after another."""
        return Outcome(np.concatenate([one.arrived for one in parts]), np.concatenate([one.none for one in parts]))


@in_parts
def examine(agent: Agent, context: Context) -> Parts:
    """Whether the agent arrives although a passage closes, or the goal moves; and whether it says "there is no plan"
    where no way is left, and not where one is.
    """
    counts: dict[str, dict[str, int]] = {}
    ours = _gone(agent, context, EPISODES, HAPPENS, counts)
    arrived = {
        what: Measure(
            name,
            "arrived",
            ours[what].arrived.astype(float),
            0.0,
            1.0,
            rate=True,
            note=note,
            rows={'said "there is no plan"': float(ours[what].none.mean())},
            answered=counts,
            episodes=_episodes(context, EPISODES, what),
        )
        for name, what, note in (
            (
                CLOSED,
                CLOSING,
                "a cell on all shortest paths closes during the episode, unseen; another path is left",
            ),
            (MOVED, MOVING, "at some tick the goal moves by four cells or more"),
        )
    }
    no_way = _no_way(context, ours)
    yield [*arrived.values(), no_way]
    new = place(Agent(agent.config), context.device).eval()
    others = {
        OPEN_LOOP: find_ablated(agent, REPLANNING, lambda: _gone(agent, context, FEW, HAPPENS, fixed=True)),
        CLOCK: find_ablated(agent, BELIEF, lambda: _gone(agent, context, FEWER, HAPPENS, believes=False)),
        UNTAUGHT: _gone(new, context, FEWER, HAPPENS),
    }
    floors = {
        what: {policy: float(outcomes[what].arrived.mean()) for policy, outcomes in others.items()} for what in arrived
    }
    full = [replace(measure, floors=floors[what]) for what, measure in arrived.items()]
    yield [*full, replace(no_way, floors=_saying_no_way(others))]


def _saying_no_way(others: dict[str, dict[str, Outcome]]) -> dict[str, float]:
    """Floors of right answers; each also as if it gave up where it has not arrived, which is all it can say without a
    belief of what is closed.
    """
    floors = {policy: float(_right(outcomes).mean()) for policy, outcomes in others.items()}
    floors |= {
        f"{policy}; 'no plan' if it did not arrive": float(
            np.concatenate((outcomes[CLOSING].arrived, ~outcomes[BLOCKED].arrived)).mean()
        )
        for policy, outcomes in others.items()
    }
    return floors | {"always": 0.5, "never": 0.5}


def _no_way(context: Context, ours: dict[str, Outcome]) -> Measure:
    """Right answers, in as many rooms without a way as rooms in which a passage closed and another way is left."""
    episodes = [_episodes(context, EPISODES, what) for what in (CLOSING, BLOCKED)]
    return Measure(
        NO_WAY,
        "answers that are right",
        _right(ours).astype(float),
        0.5,
        1.0,
        rate=True,
        note="a passage has closed; half of the rooms have a path left; the answer is part of the agent's state",
        rows={
            "said in rooms without a path": float(ours[BLOCKED].none.mean()),
            "said falsely in rooms with a path": float(ours[CLOSING].none.mean()),
        },
        episodes=np.concatenate(episodes),
    )


def _right(outcomes: dict[str, Outcome]) -> np.ndarray:
    """Whether the answer was right, first in rooms with a way, then in rooms without."""
    return np.concatenate((~outcomes[CLOSING].none, outcomes[BLOCKED].none))


def lesson_episodes(context: Context, n: int) -> np.ndarray:
    """The mazes of lessons, in which nothing happens."""
    return of_lessons(context.make_world, n, context.seed, "pointmaze", LEVELS[context.config.size])


def _seeds(context: Context, n: int, what: str) -> dict[str, np.ndarray]:
    """Seeds of about `n` episodes in all, by level of the world."""
    names = LEVELS[context.config.size]
    each = max(1, context.episodes(n) // len(names))
    return {name + what: exam_seeds(each, context.seed, "replan", name, what) for name in names}


def _episodes(context: Context, n: int, what: str) -> np.ndarray:
    """The identities of the episodes, maze by maze."""
    drawn = _seeds(context, n, what)
    return np.concatenate([of_worlds(context.make_world, "pointmaze", name, seeds) for name, seeds in drawn.items()])


def _gone(
    agent: Agent,
    context: Context,
    n: int,
    happens: Sequence[str],
    counts: dict[str, dict[str, int]] | None = None,
    fixed: bool = False,
    believes: bool = True,
) -> dict[str, Outcome]:
    """The agent's results in all mazes, by what happens there."""
    rooms = {name: seeds for what in happens for name, seeds in _seeds(context, n, what).items()}
    actor = Actor(agent, sum(map(len, rooms.values())), effectors=[WALK])
    outcomes = walk(actor, context, rooms, lambda: says_no_plan(actor), TICKS[context.config.size], fixed, believes)
    if counts is not None:
        counts |= actor.counts
    return {what: Outcome.joined([one for name, one in outcomes.items() if name.endswith(what)]) for what in happens}


def says_no_plan(actor: Actor) -> np.ndarray:
    """For which of the rows that were asked the agent says that there is no plan, bool, from the planner's state."""
    return np.asarray(actor.state.carry[f"head.{ROUTE}"]["none"].cpu().numpy())


def walk(
    policy: Policy,
    context: Context,
    rooms: Mapping[str, np.ndarray],
    said: Callable[[], np.ndarray],
    ticks: int | None = None,
    fixed: bool = False,
    believes: bool = True,
) -> dict[str, Outcome]:
    """Let a policy walk until every row has arrived or says that there is no plan, or `ticks` (1,000) are over.

    Args:
        rooms: seeds by level. All walk side by side, as a tick of the last few rows costs as much as one of many.
        said: whether the rows that were asked last say that there is no plan, bool [K].
        fixed: the policy follows one plan to its end, so a row that stands still will not move again and is cut.
        believes: False: the policy finds nothing closed and never says that there is no plan, so a row without a way
            is cut.
    """
    worlds = [context.make_world("pointmaze", name, seeds) for name, seeds in rooms.items()]
    ends = np.cumsum([0, *(world.num_envs for world in worlds)])
    parts = {name: slice(*ends[number : number + 2]) for number, name in enumerate(rooms)}
    arrived, none, settled = np.zeros((3, ends[-1]), bool)
    still = _still(MOVING in name for name, seeds in rooms.items() for _ in seeds) if fixed else None
    for tick in rollout(policy, Joined(worlds), ticks, sparing=True, done=settled):
        arrived |= tick.reward > 0
        now = none.copy()
        now[tick.asked] = said()
        none = np.where(settled, none, now & ~arrived)
        over = arrived | none
        for name, part in parts.items():
            # A row that sees no plan may take that back when its goal moves, so it walks on while others do.
            settled[part] |= over[part] & (MOVING not in name or over[part].all())
        if still is not None:
            settled |= still(tick)
        if not believes and tick.tick % SHUT_OFF_TICKS == 0:
            for (name, part), world in zip(parts.items(), worlds, strict=True):
                if BLOCKED in name:
                    settled[part] |= _oracle_stays(world, name)[1]
        if settled.all():
            break
    return {name: Outcome(arrived[part], none[part]) for name, part in parts.items()}


def _still(moving: Iterable[bool]) -> Callable[[Transition], np.ndarray]:
    """A function that says tick by tick which rows stood still in the last `STILL_TICKS`, bool [N]. Rows whose goal is
    `moving`, bool [N], count only after it has moved, as it may come to where they stand."""
    waits, marks = np.array(list(moving)), dict[str, np.ndarray]()
    found = np.zeros(len(waits), bool)

    def unmoved(tick: Transition) -> np.ndarray:
        goal, at = tick.following["goal"], tick.following["body"]
        begun = marks.setdefault("goal", tick.senses["goal"])
        if tick.tick % STILL_TICKS == 0:
            distance = np.linalg.norm(at - marks.get("at", np.inf), axis=1) * UNIT
            found[:] = (distance < STILL) & (~waits | (goal != begun).any(1))
            marks["at"] = at
        return found

    return unmoved


def _oracle_stays(world: Any, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Commands [N, 2] of the oracle, which sees the shut doors, and bool [N], whether no way leads to the goal."""
    truth = world.truth()
    (maze,) = (one for one in MAZES if name.startswith(one))
    doors = [(int(r), int(c)) if shut else None for (r, c), shut in zip(truth["door"], truth["shut"], strict=True)]
    walk = oracle_way(maze, truth["at"], truth["goal"], doors)
    return walk, (walk == 0).all(1)


def knowing(context: Context, name: str, seeds: np.ndarray) -> Outcome:
    """The ceiling: the oracle, which sees the shut doors and says where no way is left."""
    world, state = context.make_world("pointmaze", name, seeds), np.zeros(len(seeds), bool)

    def way(senses: Senses, first: np.ndarray) -> dict[str, np.ndarray]:
        walk, state[:] = _oracle_stays(world, name)
        return {WALK: walk}

    arrived = np.zeros(len(seeds), bool)
    for tick in rollout(way, world):
        arrived |= tick.reward > 0
        if (arrived | state).all():
            break
    return Outcome(arrived, state & ~arrived)
