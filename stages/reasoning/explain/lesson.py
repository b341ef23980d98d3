"""The lesson explain: what its own searches found is said to the agent in sentences, and it learns to say them itself.

What it is to say is noted once, when the lesson begins: what its search expects to follow each position. A page with
the question and that sentence is learned beside the position: by the layers that the stage grew and its sense of
positions, as the text head is language's and stays as it is.

Half of the pages ask for what a line of play is made of instead, by the rules of the game: which cells are free, and
which would end it for either side. Without these, cells that were taken were named in one of seven sentences, and 0.57
were true after 600 steps; with them 0.69 after 300 more (docs/log.md, 2026-11-26).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from devmind.agent.agent import Agent
from devmind.agent.batch import Batch
from devmind.agent.text import text_loss
from devmind.curriculum.examining import examination
from devmind.curriculum.stage import Batches, Context, Lesson
from devmind.learners.muon import MuonLearner
from devmind.seeding import numpy_rng
from stages.reasoning import parts
from stages.reasoning.explain.lines import (
    ENDS,
    FREE,
    GAME,
    QUESTION,
    asked,
    ends_told,
    expected,
    free_told,
    positions,
    sentence,
)

NAME = "explain"
STEPS = {"tiny": 10, "nursery": 900, "child": 2000, "adult": 2000}
ROWS, TINY_ROWS = 96, 8
"""Of a batch."""
MINUTES = 9.0
TURNS = (QUESTION, FREE, QUESTION, ENDS)
"""What the pages of a batch ask, in turn."""
HELD_OUT = 3
"""One of so many positions, with all its images, is kept for exams."""


def lesson(context: Context) -> Lesson:
    """Tic-tac-toe, explained."""
    count, rate = context.changed(NAME, TINY_ROWS if context.config.size == "tiny" else ROWS, 2e-3)

    def learner(agent: Agent, context: Context) -> Explaining:
        return Explaining(agent, seed=context.seed, learning_rate=rate)

    def batches(agent: Agent, context: Context, steps: int) -> Batches:
        return Batches(lambda update: {"update": update, "rows": context.rows(count)}, steps)

    return Lesson(NAME, learner, batches, STEPS[context.config.size], MINUTES, skills=(NAME,))


def held_out(marks: np.ndarray) -> np.ndarray:
    """Which positions int8 [N, 9] no lesson shows, nor an image of them, bool [N]."""
    keys = GAME.canonical(marks)[0]
    return np.array([numpy_rng("explain", int(key)).integers(HELD_OUT) == 0 for key in keys.tolist()], bool)


class Explaining(MuonLearner):
    """Learns to say the lines that the agent's own searches found when the lesson began; Muon steps the trunk, as where
    language is written."""

    def __init__(self, agent: Agent, *, seed: int, learning_rate: float) -> None:
        trains = parts.trained(agent)
        # Some hundred positions are soon known by heart.
        super().__init__(agent, self.loss_of, seed=seed, learning_rate=learning_rate, trains=trains, weight_decay=0.1)
        self.shown: dict[str, np.ndarray] = {}

    def begin(self, step: int) -> None:
        """Search the positions once."""
        if not self.shown:
            self.remember()
        super().begin(step)

    def remember(self) -> None:
        """Note what the agent's searches find now."""
        after = positions()[~held_out(positions())]
        with examination(self.agent):
            line, value = expected(self.agent, after)
        self.shown = {"after": after, "line": line, "value": value}

    def loss_of(self, agent: Agent, batch: Mapping[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
        """Nats a byte of the pages."""
        return text_loss(agent, self.drawn(batch["update"], batch["rows"]))

    def drawn(self, update: int, rows: int) -> Batch:
        """Positions and their images, with what is said of each."""
        if not self.shown:
            self.remember()
        after, line, value = (self.shown[name] for name in ("after", "line", "value"))
        rng = numpy_rng("lesson", NAME, self.seed, update)
        at, image = rng.integers(0, len(after), rows), rng.integers(0, len(GAME.symmetries[0]), rows)
        cells, moves = (each[image] for each in GAME.symmetries)
        to = moves.argsort(-1)  # where each move of the position is in its image
        told = np.where(line[at] >= 0, np.take_along_axis(to, line[at].clip(0), 1), -1)
        marks = np.take_along_axis(after[at], cells, 1)
        pages = [
            page(TURNS[row % len(TURNS)], *each)
            for row, each in enumerate(zip(marks, told.tolist(), value[at].tolist(), strict=True))
        ]
        return asked(marks, pages)

    def state_dict(self) -> dict[str, Any]:
        """The optimizer, and what is to be said."""
        return super().state_dict() | {"shown": {name: torch.from_numpy(each) for name, each in self.shown.items()}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on with them."""
        super().load_state_dict(state)
        self.shown = {name: each.numpy() for name, each in state["shown"].items()}


def page(question: str, marks: np.ndarray, line: Sequence[int], value: float) -> str:
    """A question about a position int8 [9], and what is said to it: a line of play, which cells are free, or which end
    the game.
    """
    told = {QUESTION: lambda: sentence(line, value), FREE: lambda: free_told(marks), ENDS: lambda: ends_told(marks)}
    return question + told[question]()
