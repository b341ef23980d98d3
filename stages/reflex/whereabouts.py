"""Whereabouts: which colours are in view, in which direction and how far; it teaches the tokens what arcs will need."""

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
from stages.reflex.batches import one_tick
from stages.reflex.locate import rooms
from stages.reflex.parts import COLOURS

LEVELS = ("reach", "orient/sight", "reach", "track", "room", "orient/motion")
SCALE_DEG = 30.0
VISIBLE_PX = 6


def lesson_batch(context: Context, update: int, size: int) -> dict[str, Any]:
    """`size` pictures, and for every colour: in view?, left and up of the gaze (/30 deg), log of the distance (m)."""
    level = LEVELS[update % len(LEVELS)]
    senses, truth = rooms(context, level, lesson_seeds(size, context.seed, "whereabouts", update), "w", update)
    wanted = np.zeros((size, COLOURS, 4), np.float32)
    left = truth["object_azimuth_deg"] - truth["pan_deg"][:, None]
    left = (left + 180) % 360 - 180
    up = truth["object_elevation_deg"] - truth["tilt_deg"][:, None]
    far = np.log(np.maximum(np.linalg.norm(truth["position"], axis=-1), 0.1))
    for slot in np.argsort(truth["visible"].mean(0)):
        seen = np.flatnonzero((truth["visible"][:, slot] >= VISIBLE_PX) & truth["present"][:, slot])
        colour = truth["colour"][seen, slot]
        values = np.stack(
            [np.ones(len(seen)), left[seen, slot] / SCALE_DEG, up[seen, slot] / SCALE_DEG, far[seen, slot]], 1
        )
        wanted[seen, colour] = values
    return one_tick({"sight": torch.from_numpy(senses["sight"])}) | {"whereabouts": torch.from_numpy(wanted)[:, None]}


def loss(agent: Agent, batch: Mapping[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
    """Squared error of presence everywhere, smooth L1 of direction and distance of the colours in view."""
    told = agent(batch, ["whereabouts"])["whereabouts"].mode()
    wanted = batch["whereabouts"]
    here = wanted[..., :1]
    present = F.mse_loss(told[..., :1], here)
    where = (
        F.smooth_l1_loss(told[..., 1:], wanted[..., 1:], reduction="none", beta=0.1) * here
    ).sum() / here.sum().clamp_min(1)
    return present + where, {"present": present.detach(), "where": where.detach() / 3}
