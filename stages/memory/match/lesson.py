"""Episodes of the delayed match (a sample, a pause, and two choices in turn), and the lesson's batches.

At each choice the agent tells whether it is the sample; the likelier one is its answer. The trunk has to carry what the
sample was: place, distance and background noise differ between sample and choice, and other things are seen or heard
in between. The choices alone do not tell the answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from devmind.agent.agent import Agent
from devmind.agent.batch import clip
from devmind.curriculum.stage import Context
from devmind.seeding import lesson_seeds, numpy_rng
from devmind.worlds.nursery.looks import sizes
from stages.memory.match.heads import log_odds
from stages.memory.recall.things import SIZES_M, TAUGHT, Lives, lives, looks

HEAD = "same"
"""Says whether what is sensed is the sample (`heads.py`)."""
KINDS: Mapping[str, str] = {"seen": "sight", "heard": "sound"}
"""By kind of episode, the sense by which its things are met."""
THINGS = 4
"""The sample, the other choice, and two that come between."""
CHOICES = 2
LONGEST_TAUGHT = 6
"""Most Moments between a sample and the first choice in lessons."""
BEGINNING, GROWN = 0.25, 0.8
"""Shares of the lesson. Before the first nothing comes between, since the head has to learn first what a match is. Then
the pause grows by one Moment at a time, to LONGEST_TAUGHT at the second. With all lengths at once nothing is learned.
"""


def things(seeds: np.ndarray, among: np.ndarray) -> Lives:
    """An episode's things of seeds int64 [N]: thing 0 is the sample.

    Sizes set the pitch, so they differ by at least a sixteenth of their range, and no two things sound alike. In
    lessons, which leave a band out, it is a twentieth.
    """
    of = lives(seeds, THINGS, among)
    smallest, largest = SIZES_M
    drawn = []
    for seed in seeds.tolist():
        rng = numpy_rng("match sizes", seed)
        drawn.append((rng.permutation(THINGS) + rng.uniform(0.125, 0.875, THINGS)) / THINGS)
    return replace(of, size_m=sizes(seeds, smallest + (largest - smallest) * np.stack(drawn)))


def answers(of: Lives) -> np.ndarray:
    """Which choice is the sample, int64 [N] of 0 and 1."""
    return of.answer[:, 0] % CHOICES


def show_episodes(of: Lives, sense: str, pause: int) -> np.ndarray:
    """The sense in episodes with `pause` Moments in between, [N, 1 + pause + 2, ...]."""
    n, second = len(of.seed), answers(of)
    sample, between, choices = (
        looks(of, slots, look, (sense,))[sense]
        for slots, look in (
            (np.zeros((n, 1), np.int64), "sample"),
            (np.tile(np.arange(CHOICES, THINGS), (n, 1)), "between"),
            (np.stack([second, 1 - second], 1), "choice"),
        )
    )
    return np.concatenate([sample, between[:, np.arange(pause) % between.shape[1]], choices], 1)


def lesson_batch(agent: Agent, context: Context, update: int, size: int, steps: int) -> dict[str, Any]:
    """`size` episodes as a Batch, seen and heard in turn, with `same` int64 [B, CHOICES]."""
    sense = list(KINDS.values())[update % len(KINDS)]
    pause = int(numpy_rng(context.seed, "match", "pause", update).integers(0, longest(update / steps) + 1))
    of = things(lesson_seeds(size, context.seed, "match", update), TAUGHT)
    batch = clip({sense: torch.from_numpy(show_episodes(of, sense, pause))})
    return batch | {"same": torch.from_numpy(np.stack([answers(of) == choice for choice in range(CHOICES)], 1)).long()}


def longest(share: float) -> int:
    """Most Moments in between when this share of the lesson is over."""
    grown = (share - BEGINNING) / (GROWN - BEGINNING)
    return 0 if grown < 0 else min(LONGEST_TAUGHT, 1 + int(grown * LONGEST_TAUGHT))


def lesson_episodes(context: Context, n: int) -> np.ndarray:
    """Episodes of lessons, int64 [n]."""
    return things(lesson_seeds(n, context.seed, "match", "episodes"), TAUGHT).episodes()


def loss(agent: Agent, batch: Mapping[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
    """Cross-entropy of the answer for each choice."""
    output = agent(batch, [HEAD])[HEAD]
    value = F.cross_entropy(output.logits[:, -CHOICES:].flatten(0, 1), batch["same"].flatten())
    return value, {"right": (log_odds(output)[:, -CHOICES:].argmax(1) == batch["same"].argmax(1)).float().mean()}
