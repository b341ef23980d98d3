"""Looks that the stage's lessons left out, and the rows of an exam about things that have them."""

from __future__ import annotations

import numpy as np

from devmind.agent.agent import Agent
from devmind.curriculum.stage import Context
from devmind.worlds.nursery.looks import GROUP, left_out

LEFT_OUT, SHOWN = "of looks that lessons left out", "of looks that lessons showed"


def taught_without(agent: Agent) -> bool:
    """Whether lessons of the stage left them out from the first one on.

    Agents raised before 2026-11-26 saw all looks: they list other lessons first, or none.
    """
    return list(agent.config.trained_on[:1]) == [GROUP]


def looks_left_out(context: Context, level: str, seeds: np.ndarray) -> np.ndarray:
    """In which rooms that `seeds` begin in a level of the nursery lessons left the target's looks out, bool [N]."""
    state = context.make_world("nursery", level, seeds).state()
    at = np.arange(len(seeds)), state.target
    return left_out(state.shape[at], state.colour[at], state.texture[at])


def rows_by_looks(agent: Agent, left: np.ndarray, values: np.ndarray) -> dict[str, float]:
    """Means of `values` [N] of rooms whose target's looks lessons left out, `left` bool [N], and of the others; none
    for an agent whose lessons showed all looks.
    """
    if not taught_without(agent) or left.all() or not left.any():
        return {}
    return {
        f"{LEFT_OUT}, n {left.sum()}": float(values[left].mean()),
        f"{SHOWN}, n {(~left).sum()}": float(values[~left].mean()),
    }
