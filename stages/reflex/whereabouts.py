"""Whereabouts: which colours are in view, in which direction and how far, and where the one just named is.

It teaches the tokens what arcs will need, and the words for colours: a grown-up names a thing in view and shows it.
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
from devmind.worlds.nursery.state import COLOUR_NAMES
from stages.reflex.batches import clip
from stages.reflex.parts import COLOURS
from stages.reflex.places import NUMBERS, SCALE_DEG

LEVELS = ("reach", "orient/sight", "reach", "track", "room", "orient/motion")
VISIBLE_PX = 6
NAMES = np.stack([encode_words(name) for name in COLOUR_NAMES])


def lesson_batch(context: Context, update: int, size: int) -> dict[str, Any]:
    """Half of `size` children before and after a turn of the head, with what `wanted` says of both Moments.

    Two Moments, so that the eye's change input is taught as well: arcs see it in all but an episode's first tick.
    In each a colour in view is named; where none is, none.
    """
    level, n = LEVELS[update % len(LEVELS)], max(2, size // 2)
    world = context.make_world("nursery", level, lesson_seeds(n, context.seed, "whereabouts", update))
    rng = numpy_rng(context.seed, "whereabouts", update)
    look = rng.uniform(-0.6, 0.6, (n, 2)).astype(np.float32)
    shown, told = [], []
    for senses in observations(world, 2, scripted(look)):
        shown.append(senses["sight"])
        told.append(wanted(world.truth()))
    places = np.stack(told, 1)
    named = np.argmax(places[..., 0] * rng.uniform(0.1, 1.0, places.shape[:-1]), -1)
    words = np.where(places[..., 0].any(-1, keepdims=True), NAMES[named], 0)
    both = np.concatenate((places, np.take_along_axis(places, named[..., None, None], 2)), 2)
    batch = clip({"sight": torch.from_numpy(np.stack(shown, 1)), "words": torch.from_numpy(words)})
    return batch | {"whereabouts": torch.from_numpy(both)}


def wanted(truth: Mapping[str, np.ndarray]) -> np.ndarray:
    """For every colour: in view?, left and up of the gaze (/30 deg), log of the distance (m); float32 [N, 8, 4].

    Where two things share a colour, the one in the later slot counts.
    """
    size = len(truth["colour"])
    values = np.zeros((size, COLOURS, NUMBERS), np.float32)
    left = truth["object_azimuth_deg"] - truth["pan_deg"][:, None]
    left = (left + 180) % 360 - 180
    up = truth["object_elevation_deg"] - truth["tilt_deg"][:, None]
    far = np.log(np.maximum(np.linalg.norm(truth["position"], axis=-1), 0.1))
    for slot in range(truth["colour"].shape[1]):
        seen = np.flatnonzero((truth["visible"][:, slot] >= VISIBLE_PX) & truth["present"][:, slot])
        columns = [np.ones(len(seen)), left[seen, slot] / SCALE_DEG, up[seen, slot] / SCALE_DEG, far[seen, slot]]
        values[seen, truth["colour"][seen, slot]] = np.stack(columns, 1)
    return values


def loss(agent: Agent, batch: Mapping[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
    """The places' own losses."""
    losses = agent(batch, ["whereabouts"])["whereabouts"].losses(batch["whereabouts"])
    return sum(losses.values(), start=torch.zeros(())), {name: value.detach() for name, value in losses.items()}
