"""A head that answers with a plan, denoised by a scheduler of diffusers (Chi et al. 2023, "Diffusion Policy")."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from diffusers import DDIMScheduler
from torch import Tensor, nn

from devmind.agent import Head, Output, Tapped

LEVELS, STEPS = 100, 10
"""Noise levels in lessons, and denoising steps of a plan."""


@dataclass
class Plan(Output):
    """Plans [..., H, K] in -1..1, one for each `condition` [..., C]; the first `follow` steps are carried out."""

    head: PlanHead
    condition: Tensor
    horizon: int
    follow: int | None

    def loss(self, target: Tensor, mask: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
        """Mean squared error of plans [..., H, K] predicted from noised ones, at noise levels from the generator."""
        scheduler, lead, device = self.head.scheduler, target.shape[:-2], target.device
        level = torch.randint(scheduler.config.num_train_timesteps, lead, generator=generator, device=device)
        noise = torch.randn(target.shape, generator=generator, device=device)
        noised = scheduler.add_noise(target.flatten(0, -3), noise.flatten(0, -3), level.flatten()).view_as(target)
        error = (self.head.denoise(noised, self.condition, level) - target).square().mean((-1, -2))
        return error.mean() if mask is None else (error * mask).sum() / mask.sum().clamp_min(1)

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        shape = (*self.condition.shape[:-1], self.horizon, self.head.size)
        return self.refine(torch.randn(shape, generator=generator, device=self.condition.device))

    def mode(self) -> Tensor:
        """The plan from zeros instead of noise: the same each time."""
        return self.refine(self.condition.new_zeros(*self.condition.shape[:-1], self.horizon, self.head.size))

    @torch.no_grad()
    def refine(self, plan: Tensor) -> Tensor:
        """Denoise to a plan, with the scheduler's number of steps."""
        scheduler = self.head.scheduler
        for level in scheduler.timesteps:
            levels = level.to(plan.device).expand(plan.shape[:-2])
            plan = scheduler.step(self.head.denoise(plan, self.condition, levels), level, plan).prev_sample
        return plan


class PlanHead(Head):
    """Reads all tokens of its tap, concatenated.

    Args:
        size: numbers a step; horizon: steps a plan; follow: steps until the next plan.
    """

    def __init__(self, inlet: Any, size: int, horizon: int = 16, follow: int = 4) -> None:
        super().__init__(inlet)
        self.size, self.horizon, self.follow = size, horizon, follow
        self.scheduler = DDIMScheduler(LEVELS, beta_schedule="squaredcos_cap_v2", prediction_type="sample")
        self.scheduler.set_timesteps(STEPS)
        self.level = nn.Embedding(LEVELS, 32)
        sizes = [inlet.n_tokens * inlet.width + 32 + horizon * size, 256, 256, 256]
        layers = [layer for n, m in pairwise(sizes) for layer in (nn.Linear(n, m), nn.SiLU())]
        self.net = nn.Sequential(*layers, nn.Linear(256, horizon * size))

    def forward(self, tapped: Tapped, *targets: Any) -> Plan:
        return Plan(self, (tapped.tokens * tapped.present[..., None]).flatten(-2), self.horizon, self.follow)

    def denoise(self, plan: Tensor, condition: Tensor, level: Tensor) -> Tensor:
        """The predicted plan [..., H, K] of a noised one; condition [..., C], level int64 [...]."""
        seen = torch.cat((condition, self.level(level), plan.flatten(-2)), -1)
        return self.net(seen).view_as(plan)
