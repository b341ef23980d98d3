"""Muon for the trunk's matrices, AdamW for all else, as one optimizer.

Muon (Jordan et al., 2024) steps along the nearest semi-orthogonal matrix of the momentum, found by five Newton-Schulz
iterations. Its steps are scaled to a root mean square of `RMS` an entry whatever the matrix's shape (Liu et al., 2025,
arXiv 2502.16982, section 2.2), so that one learning rate serves both. Everything is in float32: on processors without
bfloat16 units that is several times faster than `torch.optim.Muon`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

RMS = 0.5
"""Root mean square of a step's entries at learning rate 1. At a rate of 3e-3 the steps are 1.5e-3, near those that
Jordan et al. take on matrices of width 128 (0.02 / sqrt(128)); Liu et al. have 0.2, which is like AdamW's own steps.
"""
ITERATIONS = 5
COEFFICIENTS = (3.4445, -4.7750, 2.0315)
"""Of the polynomial a x + b x^3 + c x^5, which drives singular values of 0..1 towards 1 fastest."""
MATRICES = "trunk.decoder.layers."
"""Prefix of the parameters of which the matrices are orthogonalised."""


class Muon(torch.optim.Optimizer):
    """Steps matrices of the trunk's layers by Muon and every other parameter by AdamW.

    Args:
        named: names and parameters.
        lr: of both. weight_decay: of all matrices; vectors and gains do not decay.
    """

    def __init__(
        self,
        named: Iterable[tuple[str, nn.Parameter]],
        lr: float,
        weight_decay: float = 0.02,
        momentum: float = 0.95,
        betas: tuple[float, float] = (0.9, 0.95),
        eps: float = 1e-8,
    ) -> None:
        groups: dict[tuple[bool, float], list[nn.Parameter]] = defaultdict(list)
        for name, parameter in named:
            muon = name.startswith(MATRICES) and parameter.ndim == 2
            groups[muon, weight_decay if parameter.ndim >= 2 else 0.0].append(parameter)
        made = [{"params": own, "muon": muon, "weight_decay": decay} for (muon, decay), own in groups.items()]
        super().__init__(made, {"lr": lr, "momentum": momentum, "betas": betas, "eps": eps})

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """One step of every parameter that has a gradient."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            taught = [parameter for parameter in group["params"] if parameter.grad is not None]
            (self._muon if group["muon"] else self._adam)(group, taught)
        return loss

    def _muon(self, group: dict[str, Any], taught: list[nn.Parameter]) -> None:
        by_shape: dict[torch.Size, list[nn.Parameter]] = defaultdict(list)
        for parameter in taught:
            by_shape[parameter.shape].append(parameter)
        for shape, alike in by_shape.items():
            directions = []
            for parameter in alike:
                assert parameter.grad is not None
                kept = self.state[parameter].setdefault("momentum", torch.zeros_like(parameter))
                kept.lerp_(parameter.grad, 1 - group["momentum"])
                directions.append(parameter.grad.lerp(kept, group["momentum"]))
            steps = orthogonalised(torch.stack(directions)) * (RMS * max(shape) ** 0.5)
            for parameter, step in zip(alike, steps, strict=True):
                parameter.mul_(1 - group["lr"] * group["weight_decay"]).add_(step, alpha=-group["lr"])

    def _adam(self, group: dict[str, Any], taught: list[nn.Parameter]) -> None:
        (first, second), lr = group["betas"], group["lr"]
        for parameter in taught:
            assert parameter.grad is not None
            state = self.state[parameter]
            if not state:
                state |= {"step": torch.tensor(0.0), "mean": torch.zeros_like(parameter)}
                state["square"] = torch.zeros_like(parameter)
            state["step"] += 1
            count = float(state["step"])
            state["mean"].lerp_(parameter.grad, 1 - first)
            state["square"].mul_(second).addcmul_(parameter.grad, parameter.grad, value=1 - second)
            scale = (state["square"] / (1 - second**count)).sqrt_().add_(group["eps"])
            parameter.mul_(1 - lr * group["weight_decay"])
            parameter.addcdiv_(state["mean"], scale, value=-lr / (1 - first**count))


def orthogonalised(matrices: Tensor) -> Tensor:
    """About U V^T of each of matrices [N, rows, columns] = U S V^T: singular values end between 0.7 and 1.2."""
    a, b, c = COEFFICIENTS
    wide = matrices.shape[1] <= matrices.shape[2]
    x = matrices if wide else matrices.mT
    x = x / x.norm(dim=(1, 2), keepdim=True).clamp_min(1e-7)
    for _ in range(ITERATIONS):
        square = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(square, square, square, beta=b, alpha=c), x, beta=a)
    return x if wide else x.mT
