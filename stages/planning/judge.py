"""The judge of plans: whether one can be carried out, and if not, where it fails and why.

A plan is put before the agent as the sense `draft`: its points, its moves, where it is to lead, in which maze, and how
many ticks there are. The judge reads it by itself, without the trunk. That a stride is too long, an end is elsewhere or
a plan takes too many ticks, is told by its numbers; where walls are is learned.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from devmind.agent.heads import Head, Inlet
from devmind.agent.output import Output, masked_mean
from devmind.agent.taps import Tapped
from devmind.algorithms.diffusion import SPREAD_OUT, spread_out
from stages.planning.critic import mlp

REASONS = ("collision", "blocked move", "unreachable", "over budget")
"""Why a plan fails: a stride runs into a wall; a move has no way where it comes; it does not end at its goal, or has a
stride that is longer than one can walk; it takes more ticks than there are."""
COLLISION, BLOCKED, UNREACHABLE, LATE = range(len(REASONS))
MOVES = ((0, 0), (1, 0), (0, 1), (-1, 0), (0, -1))
"""What each word of a plan adds to (column, row); the first one adds nothing."""
ENDED = 0.02
"""A stride that is shorter is none."""
NUMBERS = 3
"""What of a plan tells whether it comes there in time."""


def draft(points: np.ndarray, words: np.ndarray, goal: np.ndarray, maze: np.ndarray, ticks: float) -> np.ndarray:
    """The sense `draft` of a plan, float32: points [H, 2], words [L], goal [2], the maze (one-hot), ticks there are."""
    return np.concatenate((points.ravel(), words, goal, maze, [ticks / 1000])).astype(np.float32)


def draft_size(horizon: int, length: int, mazes: int) -> int:
    """Numbers of a draft."""
    return 2 * horizon + length + 2 + mazes + 1


@dataclass
class Judgement(Output):
    """Log odds that a plan fails.

    Attributes:
        strides: [..., H - 1], at each stride by running into a wall.
        moves: [..., L], at each move since there is no way.
        whole: [..., 2], since it is unreachable, and over budget.
    """

    strides: Tensor
    moves: Tensor
    whole: Tensor

    @property
    def reasons(self) -> Tensor:
        """Log odds of each of REASONS, [..., 4]."""
        return torch.cat((self.strides.amax(-1, keepdim=True), self.moves.amax(-1, keepdim=True), self.whole), -1)

    def flawed(self) -> Tensor:
        """How probable it is that the plan fails in any way, [...]."""
        return -torch.expm1(F.logsigmoid(-self.reasons).sum(-1))

    def mode(self) -> Tensor:
        """0 for a sound plan, else 1 and the likeliest of REASONS, int64 [...]."""
        return torch.where(self.flawed() > 0.5, 1 + self.reasons.argmax(-1), 0)

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        """The same, whether it fails being drawn."""
        flawed = self.flawed()
        drawn = torch.rand(flawed.shape, generator=generator, device=flawed.device) < flawed
        return torch.where(drawn, 1 + self.reasons.argmax(-1), 0)

    def where(self) -> Tensor:
        """At which stride or move it fails, int64 [...]; of a plan that fails as a whole, or not at all, -1."""
        reason = self.mode() - 1
        found = torch.where(reason == COLLISION, self.strides.argmax(-1), self.moves.argmax(-1))
        return torch.where((reason == COLLISION) | (reason == BLOCKED), found, -1)

    def verdict(self, row: int) -> str:
        """One sentence on one plan of [N, ...]."""
        reason, sure = int(self.mode()[row]), f"{100 * float(self.flawed()[row]):.0f} % sure that it fails"
        if not reason:
            return f"judged sound ({sure})"
        at = int(self.where()[row])
        what = {COLLISION: "stride", BLOCKED: "move"}.get(reason - 1)
        return f"judged to fail: {REASONS[reason - 1]}{f' at {what} {at + 1}' if what else ''} ({sure})"

    def loss(self, target: Any, mask: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
        """Nats of what is told of each stride, each move and the whole.

        Args:
            target: `hit` [..., H - 1] and `stuck` [..., L], 1, 0, or -1 where nothing is known; `reason` int64 [...].
        """
        one_of = F.one_hot(target["reason"], 1 + len(REASONS))[..., 1:].float()
        parts = [
            masked_mean(_nats(told, target[name]), (target[name] >= 0) & (True if mask is None else mask[..., None]))
            for told, name in ((self.strides, "hit"), (self.moves, "stuck"))
        ]
        return torch.stack([*parts, masked_mean(_nats(self.reasons, one_of), mask)]).sum()


def _nats(log_odds: Tensor, happened: Tensor) -> Tensor:
    return F.binary_cross_entropy_with_logits(log_odds, happened.clamp_min(0).to(log_odds.dtype), reduction="none")


class JudgeHead(Head):
    """Taps `raw:draft`: 2 H numbers of points, L of moves, 2 of the goal, one for each maze, and the ticks there are.

    Args:
        horizon, length, mazes: H, L and how many mazes there are.
        stride: ticks between two points; pace, cell: what one walks in a tick, a cell's side, in the senses' units.
        middle, spread: the senses' numbers are taken off the first and divided by the second.
        hidden: width of the networks.
    """

    def __init__(
        self,
        inlet: Inlet,
        horizon: int,
        length: int,
        mazes: int,
        stride: int = 16,
        pace: float = 0.02,
        cell: float = 0.4,
        middle: float = 1.5,
        spread: float = 1.0,
        hidden: int = 192,
    ) -> None:
        super().__init__(inlet)
        self.horizon, self.length, self.mazes = horizon, length, mazes
        self.stride, self.pace, self.cell, self.middle, self.spread = stride, pace, cell, middle, spread
        seen = 6 * SPREAD_OUT + 2 + 2 * mazes
        self.ways, self.times = mlp(seen, hidden, 2), mlp(NUMBERS, 32, 2)

    def forward(self, tapped: Tapped) -> Judgement:
        draft = (tapped.tokens * tapped.present[..., None])[..., -1, :]
        sizes = (2 * self.horizon, self.length, 2, self.mazes, 1)
        points, words, goal, maze, budget = draft[..., : sum(sizes)].split(sizes, -1)
        plan = points.unflatten(-1, (self.horizon, 2))
        corners = self._corners(plan[..., 0, :], words)
        return Judgement(
            self._ways(plan[..., :-1, :], plan[..., 1:, :], maze)[..., 0],
            self._ways(corners[..., :-1, :], corners[..., 1:, :], maze)[..., 1],
            self.times(self._numbers(plan, goal, budget)),
        )

    def doubts(self, plans: Tensor, maze: Tensor) -> Tensor:
        """Nats [...] that it costs plans [..., H, 2] in mazes [..., K], one-hot and maybe padded, to run into no wall:
        less the log probability that none of their strides does, each by itself."""
        hits = self._ways(plans[..., :-1, :], plans[..., 1:, :], maze[..., : self.mazes])[..., 0]
        return F.softplus(hits).sum(-1)

    def _corners(self, start: Tensor, words: Tensor) -> Tensor:
        """The middles of the cells that moves lead through, [..., L + 1, 2]."""
        known = torch.tensor(MOVES, device=words.device, dtype=start.dtype)
        steps = known[words.round().long().clamp(0, len(MOVES) - 1)]
        begin = (start / self.cell).round()[..., None, :]
        return torch.cat((begin, begin + steps.cumsum(-2)), -2) * self.cell

    def _ways(self, here: Tensor, there: Tensor, maze: Tensor) -> Tensor:
        """Log odds [..., K, 2] that there is no way from `here` to `there` [..., K, 2]: as a stride, and as a move."""
        here, there = (here - self.middle) / self.spread, (there - self.middle) / self.spread
        ends = torch.cat((spread_out(here), spread_out(there), spread_out((here + there) / 2)), -1)
        which = maze[..., None, :].expand(*here.shape[:-1], self.mazes)
        return self.ways(torch.cat((ends, 4 * (there - here), which, which * here[..., :1]), -1))

    def _numbers(self, plan: Tensor, goal: Tensor, budget: Tensor) -> Tensor:
        """How far the end is from the goal and how long the longest stride is, by what one walks in a stride; and by
        how much the ticks that it takes are more than there are, as a logarithm."""
        strides = (plan[..., 1:, :] - plan[..., :-1, :]).norm(dim=-1)
        far = self.stride * self.pace
        takes = self.stride * (strides > ENDED).sum(-1, keepdim=True).clamp_min(1)
        late = (takes / (1000 * budget).clamp_min(1.0)).log()
        end = (plan[..., -1, :] - goal).norm(dim=-1, keepdim=True)
        return torch.cat((end / far, strides.amax(-1, keepdim=True) / far, 4 * late), -1)
