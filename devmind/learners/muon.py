"""Learning with Muon on some matrices and AdamW on all other parameters (Jordan et al., 2024, "Muon")."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import nn

from devmind.algorithms.muon import Muon
from devmind.learners.gradient import LAYERS, GradientLearner

TRUNK = (LAYERS,)
"""Prefix of the names of the trunk's matrices."""


class MuonLearner(GradientLearner):
    """Muon on the linear layers that a subclass names, AdamW on all other parameters.

    Attributes:
        orthogonal: prefixes of the names of parameters for Muon; it takes the matrices whose names end with ".weight".
        muon_rate: its rate, before the lower shares for parameters of earlier stages.
        muon_betas: its momentum.
    """

    orthogonal: ClassVar[tuple[str, ...]] = TRUNK
    muon_rate: ClassVar[float] = 0.02
    muon_betas: ClassVar[tuple[float, float]] = (0.95, 0.95)

    def kind(self, name: str, parameter: nn.Parameter) -> str:
        """The kind "orthogonal" for Muon's matrices, otherwise as in the base class."""
        kind = super().kind(name, parameter)
        steps = kind == "matrix" and name.startswith(self.orthogonal) and name.endswith(".weight")
        return "orthogonal" if steps else kind

    def options(self) -> dict[str, Mapping[str, Any]]:
        """Options of the optimizer's groups by kind."""
        muon = {"rate": self.muon_rate, "weight_decay": self.weight_decay, "betas": self.muon_betas}
        return {"orthogonal": {"orthogonal": True, **muon}}

    def make_optimizer(self) -> torch.optim.Optimizer:
        """Muon and AdamW as one optimizer."""
        return Muon(self.groups(self.options()), lr=self.learning_rate, betas=(0.9, 0.95), foreach=True)
