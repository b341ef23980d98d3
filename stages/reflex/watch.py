"""Watching and listening without labels: the trunk predicts the next Moment's picture and sound.

Material is the nursery, and whatever sessions the run was given. The loss is relative to copying the last Moment, so 1
means nothing was learned (a persistence floor, as in video prediction).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from devmind.agent.agent import Agent
from devmind.agent.batch import collate
from devmind.agent.features import log_mel
from devmind.curriculum.stage import Context
from devmind.moment import Moment
from devmind.seeding import lesson_seeds, numpy_rng
from devmind.sessions.reader import Session
from stages.reflex.batches import as_tensors, clip

TICKS = 16
BANDS = 16
TYPICAL_CHANGE = {"next_sight": 0.05, "next_sound": 0.1}
"""The heads answer in these units, so an untrained one is wrong by about as much as the world changes."""


def lesson_batch(context: Context, update: int, size: int) -> dict[str, Any]:
    """`size` rows of 16 consecutive Moments; every other batch is from the given sessions, when there are any."""
    if context.sessions and update % 2:
        return session_rows(context, update, size)
    seeds = lesson_seeds(size, context.seed, "watch", update)
    world = context.make_world("nursery", "room", seeds)
    rng = numpy_rng(context.seed, "watch", "act", update)
    look = rng.normal(0, 0.5, (size, 2))
    reach = rng.normal(0, 0.5, (size, 4))
    rows: dict[str, list[Tensor]] = {}
    observation = world.observe()
    for _ in range(TICKS):
        for name, value in as_tensors(observation).items():
            rows.setdefault(name, []).append(value)
        # Gaze and hand drift smoothly, like a baby's before it can aim.
        look = 0.8 * look + rng.normal(0, 0.25, look.shape)
        reach = 0.8 * reach + rng.normal(0, 0.4, reach.shape)
        actions = {"look": look.clip(-1, 1).astype(np.float32), "reach": reach.clip(-1, 1).astype(np.float32)}
        observation = world.step(actions)[0]
    return clip({name: torch.stack(values, 1) for name, values in rows.items() if name != "words"})


@lru_cache(maxsize=32)
def _opened(path: Path) -> Session:
    return Session(path)


def session_rows(context: Context, update: int, size: int) -> dict[str, Any]:
    """Rows of consecutive recorded Moments, drawn by (seed, update); one session a batch, so that shapes agree."""
    rng = numpy_rng(context.seed, "watch", "sessions", update)
    session = _opened(context.sessions[int(rng.integers(len(context.sessions)))])
    ticks = min(TICKS, len(session))
    starts = rng.integers(0, len(session) - ticks + 1, size)
    return collate([_opening([moment for moment, _ in session.window(int(start), ticks)]) for start in starts])


def _opening(moments: list[Moment]) -> list[Moment]:
    """The row's first Moment opens an episode for the agent: what went before was not seen."""
    head = moments[0]
    return [Moment(head.time_s, head.senses, head.reward, True, head.last, head.terminal), *moments[1:]]


def coarse_sight(sight: Tensor) -> Tensor:
    """Pictures uint8 [B, T, H, W, 3] as float [B, T, 8, 8, 3] in 0..1."""
    planes = sight.flatten(0, 1).permute(0, 3, 1, 2).float() / 255
    return F.adaptive_avg_pool2d(planes, 8).permute(0, 2, 3, 1).unflatten(0, sight.shape[:2])


def coarse_sound(sound: Tensor) -> Tensor:
    """Sound [B, T, C, S] as log-mel energy in 16 bands, float [B, T, 16]."""
    mel = log_mel(sound.float().mean(2), 512, 400, 64).mean(-2)
    return 0.25 * F.avg_pool1d(mel, 64 // BANDS)


def loss(agent: Agent, batch: Mapping[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
    """Squared error of the predicted next picture and sound, each over that of predicting no change."""
    wanted = {}
    if "sight" in batch["senses"]:
        wanted["next_sight"] = coarse_sight(batch["senses"]["sight"])
    if "sound" in batch["senses"]:
        wanted["next_sound"] = coarse_sound(batch["senses"]["sound"])
    outputs = agent(batch, list(wanted))
    valid = batch["valid"][:, 1:] & ~batch["first"][:, 1:]
    total, scalars = torch.zeros((), device=batch["valid"].device), {}
    for name, now in wanted.items():
        sense = name.removeprefix("next_")
        here = valid & batch["present"][sense][:, 1:] & batch["present"][sense][:, :-1]
        here = here.reshape(*here.shape, *[1] * (now.ndim - 2)).float()
        change = now[:, 1:] - now[:, :-1]
        missed = TYPICAL_CHANGE[name] * outputs[name].mode()[:, :-1] - change
        still = (change.square() * here).sum()
        ratio = (missed.square() * here).sum() / still.clamp_min(1e-6)
        total = total + ratio
        scalars[name] = ratio.detach()
    return total, scalars
