"""The two action distributions of the motor heads, in plain tensor operations.

Both are several times cheaper a call than `torch.distributions`, whose argument checks cost more than the arithmetic at
the batch sizes of stepping. Actions are never squashed: an effector with bounds clips them in the world, and
log-probabilities are those of the unclipped action.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)


class Categorical:
    """Choice among A actions by `logits` [..., A]; -inf bars an action (at least one must stay finite)."""

    def __init__(self, logits: Tensor) -> None:
        self.log_probs = torch.log_softmax(logits, dim=-1)

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        """A choice drawn by an exponential race (the first of A clocks with rates p rings); int64 [...]."""
        waits = torch.empty_like(self.log_probs).exponential_(generator=generator)
        return (self.log_probs.exp() / waits).argmax(-1)

    def mode(self) -> Tensor:
        """The likeliest choice, int64 [...]."""
        return self.log_probs.argmax(-1)

    def log_prob(self, action: Tensor) -> Tensor:
        """Log-probability of `action` int64 [...], float [...]."""
        return self.log_probs.gather(-1, action.unsqueeze(-1)).squeeze(-1)

    def entropy(self) -> Tensor:
        """Entropy in nats, float [...]; barred actions add nothing."""
        finite = self.log_probs.clamp_min(torch.finfo(self.log_probs.dtype).min)
        return -(finite * self.log_probs.exp()).sum(-1)


@dataclass(frozen=True)
class DiagonalNormal:
    """Independent normals: `mean` [..., D], `log_std` broadcastable to it; the last dimension is one action."""

    mean: Tensor
    log_std: Tensor

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        """A draw, float [..., D], not clipped."""
        noise = torch.empty_like(self.mean).normal_(generator=generator)
        return self.mean + self.log_std.exp() * noise

    def mode(self) -> Tensor:
        """The mean, float [..., D]."""
        return self.mean

    def log_prob(self, action: Tensor) -> Tensor:
        """Log-density of the unclipped `action` [..., D], float [...]."""
        z = (action - self.mean) * torch.exp(-self.log_std)
        return -(0.5 * z * z + self.log_std + HALF_LOG_TWO_PI).sum(-1)

    def entropy(self) -> Tensor:
        """Differential entropy in nats, float [...]."""
        return (self.log_std.expand_as(self.mean) + (0.5 + HALF_LOG_TWO_PI)).sum(-1)
