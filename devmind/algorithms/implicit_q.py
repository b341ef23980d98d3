"""Implicit Q-learning: action values from data alone, without asking about actions outside the data. Pure functions.

Kostrikov, Nair, Levine 2022, "Offline reinforcement learning with implicit Q-learning" (arXiv 2110.06169). V is an
upper expectile of Q over the actions in the data; Q is a step's reward plus the V of the next state. An expectile of
0.5 gives the value of the policy that made the data; towards 1 it is the best combination of that policy's actions.
Actions are then taken in proportion to exp(advantage) (advantage-weighted regression: Peng et al. 2019, arXiv
1910.00177).
"""

from __future__ import annotations

import torch
from torch import Tensor


def expectile_loss(error: Tensor, expectile: float) -> Tensor:
    """Squared errors (target - prediction) [...], weighted by the expectile if positive, else by 1 - expectile
    (equation 5).
    """
    if not 0 < expectile < 1:
        raise ValueError(f"An expectile lies between 0 and 1; got {expectile}.")
    return torch.where(error > 0, expectile, 1 - expectile) * error.square()


def value_loss(value: Tensor, twins: Tensor, expectile: float) -> Tensor:
    """The loss [N] of V [N] against the lesser of two target Qs [2, N] of the actions taken (equation 5)."""
    return expectile_loss(twins.detach().amin(0) - value, expectile)


def q_target(reward: Tensor, discount: Tensor, value: Tensor) -> Tensor:
    """The target of Q, [N] (equation 6).

    `discount` is 0 if the episode ended there; for an action of several steps it is the product of their discounts.
    """
    return reward + discount * value.detach()


def q_loss(twins: Tensor, target: Tensor) -> Tensor:
    """The loss [N] of both Qs [2, N] against one target [N]."""
    return (twins - target.detach()).square().sum(0)


def advantage_weights(advantage: Tensor, temperature: float, most: float = 100.0) -> Tensor:
    """The weight of each action, exp(advantage / temperature) [...], at most `most` (equation 7).

    Args:
        temperature: if large, all actions count alike, which is cloning; if small, only the best count.
    """
    if temperature <= 0:
        raise ValueError(f"A temperature is above 0; got {temperature}.")
    return (advantage / temperature).exp().clamp_max(most)


@torch.no_grad()
def follow(slow: torch.nn.Module, fast: torch.nn.Module, share: float = 0.005) -> None:
    """Move the target network a share of the way towards the learning one (Polyak averaging)."""
    for mine, other in zip(slow.parameters(), fast.parameters(), strict=True):
        mine.lerp_(other, share)
