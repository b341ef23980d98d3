"""The lesson `things`: where each of eight colours is seen, also between large covers, and which one is named.

Beliefs are made from its detections and recalled by the named colour.

The head starts with the weights of the reflex stage's `whereabouts` and learns on in the rooms where things are hidden.
`whereabouts` itself stays as it is, since arcs learned from the same tokens beside it.
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
from devmind.worlds.nursery import hiding
from devmind.worlds.nursery.state import COLOUR_NAMES
from devmind.worlds.nursery.truth import places_by_colour, with_one_named
from stages.memory.parts import HEAD, NAMED

LEVELS = ("hide/unmoved", "hide/a-not-b", "hide/moved", "room", "hide/swapped", "reach")
TRAINS = (f"heads.{HEAD}.", f"heads.{NAMED}.")
NAMES = np.stack([encode_words(name) for name in COLOUR_NAMES])


def lesson_batch(context: Context, update: int, size: int) -> dict[str, Any]:
    """Half of `size` rows at any tick of their episode, before and after a turn of the head."""
    level, n = LEVELS[update % len(LEVELS)], max(2, size // 2)
    rng = numpy_rng(context.seed, HEAD, update)
    world = context.make_world("nursery", level, lesson_seeds(n, context.seed, HEAD, update))
    if level.startswith("hide/"):
        tick = rng.integers(0, hiding.HORIZON - 2, n)
        world.restore(hiding.at_tick(world.state(), level.removeprefix("hide/"), tick))
    turn = rng.uniform(-0.8, 0.8, (n, 2)) * (rng.random((n, 1)) < 0.6)
    moved = observations(world, 2, constant_policy(turn))
    ticks = stack_ticks({"sight": senses["sight"], "places": places_by_colour(world.truth())} for senses in moved)
    targets, named = with_one_named(ticks["places"].numpy(), rng)
    words = np.where(targets[..., 0].any(-1, keepdims=True), NAMES[named], 0)
    batch = clip({"sight": ticks["sight"], "words": torch.from_numpy(words)})
    return batch | {"things": torch.from_numpy(targets), "named": torch.from_numpy(named)}


def loss(agent: Agent, batch: Mapping[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
    """The losses of places and of the named colour, and the share of visible colours that are detected."""
    outputs = agent(batch, [HEAD, NAMED])
    output: Any = outputs[HEAD]
    losses = output.losses(batch["things"])
    losses["which"] = outputs[NAMED].loss(batch["named"], batch["present"]["words"])
    here, detected = batch["things"][..., :-1, 0] > 0, output.mode()[..., :-1, 0] > 0
    shares = {"told": detected[here].float().mean(), "false": detected[~here].float().mean()}
    return sum(losses.values(), start=torch.zeros(())), {k: v.detach() for k, v in (losses | shares).items()}
