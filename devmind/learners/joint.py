"""Learning from several losses in one step, with a measure of how they agree.

A batch has a part for each sense (or task), each with its own loss. The gradient of each part is computed separately,
which costs no more than one backward pass over all of them. So the norm of each gradient on the shared parameters, and
the cosine between any two, cost nothing extra. Two parts with a cosine below 0 work against each other (Yu et al.,
2020, "Gradient surgery for multi-task learning").
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import torch
from torch import Tensor

from devmind.agent.agent import Agent
from devmind.curriculum.stage import Rehearsed, Scalars
from devmind.learners.gradient import GradientLearner, Loss

COMPARED_ON = ("trunk.",)
"""Prefixes of the parameters on which gradients are compared."""


@dataclass(frozen=True)
class JointLoss:
    """The weighted sum of the losses of a batch's parts. Scalars: `PART/loss`, and `PART/NAME` for those of each loss.

    Attributes:
        losses, weights: by part.
    """

    losses: Mapping[str, Loss]
    weights: Mapping[str, float]

    def __call__(self, agent: Agent, batch: Mapping[str, Any]) -> tuple[Tensor, Mapping[str, Tensor]]:
        each = [self.of(agent, part, of_part) for part, of_part in batch.items()]
        return torch.stack([loss for loss, _ in each]).sum(), {k: v for _, scalars in each for k, v in scalars.items()}

    def of(self, agent: Agent, part: str, batch: Any) -> tuple[Tensor, dict[str, Tensor]]:
        """One part's weighted loss, and its scalars."""
        loss, scalars = self.losses[part](agent, batch)
        named = {f"{part}/loss": loss.detach()} | {f"{part}/{name}": one for name, one in scalars.items()}
        return self.weights[part] * loss, named


class JointLearner(GradientLearner):
    """Minimises a `JointLoss`.

    Each step reports `PART/loss`, `PART/gradient norm` of the part's weighted gradient on the shared parameters, and
    `cosine/ONE with OTHER` of two such gradients. If no shared parameter is trained, norms and cosines are left out.
    """

    def __init__(self, agent: Agent, loss: JointLoss, **more: Any) -> None:
        super().__init__(agent, loss, **more)
        self.joint = loss

    def update(self, batch: Any, step: int) -> Scalars:
        """One step; scalars include the norms and cosines of the parts' gradients."""
        if isinstance(batch, Rehearsed):
            return super().update(batch, step)
        self.set_rates(step)
        names, parameters = zip(*self.trained_parameters(), strict=True)
        shared = [at for at, name in enumerate(names) if name.startswith(COMPARED_ON)]
        total: list[Tensor | None] = [None] * len(parameters)
        value, scalars, on_shared = torch.zeros(()), dict[str, Any](), dict[str, Tensor]()
        for part, of_part in batch.items():
            loss, of_loss = self.joint.of(self.agent, part, of_part)
            # The Trainer's autocast is meant for forward passes.
            with torch.autocast(loss.device.type, enabled=False):
                found = torch.autograd.grad(loss, parameters, allow_unused=True)
            total = [_sum(before, new) for before, new in zip(total, found, strict=True)]
            value, scalars = value.to(loss.device) + loss.detach(), scalars | of_loss
            if shared:
                on_shared[part] = torch.cat([_flat(found[at], parameters[at]) for at in shared])
        for parameter, gradient in zip(parameters, total, strict=True):
            parameter.grad = gradient
        self.step_down()
        return {"loss": value} | scalars | compare_gradients(on_shared)


def _sum(one: Tensor | None, other: Tensor | None) -> Tensor | None:
    return other if one is None else one if other is None else one + other


def _flat(gradient: Tensor | None, of: Tensor) -> Tensor:
    return torch.zeros(of.numel(), device=of.device) if gradient is None else gradient.flatten()


def compare_gradients(gradients: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """`PART/gradient norm` and `cosine/ONE with OTHER` of gradients [P] by part; a cosine with a zero gradient is 0."""
    norms = {part: gradient.norm() for part, gradient in gradients.items()}
    scalars = {f"{part}/gradient norm": norm for part, norm in norms.items()}
    for one, other in combinations(gradients, 2):
        product = (norms[one] * norms[other]).clamp_min(1e-12)
        scalars[f"cosine/{one} with {other}"] = gradients[one] @ gradients[other] / product
    return scalars
