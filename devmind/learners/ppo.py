"""Proximal policy optimisation of any actor-critic, in worlds of rows.

`collect` lets an actor-critic act in a world by `devmind.acting.rollout` and stores what learning needs. `improve` is
one update from that, on single steps or on rows of consecutive steps. Neither needs an agent: the benchmark against
Stable-Baselines3 uses a network of its own, and `devmind.learners.policy` an agent's heads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor, nn

from devmind.acting import Policy, Senses, rollout
from devmind.acting.rollout import Actions, Steppable, starts_anew
from devmind.algorithms.ppo import minibatches, normalize, policy_change, ppo_loss
from devmind.algorithms.returns import generalized_advantages
from devmind.algorithms.rollout import Rollout, Tree, columns, next_values, rows, stack


class Choice(Protocol):
    """A distribution over actions [N, ...], such as the outputs of heads."""

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        """Actions [N, ...]."""
        ...

    def log_prob(self, action: Tensor) -> Tensor:
        """Log of the probability (density) of each row's action, [N]."""
        ...

    def entropy(self) -> Tensor:
        """Entropy in nats, [N]."""
        ...


class ActorCritic(Protocol):
    """A policy with a critic: it reads senses without a gradient, and answers with one."""

    effector: str

    def read(self, senses: Senses, first: np.ndarray) -> Tree:
        """The senses of N rows as an observation [N, ...], following the tick before."""
        ...

    def peek(self, senses: Senses) -> Tree:
        """Like `read`, but without an effect on the next `read`."""
        ...

    def __call__(self, observation: Tree) -> tuple[Choice, Tensor]:
        """The distribution over actions, and the value [N]."""
        ...

    def as_command(self, action: Tensor) -> np.ndarray:
        """Sampled actions in the effector's form."""
        ...


@runtime_checkable
class SequencePolicy(ActorCritic, Protocol):
    """An actor-critic whose answers depend on earlier steps; it learns from whole rows of consecutive steps."""

    def along(self, observation: Tree) -> tuple[Choice, Tensor]:
        """Answers [B, T, ...] on rows [B, T, ...], each of which begins an episode."""
        ...


@torch.no_grad()
def collect(
    network: ActorCritic,
    world: Steppable,
    ticks: int,
    generator: torch.Generator,
    first: np.ndarray | None = None,
) -> Rollout[Any, Tensor]:
    """Act for `ticks` from the present state of `world`; every tensor of the result is [ticks, N, ...].

    In a world that resets ended rows all ticks count; in any other, only those up to a row's end.

    Args:
        generator: samples the actions.
        first: which rows begin an episode at the first tick; all by default.
    """
    observations: list[Tree] = []
    actions, log_probs, values, led_to_values = [], [], [], []
    rewards, terminals, truncations = [], [], []

    def policy(senses: Senses, opening: np.ndarray) -> Actions:
        observation = network.read(senses, opening)
        choice, value = network(observation)
        action = choice.sample(generator)
        observations.append(observation)
        actions.append(action)
        log_probs.append(choice.log_prob(action))
        values.append(value)
        return {network.effector: network.as_command(action)}

    for tick in rollout(policy, world, ticks, first):
        device = values[-1].device
        rewards.append(torch.as_tensor(tick.reward).to(device))
        terminals.append(torch.as_tensor(tick.terminated).to(device))
        truncations.append(torch.as_tensor(tick.truncated).to(device))
        restarted = tick.led_to is not tick.following
        # Otherwise the value of the next tick is used, so the critic runs a second time only if it must.
        needed = tick.tick == ticks - 1 or (restarted and bool(tick.truncated.any()))
        led_to_values.append(network(network.peek(tick.led_to))[1] if needed else None)
    terminal = torch.stack(terminals)
    last = terminal | torch.stack(truncations)
    ended_before = last.cumsum(0) - last.long() > 0
    return Rollout(
        stack(observations),
        stack(actions),
        torch.stack(log_probs),
        torch.stack(values),
        next_values(values, led_to_values),
        torch.stack(rewards),
        terminal,
        last,
        torch.ones_like(last) if starts_anew(world) else ~ended_before,
    )


