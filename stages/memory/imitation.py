"""Imitating a teacher who sees the state: whole episodes as Batches, and cross-entropy against what it chooses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from devmind.agent.agent import Agent
from devmind.curriculum.stage import Context
from devmind.seeding import lesson_seeds


def episode_batch(context: Context, world: str, level: str, update: int, size: int) -> dict[str, Any]:
    """`size` whole episodes that the teacher of a world of Rules plays, as a Batch with targets.

    Further names: `choice` int64 [B, T], the teacher's; `asked` bool [B, T], Moments whose choice only memory can tell.
    """
    seeds = lesson_seeds(size, context.seed, world, level, update)
    made = context.make_world(world, level, seeds)
    rows: dict[str, list[np.ndarray]] = {}
    senses, going = made.observe(), True
    while going:
        truth = made.truth()
        for name, value in (*senses.items(), ("choice", truth["choice"]), ("asked", truth["asked"])):
            rows.setdefault(name, []).append(value)
        senses, _, terminal, truncated, _ = made.step({"choose": truth["choice"]})
        going = not bool((terminal | truncated).all())
    stacked = {name: torch.from_numpy(np.stack(values, 1)) for name, values in rows.items()}
    choice, asked = stacked.pop("choice"), stacked.pop("asked")
    return whole_episodes(stacked, choice, asked, torch.ones_like(asked))


def whole_episodes(senses: Mapping[str, Tensor], choice: Tensor, asked: Tensor, valid: Tensor) -> dict[str, Any]:
    """Rows [B, T, ...] that each begin an episode and are padded where `valid` is false."""
    first = torch.zeros_like(valid)
    first[:, 0] = True
    present = {name: valid for name in senses}
    return {
        "senses": dict(senses), "present": present, "first": first, "valid": valid, "choice": choice, "asked": asked
    }  # fmt: skip


def loss(agent: Agent, batch: Mapping[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
    """Cross-entropy of `choose`: mean over the Moments that memory decides, plus mean over the others.

    Apart, because a long walk has one Moment that is asked: in one mean it would weigh next to nothing.
    """
    logits = agent(batch, ["choose"])["choose"].logits
    each = F.cross_entropy(logits.flatten(0, 1), batch["choice"].flatten(), reduction="none").view_as(batch["choice"])
    asked = batch["asked"] & batch["valid"]
    other = batch["valid"] & ~asked
    remembered, walked = _mean(each, asked), _mean(each, other)
    right = _mean((logits.argmax(-1) == batch["choice"]).float(), asked)
    return remembered + walked, {"asked": remembered.detach(), "other": walked.detach(), "right": right.detach()}


def _mean(values: Tensor, mask: Tensor) -> Tensor:
    return (values * mask).sum() / mask.sum().clamp_min(1)
