"""The lesson navigate: the class of each visible cell, from random poses in rooms strewn with things."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from devmind.agent.agent import Agent
from devmind.agent.batch import collate_tick
from devmind.agent.config import by_size
from devmind.algorithms.grid import truth
from devmind.curriculum.stage import Context, Lesson
from devmind.learners.gradient import gradient_lesson, head_loss
from devmind.seeding import lesson_seeds, numpy_rng
from devmind.worlds.minigrid import glances
from stages.reasoning import parts

NAME = "navigate"
FOUR_ROOMS = "MiniGrid-FourRooms-v0"
ROOMS = (
    FOUR_ROOMS, "MiniGrid-KeyCorridorS3R3-v0", "MiniGrid-DoorKey-8x8-v0", "MiniGrid-MultiRoom-N4-S5-v0",
    "MiniGrid-LavaCrossingS9N1-v0",
)  # fmt: skip
"""Kinds of rooms, in turn. KeyCorridorS3R1 is left out: it has too few rooms to keep some for exams."""
STEPS = {"tiny": 20, "nursery": 300, "child": 600, "adult": 600}
VIEWS = by_size(192, tiny=48)
"""Views of a batch."""
TRAINS = (f"encoders.{parts.LAYOUT}.", f"heads.{parts.CELLS}.")
OF_ONE = 16
"""Views of one room."""


def lesson(context: Context) -> Lesson:
    """Views and the classes of their cells; the trunk has no part in it."""
    return gradient_lesson(
        context, NAME, head_loss(parts.CELLS, "cells"), make, steps=STEPS, rows=VIEWS,
        learning_rate=5e-3, minutes=0.5, trains=lambda agent: TRAINS, control=(),
        prefetch=True, skills=(NAME,),
    )  # fmt: skip


def make(agent: Agent, context: Context, update: int, rows: int, steps: int = 0) -> dict[str, Any]:
    """`rows` views with `cells`, int64 [B, 1, 49]."""
    rng = numpy_rng("lesson", NAME, context.seed, update)
    seeds = lesson_seeds(-(-rows // OF_ONE), context.seed, NAME, update)
    begin = int(rng.integers(len(ROOMS)))
    board = glances((*ROOMS[begin:], *ROOMS[:begin]), seeds, OF_ONE, rng)[:rows]
    batch = collate_tick({parts.BOARD: board}, np.ones(rows, bool))
    batch["cells"] = torch.from_numpy(truth(board)).flatten(1)[:, None]
    return batch
