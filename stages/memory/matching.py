"""The mazes of the skill `maze`: lessons of MiniGrid's Memory rooms, and how they are played in an exam."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import torch

from devmind.acting import Policy, Senses, rollout
from devmind.acting.rollout import Actions
from devmind.agent.agent import Agent
from devmind.curriculum.stage import Context
from devmind.seeding import exam_seeds, lesson_seeds, numpy_rng
from devmind.worlds.minigrid import FORWARD, LEFT, OBJECTS, RIGHT, room
from devmind.worlds.side_by_side import SideBySide
from stages.memory import imitation
from stages.memory.hallway import BALL, KEY, LONGEST, Hallway, Layout, for_exams, room_name
from stages.memory.playing import choosing, in_groups

POOL = 96
"""Episodes of each size that lessons draw from. There are 16 different rooms of size 7, and 40 of size 13: half of them
are for lessons, and half for the exam."""
ROOMS = {7: 8, 13: 20}
"""How many rooms of each size are kept for the exam, which asks all of them."""
STRAY = 0.1
"""How often the teacher's hand slips in lessons, so that the child meets what its own mistakes will lead to (DART:
Laskey et al., 2017); what is imitated is what the teacher would have done."""

Episode = dict[str, np.ndarray]
PADDING = {"told": -1}


def lesson_batch(context: Context, update: int, rows: int) -> dict[str, Any]:
    """`rows` episodes of a teacher with an unsteady hand, small and large rooms in turn, padded to one length."""
    rng = numpy_rng(context.seed, "hallway", update)
    episodes = [_walk(context, row, int(rng.integers(POOL))) for row in range(rows)]
    lengths = [len(episode["choice"]) for episode in episodes]
    valid = torch.arange(max(lengths))[None] < torch.tensor(lengths)[:, None]
    stacked = {
        name: _padded(name, [episode[name] for episode in episodes], max(lengths))
        for name in ("board", "choice", "asked", "told")
    }
    return imitation.whole_episodes({"board": stacked.pop("board")}, stacked, valid)


def view_batch(context: Context, update: int, rows: int) -> dict[str, Any]:
    """`rows` single Moments of such episodes, unrelated, as a Batch with T = 1; with the targets of `view_loss`.

    In half of them the first thing of its room is in view.
    """
    rng = numpy_rng(context.seed, "view", update)
    picked = []
    for row in range(rows):
        episode = _walk(context, row // 2, int(rng.integers(POOL)))
        shown = np.flatnonzero(episode["in_view"] >= 0)
        at = int(rng.choice(shown if row % 2 and len(shown) else len(episode["choice"])))
        picked.append((episode["board"][at], episode["choice"][at], episode["in_view"][at]))
    board, choice, told = (torch.from_numpy(np.stack(column))[:, None] for column in zip(*picked, strict=True))
    ones = torch.ones(rows, 1, dtype=torch.bool)
    return imitation.whole_episodes({"board": board}, {"choice": choice, "asked": ones, "told": told}, ones)


def view_loss(
    agent: Agent, batch: Mapping[str, Any], by_trunk: bool = True
) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """Cross-entropy of every cell's kind and of the teacher's choice, from the board's tokens alone.

    Cells with a thing count once more by themselves: there are one or two of them among 49.

    Args:
        by_trunk: also that of the first thing where it is in view, as the trunk tells it: what is to be remembered
            has to be seen first.
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
    return torch.stack(list(parts.values())).sum(), {name: value.detach() for name, value in parts.items()}


def _walk(context: Context, row: int, number: int) -> Episode:
    """One of the lessons' POOL walks in a room of row's size: small ones and large ones in turn."""
    size = tuple(LONGEST)[row % len(LONGEST)]
    return walk(size, int(lesson_rooms(context.seed, size)[number]))


@lru_cache(maxsize=8)
def lesson_rooms(seed: int, size: int) -> np.ndarray:
    """Seeds of the POOL rooms of lessons, int64 [POOL]: none is kept for exams."""
    seeds = lesson_seeds(4 * POOL, seed, "hallway", size)
    return np.array([one for one in seeds.tolist() if not for_exams(layout(size, one))][:POOL])


@lru_cache(maxsize=8)
def exam_rooms(seed: int, size: int) -> np.ndarray:
    """One seed for every room of a size that is kept for exams, int64 [ROOMS[size]]."""
    found: dict[Layout, int] = {}
    for one in exam_seeds(100 * ROOMS[size], seed, "hallway", size).tolist():
        if len(found) == ROOMS[size]:
            break
        if for_exams(room := layout(size, one)):
            found.setdefault(room, one)
    return np.array(list(found.values()))


def layout(size: int, seed: int) -> Layout:
    """The room that a seed begins."""
    hallway = _hallway(size)
    hallway.begin(seed)
    return hallway.layout


def _padded(name: str, values: list[np.ndarray], length: int) -> torch.Tensor:
    """Rows [T, ...] of several lengths as one tensor [B, length, ...]."""
    filled = np.full((len(values), length, *values[0].shape[1:]), PADDING.get(name, 0), values[0].dtype)
    for row, value in zip(filled, values, strict=True):
        row[: len(value)] = value
    return torch.from_numpy(filled)


@lru_cache(maxsize=2)
def _hallway(size: int) -> Hallway:
    return Hallway(size)


@lru_cache(maxsize=4 * POOL)
def walk(size: int, seed: int) -> Episode:
    """One episode: `board` int8 [T, 13, 7, 7], and targets [T] as `imitation.whole_episodes` has them.

    `in_view` is the first thing at Moments that show it, else -1.
    """
    hallway, rng = _hallway(size), numpy_rng("hallway", size, seed)
    rows: list[dict[str, Any]] = []

    def teaching(senses: Senses, first: np.ndarray) -> Actions:
        choice = hallway.teach()
        thing, asked = hallway.first_thing, hallway.at_the_fork
        told, in_view = thing if hallway.looked else -1, thing if hallway.in_view else -1
        rows.append({"board": senses["board"][0], "choice": choice, "asked": asked, "told": told, "in_view": in_view})
        slips = rng.random() < STRAY and not hallway.at_the_fork
        return {"choose": np.array([int(rng.integers(LEFT, FORWARD + 1)) if slips else choice])}

    for tick in rollout(teaching, hallway.begin(seed), LONGEST[size]):
        if tick.ended.all():
            break
    return {name: np.stack([row[name] for row in rows]) for name in rows[0]}


def reached(size: int, seeds: np.ndarray, policy: Policy) -> np.ndarray:
    """Whether the right thing was reached in each episode, float64 [N] of 0 and 1."""
    return in_groups(lambda group: _group(size, group, policy), seeds)


def _group(size: int, seeds: np.ndarray, policy: Policy) -> np.ndarray:
    world, right = SideBySide([room(room_name(size)) for _ in seeds], seeds), np.zeros(len(seeds))
    for tick in rollout(policy, world, LONGEST[size]):
        right[tick.reward > 0] = 1.0
        if tick.ended.all():
            break
    world.close()
    return right


def straight_on(side: int) -> Policy:
    """Walk on as long as the way is free, then to one side: what can be reached without remembering."""
    turned = np.zeros(0, bool)

    def act(senses: Senses, first: np.ndarray) -> np.ndarray:
        nonlocal turned
        turned = np.zeros(len(first), bool) if first.all() else turned
        blocked = senses["board"][:, 1, 5, 3] == 0  # the cell ahead is not empty
        turn = blocked & ~turned
        turned = turned | turn
        return np.where(turn, side, FORWARD)

    return choosing(act)


SIDES = {"straight on, then left": LEFT, "straight on, then right": RIGHT}
