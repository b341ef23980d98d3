"""Returns and advantages over rollouts of [T, N] steps: terminal steps are not bootstrapped, truncated ones are.

Rows are time, columns are children. `next_value[t]` is the value of the state after step t *before* any reset, so a
truncated step bootstraps correctly (Pardo et al. 2018, "Time limits in reinforcement learning", eq. 6). Steps outside
`mask` (after an episode's end, if worlds are not reset within a rollout) give zeros and affect no other step.
"""

from __future__ import annotations

import torch
from torch import Tensor


def generalized_advantages(
    reward: Tensor,
    value: Tensor,
    next_value: Tensor,
    terminal: Tensor,
    last: Tensor,
    *,
    discount: float,
    gae_lambda: float,
    mask: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Generalised advantage estimation (Schulman et al. 2016, arXiv 1506.02438, eq. 16).

    Args:
        reward, value, next_value: float [T, N]; `next_value` is ignored where `terminal`.
        terminal: bool [T, N], the episode ended by its own rules with this step.
        last: bool [T, N], the episode ended with this step, by its rules or by truncation; it cuts the trace.
        discount: gamma, 0..1.
        gae_lambda: 0 gives one-step errors, 1 gives returns minus values.
        mask: bool [T, N], False after an episode's end.

    Returns:
        (advantage, target) float [T, N]; target = advantage + value is the target of the value.
    """
    error = reward + discount * torch.where(terminal, 0.0, next_value) - value
    advantage = _discounted_sum(error, discount * gae_lambda, last | terminal, mask)
    target = advantage + value
    return advantage, target if mask is None else torch.where(mask, target, 0.0)


def _discounted_sum(term: Tensor, decay: float, cut: Tensor, mask: Tensor | None) -> Tensor:
    """total[t] = term[t] + decay * total[t + 1]; the second term is left out where `cut` and at the last step."""
    if mask is not None:
        # Not a product with the mask: a masked step may hold NaN, and NaN times zero is NaN.
        term = torch.where(mask, term, 0.0)
    carry = decay * (~cut).to(term.dtype)
    total = term.clone()
    for t in range(len(total) - 2, -1, -1):
        total[t].addcmul_(carry[t], total[t + 1])
    return total if mask is None else torch.where(mask, total, 0.0)
