"""Things: where each of eight colours is seen, also between large covers, and which one is named.

It is what beliefs are fed with, and recalled by.

The head starts as the reflex stage's `whereabouts` and goes on learning in the rooms where things are hidden. That head
stays as it is, since arcs learned from the same tokens beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from devmind.acting import observations, scripted
from devmind.agent.agent import Agent
from devmind.agent.batch import encode_words
from devmind.curriculum.stage import Context
from devmind.seeding import lesson_seeds, numpy_rng
from devmind.worlds.nursery import hiding
from devmind.worlds.nursery.state import COLOUR_NAMES
from stages.memory.parts import HEAD, NAMED

LEVELS = ("hide/unmoved", "hide/a-not-b", "hide/moved", "room", "hide/swapped", "reach")
TRAINS = (f"heads.{HEAD}.", f"heads.{NAMED}.")
VISIBLE_PX = 6
SCALE_DEG = 30.0
NAMES = np.stack([encode_words(name) for name in COLOUR_NAMES])


def lesson_batch(context: Context, update: int, size: int) -> dict[str, Any]:
    """Half of `size` children at any tick of their episode, before and after a turn of the head."""
    level, n = LEVELS[update % len(LEVELS)], max(2, size // 2)
    rng = numpy_rng(context.seed, HEAD, update)
    world = context.make_world("nursery", level, lesson_seeds(n, context.seed, HEAD, update))
    if level.startswith("hide/"):
        tick = rng.integers(0, hiding.HORIZON - 2, n)
        world.restore(hiding.at_tick(world.state(), level.removeprefix("hide/"), tick))
    turn = rng.uniform(-0.8, 0.8, (n, 2)) * (rng.random((n, 1)) < 0.6)
    seen, told = [], []
    for senses in observations(world, 2, scripted(turn)):
        seen.append(senses["sight"])
        told.append(_places(world.truth()))
    places = np.stack(told, 1)
    named = np.argmax(places[..., 0] * rng.uniform(0.1, 1.0, places.shape[:-1]), -1)
    words = np.where(places[..., 0].any(-1, keepdims=True), NAMES[named], 0)
    wanted = np.concatenate((places, np.take_along_axis(places, named[..., None, None], 2)), 2)
    here, first = torch.ones(n, 2, dtype=torch.bool), torch.tensor([[True, False]]).expand(n, 2)
    sensed = {"sight": torch.from_numpy(np.stack(seen, 1)), "words": torch.from_numpy(words)}
    present = {"sight": here, "words": (sensed["words"] != 0).any(-1)}
    return {"senses": sensed, "present": present, "first": first, "valid": here} | {
        "things": torch.from_numpy(wanted), "named": torch.from_numpy(named)
    }  # fmt: skip


def loss(agent: Agent, batch: Mapping[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
    """The places' own losses, that of which colour is named, and the share of visible colours that are told."""
    outputs = agent(batch, [HEAD, NAMED])
    output: Any = outputs[HEAD]
    losses = output.losses(batch["things"])
    losses["which"] = outputs[NAMED].loss(batch["named"], batch["present"]["words"])
    here, told = batch["things"][..., :-1, 0] > 0, output.mode()[..., :-1, 0] > 0
    shares = {"told": told[here].float().mean(), "false": told[~here].float().mean()}
    return sum(losses.values(), start=torch.zeros(())), {k: v.detach() for k, v in (losses | shares).items()}


def _places(truth: Mapping[str, np.ndarray]) -> np.ndarray:
    """For every colour: in view?, left and up of the gaze (/30 deg), log of the distance (m); float32 [N, 8, 4]."""
    n = len(truth["colour"])
    values = np.zeros((n, len(COLOUR_NAMES), 4), np.float32)
    left = (truth["object_azimuth_deg"] - truth["pan_deg"][:, None] + 180) % 360 - 180
    up = truth["object_elevation_deg"] - truth["tilt_deg"][:, None]
    far = np.log(np.maximum(np.linalg.norm(truth["position"], axis=-1), 0.1))
    rows, slots = np.nonzero((truth["visible"] >= VISIBLE_PX) & truth["present"])
    columns = [np.ones(len(rows)), left[rows, slots] / SCALE_DEG, up[rows, slots] / SCALE_DEG, far[rows, slots]]
    values[rows, truth["colour"][rows, slots]] = np.stack(columns, 1)
    return values
