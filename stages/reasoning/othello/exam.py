"""The exam othello: the share of moves that lose value at the ends of games, judged by a solver."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from devmind.agent.agent import Agent
from devmind.curriculum.exam import Measure, Parts, in_parts
from devmind.curriculum.gate import Gate, Threshold
from devmind.curriculum.stage import Context
from stages.reasoning import parts
from stages.reasoning.games import OTHELLO, SIMULATIONS
from stages.reasoning.judged import RatedPositions, endings, mistakes

POSITIONS, MADE = 200, 26
"""Ends of games, and the moves made before: six cells are free."""
GATE = Gate([Threshold("othello", None, beats_floor=True, lower_is_better=True)])
TAUGHT, ALONE, UNTRAINED = "trained, with search", "network alone", "untrained, with search"


@in_parts
def examine(agent: Agent, context: Context) -> Parts:
    """Mistakes with search; in full also of the network alone, of search alone and of the most-discs rule."""
    one = endings(OTHELLO, context.episodes(POSITIONS), MADE, context.seed)
    measure = Measure(
        "othello", "moves that lose value", mistakes(one, agent, SIMULATIONS), chance=one.by_chance, ceiling=0.0,
        rate=True, higher_is_better=False, reference="a solver makes none", episodes=one.episodes,
        note=f"ends of games after {MADE} moves by chance; {SIMULATIONS} simulations",
    )  # fmt: skip
    yield [measure]
    rows = {
        TAUGHT: float(measure.values.mean()),
        ALONE: float(mistakes(one, agent, 0).mean()),
        UNTRAINED: float(mistakes(one, parts.untrained_agent(agent), SIMULATIONS).mean()),
    }
    floors = {"most discs turned": float(one.mistakes(most_discs(one)).mean()), UNTRAINED: rows[UNTRAINED]}
    yield [replace(measure, floors=floors, rows=rows)]


def most_discs(one: RatedPositions) -> np.ndarray:
    """The move after which the player has most discs, the first of equals, int64 [N]."""
    rules = OTHELLO.rules
    legal = rules.legal(one.board)["place"]
    rows, choices = np.nonzero(legal)
    discs = np.full(legal.shape, -np.inf)
    discs[rows, choices] = -rules.step(one.board.take(rows), {"place": choices}).marks.sum(-1, dtype=float)
    return discs.argmax(-1)
