"""The lesson arrange: stretches of a scripted hand's sorting, and for each Moment a right plan from there on.

One of all right plans is drawn anew each time. The head's control, which imagines the trajectory alone, is taught as
long on the same Moments, so the exam compares two that had the same lesson.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from devmind.agent.agent import Agent
from devmind.agent.batch import clip
from devmind.agent.config import by_size
from devmind.curriculum.stage import Context, Lesson
from devmind.learners.gradient import gradient_lesson, sum_losses
from devmind.learners.muon import MuonLearner
from devmind.seeding import lesson_seeds, numpy_rng
from devmind.worlds.tabletop import SORTED, Table, TabletopRules, observe_table
from stages.planning import parts
from stages.planning.arrange.demonstrations import carried_out, held_out, plans, shuffle_tables

NAME = "arrange"
STEPS = {"tiny": 20, "nursery": 1200, "child": 4000, "adult": 8000}
ROWS, TICKS = 48, 2
"""Stretches of a batch, and Moments of a stretch: more tables in a batch teach, more Moments of a table do not (with 16
tables of four Moments, two plans each, symbols were learned twice as late)."""
LEVELS = {"two": 0.25, "three": 0.5, "three" + SORTED: 0.25}
"""Levels, and their shares of the tables."""
TABLES = by_size(9_000, tiny=120)
"""Tables of all levels together."""
AT_FIRST = 0.5
"""Share of stretches that begin at a table's first Moment, as all episodes do."""
MINUTES = 4.5


HEAD = f"heads.{parts.ARRANGE}."
TRAINS: Sequence[str] = (HEAD, *(f"encoders.{sense}." for sense in parts.TABLE))


class ArrangeLearner(MuonLearner):
    """Muon on the head's linear maps, those of hybrid and control alike.

    With AdamW alone it takes some three times as many steps until symbols are right (docs/log.md, 2026-11-25).
    """

    orthogonal, muon_betas = (HEAD,), (0.9, 0.95)


def lesson(context: Context) -> Lesson:
    """Stretches of two Moments."""
    tables = TABLES[context.config.size]

    def make(agent: Agent, context: Context, update: int, rows: int, steps: int = 0) -> dict[str, Any]:
        return batch(context.seed, tables, update, rows)

    return gradient_lesson(
        context, NAME, loss, make, steps=STEPS, rows=ROWS, learning_rate=2e-3, minutes=MINUTES,
        trains=lambda agent: TRAINS, learner=ArrangeLearner, prefetch=True, skills=(NAME,),
    )  # fmt: skip


@lru_cache(maxsize=2)
def stretches(seed: int, tables: int) -> Table:
    """Two stretches of `TICKS` Moments of each table that is not held out, stretch by stretch. Each begins where a plan
    may be made (the hand is empty, and something is to be sorted); a share of them begins at the first Moment."""
    parts_of_table = []
    for level, share in LEVELS.items():
        rules, rng = TabletopRules(level), numpy_rng(seed, NAME, level)
        begun = rules.initial(lesson_seeds(round(share * tables), seed, NAME, level))
        begun = begun.take(~held_out(begun))
        states = [begun, *carried_out(rules, begun, plans(begun, rng)[0])]
        plans_there = np.stack([plannable(state) for state in states])
        all_states = Table.concat(states)
        for _ in range(2):
            later = np.where(plans_there, rng.random(plans_there.shape), -1.0).argmax(0)
            first = np.where(rng.random(len(begun)) < AT_FIRST, 0, later)
            ticks = np.minimum(first[:, None] + np.arange(TICKS), len(states) - 1)
            parts_of_table.append(all_states.take((ticks * len(begun) + np.arange(len(begun))[:, None]).ravel()))
    return Table.concat(parts_of_table)


def plannable(table: Table) -> np.ndarray:
    """Where a plan may be made, bool [N]: the hand is empty, and something is to be sorted."""
    return np.asarray((table.held < 0) & ((table.kinds >= 0) & ~table.sorted).any(1))


def batch(seed: int, tables: int, update: int, rows: int) -> dict[str, Any]:
    """`rows` stretches, with `points` [B, T, 1, H, 3] and `words` [B, T, 1, L] of a plan at each Moment; `learned`
    bool [B, T] marks Moments in which a plan may be made."""
    rng, data = numpy_rng(seed, NAME, update), stretches(seed, tables)
    stretch = rng.integers(0, len(data) // TICKS, rows)
    table = data.take((stretch[:, None] * TICKS + np.arange(TICKS)).ravel())
    table = shuffle_tables(table, rng, TICKS)
    points, words = plans(table, rng)
    targets = {"points": points[:, None], "words": words[:, None], "learned": plannable(table)}

    def apart(value: np.ndarray) -> Tensor:
        return torch.from_numpy(value).unflatten(0, (rows, TICKS))

    senses = clip({name: apart(value) for name, value in observe_table(table).items()})
    return senses | {name: apart(value) for name, value in targets.items()}


def loss(agent: Agent, batch: Mapping[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
    """Losses of noised points and masked symbols, for each way of imagining."""
    output: Any = agent.forward(dict(batch), [parts.ARRANGE])[parts.ARRANGE]
    target = {name: batch[name].to(agent.device) for name in ("points", "words")}
    losses = output.losses(target, batch["learned"].to(agent.device))
    return sum_losses(losses)
