"""Whereabouts: which colours are in view, their direction and distance, and the place of the one just named.

It teaches the tokens what the arcs need, and the words for colours: a caregiver names a thing in view.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from devmind.acting import constant_policy, observations
from devmind.agent.agent import Agent
from devmind.agent.batch import clip, encode_words, stack_ticks
from devmind.curriculum.stage import Context
from devmind.seeding import lesson_seeds, numpy_rng
from devmind.worlds.nursery.state import COLOUR_NAMES
from devmind.worlds.nursery.truth import places_by_colour, with_one_named

LEVELS = ("reach", "orient/sight", "reach", "track", "room", "orient/motion")
NAMES = np.stack([encode_words(name) for name in COLOUR_NAMES])


def lesson_batch(context: Context, update: int, size: int) -> dict[str, Any]:
    """Half of `size` rows before and after a turn of the head, with the places of colours in both Moments.

    Two Moments, so that the eye's change input is taught as well: arcs get it in all but an episode's first tick.
    In each Moment a colour in view is named, if there is one.
    """
    level, n = LEVELS[update % len(LEVELS)], max(2, size // 2)
    world = context.make_world("nursery", level, lesson_seeds(n, context.seed, "whereabouts", update))
    rng = numpy_rng(context.seed, "whereabouts", update)
    look = rng.uniform(-0.6, 0.6, (n, 2)).astype(np.float32)
    moved = observations(world, 2, constant_policy(look))
    ticks = stack_ticks({"sight": senses["sight"], "places": places_by_colour(world.truth())} for senses in moved)
    places, named = with_one_named(ticks["places"].numpy(), rng)
    words = np.where(places[..., 0].any(-1, keepdims=True), NAMES[named], 0)
    batch = clip({"sight": ticks["sight"], "words": torch.from_numpy(words)})
    return batch | {"whereabouts": torch.from_numpy(places)}


def loss(agent: Agent, batch: Mapping[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
    """The sum of the losses of places."""
    losses = agent(batch, ["whereabouts"])["whereabouts"].losses(batch["whereabouts"])
    return sum(losses.values(), start=torch.zeros(())), {name: value.detach() for name, value in losses.items()}
