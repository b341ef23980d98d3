"""Teaching the planner's denoiser by the returns of plans: weighted regression, and a policy gradient over its steps.

Weighted regression (AWR: Peng et al. 2019) learns plans as in the lesson, but more often those whose return was above
the value expected at their beginning. Plans are others' trips (offline) or the agent's own walks (online). The policy
gradient (DDPO: Black et al. 2023, arXiv 2305.13301) treats denoising as an episode of several steps, each of which
draws symbols or a less noisy trajectory. It makes steps likelier that led to plans worth more than others to the same
goal.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from devmind.acting import Actor, rollout
from devmind.agent.agent import Agent
from devmind.algorithms.diffusion.schedules import gumbel, noised
from devmind.algorithms.implicit_q import advantage_weights
from devmind.errors import ConfigError
from devmind.worlds import make as make_world
from stages.planning.parts import ROUTE, STRIDE, WALK
from stages.planning.places import scaled, unscaled
from stages.planning.planner import PlannerHead
from stages.planning.reinforce.plans import PARTS, Plans
from stages.planning.reinforce.values import DISCOUNT, StrideValues
from stages.planning.route.trips import Trips

TEMPERATURE = 1.0
"""Temperature of advantages, in strides."""
LAST = 0.03
"""Standard deviation of the last step's trajectory about the network's answer, in the denoiser's numbers."""
Return = Callable[[Tensor, Tensor], Tensor]
"""`(plans [N, H, 2] in the senses' units, maze [N, mazes]) -> [N]`."""


def advantages(values: StrideValues, plans: Plans) -> Tensor:
    """By how many strides each way [N] was shorter than the value expected at its beginning."""
    gone = plans.ticks / STRIDE
    with torch.no_grad():
        expected = values.value(plans.place, plans.goal, plans.maze)
    return -(1 - DISCOUNT**gone) / (1 - DISCOUNT) - expected


def weights(values: StrideValues, plans: Plans) -> Tensor:
    """Relative frequency with which each plan [N] is to be learned."""
    return advantage_weights(advantages(values, plans), TEMPERATURE, 20.0)


def own_trips(agent: Agent, maze: str, seeds: np.ndarray, ticks: int) -> Trips:
    """Walks of the agent's Actor from any cell to any other, those that arrived.

    Raises:
        ConfigError: none arrived.
    """
    world = make_world("pointmaze", maze, seeds)
    goal = world.observe()["goal"]
    at, walk, there = [world.observe()["body"]], [], np.full(len(seeds), -1)
    with torch.inference_mode():
        for tick in rollout(Actor(agent, len(seeds), effectors=[WALK]), world, ticks):
            at.append(tick.following["body"])
            walk.append(tick.actions[WALK])
            there = np.where((tick.reward > 0) & (there < 0), len(walk), there)
    rows = np.flatnonzero(there > 0)
    if not len(rows):
        raise ConfigError(
            f"None of {len(seeds)} walks arrived within {ticks} ticks, so there is nothing to learn from."
        )
    places = [np.stack([one[row] for one in at[: there[row] + 1]]) for row in rows]
    walks = [np.stack([*(one[row] for one in walk[: there[row]]), np.zeros(2)]).astype(np.float32) for row in rows]
    begin = np.concatenate(([0], np.cumsum([len(one) for one in places])))
    return Trips(maze, np.concatenate(places), np.concatenate(walks), begin, goal[rows], int(len(seeds) * len(walk)))


@dataclass
class Drawing:
    """How plans of N rows were drawn: the beginning and the result of each step.

    Attributes:
        words: for each step of the symbols: int64 [N, L] before, and after.
        points: for each step of the trajectory: [N, H, C] before, its noise level, after, the level after.
        plans: [N, H, C], in the denoiser's numbers.
    """

    words: list[tuple[Tensor, Tensor]]
    points: list[tuple[Tensor, float, Tensor, float]]
    plans: Tensor


