"""Muon (Jordan et al., 2024, https://kellerjordan.github.io/posts/muon/): momentum with orthogonalised matrices.

Notable choices: the Newton-Schulz iteration runs in the parameters' own precision, on all matrices of one shape at
once. (Torch's own Muon runs it in bfloat16, one matrix after the other, which is slow on processors without bfloat16.)
AdamW steps all other parameters in the same optimizer, so one state is saved and one rate is scheduled.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)
"""Coefficients of the quintic step: after five steps singular values lie between 0.7 and 1.2, not at 1."""


class Muon(torch.optim.AdamW):
    """Muon steps groups with `orthogonal=True`, which hold matrices; AdamW steps all others.

    In an orthogonal group `lr` is the spectral norm of a step on a square matrix, `betas[0]` the momentum (Nesterov's),
    and `weight_decay` works as in AdamW.
    """

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step of all groups."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        held: list[tuple[nn.Parameter, Tensor]] = []
        for group in self.param_groups:
            if group.get("orthogonal"):
                held += [(p, p.grad) for p in group["params"] if p.grad is not None]
                self._step_matrices(group)
        # AdamW skips parameters without a gradient.
        for parameter, _ in held:
            parameter.grad = None
        super().step()
        for parameter, gradient in held:
            parameter.grad = gradient
        return loss

    def _step_matrices(self, group: dict[str, Any]) -> None:
        alike: dict[tuple[int, ...], list[tuple[nn.Parameter, Tensor]]] = defaultdict(list)
        for parameter in group["params"]:
            if parameter.grad is not None:
                alike[tuple(parameter.flatten(1).shape)].append((parameter, parameter.grad))
        momentum, rate = group["betas"][0], group["lr"]
        for shape, pairs in alike.items():
            steps = []
            for parameter, gradient in pairs:
                state = self.state[parameter]
                if "momentum" not in state:
                    # AdamW looks for its count when a saved state is loaded.
                    state["momentum"], state["step"] = torch.zeros_like(parameter), torch.zeros(())
                state["momentum"].lerp_(gradient, 1 - momentum)
                steps.append(gradient.lerp(state["momentum"], momentum).flatten(1))
            grown = max(1.0, shape[0] / shape[1]) ** 0.5
            for (parameter, _), turned in zip(pairs, orthogonal(torch.stack(steps)).unbind(), strict=True):
                step = turned.view_as(parameter)
                parameter.mul_(1 - rate * group["weight_decay"]).add_(step, alpha=-rate * grown)


def orthogonal(matrices: Tensor, steps: int = 5) -> Tensor:
    """An approximation of U V^T for each matrix U S V^T of `matrices` [N, R, C], by the Newton-Schulz iteration."""
    a, b, c = NEWTON_SCHULZ
    tall = matrices.shape[-2] > matrices.shape[-1]
    x = matrices.mT if tall else matrices
    x = x / x.norm(dim=(-2, -1), keepdim=True).clamp_min(1e-7)
    for _ in range(steps):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.mT if tall else x
