"""Collect [T, N] steps from a policy and a step function; neither an agent nor a world is known here.

Observations and actions are tensors with the leading dimension N, or dicts of such tensors (several senses, several
effectors).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

import torch
from torch import Tensor

Tree = Tensor | dict[str, Tensor]
Obs = TypeVar("Obs", bound=Tree)
Act = TypeVar("Act", bound=Tree)


class Step(NamedTuple, Generic[Obs]):
    """What a step led to, for N children.

    observation: what to act on next, [N, ...]; of a child that was reset, its new episode's first.
    reward: float [N]. terminal, truncated: bool [N], the ending this step brought.
    next_observation: what the step itself led to, before any reset; None where nobody was reset.
    """

    observation: Obs
    reward: Tensor
    terminal: Tensor
    truncated: Tensor
    next_observation: Obs | None = None


@dataclass(frozen=True)
class Rollout(Generic[Obs, Act]):
    """T steps of N children; every tensor is [T, N, ...].

    `next_value` is the value of what each step led to, before any reset: right to bootstrap with after truncation and
    at the rollout's end. `last` is terminal or truncated. `mask` is False after an episode's end.
    """

    observation: Obs
    action: Act
    log_prob: Tensor
    value: Tensor
    next_value: Tensor
    reward: Tensor
    terminal: Tensor
    last: Tensor
    mask: Tensor


@torch.no_grad()
def collect(
    policy: Callable[[Obs, torch.Generator], tuple[Act, Tensor, Tensor]],
    value_of: Callable[[Obs], Tensor],
    step: Callable[[Act], Step[Obs]],
    observation: Obs,
    length: int,
    generator: torch.Generator,
    *,
    autoreset: bool = True,
) -> tuple[Rollout[Obs, Act], Obs]:
    """Act for `length` steps from `observation`.

    Args:
        policy: (observation, generator) to (action, log_prob [N], value [N]).
        value_of: observation to value [N]; called once at the end, and where a truncated child was reset.
        step: action to Step.
        autoreset: True when `step` starts a new episode for a child that ended. False for one episode a rollout: what
            comes after a child's end is masked out.

    Returns:
        (rollout, observation to go on from).
    """
    observations, actions, log_probs, values, steps, next_values = [], [], [], [], [], []
    for t in range(length):
        action, log_prob, value = policy(observation, generator)
        observations.append(observation)
        actions.append(action)
        log_probs.append(log_prob)
        values.append(value)
        done = step(action)
        steps.append(done)
        observation = done.observation
        led_to = observation if done.next_observation is None else done.next_observation
        # Elsewhere the next step's own value serves, so the critic runs a second time only where it must.
        needed = t == length - 1 or (done.next_observation is not None and bool(done.truncated.any()))
        next_values.append(value_of(led_to) if needed else None)
    value = torch.stack(values)
    next_value = torch.stack([v if v is not None else values[t + 1] for t, v in enumerate(next_values)])
    terminal = torch.stack([s.terminal for s in steps])
    last = terminal | torch.stack([s.truncated for s in steps])
    ended_before = last.cumsum(0) - last.long() > 0
    mask = torch.ones_like(last) if autoreset else ~ended_before
    reward = torch.stack([s.reward for s in steps])
    rollout = Rollout(
        stack(observations), stack(actions), torch.stack(log_probs), value, next_value, reward, terminal, last, mask
    )
    return rollout, observation


def stack(trees: list[Obs]) -> Obs:
    """T trees of [N, ...] as one of [T, N, ...]."""
    first: Tree = trees[0]
    parts: list[Any] = trees
    if isinstance(first, Tensor):
        stacked: Any = torch.stack(parts)
    else:
        stacked = {name: torch.stack([part[name] for part in parts]) for name in first}
    return stacked


def rows(tree: Obs, index: Tensor) -> Obs:
    """The steps `index` (int64 [B], counted through `flatten(0, 1)`) of a [T, N, ...] tree, as [B, ...]."""
    whole: Tree = tree
    if isinstance(whole, Tensor):
        chosen: Any = whole.flatten(0, 1)[index]
    else:
        chosen = {name: part.flatten(0, 1)[index] for name, part in whole.items()}
    return chosen
