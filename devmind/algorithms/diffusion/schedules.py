"""Schedulers of diffusers, set up for networks that predict the clean sample, with noise as each of them needs it."""

from __future__ import annotations

import math
from typing import Any

import torch
from diffusers import (
    AmusedScheduler,
    DDIMScheduler,
    DPMSolverMultistepScheduler,
    FlowMatchEulerDiscreteScheduler,
    UniPCMultistepScheduler,
)
from diffusers.schedulers.scheduling_amused import AmusedSchedulerOutput
from torch import Tensor

from devmind.errors import ConfigError, nearest

_VARIANCE: dict[str, Any] = {
    "beta_schedule": "squaredcos_cap_v2",
    "prediction_type": "sample",
    "timestep_spacing": "trailing",
}
SCHEDULERS: dict[str, tuple[type, dict[str, Any]]] = {
    "ddim": (DDIMScheduler, _VARIANCE | {"clip_sample": False}),
    "dpm-solver++": (DPMSolverMultistepScheduler, _VARIANCE),
    "unipc": (UniPCMultistepScheduler, _VARIANCE),
    "flow": (FlowMatchEulerDiscreteScheduler, {}),
}
"""Class and options by name. All but `flow` add noise alike, so any of them can draw from a denoiser trained with
another.
"""


def make_scheduler(name: str, levels: int = 100) -> Any:
    """The scheduler `name` with `levels` noise levels.

    Raises:
        ConfigError: there is no scheduler of that name.
    """
    if name not in SCHEDULERS:
        raise ConfigError(f"There is no scheduler '{name}'{nearest(name, SCHEDULERS)}")
    kind, options = SCHEDULERS[name]
    return kind(num_train_timesteps=levels, **options)


def is_flow(scheduler: Any) -> bool:
    """Whether the scheduler mixes sample and noise linearly, and integrates velocities."""
    return isinstance(scheduler, FlowMatchEulerDiscreteScheduler)


def add_noise(scheduler: Any, clean: Tensor, noise: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
    """`clean` [B, ...] with noise of level number `index` int64 [B], and that level in 0..1, [B]."""
    levels = scheduler.config.num_train_timesteps
    level = (index + 1) / levels
    if is_flow(scheduler):
        share = level.reshape(-1, *[1] * (clean.ndim - 1)).to(clean.dtype)
        return (1 - share) * clean + share * noise, level
    # The solvers' own `add_noise` knows only the levels of the steps they are set to. Before these are set, it
    # takes the least noise for the most.
    return DDIMScheduler.add_noise(scheduler, clean, noise, index), level


def noised_to_teach(
    scheduler: Any, clean: Tensor, alone: Tensor, generator: torch.Generator | None
) -> tuple[Tensor, Tensor]:
    """`clean` [B, ...] noised for training, and its level in 0..1, [B]: pure noise where `alone`, bool [B], is true.

    Elsewhere high levels are more frequent than low ones, because few drawing steps are mostly steps from much noise.
    """
    depth = torch.where(alone, 1.0, torch.rand(len(clean), generator=generator, device=clean.device).sqrt())
    levels = scheduler.config.num_train_timesteps
    index = (depth * levels).long().clamp_max(levels - 1)
    noise = torch.randn(clean.shape, generator=generator, device=clean.device)
    return add_noise(scheduler, clean, noise, index)


def set_steps(scheduler: Any, steps: int, device: torch.device) -> None:
    """Prepare the scheduler to draw in `steps` steps.

    Raises:
        ConfigError: the steps are fewer than one, or more than there are levels.
    """
    levels = scheduler.config.num_train_timesteps
    if not 1 <= steps <= levels:
        raise ConfigError(
            f"A plan is denoised in 1 to {levels} steps, as many as there were noise levels in teaching; got {steps}."
        )
    scheduler.set_timesteps(steps, device=device)


def level_of(scheduler: Any, timestep: Tensor) -> Tensor:
    """The level in 0..1 of one of the scheduler's timesteps."""
    levels = scheduler.config.num_train_timesteps
    return timestep / levels if is_flow(scheduler) else (timestep + 1) / levels


def denoise_step(scheduler: Any, clean: Tensor, timestep: Tensor, sample: Tensor) -> Tensor:
    """One step towards the predicted `clean`: the sample at the next lower level."""
    if is_flow(scheduler):
        clean = (sample - clean) / level_of(scheduler, timestep).clamp_min(1e-6)
    return scheduler.step(clean, timestep, sample).prev_sample


def gumbel(uniform: Tensor) -> Tensor:
    """Gumbel noise from uniform numbers in 0..1; added to logits, it draws symbols."""
    return uniform.clamp_min(1e-9).log().neg().clamp_min(1e-9).log().neg()


class MaskedTokens(AmusedScheduler):
    """diffusers' scheduler of masked tokens (Chang et al. 2022, "MaskGIT"), with independent rows.

    It keeps the surest predicted symbols and masks the rest again, by the same cosine as there; known symbols stay. It
    adds no noise: to draw symbols, add Gumbel noise to the logits.
    """

    def step(
        self,
        model_output: Tensor,
        timestep: int,
        sample: Tensor,
        starting_mask_ratio: float = 1.0,
        generator: torch.Generator | None = None,
        return_dict: bool = True,
    ) -> AmusedSchedulerOutput | tuple[Tensor, Tensor]:
        """Symbols int64 [B, L] at the next step, from logits [B, L, words]; `timestep` counts down to 0."""
        unknown = sample == self.config.mask_token_id
        sure, word = model_output.softmax(-1).max(-1)
        filled = torch.where(unknown, word, sample)
        before = filled
        if timestep > 0:
            ratio = (len(self.timesteps) - timestep) / len(self.timesteps)
            again = math.floor(sample.shape[1] * starting_mask_ratio * math.cos(ratio * math.pi / 2))
            again_of_row = (unknown.sum(-1) - 1).clamp(0, again)
            rank = torch.where(unknown, sure, torch.inf).argsort(-1).argsort(-1)
            before = torch.where(rank < again_of_row[:, None], self.config.mask_token_id, filled)
        return AmusedSchedulerOutput(before, filled) if return_dict else (before, filled)

    def log_prob(self, logits: Tensor, before: Tensor, after: Tensor) -> Tensor:
        """Log probability [B], by logits [B, L, words], of symbols in `after` that `before`, int64 [B, L], masks."""
        mask = self.config.mask_token_id
        new = (before == mask) & (after != mask)
        chosen = logits.log_softmax(-1).gather(-1, after.clamp_max(mask - 1)[..., None]).squeeze(-1)
        return (chosen * new).sum(-1)
