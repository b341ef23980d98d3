"""Lessons of MiniGrid's Memory rooms: whole walks of the teacher, and single boards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from devmind.agent.agent import Agent
from devmind.curriculum.stage import Context
from devmind.learners.gradient import sum_losses
from devmind.seeding import numpy_rng
from devmind.worlds.minigrid import OBJECTS
from stages.memory import short_term
from stages.memory.maze.rooms import BALL, KEY, LONGEST, POOL, Episode, lesson_rooms, walk

PADDING = {"told": -1}


def lesson_batch(context: Context, update: int, rows: int) -> dict[str, Any]:
    """`rows` episodes of a teacher with random actions, small and large rooms in turn, padded to one length."""
    rng = numpy_rng(context.seed, "hallway", update)
    episodes = [_walk(context, row, int(rng.integers(POOL))) for row in range(rows)]
    lengths = [len(episode["choice"]) for episode in episodes]
    valid = torch.arange(max(lengths))[None] < torch.tensor(lengths)[:, None]
    stacked = {
        name: _padded(name, [episode[name] for episode in episodes], max(lengths))
        for name in ("board", "choice", "asked", "told")
    }
    return short_term.whole_episodes({"board": stacked.pop("board")}, stacked, valid)


def view_batch(context: Context, update: int, rows: int) -> dict[str, Any]:
    """`rows` single Moments of such episodes, unrelated, as a Batch with T = 1; with the targets of `view_loss`.

    In half of them the first thing of its room is in view.
    """
    rng = numpy_rng(context.seed, "view", update)
    picked = []
    for row in range(rows):
        episode = _walk(context, row // 2, int(rng.integers(POOL)))
        in_view = np.flatnonzero(episode["in_view"] >= 0)
        at = int(rng.choice(in_view if row % 2 and len(in_view) else len(episode["choice"])))
        picked.append((episode["board"][at], episode["choice"][at], episode["in_view"][at]))
    board, choice, things = (torch.from_numpy(np.stack(column))[:, None] for column in zip(*picked, strict=True))
    ones = torch.ones(rows, 1, dtype=torch.bool)
    return short_term.whole_episodes({"board": board}, {"choice": choice, "asked": ones, "told": things}, ones)


def view_loss(
    agent: Agent, batch: Mapping[str, Any], by_trunk: bool = True
) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """Cross-entropy of every cell's kind and of the teacher's choice, from the board's tokens alone.

    Cells with a thing count once more by themselves: there are one or two of them among 49.

    Args:
        by_trunk: also that of the first thing where it is in view, by the trunk: the thing to remember has to be seen
            first.
    """
    outputs = agent(batch, ["cells", "glance", *(["told"] if by_trunk else [])])
    kinds = batch["senses"]["board"][:, :, :OBJECTS].flatten(3).argmax(2)
    things = (kinds == KEY) | (kinds == BALL)
    parts = {
        "cells": outputs["cells"].loss(kinds),
        "things": outputs["cells"].loss(kinds, things),
        "glance": outputs["glance"].loss(batch["choice"]),
    }
    if by_trunk:
        parts["in view"] = outputs["told"].loss(batch["told"].clamp_min(0), batch["told"] >= 0)
    return sum_losses(parts)


def _walk(context: Context, row: int, number: int) -> Episode:
    """One of the lessons' POOL walks in a room of row's size: small ones and large ones in turn."""
    size = tuple(LONGEST)[row % len(LONGEST)]
    return walk(size, int(lesson_rooms(context.seed, size)[number]))


def _padded(name: str, values: list[np.ndarray], length: int) -> torch.Tensor:
    """Rows [T, ...] of several lengths as one tensor [B, length, ...]."""
    filled = np.full((len(values), length, *values[0].shape[1:]), PADDING.get(name, 0), values[0].dtype)
    for row, value in zip(filled, values, strict=True):
        row[: len(value)] = value
    return torch.from_numpy(filled)
