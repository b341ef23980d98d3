"""Watching and listening without labels: the trunk predicts the next Moment's picture and sound.

Material is the nursery, and whatever sessions the run was given. The loss is `devmind.agent.prediction`'s.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from devmind.acting import Policy, Senses, observations
from devmind.acting.rollout import Actions
from devmind.agent.batch import as_opening, collate
from devmind.curriculum.stage import Context
from devmind.seeding import lesson_seeds, numpy_rng
from devmind.sessions.reader import Session
from stages.reflex.batches import as_tensors, clip

TICKS = 16


def lesson_batch(context: Context, update: int, size: int) -> dict[str, Any]:
    """`size` rows of 16 consecutive Moments; every other batch is from the given sessions, when there are any."""
    if context.sessions and update % 2:
        return session_rows(context, update, size)
    seeds = lesson_seeds(size, context.seed, "watch", update)
    world = context.make_world("nursery", "room", seeds)
    rng = numpy_rng(context.seed, "watch", "act", update)
    rows: dict[str, list[Tensor]] = {}
    for senses in observations(world, TICKS, babbling(size, rng)):
        for name, value in as_tensors(senses).items():
            rows.setdefault(name, []).append(value)
    return clip({name: torch.stack(values, 1) for name, values in rows.items() if name != "words"})


def babbling(size: int, rng: np.random.Generator) -> Policy:
    """Gaze and hand drift smoothly, like a baby's before it can aim."""
    look = rng.normal(0, 0.5, (size, 2))
    reach = rng.normal(0, 0.5, (size, 4))

    def act(senses: Senses, first: np.ndarray) -> Actions:
        nonlocal look, reach
        look = 0.8 * look + rng.normal(0, 0.25, look.shape)
        reach = 0.8 * reach + rng.normal(0, 0.4, reach.shape)
        return {"look": look.clip(-1, 1).astype(np.float32), "reach": reach.clip(-1, 1).astype(np.float32)}

    return act


@lru_cache(maxsize=32)
def _opened(path: Path) -> Session:
    return Session(path)


def session_rows(context: Context, update: int, size: int) -> dict[str, Any]:
    """Rows of consecutive recorded Moments, drawn by (seed, update); one session a batch, so that shapes agree."""
    rng = numpy_rng(context.seed, "watch", "sessions", update)
    session = _opened(context.sessions[int(rng.integers(len(context.sessions)))])
    ticks = min(TICKS, len(session))
    starts = rng.integers(0, len(session) - ticks + 1, size)
    return collate([as_opening([moment for moment, _ in session.window(int(start), ticks)]) for start in starts])
