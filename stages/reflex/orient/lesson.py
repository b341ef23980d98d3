"""Gaze: the looking arc is shown where to turn, before it practises: to what is seen, heard or moves, before walls or
clutter. Where nothing is, it is shown to rest.

Only the looking arc learns here; encoders stay as perception has taught them, so every other skill stays bit for bit.
Unless a sound is the cue, many Moments are as a camera gives them: no sound, no hand, less change in the wide view.
Without those the arc followed things before moving pictures in the nursery, and nothing in real ones.

The earlier lesson `perceive` teaches the tokens of the wide view to tell where something moves (`motion_batch`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from devmind.acting import constant_policy, observations
from devmind.agent.agent import Agent
from devmind.agent.batch import clip, stack_ticks
from devmind.curriculum.stage import Context
from devmind.seeding import lesson_seeds, numpy_rng
from devmind.worlds.nursery.state import MAX_TURN_DEG
from devmind.worlds.spaces import BODY
from stages.reflex.parts import LOOK_SENSES

HEAD = "look_arc"
TRAINS = (f"heads.{HEAD}.",)
LEVELS = (
    "clutter/orient", "orient/motion", "clutter/empty", "orient/sight", "orient/empty", "orient/motion",
    "clutter/track", "orient/sight", "clutter/orient", "orient/empty", "orient/motion", "clutter/empty",
    "clutter/orient", "orient/sound",
)  # fmt: skip
AS_FILMED = 0.6
"""Share of the rows that get what a camera gives, unless a sound is the cue."""
TURNED = 0.7
"""Share of the rows that turn the head between the two Moments."""
SCALE_DEG = 30.0
MOTION_TICKS = 4
CAMERA_LACKS = tuple(BODY.index(name) for name in ("hand_x", "hand_y", "hand_z", "touch", "holding", "lean", "grip"))


def lesson_batch(context: Context, update: int, size: int) -> dict[str, Any]:
    """`size` rows of two consecutive Moments, and the target turn in each, -1..1 of 25 degrees, left and up."""
    level = LEVELS[update % len(LEVELS)]
    world = context.make_world("nursery", level, lesson_seeds(size, context.seed, "gaze", update))
    rng = numpy_rng(context.seed, "gaze", update)
    look = rng.uniform(-1, 1, (size, 2)) * (rng.random((size, 1)) < TURNED)
    moved = observations(world, 2, constant_policy(look.astype(np.float32)))
    ticks = stack_ticks(({**senses, "turn": target_turn(world.truth())} for senses in moved), (*LOOK_SENSES, "turn"))
    turn = ticks.pop("turn")
    batch = clip(ticks)
    if level != "orient/sound":
        as_filmed(batch, rng, rng.random(size) < AS_FILMED)
    # A sound's height is not judged: the ears cannot tell it.
    axes = torch.tensor([1.0, 0.0 if level == "orient/sound" else 1.0])
    return batch | {"turn": turn, "axes": axes}


def target_turn(truth: Mapping[str, np.ndarray]) -> np.ndarray:
    """The command that turns to the target, or as far towards it as one tick allows; zero without a target.

    float32 [N, 2], -1..1 of 25 degrees left and up.
    """
    left = (truth["target_azimuth_deg"] - truth["pan_deg"] + 180) % 360 - 180
    up = truth["target_elevation_deg"] - truth["tilt_deg"]
    there = (truth["target"] >= 0)[:, None]
    return np.where(there, np.clip(np.stack([left, up], 1) / MAX_TURN_DEG, -1, 1), 0).astype(np.float32)


def as_filmed(batch: dict[str, Any], rng: np.random.Generator, filmed: np.ndarray) -> None:
    """Remove what a camera lacks, and some of the change in view, from the rows `filmed` bool [N], in place."""
    senses, present = batch["senses"], batch["present"]
    ticks = senses["body"].shape[1]
    present["sound"] = present["sound"] & torch.from_numpy(np.repeat(~filmed[:, None], ticks, 1))
    body = senses["body"].clone()
    body[filmed.nonzero()[0][:, None, None], torch.arange(ticks)[:, None], torch.tensor(CAMERA_LACKS)] = torch.nan
    fainter = np.where(filmed, rng.uniform(0.1, 0.8, len(filmed)), 1.0).astype(np.float32)
    senses["body"] = body
    senses["periphery"] = senses["periphery"] * torch.from_numpy(fainter)[:, None, None, None, None]


def loss(agent: Agent, batch: Mapping[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
    """Mean absolute error of the turn, by axis."""
    missed = (agent(batch, [HEAD])[HEAD].mode() - batch["turn"]).abs() * batch["axes"]
    value = missed.mean()
    return value, {"turn": value.detach()}


def motion_batch(context: Context, update: int, size: int) -> dict[str, Any]:
    """Four ticks of `size` rows: the wide view's change, and azimuth and elevation of what moves (/30 deg)."""
    world = context.make_world("nursery", "orient/motion", lesson_seeds(size, context.seed, "motion", update))
    target_names = ("target_azimuth_deg", "target_elevation_deg")
    ticks = stack_ticks(
        ({**senses, **world.truth()} for senses in observations(world, MOTION_TICKS)), ("periphery", *target_names)
    )
    target = torch.stack([ticks.pop(name) / SCALE_DEG for name in target_names], -1).float()
    return clip(ticks) | {"moving": target}


def motion_loss(agent: Agent, batch: Mapping[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
    """Mean absolute error of the direction, by dimension."""
    error = (agent(batch, ["moving"])["moving"].mode() - batch["moving"]).abs().mean()
    return error, {"moving deg": error.detach() * SCALE_DEG}
