"""The lesson procedures: the worth of each commitment in a situation, learned from rewards.

Each world is lived twice from the same beginning, once bold and once cautious throughout. The worth of a life is its
effectiveness minus the mean of both, so what depends on the world alone cancels, as with any baseline (Williams 1992).
The head learns this worth for the life's plan, in every situation in which the plan was chosen.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from devmind.agent.agent import Agent
from devmind.agent.batch import collate_tick
from devmind.curriculum.episodes import identities
from devmind.curriculum.stage import Context, Lesson
from devmind.learners.gradient import gradient_lesson
from devmind.seeding import lesson_seeds, numpy_rng
from stages.reasoning import parts
from stages.reasoning.procedures.commitment import COMMITMENTS, Forced, live
from stages.reasoning.procedures.tileworld import SIDE, Tileworld

NAME = "procedures"
STEPS = {"tiny": 20, "nursery": 100, "child": 100, "adult": 100}
WORLDS = 48
"""Worlds of a batch."""
RATES = 0.8, 10.0
"""Least and greatest number of world ticks in one tick of the agent; drawn log-uniformly."""
UNIT = 0.05
"""Unit of the head's outputs, in effectiveness."""


def lesson(context: Context) -> Lesson:
    """Worlds with low and high rates of change."""
    return gradient_lesson(
        context, NAME, loss, make, steps=STEPS, rows=WORLDS, learning_rate=3e-3, minutes=0.4,
        trains=lambda agent: TRAINS, control=(), skills=(NAME,),
    )  # fmt: skip


TRAINS = (f"encoders.{parts.SITUATION}.", f"heads.{parts.WORTH}.")


def rates(n: int, rng: np.random.Generator) -> np.ndarray:
    """Rates of `n` worlds, float [n]."""
    low, high = np.log(RATES)
    return np.exp(rng.uniform(low, high, n))


def make(agent: Agent, context: Context, update: int, rows: int, steps: int = 0) -> dict[str, Any]:
    """Situations of the lives in `rows` worlds, with the chosen `plan` int64 [B, 1] and its `worth` [B, 1] in UNIT."""
    seeds = lesson_seeds(rows, context.seed, NAME, update)
    situations, plans, worth = [], [], []
    for seed, rate in zip(seeds.tolist(), rates(rows, numpy_rng("lesson", NAME, context.seed, update)), strict=True):
        lives = [live(seed, rate, Forced(plan)) for plan in COMMITMENTS]
        mean = sum(value for value, _ in lives) / len(lives)
        for plan, (value, situations_met) in enumerate(lives):
            situations += situations_met
            plans += [plan] * len(situations_met)
            worth += [(value - mean) / UNIT] * len(situations_met)
    batch = collate_tick({parts.SITUATION: np.stack(situations)}, np.ones(len(plans), bool))
    batch["plan"] = torch.tensor(plans)[:, None]
    batch["worth"] = torch.tensor(worth, dtype=torch.float32)[:, None]
    return batch


def loss(agent: Agent, batch: Mapping[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
    """Squared error for the life's plan."""
    worths = agent(batch, [parts.WORTH])[parts.WORTH].mode()
    predicted = worths.gather(-1, batch["plan"].to(agent.device)[..., None])[..., 0]
    wrong = (predicted - batch["worth"].to(agent.device)).square().mean()
    return wrong, {"worth": wrong.detach()}


def episode_names(seeds: np.ndarray, rates: np.ndarray) -> np.ndarray:
    """The identities of worlds, int64 [N]: obstacles, the agent's place, the first holes, the rate."""
    worlds = [Tileworld(seed, rate) for seed, rate in zip(seeds.tolist(), rates.tolist(), strict=True)]
    free, holes = (np.zeros((len(worlds), SIDE * SIDE)) for _ in range(2))
    for row, world in enumerate(worlds):
        free[row, world.free] = 1
        for cell, hole in world.holes.items():
            holes[row, cell] = hole.closes
    return identities({"free": free, "holes": holes, "at": np.array([world.at for world in worlds]), "rate": rates})
