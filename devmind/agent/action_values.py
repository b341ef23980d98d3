"""A head that estimates the value of each of n actions: the expected return, or quantiles of the return."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from devmind.agent.heads import Inlet, Reader, ReaderHead
from devmind.agent.output import Output, masked_mean
from devmind.agent.taps import Tapped
from devmind.errors import ConfigError


@dataclass
class ActionValues(Output):
    """`quantiles` [..., A, K] of the return of each of A actions; with K = 1 that is its expected return."""

    quantiles: Tensor

    @property
    def values(self) -> Tensor:
        """Expected returns [..., A]."""
        return self.quantiles.mean(-1)

    def loss(self, target: Tensor, mask: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
        """Squared error of all quantiles against [..., A, K], or against expected returns [..., A]."""
        aim = target[..., None] if target.ndim < self.quantiles.ndim else target
        return masked_mean((self.quantiles - aim.to(self.quantiles.dtype)).square(), mask)

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        """The best action, int64 [...]; exploration is the learner's task."""
        return self.mode()

    def mode(self) -> Tensor:
        """The best action, int64 [...]."""
        return self.values.argmax(-1)

    def numbers(self) -> Tensor:
        return self.quantiles

    def with_numbers(self, numbers: Tensor) -> Self:
        return replace(self, quantiles=numbers)


class ActionValuesHead(ReaderHead):
    """Values of `classes` actions.

    Args:
        quantiles: number of quantiles of the return's distribution; 1 gives its mean.
        dueling: estimate the value of the state and the advantage of each action over the mean of all separately (Wang
            et al. 2016, arXiv 1511.06581, eq. 9).
        hidden, depth, activation: of the `Reader`.
    """

    def __init__(
        self,
        inlet: Inlet,
        classes: int,
        quantiles: int = 1,
        dueling: bool = False,
        hidden: int | None = None,
        depth: int = 1,
        activation: str = "gelu",
    ) -> None:
        super().__init__(inlet)
        if classes < 2 or quantiles < 1:
            raise ConfigError(
                f"Action values are of 2 actions or more and 1 quantile or more; got {classes} and {quantiles}."
            )
        self.classes, self.quantiles, self.dueling = classes, quantiles, dueling
        self.read = Reader(inlet, (classes + dueling) * quantiles, hidden, depth, activation, 1.0)

    def forward(self, tapped: Tapped) -> ActionValues:
        values = self.read(tapped).unflatten(-1, (self.classes + self.dueling, self.quantiles))
        if not self.dueling:
            return ActionValues(values)
        state, more = values[..., :1, :], values[..., 1:, :]
        return ActionValues(state + more - more.mean(-2, keepdim=True))
