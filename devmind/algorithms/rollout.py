"""T steps of N rows under a policy, as tensors; this module knows neither an agent nor a world.

Observations and actions are tensors with the leading dimension N, or dicts of such tensors (several senses, several
effectors). `devmind.learners.ppo.collect` makes a Rollout.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

Tree = Tensor | dict[str, Tensor]
Obs = TypeVar("Obs", bound=Tree)
Act = TypeVar("Act", bound=Tree)


@dataclass(frozen=True)
class Rollout(Generic[Obs, Act]):
    """T steps of N rows; every tensor is [T, N, ...].

    `next_value` is the value of the state after each step, before any reset; it is right to bootstrap from after
    truncation and at the rollout's end. `last` is terminal or truncated. `mask` is False after an episode's end.
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


def next_values(values: Sequence[Tensor], led_to: Sequence[Tensor | None]) -> Tensor:
    """Values [T, N] of the state after each step: `led_to` if it was computed, else the next step's own value.

    Raises:
        ValueError: `led_to` of the last step is missing; no later step has its value.
    """
    if not led_to or led_to[-1] is None:
        raise ValueError("Expected the value of what the last step led to; got none. Ask the critic for it.")
    return torch.stack([values[t + 1] if value is None else value for t, value in enumerate(led_to)])


def stack(trees: list[Obs]) -> Obs:
    """Stack T trees of [N, ...] into one of [T, N, ...]."""
    first: Tree = trees[0]
    parts: list[Any] = trees
    if isinstance(first, Tensor):
        stacked: Any = torch.stack(parts)
    else:
        stacked = {name: torch.stack([part[name] for part in parts]) for name in first}
    return stacked


def rows(tree: Obs, index: Tensor) -> Obs:
    """The steps `index` (int64 [B], numbered as in `flatten(0, 1)`) of a [T, N, ...] tree, as [B, ...]."""
    whole: Tree = tree
    if isinstance(whole, Tensor):
        chosen: Any = whole.flatten(0, 1)[index]
    else:
        chosen = {name: part.flatten(0, 1)[index] for name, part in whole.items()}
    return chosen


def columns(tree: Obs, index: Tensor) -> Obs:
    """All steps of the rows `index` (int64 [B]) of a [T, N, ...] tree, as [B, T, ...]."""
    whole: Tree = tree
    if isinstance(whole, Tensor):
        chosen: Any = whole[:, index].transpose(0, 1)
    else:
        chosen = {name: part[:, index].transpose(0, 1) for name, part in whole.items()}
    return chosen
