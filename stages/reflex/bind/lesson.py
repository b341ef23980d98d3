"""Bind: which place in the picture a sound comes from; and the auxiliary task of hearing its direction."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from devmind.acting import constant_policy, observations
from devmind.agent.batch import clip, one_tick, stack_ticks
from devmind.curriculum.stage import Context
from devmind.learners.gradient import head_loss
from devmind.moment import SIGHT_SIZE
from devmind.seeding import lesson_seeds, numpy_rng

CELLS = 8
CELL_PX = SIGHT_SIZE // CELLS


def scenes(context: Context, seeds: np.ndarray, ticks: int) -> tuple[dict[str, Tensor], dict[str, np.ndarray]]:
    """(sight and sound [N, ticks, ...], truth at the last tick) of the level `bind`."""
    world = context.make_world("nursery", "bind", seeds)
    return stack_ticks(observations(world, ticks), ("sight", "sound")), world.truth()


def centres(boxes: np.ndarray) -> np.ndarray:
    """Middles of boxes [..., 4] in pixels, [..., 2] (x, y)."""
    return (boxes[..., :2] + boxes[..., 2:]) / 2


def lesson_batch(context: Context, update: int, size: int) -> dict[str, Any]:
    """`size` pictures with a sound, and the cell of the object that made it."""
    senses, truth = scenes(context, lesson_seeds(size, context.seed, "bind", update), 1)
    centre = centres(truth["boxes"])[np.arange(size), truth["target"]]
    cell = np.clip((centre // CELL_PX).astype(np.int64), 0, CELLS - 1)
    return clip(senses) | {"cell": torch.from_numpy(cell[:, 1] * CELLS + cell[:, 0])[:, None]}


loss = head_loss("bind", "cell")


def direction_batch(context: Context, update: int, size: int) -> dict[str, Any]:
    """Sounds from all around, with sine and cosine of their azimuth from the turned head."""
    world = context.make_world("nursery", "orient/sound", lesson_seeds(size, context.seed, "direction", update))
    look = numpy_rng(context.seed, "direction", update).uniform(-1, 1, (size, 2)).astype(np.float32)
    *_, senses = observations(world, 2, constant_policy(look))
    truth = world.truth()
    azimuth = np.deg2rad(truth["target_azimuth_deg"] - truth["pan_deg"])
    direction = torch.from_numpy(np.stack([np.sin(azimuth), np.cos(azimuth)], 1).astype(np.float32))
    return one_tick({"sound": torch.from_numpy(senses["sound"])}) | {"direction": direction[:, None]}


direction_loss = head_loss("sound_direction", "direction", "direction")
