"""The goals of levels: the target's direction, the gaze's error, the hand's distance, success."""

from __future__ import annotations

import numpy as np

from devmind.worlds.nursery.dynamics import surface_distance
from devmind.worlds.nursery.geometry import angles_deg, between_deg, direction, wrap_deg
from devmind.worlds.nursery.state import HAND_RADIUS_M, NO_EVENT, NurseryState

ORIENTED_DEG = 10.0
TRACKED_DEG = 5.0


def of_target(state: NurseryState, values: np.ndarray) -> np.ndarray:
    """The target's row of `values` [N, O, ...]; that of object 0 without a target."""
    return values[np.arange(len(state)), np.maximum(state.target, 0)]


def target_vector(state: NurseryState) -> np.ndarray:
    """From the head's centre to the target, [N, 3] in the torso frame."""
    vector = of_target(state, state.position).copy()
    vector[:, 0] -= state.lean
    return vector


def gaze_error_deg(state: NurseryState, azimuth_only: bool = False) -> np.ndarray:
    """Angle [N] between gaze and target; with `azimuth_only` of the azimuths alone, as sound gives no elevation."""
    vector = target_vector(state)
    if azimuth_only:
        return np.abs(wrap_deg(angles_deg(vector)[0] - state.pan))
    return between_deg(direction(state.pan, state.tilt), vector)


def hand_distance(state: NurseryState) -> np.ndarray:
    """Distance [N] in metres between the hand's and the target's surfaces."""
    return np.maximum(of_target(state, surface_distance(state)) - HAND_RADIUS_M, 0.0)


def first_touched(state: NurseryState) -> np.ndarray:
    """The touched object nearest to the hand, int64 [N]; -1: none."""
    nearest = np.argmin(surface_distance(state), axis=1)
    return np.where(state.touch.any(axis=1), nearest, -1)


def startle_success(state: NurseryState) -> np.ndarray:
    """Whether the child withdrew from events, and from nothing else; bool [N]."""
    return ((state.event == NO_EVENT) | state.answered) & (state.false_alarms == 0)
