"""The mazes of the skill `maze`: lessons of MiniGrid's Memory rooms, and how they are played in an exam."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import torch

from devmind.curriculum.stage import Context
from devmind.seeding import lesson_seeds, numpy_rng
from stages.memory import imitation
from stages.memory.hallway import FORWARD, LEFT, LONGEST, RIGHT, Hallway
from stages.memory.playing import Maker, in_groups

POOL = 96
"""Episodes of each size that lessons draw from. There are 16 different rooms of size 7, and 40 of size 13."""
STRAY = 0.1
"""How often the teacher's hand slips in lessons, so that the child meets what its own mistakes will lead to (DART:
Laskey et al., 2017); what is imitated is what the teacher would have done."""

Episode = tuple[np.ndarray, np.ndarray, np.ndarray]


def lesson_batch(context: Context, size: int, update: int, rows: int) -> dict[str, Any]:
    """`rows` episodes of MiniGrid-MemoryS`size` that a teacher with an unsteady hand walks, padded to one length."""
    seeds = lesson_seeds(POOL, context.seed, "hallway", size)
    rng = numpy_rng(context.seed, "hallway", size, update)
    episodes = [_walk(size, int(seeds[i])) for i in rng.integers(0, POOL, rows)]
    length = max(len(choice) for _, choice, _ in episodes)
    valid = torch.arange(length)[None] < torch.tensor([len(choice) for _, choice, _ in episodes])[:, None]
    board, choice, asked = (
        torch.from_numpy(
            np.stack([np.pad(e[k], [(0, length - len(e[k]))] + [(0, 0)] * (e[k].ndim - 1)) for e in episodes])
        )
        for k in range(3)
    )
    return imitation.whole_episodes({"board": board}, choice, asked, valid)


@lru_cache(maxsize=2)
def _hallway(size: int) -> Hallway:
    return Hallway(size)


@lru_cache(maxsize=4 * POOL)
def _walk(size: int, seed: int) -> Episode:
    """Views int8 [T, 13, 7, 7], the teacher's choices int64 [T], and which of them memory decides, bool [T]."""
    hallway, rng = _hallway(size), numpy_rng("hallway", size, seed)
    board, over = hallway.reset(seed), False
    rows: list[tuple[np.ndarray, int, bool]] = []
    while not over and len(rows) < LONGEST[size]:
        choice = hallway.teach()
        rows.append((board, choice, hallway.at_the_fork))
        slips = rng.random() < STRAY and not hallway.at_the_fork
        board, _, over = hallway.step(int(rng.integers(LEFT, FORWARD + 1)) if slips else choice)
    boards, choices, asked = zip(*rows, strict=True)
    return np.stack(boards), np.array(choices, np.int64), np.array(asked)


def reached(size: int, seeds: np.ndarray, make: Maker) -> np.ndarray:
    """Whether the right thing was reached in each episode, float64 [N] of 0 and 1; `make(n)` gives a player."""
    return in_groups(lambda group: _group(size, group, make), seeds)


def _group(size: int, seeds: np.ndarray, make: Maker) -> np.ndarray:
    hallways = [Hallway(size) for _ in seeds]
    board = np.stack([hallway.reset(int(seed)) for hallway, seed in zip(hallways, seeds, strict=True)])
    player, right, going = make(len(seeds)), np.zeros(len(seeds)), np.ones(len(seeds), bool)
    for tick in range(LONGEST[size]):
        choices = player({"board": board}, np.full(len(seeds), tick == 0))
        board = board.copy()
        for i in np.flatnonzero(going):
            board[i], right[i], over = hallways[i].step(int(choices[i]))
            going[i] = not over
        if not going.any():
            break
    for hallway in hallways:
        hallway.world.close()
    return right


def straight_on(side: int) -> Maker:
    """Walk on as long as the way is free, then to one side: what can be reached without remembering."""

    def make(n: int) -> Any:
        turned = np.zeros(n, bool)

        def act(senses: Any, first: np.ndarray) -> np.ndarray:
            blocked = senses["board"][:, 1, 5, 3] == 0  # the cell ahead is not empty
            turn = blocked & ~turned
            turned[:] |= turn
            return np.where(turn, side, FORWARD)

        return act

    return make


SIDES = {"straight on, then left": LEFT, "straight on, then right": RIGHT}
