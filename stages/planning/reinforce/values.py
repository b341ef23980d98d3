"""Values of a plan's strides, by implicit Q-learning from trips that others walked.

A stride is an option of `STRIDE` ticks that leads from a place `s` to a place `s'`. V(s, g) is minus the cost, in
strides, of the best way from `s` to `g` that pieces of trips make up; Q(s, s', g) is the same if the next stride leads
to `s'`. So V between two neighbouring points of a plan says whether they are neighbours on foot: a stride through a
wall costs many strides. Goals are places that the same trip reaches later, or any places (hindsight, as in Park et al.
2023, "HIQL").
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import torch
from torch import Tensor, nn

from devmind.algorithms.diffusion import SPREAD_OUT, spread_out
from devmind.algorithms.implicit_q import follow, q_loss, q_target, value_loss
from devmind.worlds.pointmaze import MAZES
from stages.planning.judge import mlp
from stages.planning.parts import STRIDE
from stages.planning.places import CELLS, SPREAD, number_places, scale_places
from stages.planning.route.trips import Trips, one_hot

DISCOUNT = 0.98
"""Discount for each stride."""
EXPECTILE = 0.9
ELSEWHERE = 0.3
"""Share of goals that are places of any trip."""
CODE = 64


@dataclass
class Strides:
    """N strides of trips: here, there and goal [N, 2], maze [N, mazes]; ends bool [N], whether the stride reaches the
    goal; share [N], the part of the stride until then, or until the trip ends, else 1."""

    here: Tensor
    there: Tensor
    goal: Tensor
    maze: Tensor
    share: Tensor
    ends: Tensor

    def to(self, device: torch.device) -> Strides:
        """The same on `device`."""
        return Strides(*(getattr(self, one.name).to(device) for one in fields(self)))


def strides_of(trips: list[Trips], n: int, rng: np.random.Generator) -> Strides:
    """`n` strides, each with a goal of its own."""
    which = trips[int(rng.integers(len(trips)))]
    at = rng.integers(len(which.at), size=n)
    trip = np.searchsorted(which.begin, at, "right") - 1
    end = which.begin[trip + 1] - 1
    at = np.minimum(at, np.maximum(which.begin[trip], end - 1))
    until = at + 1 + (rng.random(n) * (end - at)).astype(np.int64).clip(0)
    until = np.minimum(until, end)
    anywhere = rng.random(n) < ELSEWHERE
    goal = np.where(anywhere[:, None], which.at[rng.integers(len(which.at), size=n)], which.at[until])
    ends = ~anywhere & (until - at <= STRIDE)
    there = np.where(ends, until, np.minimum(at + STRIDE, end))
    share = (there - at) / STRIDE
    numbers = (which.at[at], which.at[there], goal, np.repeat(one_hot(which.maze)[None], n, 0), share)
    here, to, aim, maze, part = (torch.from_numpy(np.asarray(column, np.float32)) for column in numbers)
    return Strides(here, to, aim, maze, part, torch.from_numpy(ends))


class StrideValues(nn.Module):
    """V, twin Q, and the target network of Q; `hidden` is the width of the networks."""

    def __init__(self, hidden: int = 128) -> None:
        super().__init__()
        self.begins, self.ends = (nn.Embedding(len(MAZES) * CELLS**2, CODE) for _ in range(2))
        seen = 4 * SPREAD_OUT + len(MAZES) + CODE
        self.v = mlp(seen, hidden, 1)
        self.q, self.slow = (mlp(seen + 2 * SPREAD_OUT + 2, hidden, 2) for _ in range(2))
        self.slow.load_state_dict(self.q.state_dict())
        self.slow.requires_grad_(False)

    def value(self, here: Tensor, goal: Tensor, maze: Tensor) -> Tensor:
        """V [...]: about minus the strides from `here` to `goal` [..., 2], at most 0."""
        value: Tensor = self.v(self._pair(here, goal, maze)).squeeze(-1)
        return value

    def losses(self, of: Strides) -> dict[str, Tensor]:
        """Losses by name."""
        # A stride costs its share of 1; unless it reaches the goal, the value where it leads is added.
        after = torch.where(of.ends, 0.0, self.value(of.there, of.goal, of.maze).detach())
        target = q_target(-of.share, DISCOUNT**of.share, after)
        stride = self._stride(of.here, of.there, of.goal, of.maze)
        value = value_loss(self.value(of.here, of.goal, of.maze), self.slow(stride).T, EXPECTILE)
        return {"value": value.mean(), "q": q_loss(self.q(stride).T, target).mean()}

    def followed(self) -> None:
        """Move the target network a little towards the learned one; call after each step."""
        follow(self.slow, self.q, 0.01)

    def _pair(self, here: Tensor, goal: Tensor, maze: Tensor) -> Tensor:
        code = self.begins(number_places(here, maze)) * self.ends(number_places(goal, maze))
        return torch.cat(
            (*(spread_out(scale_places(place)) for place in (here, goal)), maze[..., : len(MAZES)], code), -1
        )

    def _stride(self, here: Tensor, there: Tensor, goal: Tensor, maze: Tensor) -> Tensor:
        aside = 4 * (there - here) / SPREAD
        return torch.cat((self._pair(here, goal, maze), spread_out(scale_places(there)), aside), -1)


def teach_values(
    values: StrideValues, trips: list[Trips], steps: int, rng: np.random.Generator, rows: int = 512, rate: float = 1e-3
) -> list[dict[str, float]]:
    """Learn from trips for `steps` steps; gives the losses of each."""
    optimizer = torch.optim.AdamW([p for p in values.parameters() if p.requires_grad], lr=rate, weight_decay=1e-4)
    scalars = []
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = rate * min(1.0, 2 * (1 - step / steps))
        losses = values.losses(strides_of(trips, rows, rng).to(values.begins.weight.device))
        optimizer.zero_grad()
        torch.stack(list(losses.values())).sum().backward()
        optimizer.step()
        values.followed()
        scalars.append({name: float(value.detach()) for name, value in losses.items()})
    return scalars
