"""The lesson instruct: missions with their plans, invented words, and what stands in the cells of views.

The level's own instruction gives a mission's plan; exams do not see it. Carrying plans out is not taught, as the
controller learns nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from devmind.agent.agent import Agent
from devmind.agent.batch import collate_tick
from devmind.agent.config import by_size
from devmind.algorithms.grid import truth
from devmind.curriculum.stage import Context, Lesson
from devmind.learners.gradient import gradient_lesson, stages_of_parts, sum_losses
from devmind.seeding import lesson_seeds, numpy_rng
from devmind.worlds.minigrid import glances
from stages.planning import parts
from stages.planning.instruct import missions
from stages.planning.instruct.symbols import as_numbers

NAME = "instruct"
STEPS = {"tiny": 20, "nursery": 700, "child": 1500, "adult": 1500}
ROWS = by_size(64, tiny=16)
MADE_UP = 0.25
"""Share of missions in which an invented word replaces a word."""
VIEWS = ("BabyAI-GoToSeqS5R2-v0", "BabyAI-PutNextLocal-v0")
OF_ONE = 8
"""Views of one room."""


def lesson(context: Context) -> Lesson:
    """The lesson as data: single Moments of missions with views beside them."""
    return gradient_lesson(
        context, NAME, loss, make, steps=STEPS, rows=ROWS, learning_rate=3e-3, minutes=3.0,
        trains=trained_weights, prefetch=True, skills=(NAME,),
    )  # fmt: skip


def trained_weights(agent: Agent) -> Sequence[str]:
    """What the lesson trains: the head, and senses that no earlier stage has brought."""
    mine = stages_of_parts(agent, parts.NAME)
    senses = [entry["name"] for entry in agent.config.encoders if entry["stage"] in mine]
    own = (f"encoders.{name}." for name in (parts.TEXT, parts.BOARD) if name in senses)
    return (f"heads.{parts.INSTRUCT}.", *own)


def make(agent: Agent, context: Context, update: int, rows: int, steps: int = 0) -> dict[str, Any]:
    """`rows` missions of lessons' rooms with their plans, and as many views."""
    rng = numpy_rng("lesson", NAME, context.seed, update)
    seeds = lesson_seeds(-(-rows // missions.OF_ONE), context.seed, NAME, update)
    instructions = list(missions.draw_missions(seeds, rows, rng))
    texts = [_shown(said, rng) for said, _ in instructions]
    board = glances(VIEWS, lesson_seeds(-(-rows // OF_ONE), context.seed, NAME, "views", update), OF_ONE, rng)[:rows]
    batch = collate_tick({parts.TEXT: [said for said, _ in texts], parts.BOARD: board}, np.ones(rows, bool))
    longest = max(len(said.encode()) for said, _ in texts)
    made_up = np.zeros((rows, 1, 1 + longest), bool)  # "a page begins" stands before the bytes
    for row, (_, place) in enumerate(texts):
        made_up[row, 0, 1 + place.start : 1 + place.stop] = True
    batch["made_up"] = torch.from_numpy(made_up)
    batch["plan"] = torch.from_numpy(np.stack([as_numbers(plan) for _, plan in instructions]))[:, None]
    batch["cells"] = torch.from_numpy(truth(board)).flatten(1)[:, None]
    return batch


def _shown(said: str, rng: np.random.Generator) -> tuple[str, slice]:
    """The mission as it is said, and the place of its invented word."""
    if rng.random() >= MADE_UP:
        return said, slice(0, 0)
    word = missions.made_up(rng, exam=False)
    said, at = missions.with_word(said, word, rng)
    return said, slice(at, at + len(word))


def loss(agent: Agent, batch: Mapping[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
    """Nats of plans, of unknown words and of cells; the share of plans that are right in all symbols."""
    output: Any = agent.forward(dict(batch), [parts.INSTRUCT])[parts.INSTRUCT]
    target = {name: batch[name].to(agent.device) for name in ("plan", "made_up", "cells")}
    losses = output.losses(target)
    known = ~target["made_up"].any(-1)
    right = (output.symbols() == target["plan"]).flatten(-2).all(-1)
    declined = (output.declined == ~known).float().mean()
    return sum_losses(losses, {"plans right": right[known].float().mean(), "declined rightly": declined})