def sampling_policy(network: ActorCritic, generator: torch.Generator) -> Policy:
    """The policy as it acts while learning: with sampled actions."""

    def policy(senses: Senses, first: np.ndarray) -> Actions:
        choice, _ = network(network.read(senses, first))
        return {network.effector: network.as_command(choice.sample(generator))}

    return policy


@dataclass(frozen=True)
class PPO:
    """Settings of one update.

    Attributes:
        discount, gae_lambda: for the advantages.
        epochs, batches: passes over a rollout, and minibatches in each.
        clip: for the probability ratio; entropy: weight of the entropy.
        max_grad_norm: for each group of parameters that is clipped together.
    """

    discount: float = 0.0
    gae_lambda: float = 0.9
    epochs: int = 3
    batches: int = 3
    clip: float = 0.2
    entropy: float = 0.0
    max_grad_norm: float = 0.5


def improve(
    network: ActorCritic,
    optimizer: torch.optim.Optimizer,
    collected: Rollout[Any, Tensor],
    settings: PPO,
    order: torch.Generator,
    clipped: Sequence[Sequence[nn.Parameter]],
    group: Tensor | None = None,
) -> dict[str, Tensor]:
    """One update of proximal policy optimisation; scalars to log.

    Args:
        order: decides the minibatches.
        clipped: groups of parameters; the gradient norm of each group is clipped.
        group: int64 [N]; advantages are normalised within each group of rows, by default over all rows.
    """
    advantage, target = generalized_advantages(
        collected.reward,
        collected.value,
        collected.next_value,
        collected.terminal,
        collected.last,
        discount=settings.discount,
        gae_lambda=settings.gae_lambda,
        mask=collected.mask,
    )
    group = torch.zeros(advantage.shape[1], dtype=torch.long, device=advantage.device) if group is None else group
    for index in group.unique():
        mine = group == index
        advantage[:, mine] = normalize(advantage[:, mine], collected.mask[:, mine])
    # For a policy with a state whole rows are drawn, since its answers depend on earlier steps.
    whole_rows = isinstance(network, SequencePolicy)
    drawn = collected.mask.any(0, keepdim=True) if whole_rows else collected.mask
    for chosen in minibatches(drawn, settings.epochs, settings.batches, order):
        log_prob, value, entropy, pick = _evaluate(network, collected, chosen)
        old = pick(collected.log_prob)
        loss = ppo_loss(
            log_prob, old, pick(advantage), value, pick(target), entropy,
            clip=settings.clip, entropy_weight=settings.entropy,
        )  # fmt: skip
        optimizer.zero_grad(set_to_none=True)
        loss.total.backward()
        for parameters in clipped:
            nn.utils.clip_grad_norm_(parameters, settings.max_grad_norm)
        optimizer.step()
    divergence, outside = policy_change(log_prob.detach(), old, clip=settings.clip)
    return {"value loss": loss.value.detach(), "kl": divergence, "clipped": outside}


def _evaluate(
    network: ActorCritic, collected: Rollout[Any, Tensor], chosen: Tensor
) -> tuple[Tensor, Tensor, Tensor, Callable[[Tensor], Tensor]]:
    """Log probability of the actions, value and entropy of the chosen steps (or all steps of the chosen rows), [B].

    The last result is a function that picks the same steps from a tensor [T, N].
    """
    if not isinstance(network, SequencePolicy):
        choice, value = network(rows(collected.observation, chosen))
        log_prob = choice.log_prob(rows(collected.action, chosen))
        return log_prob, value, choice.entropy(), lambda x: rows(x, chosen)
    valid = columns(collected.mask, chosen)
    choice, value = network.along(columns(collected.observation, chosen))
    log_prob = choice.log_prob(columns(collected.action, chosen))
    return log_prob[valid], value[valid], choice.entropy()[valid], lambda x: columns(x, chosen)[valid]
