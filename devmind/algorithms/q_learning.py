"""Q-learning: the targets of networks. Pure functions that know neither an agent nor a world.

Watkins 1989, "Learning from delayed rewards". Double: van Hasselt et al. 2016, arXiv 1509.06461. N-step returns as in
Rainbow (Hessel et al. 2018, arXiv 1710.02298), cut at an episode's end. Quantiles: Dabney et al. 2018, arXiv
1710.10044. A truncated episode is bootstrapped from the state where it stopped (Pardo et al. 2018, "Time limits in
reinforcement learning"); one that ended by its own rules is not.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F


def n_step_returns(
    reward: Tensor, terminal: Tensor, last: Tensor, *, discount: float, n: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Rewards of up to `n` steps from each step of a rollout [T, N], and what follows them.

    A sum ends with its episode and with the rollout, so it has fewer steps there.

    Args:
        reward: float [T, N].
        terminal: bool [T, N], the episode ended by its own rules with this step.
        last: bool [T, N], it ended with this step, by its rules or by truncation.

    Returns:
        `total` float [T, N], the discounted rewards; `factor` float [T, N] of the value of the state after the last of
        these steps, 0 if that was terminal; `until` int64 [T, N], the index of that last step.
    """
    if n < 1:
        raise ValueError(f"Expected sums of 1 step or more; got {n}.")
    total = reward.clone()
    factor = torch.full_like(reward, discount)
    until = torch.arange(len(reward), device=reward.device)[:, None].expand_as(reward).clone()
    going = ~(last | terminal)
    for k in range(1, min(n, len(reward))):
        goes = going[:-k]
        total[:-k] += torch.where(goes, discount**k * reward[k:], 0.0)
        factor[:-k] *= torch.where(goes, discount, 1.0)
        until[:-k] += goes.long()
        going[:-k] &= ~(last | terminal)[k:]
    return total, torch.where(terminal.gather(0, until), 0.0, factor), until


def among(values: Tensor, legal: Tensor | None) -> Tensor:
    """Values [..., A] with the lowest float in place of those of illegal actions."""
    return values if legal is None else values.masked_fill(~legal, torch.finfo(values.dtype).min)


def target(
    reward: Tensor, factor: Tensor, value: Tensor, chooser: Tensor | None = None, legal: Tensor | None = None
) -> Tensor:
    """Targets of an action as quantiles [B, K]: `reward + factor * value[best]`.

    Args:
        reward, factor: float [B], of one step or of `n_step_returns`.
        value: quantiles [B, A, K] of the next state by the target network; K is 1 without quantiles.
        chooser: values [B, A] that choose the best action; for double Q-learning those of the learning network, by
            default those of `value` itself.
        legal: bool [B, A], the legal actions of the next state; all by default.
    """
    best = among(value.mean(-1) if chooser is None else chooser, legal).argmax(-1)
    after = value[torch.arange(len(value), device=value.device), best]
    return reward[:, None] + torch.where(factor[:, None] == 0, 0.0, factor[:, None] * after)


def quantile_huber(predicted: Tensor, wanted: Tensor, kappa: float = 1.0) -> Tensor:
    """The quantile Huber loss of each row [B]: predicted [B, K] at the middles of K shares, against samples [B, J].

    With K = 1 it is half the Huber loss, with the median as its minimum; a single value learns by `huber` instead.
    """
    k = predicted.shape[-1]
    share = (2 * torch.arange(k, device=predicted.device, dtype=predicted.dtype) + 1) / (2 * k)
    error = wanted[:, None, :] - predicted[:, :, None]
    size = F.huber_loss(predicted[:, :, None].expand_as(error), wanted[:, None, :].expand_as(error),
                        reduction="none", delta=kappa) / kappa  # fmt: skip
    weight = (share[:, None] - (error.detach() < 0).to(predicted.dtype)).abs()
    return (weight * size).mean(-1).sum(-1)


def td_loss(predicted: Tensor, wanted: Tensor) -> Tensor:
    """The loss of each row [B] of quantiles [B, K] against targets [B, K]; the Huber loss where K is 1."""
    if predicted.shape[-1] > 1:
        return quantile_huber(predicted, wanted)
    return F.smooth_l1_loss(predicted, wanted, reduction="none").squeeze(-1)


def epsilon_greedy(values: Tensor, epsilon: float, generator: torch.Generator, legal: Tensor | None = None) -> Tensor:
    """Actions int64 [N]: the best of values [N, A], or with probability epsilon a random one; only legal ones, bool [N,
    A].
    """
    even = torch.ones_like(values) if legal is None else legal.to(values.dtype)
    drawn = torch.multinomial(even, 1, generator=generator).squeeze(-1)
    explores = torch.rand(len(values), generator=generator, device=values.device) < epsilon
    return torch.where(explores, drawn, among(values, legal).argmax(-1))
