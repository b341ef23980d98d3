"""Plans as numbers alone, one a row, from which the planner learns without the trunk."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
from torch import Tensor

from devmind.agent.agent import Agent
from devmind.learners.gradient import GradientLearner, sum_losses
from devmind.worlds.pointmaze import UNIT, maze
from stages.planning.parts import ROUTE
from stages.planning.planner import PlannerHead
from stages.planning.route.trips import (
    AHEAD,
    PAIRS,
    Trips,
    detour_ticks,
    goal_of,
    one_hot,
    plan_between,
    stretch,
)

PARTS = ("denoiser", "begins", "ends", "dynamics", "sound")
"""Parts of the planner that plans teach."""
LOOKED_AT = 8
"""Places of a stride that are checked for walls."""


@dataclass
class Plans:
    """N plans, with leading dimension [N].

    Attributes:
        place, goal: [N, 2], the ends; maze: [N, mazes], one-hot.
        plan: [N, H, 2]; symbols: int64 [N, L].
        ahead: [N, 2], a place some ticks later; walk: [N, 2], the command that leads there.
        ticks: [N], which the way took.
    """

    place: Tensor
    goal: Tensor
    maze: Tensor
    plan: Tensor
    symbols: Tensor
    ahead: Tensor
    walk: Tensor
    ticks: Tensor

    def __len__(self) -> int:
        return len(self.place)

    def to(self, device: torch.device) -> Plans:
        """The same on `device`."""
        return Plans(**{name: value.to(device) for name, value in self._each()})

    def rows(self, index: Tensor) -> Plans:
        """The rows of `index`, which may name a row several times."""
        return Plans(**{name: value[index] for name, value in self._each()})

    def _each(self) -> list[tuple[str, Tensor]]:
        return [(one.name, getattr(self, one.name)) for one in fields(self)]


def draw_plans(trips: list[Trips], n: int, rng: np.random.Generator, pairs: tuple[int, ...] = PAIRS) -> Plans:
    """`n` plans cut out of trips, with goals and beginnings as in the lesson `route`, for an agent of size nursery.

    Args:
        pairs: numbers of pairs of places that may be drawn; of these the pair with the longest detour is taken.
    """
    rows: list[tuple[np.ndarray, ...]] = []
    while len(rows) < n:
        which = trips[int(rng.integers(len(trips)))]
        tried = [stretch(which, rng) for _ in range(rng.choice(pairs))]
        rows.append(_row(which, *max(tried, key=lambda pair: detour_ticks(which, *pair[2:]))[1:], rng))
    columns = (torch.from_numpy(np.stack(column)) for column in zip(*rows, strict=True))
    return Plans(*columns)


def _row(trips: Trips, end: int, at: int, there: int, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    goal = goal_of(trips, end, there)
    plan, symbols = plan_between(trips, at, there, goal)
    later = min(at + int(rng.integers(*AHEAD)), end)
    ticks = np.float32(there - at)
    return (trips.at[at], goal, one_hot(trips.maze), plan, symbols, trips.at[later], trips.walk[at], np.array(ticks))


def losses(head: PlannerHead, plans: Plans) -> dict[str, Tensor]:
    """The planner's losses on plans, by name (`PlannerHead.losses`)."""
    route = head.thinking(plans.place, plans.goal, plans.maze)
    of = {"plan": plans.plan, "symbols": plans.symbols, "ahead": plans.ahead, "walk": plans.walk}
    return head.losses(of, route.condition, route.present, route.maze, None)


def learner(agent: Agent, seed: int, steps: int, learning_rate: float) -> GradientLearner:
    """A learner that teaches the planner by batches of `Plans`, and no other part of the agent."""

    def loss(agent: Agent, batch: Any) -> tuple[Tensor, dict[str, Tensor]]:
        head: Any = agent.head(ROUTE)
        return sum_losses(losses(head, batch))

    trains = tuple(f"heads.{ROUTE}.{part}." for part in PARTS)
    return GradientLearner(agent, loss, seed=seed, learning_rate=learning_rate, steps=steps, trains=trains)


def teach(
    agent: Agent, plans: Plans, steps: int, rows: int, rate: float, seed: int, weights: Tensor | None = None
) -> None:
    """Teach the planner for `steps` steps of `rows` plans.

    Args:
        weights: [N], relative frequency with which each plan is drawn; by default all alike.
    """
    learns = learner(agent, seed, steps, rate)
    generator = torch.Generator().manual_seed(seed)
    share = torch.ones(len(plans)) if weights is None else weights.cpu()
    torch.manual_seed(seed)
    agent.train()
    for step in range(steps):
        learns.update(plans.rows(torch.multinomial(share, rows, replacement=True, generator=generator)), step)
    agent.eval()


def holding(name: str, plans: np.ndarray) -> np.ndarray:
    """Whether plans [N, H, 2] in the maze `name` lead through no wall, bool [N]: by the maze itself, for measuring."""
    share = np.arange(LOOKED_AT)[:, None] / LOOKED_AT
    along = plans[:, :-1, None] + share * (plans[:, 1:, None] - plans[:, :-1, None])
    return np.asarray(maze(name).inside(along.reshape(len(plans), -1, 2) * UNIT).all(1))
