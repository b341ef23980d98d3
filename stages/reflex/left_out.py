"""Looks and tones that the stage's lessons leave out, and the exam rows about them."""

from __future__ import annotations

import numpy as np

from devmind.agent.agent import Agent
from devmind.curriculum.exam import held_out_rows
from devmind.curriculum.stage import Context
from devmind.worlds.nursery.looks import GROUP, TONES, left_out, never_met, tone_held_out


def looks_left_out(context: Context, level: str, seeds: np.ndarray) -> np.ndarray:
    """Whether lessons leave out the target's looks, for each room that `seeds` begin in a nursery level; bool [N]."""
    state = context.make_world("nursery", level, seeds).state()
    target = np.arange(len(seeds)), state.target
    return left_out(state.shape[target], state.colour[target], state.texture[target])


def rows_by_looks(agent: Agent, left: np.ndarray, values: np.ndarray) -> dict[str, float]:
    """Means of `values` [N] over rooms with left-out looks (`left` bool [N]) and over the others; none for an agent
    whose lessons showed all looks.
    """
    return held_out_rows(values, left, "of looks") if never_met(agent.config.trained_on, GROUP) else {}


def tones_left_out(context: Context, level: str, seeds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Whether the target's tone is left out of lessons, and whether there is a target, for each room that `seeds` begin
    in a nursery level; both bool [N].
    """
    state = context.make_world("nursery", level, seeds).state()
    return tone_held_out(state.size[np.arange(len(seeds)), state.target]), state.target >= 0


def rows_by_tones(agent: Agent, left: tuple[np.ndarray, np.ndarray], values: np.ndarray) -> dict[str, float]:
    """As `rows_by_looks`, with `left` from `tones_left_out`: rooms without a target are in neither row."""
    band, sounds = left
    return held_out_rows(values[sounds], band[sounds], "of tones") if never_met(agent.config.trained_on, TONES) else {}
