"""Hand-written rules for rooms with a red ball: baselines of the exam, no part of a head. They ignore instructions."""

from __future__ import annotations

import numpy as np

from devmind.acting import Policy, Senses
from devmind.acting.rollout import Actions
from devmind.worlds.minigrid import FORWARD, LEFT, OBJECTS, RIGHT
from stages.language.parts import BOARD, CHOOSE

EMPTY, BALL, RED = 1, 6, 0
"""Numbers of MiniGrid's kinds of cells and colours."""
AHEAD = (5, 3)
"""The cell ahead in a view of 7x7, in which the agent stands in the middle of the last row and looks up."""


def at_random(rng: np.random.Generator, last: int = FORWARD) -> Policy:
    """Random actions from MiniGrid's first one up to `last`; by default turns and steps."""

    def act(senses: Senses, first: np.ndarray) -> Actions:
        return {CHOOSE: rng.integers(0, last + 1, len(first))}

    return act


def straight_on(rng: np.random.Generator) -> Policy:
    """A step while the way is free, else a turn to either side."""

    def act(senses: Senses, first: np.ndarray) -> Actions:
        return {CHOOSE: np.where(_free(senses[BOARD]), FORWARD, rng.integers(0, FORWARD, len(first)))}

    return act


def to_the_red_ball(rng: np.random.Generator) -> Policy:
    """Steps until the red ball lies to one side, then towards it.

    If no red ball is in view, or something is in the way, a random turn or step.
    """

    def act(senses: Senses, first: np.ndarray) -> Actions:
        board = senses[BOARD]
        red = (board[:, BALL] == 1) & (board[:, OBJECTS] == RED)
        row, column = np.divmod(red.reshape(len(red), -1).argmax(1), red.shape[2])
        aside = np.where(column < AHEAD[1], LEFT, RIGHT)
        towards = np.where((row > AHEAD[0]) & (column != AHEAD[1]), aside, FORWARD)
        anyhow = rng.integers(0, FORWARD + 1, len(first))
        stuck = ~red.any((1, 2)) | ((towards == FORWARD) & ~_free(board))
        return {CHOOSE: np.where(stuck, anyhow, towards)}

    return act


def _free(board: np.ndarray) -> np.ndarray:
    """Whether nothing lies ahead, bool [N]."""
    return board[:, EMPTY, AHEAD[0], AHEAD[1]] == 1
