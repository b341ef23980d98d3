"""Foresee: the trunk predicts what comes next, without labels.

The lesson `watch` predicts the next Moment's picture and sound (`devmind.agent.prediction`) in the nursery and in the
sessions that the run was given. The lesson `together` predicts how the tokens of sight and sound will change: the
agent's own encoder tokens, whitened (`NextTokensHead`). It leaves encoders as they are, so dull tokens cannot make
prediction easier. Errors are relative to predicting no change: 1 means nothing was learned.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from devmind.acting import Policy, Senses, observations
from devmind.acting.rollout import Actions
from devmind.agent.agent import Agent
from devmind.agent.batch import as_opening, as_tensors, clip, collate, stack_ticks
from devmind.agent.heads import NextTokensHead
from devmind.agent.output import Output
from devmind.agent.prediction import Residual
from devmind.agent.taps import Perceived
from devmind.curriculum.stage import Context
from devmind.seeding import lesson_seeds, numpy_rng
from devmind.sessions.reader import Session
from devmind.worlds.fed import ROOM
from stages.reflex.parts import FORESEEN

TICKS = 16
LEVELS = ("room", "orient/motion", "orient/sound", "track")
FED_AGAIN = 16
"""Batches that pass while one episode of a feed is watched; every other one is the nursery's."""
FORESEEN_TICKS = 10
MEASURED = 24
"""Rows a level for measuring the whitening."""


def rows(context: Context, level: str, seeds: Any, name: str) -> dict[str, Any]:
    """Rows of ten Moments in `level` with drifting gaze and hand."""
    world = context.make_world("nursery", level, seeds)
    act = babbling(len(seeds), numpy_rng(context.seed, name, level))
    return clip(stack_ticks(map(as_tensors, observations(world, FORESEEN_TICKS, act))))


def has_successor(batch: Mapping[str, Any], sense: str) -> Tensor:
    """Whether a Moment is followed by one of the same episode, both with the sense: bool [B, T - 1]."""
    present = batch["present"][sense]
    here: Tensor = batch["valid"][:, 1:] & ~batch["first"][:, 1:] & present[:, 1:] & present[:, :-1]
    return here


@torch.no_grad()
def measure_whitening(agent: Agent, context: Context) -> None:
    """Set each head's whitening from how the tokens of its sense change in rooms of the lesson."""
    n = MEASURED if context.config.size != "tiny" else 4
    for name, sense in FORESEEN.items():
        changes = []
        for level in LEVELS:
            batch = rows(context, level, lesson_seeds(n, context.seed, "foresee", level), "foresee")
            tokens = agent.perceive(batch, [sense]).encoded[sense].tokens
            changes.append(
                (tokens[:, 1:] - tokens[:, :-1])[has_successor(batch, sense).to(tokens.device)].flatten(0, -2)
            )
        head = agent.head(name)
        assert isinstance(head, NextTokensHead)
        head.set_whitening(torch.cat(changes))


def squares(
    agent: Agent, outputs: Mapping[str, Output], seen: Perceived, batch: Mapping[str, Any]
) -> dict[str, tuple[Tensor, Tensor]]:
    """Sums of squares of each row [B], by head: of the error, and of the true change."""
    sums = {}
    for name, sense in FORESEEN.items():
        if name not in outputs or sense not in seen.encoded:
            continue
        head, tokens = agent.head(name), seen.encoded[sense].tokens
        assert isinstance(head, NextTokensHead)
        change = head.changes(tokens[:, :-1], tokens[:, 1:])
        here = has_successor(batch, sense).to(change.device)[..., None, None]
        off = outputs[name].mode()[:, :-1] - change
        sums[name] = ((off.square() * here).sum((1, 2, 3)), (change.square() * here).sum((1, 2, 3)))
    return sums


def residuals(
    agent: Agent, outputs: Mapping[str, Output], seen: Perceived, batch: Mapping[str, Any]
) -> dict[str, Residual]:
    """Error and true change over all rows, by head."""
    every = squares(agent, outputs, seen, batch)
    return {name: Residual(off.sum(), change.sum()) for name, (off, change) in every.items()}


def lesson_batch(context: Context, update: int, size: int) -> dict[str, Any]:
    """`size` rows of 16 consecutive Moments; every other batch is from the given sessions, or a feed's, if any."""
    if (context.sessions or context.feed_of(ROOM)) and update % 2:
        return session_rows(context, update, size)
    seeds = lesson_seeds(size, context.seed, "watch", update)
    world = context.make_world("nursery", "room", seeds)
    rng = numpy_rng(context.seed, "watch", "act", update)
    seen = stack_ticks(map(as_tensors, observations(world, TICKS, babbling(size, rng))))
    return clip({name: value for name, value in seen.items() if name != "words"})


def babbling(size: int, rng: np.random.Generator) -> Policy:
    """A policy: gaze and hand drift smoothly, like a baby's before it can aim."""
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
    """Rows of consecutive recorded Moments, drawn by (seed, update); one session a batch, so that shapes agree. A feed
    counts as one more session, of which a batch gets the next episode.
    """
    rng = numpy_rng(context.seed, "watch", "sessions", update)
    feed = context.feed_of(ROOM)
    chosen = int(rng.integers(len(context.sessions) + (feed is not None)))
    session: Any
    if feed is not None and chosen == len(context.sessions):
        [session] = feed.episodes(update // FED_AGAIN, 1)
    else:
        session = _opened(context.sessions[chosen])
    ticks = min(TICKS, len(session))
    starts = rng.integers(0, len(session) - ticks + 1, size)
    return collate([as_opening([moment for moment, _ in session.window(int(start), ticks)]) for start in starts])