class PolicyGradient:
    """REINFORCE on its own draws: raises the log probability of denoising steps by the advantage of their plan.

    Args:
        worth: the return to be raised.
        each: plans drawn for each goal; a plan's advantage is its return less their mean.
        word_steps, levels: steps in which symbols, and trajectories, are drawn.
    """

    def __init__(
        self, agent: Agent, worth: Return, rate: float, each: int = 4, word_steps: int = 4, levels: int = 3
    ) -> None:
        head = agent.head(ROUTE)
        assert isinstance(head, PlannerHead)
        self.head, self.worth, self.each, self.word_steps, self.levels = head, worth, each, word_steps, levels
        parts = [getattr(head, part) for part in PARTS[:3]]
        self.optimizer = torch.optim.AdamW([p for part in parts for p in part.parameters()], lr=rate)

    def update(self, plans: Plans, generator: torch.Generator) -> tuple[float, float]:
        """One step for the beginnings and goals of `plans`; gives the drawn plans' mean return, and its spread."""
        n = len(plans)
        place, goal, maze = (value.repeat_interleave(self.each, 0) for value in (plans.place, plans.goal, plans.maze))
        drawn = self.draw(place, goal, maze, generator)
        worth = self.worth(unscaled(drawn.plans), maze)
        by_goal = worth.unflatten(0, (n, self.each))
        beside = (by_goal - by_goal.mean(1, keepdim=True)).flatten()
        advantage = beside / beside.std().clamp_min(1e-6)
        loss = -(advantage * self.log_prob(drawn, place, goal, maze)).mean()
        self.optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_([p for group in self.optimizer.param_groups for p in group["params"]], 1.0)
        self.optimizer.step()
        return float(worth.mean()), float(by_goal.std(1).mean())

    @torch.no_grad()
    def draw(self, place: Tensor, goal: Tensor, maze: Tensor, generator: torch.Generator) -> Drawing:
        """Draw plans for N rows, each with noise of its own."""
        head, form = self.head, self.head.denoiser.config
        tokens, n, mask = head.pipeline.token_scheduler, len(place), form.words
        symbols = torch.full((n, form.length), mask, device=place.device)
        x = torch.randn(n, form.horizon, form.channels, generator=generator).to(place.device)
        drawing = Drawing([], [], x)
        tokens.set_timesteps(self.word_steps, (0, 0))
        for step in range(self.word_steps):
            _, logits = self._denoised(x, 1.0, symbols, place, goal, maze)
            luck = gumbel(torch.rand(logits.shape, generator=generator)).to(place.device)
            after = tokens.step(logits + luck, self.word_steps - 1 - step, symbols).prev_sample
            drawing.words.append((symbols, after))
            symbols = after
        for step in range(self.levels):
            level, below = (1 - k / self.levels for k in (step, step + 1))
            clean, _ = self._denoised(x, level, symbols, place, goal, maze)
            mean, spread = self._mean(clean, below)
            after = mean + spread * torch.randn(x.shape, generator=generator).to(place.device)
            drawing.points.append((x, level, after, below))
            x = after
        drawing.plans = self._held(x, place, goal)
        return drawing

    def log_prob(self, drawing: Drawing, place: Tensor, goal: Tensor, maze: Tensor) -> Tensor:
        """Log probability of all steps [N], as means over symbols and over numbers so that both count."""
        tokens, total = self.head.pipeline.token_scheduler, torch.zeros(len(place), device=place.device)
        x = drawing.points[0][0]
        for before, after in drawing.words:
            _, logits = self._denoised(x, 1.0, before, place, goal, maze)
            total = total + tokens.log_prob(logits, before, after) / before.shape[1]
        symbols = drawing.words[-1][1]
        for x, level, after, below in drawing.points:
            clean, _ = self._denoised(x, level, symbols, place, goal, maze)
            mean, spread = self._mean(clean, below)
            total = total - ((after - mean) / spread).square()[:, 1:-1].mean((1, 2)) / (2 * len(drawing.points))
        return total

    def _denoised(
        self, x: Tensor, level: float, symbols: Tensor, place: Tensor, goal: Tensor, maze: Tensor
    ) -> tuple[Tensor, Tensor]:
        route = self.head.thinking(place, goal, maze)
        x = self._held(x, place, goal)
        fixed = F.pad(torch.zeros(len(x), x.shape[1] - 2, dtype=torch.bool, device=x.device), (1, 1), value=True)
        masked = (symbols == self.head.denoiser.config.words).float().mean(-1)
        clean, logits = self.head.denoiser(
            x, fixed, torch.full((len(x),), level, device=x.device), symbols, masked, route.thought, route.present
        )
        return self._held(clean, place, goal), logits

    def _held(self, x: Tensor, place: Tensor, goal: Tensor) -> Tensor:
        """A trajectory with place and goal at its ends."""
        ends = scaled(torch.stack((place, goal), 1))
        return torch.cat((ends[:, :1], x[:, 1:-1], ends[:, 1:]), 1)

    def _mean(self, clean: Tensor, level: float) -> tuple[Tensor, float]:
        """Mean and standard deviation of the draw at a noise level; at the last, `LAST` about the network's answer."""
        if level <= 1e-6:
            return clean, LAST
        levels = self.head.scheduler.config.num_train_timesteps
        index, one = torch.tensor([max(0, round(level * levels) - 1)]), torch.ones(1, 1, 1)
        share = float(noised(self.head.scheduler, one, 0 * one, index)[0])
        return share * clean, float(noised(self.head.scheduler, 0 * one, one, index)[0])
