"""The exam of arrange: the agent sorts tables that no lesson had, by its own plans; on some a thing is moved meanwhile.

The skill's gate compares, table by table, the hybrid and a control in the same head that imagines trajectories alone.
Both were taught as long on the same batches, have one size, read the same, are followed by the same hand, and plan anew
for the same reasons.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from devmind.acting import Actor, Policy, Senses, rollout
from devmind.acting.rollout import Actions
from devmind.agent.agent import Agent
from devmind.curriculum.episodes import of_lessons, of_worlds
from devmind.curriculum.exam import Measure, Parts, in_parts
from devmind.curriculum.gate import Gate, Threshold
from devmind.curriculum.stage import Context
from devmind.seeding import exam_seeds, torch_generator
from devmind.worlds.tabletop import LEVELS as LEVEL_THINGS
from devmind.worlds.tabletop import MOVED, PACE, PLACE_RADIUS, PLACES, THINGS
from stages.planning import parts
from stages.planning.arrange import lesson
from stages.planning.arrange.demonstrations import NEAR, held_out
from stages.planning.arrange.head import HYBRID, REPLANNING, TRAJECTORY, TRUNK
from stages.planning.imagining import HALF, confusion

NAME = lesson.NAME
TWO, THREE, ABOVE, REPLANNED = f"{NAME}/two", f"{NAME}/three", f"{NAME}/above trajectories", f"{NAME}/replanned"
GATE = Gate(
    [
        Threshold(ABOVE, 0.0, beats_floor=True),
        Threshold(REPLANNED, 0.90),
        Threshold(TWO, 0.90, goal=True),
        Threshold(THREE, 0.83, goal=True),
    ]
)
EPISODES, FEW, FEWER = 300, 60, 20
"""Episodes of each kind; episodes of floors and rows, which would otherwise take longer than the exam itself; and of
those that plan anew again and again, such as an untaught agent.
"""
BY_HAND, UNTAUGHT, FIRST_ALONE = "nearest first, by hand", "untaught agent", "the first plan alone"
REFERENCE = "Hoeg et al. 2025 (arXiv 2509.21983), sorting with a robot's arm: hybrid 0.83, trajectory only 0.46"
Way = Callable[[], Policy]


@dataclass(frozen=True)
class Tables:
    """Tables to be sorted: the level of the world, and a seed for each."""

    context: Context
    level: str
    seeds: np.ndarray

    def few(self, n: int = FEW) -> Tables:
        """The first few of them."""
        return Tables(self.context, self.level, self.seeds[: self.context.episodes(n)])

    def world(self) -> Any:
        """A world in which they begin."""
        return self.context.make_world("tabletop", self.level, self.seeds)

    def sorted_by(self, policy: Policy) -> np.ndarray:
        """Whether a policy sorts each in time, float64 [N] of 0 and 1."""
        done = np.zeros(len(self.seeds), bool)
        for tick in rollout(policy, self.world(), sparing=True):
            done |= tick.reward > 0
        return done.astype(np.float64)

    @property
    def episodes(self) -> np.ndarray:
        """Their identities."""
        return of_worlds(self.context.make_world, "tabletop", self.level, self.seeds)


@in_parts
def examine(agent: Agent, context: Context) -> Parts:
    """The share of tables sorted, of two things, of three, and of three of which one is moved; and how many more tables
    are sorted than by trajectories alone.
    """
    two, three, moved = (_tables(context, kind) for kind in ("two", "three", "three" + MOVED))
    actors = {tables.level: _actor(agent, tables) for tables in (two, three, moved)}
    ours = {tables.level: tables.sorted_by(actors[tables.level]) for tables in (two, three, moved)}
    with with_attributes(agent, way=TRAJECTORY):
        control = three.sorted_by(_actor(agent, three))
    measures = {
        name: Measure(
            name,
            "sorted",
            ours[tables.level],
            0.0,
            1.0,
            rate=True,
            episodes=tables.episodes,
            reference=REFERENCE if tables is three else "",
            answered=actors[tables.level].counts,
            note="during the episode a thing that is neither held nor sorted is moved elsewhere"
            if tables is moved
            else "mode changes: how often the target of a step changes during denoising; confused: plans with two "
            "steps at the same target",
        )
        for name, tables in ((TWO, two), (THREE, three), (REPLANNED, moved))
    }
    above = Measure(
        ABOVE,
        "sorted, minus sorted by trajectories alone",
        ours["three"] - control,
        0.0,
        1.0,
        floors={"trajectories alone": 0.0},
        episodes=three.episodes,
        reference=REFERENCE,
        note="paired on each table of three things; the control denoises points alone, by a network of the same "
        "size in the same head, taught as long on the same batches, and replans for the same reasons; goal 0.25",
    )
    yield [*measures.values(), above]
    with with_attributes(agent, way=TRAJECTORY):
        alone = two.few(FEWER).sorted_by(_actor(agent, two.few(FEWER)))
    floors = {name: _floors(agent, tables) for name, tables in ((TWO, two), (THREE, three), (REPLANNED, moved))}
    rows = {
        TWO: {"trajectory only": float(alone.mean()), **_imagined(agent, two)},
        THREE: {
            "trajectory only": float(control.mean()),
            **_imagined(agent, three),
            **_rows(agent, three, ours["three"]),
        },
        REPLANNED: {},
    }
    full = [replace(measure, floors=floors[name], rows=rows[name]) for name, measure in measures.items()]
    yield [*full, above]


def lesson_episodes(context: Context, n: int) -> np.ndarray:
    """Tables that lessons may show."""
    return of_lessons(context.make_world, n, context.seed, "tabletop", list(lesson.LEVELS))


def _tables(context: Context, kind: str) -> Tables:
    return Tables(context, kind, exam_seeds(context.episodes(EPISODES), context.seed, NAME, kind))


def _actor(agent: Agent, tables: Tables, without: Sequence[str] = ()) -> Any:
    return Actor(agent, len(tables.seeds), effectors=[parts.ARM], without=without)


@contextmanager
def with_attributes(agent: Agent, **how: Any) -> Iterator[None]:
    """A context in which the head has other attributes: `way`, `silenced`, `candidates`, `follow`."""
    head: Any = agent.head(parts.ARRANGE)
    before = {name: getattr(head, name) for name in how}
    for name, value in how.items():
        setattr(head, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(head, name, value)


def _floors(agent: Agent, tables: Tables) -> dict[str, float]:
    few, fewer = tables.few(), tables.few(FEWER)
    floors = {
        BY_HAND: tables.sorted_by(nearest_first),
        UNTAUGHT: fewer.sorted_by(_actor(parts.untrained_agent(agent), fewer)),
    }
    with with_attributes(agent, silenced=frozenset({REPLANNING})):
        floors[FIRST_ALONE] = few.sorted_by(_actor(agent, few))
    return {name: float(values.mean()) for name, values in floors.items()}


def _rows(agent: Agent, three: Tables, values: np.ndarray) -> dict[str, float]:
    """Results on tables of three things under changes."""
    few, fewer = three.few(), three.few(FEWER)
    rows = {}
    changes: dict[str, dict[str, Any]] = {
        "one candidate": {"candidates": 1},
        "a new plan for each thing": {"follow": 2},
        "trajectory only, a new plan for each thing": {"follow": 2, "way": TRAJECTORY},
        "trajectory only, the first plan alone": {"silenced": frozenset({REPLANNING}), "way": TRAJECTORY},
        "the trunk's features silenced": {"silenced": frozenset({TRUNK})},
    }
    for name, how in changes.items():
        some = fewer if "follow" in how else few
        with with_attributes(agent, **how):
            rows[name] = float(some.sorted_by(_actor(agent, some)).mean())
    for sense in ("things", "places"):
        rows[f"{sense} off"] = float(few.sorted_by(_actor(agent, few, [sense])).mean())
    apart = held_out(three.world().state())
    if apart.any() and not apart.all():
        rows["held-out combination: a thing of the second kind in the upper right quarter"] = float(
            values[apart].mean()
        )
        rows["without the held-out combination"] = float(values[~apart].mean())
    return rows


def _imagined(agent: Agent, tables: Tables) -> dict[str, float]:
    """Mode changes and confused plans among the first plans of hybrid and control."""
    rows: dict[str, float] = {}
    n = len(tables.seeds)
    actor = _actor(agent, tables)
    actor(tables.world().observe(), np.ones(n, bool))
    read: Any = actor.output.outputs[parts.ARRANGE]
    for way, named in ((HYBRID, "hybrid"), (TRAJECTORY, "trajectory only")):
        with with_attributes(agent, way=way):
            head: Any = agent.head(parts.ARRANGE)
            chance = head.imaginer.chance(n, torch_generator(NAME, "confusion"), agent.device)
            changes, twice = confusion(
                head.imaginer, read.condition, read.present, chance, 2 * LEVEL_THINGS[tables.level]
            )
        rows |= {f"mode changes of a plan, {named}": changes, f"confused plans, {named}": twice}
    return rows


def nearest_first(senses: Senses, first: np.ndarray) -> Actions:
    """A rule by hand: the nearest thing that is not sorted, to the nearest free place of its kind."""
    hand, n = np.asarray(senses["hand"], np.float64), len(first)
    things, places = (
        np.asarray(senses[name], np.float64).reshape(n, -1, 4) for name in ("things", "places")
    )  # x, y, kind, there
    rows, holds, at = np.arange(n), hand[:, 3] > HALF, hand[:, :2]
    there = things[..., 3] > HALF
    distance = np.where(there, np.linalg.norm(things[..., :2] - at[:, None], axis=-1), np.inf)
    held = distance.argmin(1)
    others = there & ~(holds[:, None] & (np.arange(THINGS) == held[:, None]))
    inside = (np.linalg.norm(things[:, :, None, :2] - places[:, None, :, :2], axis=-1) <= PLACE_RADIUS) & others[
        ..., None
    ]
    alike = things[:, :, None, 2] == places[:, None, :, 2]
    done = (inside & alike & (inside.sum(1, keepdims=True) == 1)).any(2)
    thing = np.where(others & ~done, distance, np.inf).argmin(1)
    free = ~inside.any(1) & alike[rows, held] & (places[..., 3] > HALF)
    place = np.where(free, np.linalg.norm(places[..., :2] - at[:, None], axis=-1), np.inf).argmin(1)
    aim = np.where(holds[:, None], places[rows, place, :2], things[rows, thing, :2])
    apart = aim - at
    near = np.abs(apart).max(1) <= NEAR
    grip = np.where(holds ^ near, 1.0, -1.0)
    move = np.where(near[:, None], 0.0, np.clip(apart / PACE, -1, 1))
    # A closed, empty hand would push what it meets, so it opens first.
    grip = np.where(~holds & (hand[:, 2] > HALF), -1.0, grip)
    assert places.shape[1] == PLACES
    return {parts.ARM: np.column_stack((move, grip))}
