"""Proximal policy optimisation (Schulman et al. 2017, arXiv 1707.06347): the loss and the order of minibatches.

One update is: collect a rollout (`devmind.learners.ppo.collect`), estimate advantages
(`returns.generalized_advantages`), then for each index of `minibatches` evaluate the policy on those rows, take
`ppo_loss` and one optimizer step. The optimizer, the network and the learning-rate schedule are the caller's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor


class PPOLoss(NamedTuple):
    """Scalars. `total` is minimised; the others are its unweighted terms."""

    total: Tensor
    policy: Tensor
    value: Tensor
    entropy: Tensor


def ppo_loss(
    new_log_prob: Tensor,
    old_log_prob: Tensor,
    advantage: Tensor,
    new_value: Tensor,
    target: Tensor,
    entropy: Tensor,
    *,
    clip: float,
    value_weight: float = 0.5,
    entropy_weight: float = 0.0,
) -> PPOLoss:
    """The clipped surrogate objective with value and entropy terms (eq. 7 and 9, signs turned to minimise).

    All tensors are float [B], one row a step; only `new_log_prob`, `new_value` and `entropy` carry gradients.
    `clip` is the paper's epsilon. The change of the value is not clipped, because Andrychowicz et al. (2021,
    arXiv 2006.05990) found that clipping it only hurts.
    """
    ratio = torch.exp(new_log_prob - old_log_prob)
    policy = -torch.minimum(ratio * advantage, ratio.clamp(1 - clip, 1 + clip) * advantage).mean()
    value = torch.nn.functional.mse_loss(new_value, target)
    mean_entropy = entropy.mean()
    total = policy + value_weight * value
    if entropy_weight:
        total = total - entropy_weight * mean_entropy
    return PPOLoss(total, policy, value, mean_entropy)


@torch.no_grad()
def policy_change(new_log_prob: Tensor, old_log_prob: Tensor, *, clip: float) -> tuple[Tensor, Tensor]:
    """(KL divergence old to new in nats, share of steps outside the clip range), scalars, for logs and early stopping.

    The estimate mean(r - 1 - log r) is unbiased, never negative and of low variance (Schulman 2020, "Approximating KL
    divergence").
    """
    log_ratio = new_log_prob - old_log_prob
    ratio = log_ratio.exp()
    return (ratio - 1 - log_ratio).mean(), ((ratio - 1).abs() > clip).float().mean()


def normalize(advantage: Tensor, mask: Tensor | None = None) -> Tensor:
    """Advantages with mean 0 and standard deviation 1 over the steps in `mask` (bool, same shape); zeros elsewhere."""
    chosen = advantage if mask is None else advantage[mask]
    std, mean = torch.std_mean(chosen, correction=0)
    scaled = (advantage - mean) / (std + 1e-8)
    return scaled if mask is None else torch.where(mask, scaled, 0.0)


def minibatches(mask: Tensor, epochs: int, batches: int, generator: torch.Generator) -> Iterator[Tensor]:
    """Row numbers of every minibatch of an update: `epochs` passes, each a fresh shuffle cut into `batches`.

    Args:
        mask: bool [T, N]; only its True steps are drawn, each once an epoch. Rows are numbered as in
            `tensor.flatten(0, 1)`.
        batches: minibatches an epoch; their sizes differ by one at most. There are fewer if there are fewer steps.
        generator: decides only the order: the same seed gives the same minibatches.

    Yields:
        int64 [B] on the mask's device. The generator is a CPU one, so the order is the same on every device.
    """
    valid = mask.flatten().nonzero().squeeze(1)
    for _ in range(epochs):
        order = torch.randperm(len(valid), generator=generator).to(valid.device)
        for chunk in valid[order].tensor_split(batches):
            if len(chunk):
                yield chunk
