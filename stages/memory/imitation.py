"""Imitating a teacher who sees the state: whole episodes as Batches, and cross-entropy against what it chooses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from devmind.acting import Senses, rollout
from devmind.acting.rollout import Actions
from devmind.agent.agent import Agent
from devmind.curriculum.stage import Context
from devmind.seeding import lesson_seeds


def episode_batch(context: Context, world: str, level: str, update: int, size: int) -> dict[str, Any]:
    """`size` whole episodes that the teacher of a world of Rules plays, as a Batch with targets."""
    made = context.make_world(world, level, lesson_seeds(size, context.seed, world, level, update))
    seen: dict[str, list[np.ndarray]] = {}
    told: dict[str, list[np.ndarray]] = {}

    def teaching(senses: Senses, first: np.ndarray) -> Actions:
        truth = made.truth()
        for name, value in truth.items():
            told.setdefault(name, []).append(value)
        return {"choose": truth["choice"]}

    for tick in rollout(teaching, made):
        for name, value in tick.senses.items():
            seen.setdefault(name, []).append(value)
    senses, targets = (
        {name: torch.from_numpy(np.stack(values, 1)) for name, values in rows.items()} for rows in (seen, told)
    )
    return whole_episodes(senses, targets, torch.ones_like(targets["asked"]))


def whole_episodes(senses: Mapping[str, Tensor], targets: Mapping[str, Tensor], valid: Tensor) -> dict[str, Any]:
    """Rows [B, T, ...] that each begin an episode and are padded where `valid` is false.

    Args:
        targets: `choice` int64 [B, T], the teacher's; `asked` bool [B, T], Moments whose choice only memory can tell;
            `told` int64 [B, T], what the sign said, where a test has one sign (-1 where it was not seen yet).
    """
    first = torch.zeros_like(valid)
    first[:, 0] = True
    told = {"told": torch.full_like(targets["choice"], -1)}
    return {
        "senses": dict(senses), "present": {name: valid for name in senses}, "first": first, "valid": valid,
        **told, **targets,
    }  # fmt: skip


def loss(agent: Agent, batch: Mapping[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
    """Cross-entropy of `choose`, in Moments that memory decides and in the others, and of `told` where a sign was seen.

    Means apart, because a long walk has one Moment that is asked: in one mean it would weigh next to nothing. And
    `told` asks at every Moment of the way, so that forgetting is felt where it happens.
    """
    outputs, wanted = agent(batch, ["choose", "told"]), batch["choice"]
    logits = outputs["choose"].logits
    asked, known = batch["asked"] & batch["valid"], (batch["told"] >= 0) & batch["valid"]
    choosing, telling = _each(logits, wanted), _each(outputs["told"].logits, batch["told"].clamp_min(0))
    parts = {
        "asked": _mean(choosing, asked),
        "other": _mean(choosing, batch["valid"] & ~asked),
        "told": _mean(telling, known),
    }
    right = _mean((logits.argmax(-1) == wanted).float(), asked)
    total = torch.stack(list(parts.values())).sum()
    return total, {**{name: value.detach() for name, value in parts.items()}, "right": right.detach()}


def _each(logits: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(logits.flatten(0, 1), target.flatten(), reduction="none").view_as(target)


def _mean(values: Tensor, mask: Tensor) -> Tensor:
    return (values * mask).sum() / mask.sum().clamp_min(1)
