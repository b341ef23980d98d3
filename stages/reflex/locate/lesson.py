"""Locate: things, their centres and depth in rooms of the nursery, for the scene head. Its batches and its loss."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from devmind.acting import constant_policy, observations
from devmind.agent.agent import Agent
from devmind.agent.batch import one_tick
from devmind.curriculum.stage import Context
from devmind.seeding import lesson_seeds, numpy_rng
from stages.reflex.locate.scene import MIN_PIXELS, SIZE, Scene

THINGS = 8
LEVELS = ("room", "room", "room", "bind", "reach", "orient/motion")


def rooms(
    context: Context, level: str, seeds: np.ndarray, *names: int | str
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """(senses, truth) of rooms after a small turn of the head."""
    world = context.make_world("nursery", level, seeds)
    look = numpy_rng(context.seed, "turned", *names).uniform(-0.6, 0.6, (len(seeds), 2)).astype(np.float32)
    *_, senses = observations(world, 2, constant_policy(look))
    return dict(senses), world.truth()


def lesson_batch(context: Context, update: int, size: int) -> dict[str, Any]:
    """Half of `size` rooms, with the maps to predict."""
    level, n = LEVELS[update % len(LEVELS)], max(2, size // 2)
    senses, truth = rooms(context, level, lesson_seeds(n, context.seed, "locate", update), update)
    maps = targets(truth["depth"], truth["mask"], THINGS)
    return one_tick({"sight": torch.from_numpy(senses["sight"])}) | {"scene": maps}


def loss(agent: Agent, batch: Mapping[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
    """The scene head's four losses."""
    scene = agent(batch, ["scene"])["scene"]
    assert isinstance(scene, Scene)
    losses = scene.losses(batch["scene"])
    total = sum(losses.values(), start=torch.zeros(()))
    return total, {"locate": total.detach(), "depth": losses["log_depth"].detach()}


def targets(depth: np.ndarray, mask: np.ndarray, things: int) -> dict[str, Tensor]:
    """Training maps of pictures, from their true depth [N, 64, 64] (m) and mask uint8 (1..things are things)."""
    n = len(mask)
    thing = (mask > 0) & (mask <= things)
    centre, offset = np.zeros((n, SIZE, SIZE), np.float32), np.zeros((n, 2, SIZE, SIZE), np.float32)
    grid = np.stack(np.meshgrid(np.arange(SIZE), np.arange(SIZE), indexing="ij")).astype(np.float32)
    for k in range(1, things + 1):
        here = mask == k
        count = here.sum((1, 2))
        seen = np.flatnonzero(count >= MIN_PIXELS)
        if not len(seen):
            continue
        part = here[seen]
        middle = (grid[None] * part[:, None]).sum((2, 3)) / count[seen, None]
        to = middle[:, :, None, None] - grid[None]
        offset[seen] += to * part[:, None]
        # The bump's width follows the thing's size, so small things keep a peak of their own.
        width = np.clip(np.sqrt(count[seen]) / 6, 1.0, 3.0)[:, None, None]
        bump = np.exp(-(to**2).sum(1) / (2 * width**2))
        centre[seen] = np.maximum(centre[seen], bump)
    log_depth = np.log(np.maximum(depth, 0.05))
    return {
        "thing": torch.from_numpy(thing.astype(np.float32))[:, None],
        "centre": torch.from_numpy(centre)[:, None],
        "log_depth": torch.from_numpy(log_depth.astype(np.float32))[:, None],
        "offset": torch.from_numpy(offset)[:, None],
    }
