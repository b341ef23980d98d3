"""The judge of plans: whether a plan can be carried out, and if not, where it fails and why.

The sense `draft` is a plan: its points, its moves, its goal, its maze, and the ticks available. The judge reads it
without the trunk. The plan's numbers show that a stride is too long, that the end is not the goal, or that the plan
takes too many ticks; where walls are is learned.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from devmind.agent.heads import Head, Inlet
from devmind.agent.output import Output, masked_mean
from devmind.agent.taps import Tapped
from devmind.algorithms.diffusion import SPREAD_OUT, spread_out
from stages.planning.places import CELL_SIDE, WALKED, scale_places

REASONS = ("collision", "blocked move", "unreachable", "over budget")
"""Why a plan fails: a stride runs into a wall; a move leads into a wall; the plan does not end at its goal, or has a
stride that is too long to walk; it takes more ticks than there are."""
COLLISION, BLOCKED, UNREACHABLE, LATE = range(len(REASONS))
MOVES = ((0, 0), (1, 0), (0, 1), (-1, 0), (0, -1))
"""What each symbol of a plan adds to (column, row); the first adds nothing."""
ENDED = 0.02
"""Length below which a stride counts as standing."""
NUMBERS = 3
"""Numbers that show whether a plan arrives, and in time (`JudgeHead._numbers`)."""


def draft(points: np.ndarray, words: np.ndarray, goal: np.ndarray, maze: np.ndarray, ticks: float) -> np.ndarray:
    """The sense `draft` of a plan, float32: points [H, 2], symbols [L], goal [2], maze (one-hot), ticks available."""
    return np.concatenate((points.ravel(), words, goal, maze, [ticks / 1000])).astype(np.float32)


def draft_size(horizon: int, length: int, mazes: int) -> int:
    """Numbers of a draft."""
    return 2 * horizon + length + 2 + mazes + 1


@dataclass
class Judgement(Output):
    """Log odds that a plan fails.

    Attributes:
        strides: [..., H - 1], that each stride runs into a wall.
        moves: [..., L], that each move leads into a wall.
        whole: [..., 2], that the plan is unreachable, and that it is over budget.
    """

    strides: Tensor
    moves: Tensor
    whole: Tensor

    @property
    def reasons(self) -> Tensor:
        """Log odds of each of REASONS, [..., 4]."""
        return torch.cat((self.strides.amax(-1, keepdim=True), self.moves.amax(-1, keepdim=True), self.whole), -1)

    def flawed(self) -> Tensor:
        """The probability that the plan fails for any reason, [...]."""
        return -torch.expm1(F.logsigmoid(-self.reasons).sum(-1))

    def mode(self) -> Tensor:
        """0 for a sound plan, else 1 plus the number of the likeliest of REASONS, int64 [...]."""
        return torch.where(self.flawed() > 0.5, 1 + self.reasons.argmax(-1), 0)

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        """As `mode`, but whether the plan fails is drawn."""
        flawed = self.flawed()
        drawn = torch.rand(flawed.shape, generator=generator, device=flawed.device) < flawed
        return torch.where(drawn, 1 + self.reasons.argmax(-1), 0)

    def where(self) -> Tensor:
        """The stride or move at which the plan fails, int64 [...]; -1 if it fails as a whole or not at all."""
        reason = self.mode() - 1
        place = torch.where(reason == COLLISION, self.strides.argmax(-1), self.moves.argmax(-1))
        return torch.where((reason == COLLISION) | (reason == BLOCKED), place, -1)

    def verdict(self, row: int) -> str:
        """One sentence on one plan of [N, ...]."""
        reason, sure = int(self.mode()[row]), f"{100 * float(self.flawed()[row]):.0f} % sure that it fails"
        if not reason:
            return f"judged sound ({sure})"
        at = int(self.where()[row])
        what = {COLLISION: "stride", BLOCKED: "move"}.get(reason - 1)
        return f"judged to fail: {REASONS[reason - 1]}{f' at {what} {at + 1}' if what else ''} ({sure})"

    def loss(self, target: Any, mask: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
        """Nats of strides, moves and reasons, summed.

        Args:
            target: `hit` [..., H - 1] and `stuck` [..., L], 1, 0, or -1 where unknown; `reason` int64 [...].
        """
        one_of = F.one_hot(target["reason"], 1 + len(REASONS))[..., 1:].float()
        parts = [
            masked_mean(_nats(logits, target[name]), (target[name] >= 0) & (True if mask is None else mask[..., None]))
            for logits, name in ((self.strides, "hit"), (self.moves, "stuck"))
        ]
        return torch.stack([*parts, masked_mean(_nats(self.reasons, one_of), mask)]).sum()


def _nats(log_odds: Tensor, happened: Tensor) -> Tensor:
    return F.binary_cross_entropy_with_logits(log_odds, happened.clamp_min(0).to(log_odds.dtype), reduction="none")


class JudgeHead(Head):
    """Taps `raw:draft`: 2 H numbers of points, L of moves, 2 of the goal, one for each maze, and the ticks available.

    Args:
        horizon, length, mazes: H, L and the number of mazes.
        stride: ticks between two points; hidden: width of the networks.
    """

    def __init__(
        self, inlet: Inlet, horizon: int, length: int, mazes: int, stride: int = 16, hidden: int = 192
    ) -> None:
        super().__init__(inlet)
        self.horizon, self.length, self.mazes, self.stride = horizon, length, mazes, stride
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
        """The judge's doubt [...], in nats, that plans [..., H, 2] in mazes [..., K] (one-hot, may be padded) run into
        no wall: minus the log probability that none of their strides does, strides taken as independent."""
        hits = self._ways(plans[..., :-1, :], plans[..., 1:, :], maze[..., : self.mazes])[..., 0]
        return F.softplus(hits).sum(-1)

    def _corners(self, start: Tensor, words: Tensor) -> Tensor:
        """The middles of the cells that the moves lead through, [..., L + 1, 2]."""
        known = torch.tensor(MOVES, device=words.device, dtype=start.dtype)
        steps = known[words.round().long().clamp(0, len(MOVES) - 1)]
        begin = (start / CELL_SIDE).round()[..., None, :]
        return torch.cat((begin, begin + steps.cumsum(-2)), -2) * CELL_SIDE

    def _ways(self, here: Tensor, there: Tensor, maze: Tensor) -> Tensor:
        """Log odds [..., K, 2] that no way leads from `here` to `there` [..., K, 2]: as a stride, and as a move."""
        here, there = scale_places(here), scale_places(there)
        ends = torch.cat((spread_out(here), spread_out(there), spread_out((here + there) / 2)), -1)
        which = maze[..., None, :].expand(*here.shape[:-1], self.mazes)
        return self.ways(torch.cat((ends, 4 * (there - here), which, which * here[..., :1]), -1))

    def _numbers(self, plan: Tensor, goal: Tensor, budget: Tensor) -> Tensor:
        """Distance from the end to the goal and length of the longest stride, both in units of a walked stride; and the
        logarithm of the ticks that the plan takes by those available."""
        strides = (plan[..., 1:, :] - plan[..., :-1, :]).norm(dim=-1)
        far = self.stride * WALKED
        takes = self.stride * (strides > ENDED).sum(-1, keepdim=True).clamp_min(1)
        late = (takes / (1000 * budget).clamp_min(1.0)).log()
        end = (plan[..., -1, :] - goal).norm(dim=-1, keepdim=True)
        return torch.cat((end / far, strides.amax(-1, keepdim=True) / far, 4 * late), -1)


def mlp(n_in: int, hidden: int, n_out: int) -> nn.Sequential:
    """A network with two hidden layers."""
    layers = [nn.Linear(n_in, hidden), nn.SiLU(), nn.Linear(hidden, hidden), nn.SiLU(), nn.Linear(hidden, n_out)]
    return nn.Sequential(*layers)
