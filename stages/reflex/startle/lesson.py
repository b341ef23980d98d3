"""Startle: classify bangs and looming objects, which teaches the tokens what the withdrawing arc needs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from devmind.acting import rollout, still
from devmind.agent.agent import Agent
from devmind.agent.batch import clip
from devmind.curriculum.stage import Context
from devmind.seeding import lesson_seeds, numpy_rng
from devmind.worlds.nursery.state import NO_EVENT

LAST_TICK = 15
SENSES = ("sight", "periphery", "sound")


def event_batch(context: Context, update: int, size: int) -> dict[str, Any]:
    """`size` pairs of consecutive Moments, and what begins in the second: 0 nothing, 1 a bang, 2 an object that looms.

    An event's first two ticks count, as in the exam. About half of the pairs hold one.
    """
    seeds = lesson_seeds(size, context.seed, "event", update)
    rng = numpy_rng(context.seed, "event", "ticks", update)
    world = context.make_world("nursery", "startle", seeds)
    start = world.state()
    has = start.event != NO_EVENT
    second = np.where(has & (rng.random(size) < 0.8), start.event_tick + rng.integers(0, 2, size), 0)
    second = np.where(second > 0, second, rng.integers(1, LAST_TICK + 1, size))
    first_senses = world.observe()
    pairs = {name: np.zeros((size, 2, *first_senses[name].shape[1:]), first_senses[name].dtype) for name in SENSES}
    for passed in rollout(still, world, LAST_TICK):
        rows = second == passed.tick + 1
        for name, pair in pairs.items():
            pair[rows, 0], pair[rows, 1] = passed.senses[name][rows], passed.following[name][rows]
    begins = has & (second >= start.event_tick) & (second <= start.event_tick + 1)
    label = torch.from_numpy(np.where(begins, start.event, NO_EVENT))
    batch = clip({name: torch.from_numpy(pair) for name, pair in pairs.items()})
    return batch | {"event": label[:, None].expand(-1, 2)}


def event_loss(agent: Agent, batch: Mapping[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
    """Cross-entropy of the second Moment's event."""
    output = agent(batch, ["event"])["event"]
    judged = torch.zeros_like(batch["first"])
    judged[:, 1] = True
    value = output.loss(batch["event"], judged)
    right = (output.mode()[:, 1] == batch["event"][:, 1]).float().mean()
    return value, {"event": value.detach(), "event right": right}
