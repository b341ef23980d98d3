"""Spawn and script of the level `fetch`: things within reach are in view, a screen hides them, and then one of them is
named by its colour.

Until then the hand is held. The screen hangs near the face, and the hand moves freely behind it. Nothing is in view any
more, so the hand must reach by memory.
"""

from __future__ import annotations

import numpy as np

from devmind.worlds.nursery.geometry import direction
from devmind.worlds.nursery.spawning import redress, settle
from devmind.worlds.nursery.state import BOX, N_OBJECTS, NurseryState
from devmind.worlds.nursery.tasks import REACH_TILT_DEG, spawn_reach

SEEN_TICKS, DELAY_TICKS, REACH_TICKS = 3, 8, 25
"""Ticks with things in view, ticks without them before the question, and ticks for the hand from then on."""
ASKS_FROM = SEEN_TICKS + DELAY_TICKS
HORIZON = ASKS_FROM + REACH_TICKS
SCREEN = N_OBJECTS - 1
"""The slot of the screen."""
_SCREEN_M, _SCREEN_SIZE_M, _PARKED_M = 0.1, 0.06, 2.0


def spawn(seeds: np.ndarray) -> NurseryState:
    """First states: the rooms of `reach`, and a screen above the view."""
    state = spawn_reach(seeds)
    state.present[:, SCREEN], state.graspable[:, SCREEN] = True, False
    state.shape[:, SCREEN], state.size[:, SCREEN], state.yaw[:, SCREEN] = BOX, _SCREEN_SIZE_M, 0.0
    redress(state)
    script(state)
    return settle(state)


def script(state: NurseryState) -> None:
    """Put the screen to its place at a state's tick, in place."""
    hung = _SCREEN_M * direction(np.zeros(len(state)), np.full(len(state), REACH_TILT_DEG))
    hung[:, 2] = np.where(state.tick >= SEEN_TICKS, hung[:, 2], _PARKED_M)
    state.position[:, SCREEN] = hung


def names_colour(state: NurseryState) -> np.ndarray:
    """Whether the level names the colour at a state's tick, bool [N]."""
    return np.asarray(state.tick >= ASKS_FROM)


def holds_hand(state: NurseryState) -> np.ndarray:
    """Whether the hand is held at a state's tick, bool [N]: before the question."""
    return np.asarray(~names_colour(state))
