"""What manipulate learns from: a script's plans in the nursery, made with knowledge of where everything is.

A plan has six key points of the hand, each with a grip and a pace, and six symbols: which thing each point is about.
Places are those of the hand in the room, in units of `UNIT_M` about `MIDDLE_M`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from devmind.worlds.nursery.handling import ASKED, BOX_COLOUR, GOAL, GRASP, PILLAR_COLOUR, PUSH
from devmind.worlds.nursery.state import COLOUR_NAMES, HAND_RADIUS_M
from stages.planning.imagining import Form

COLOURS = len(COLOUR_NAMES)
HORIZON, CHANNELS = 6, 5
"""Points of a plan; of a point: x, y, z, the grip there, 1 closed and -1 open, and the pace there, 1 fast, -1 slow."""
TOLD_BY = 2 + COLOURS
"""Things of a scene: the hand, the thing asked for, and the thing of each colour."""
THERE = 1 + COLOURS
"""Symbols: the thing asked for (0), the thing of a colour (1 to 8), and none of these (9)."""
FORM = Form(CHANNELS, HORIZON, THERE + 1, TOLD_BY, 3)
HAND_SCALE_M = 0.75
"""Metres of a 1 in the hand's place in the sense `body` (`devmind.worlds.spaces.BODY`)."""
UNIT_M, MIDDLE_M = 0.4, np.array([0.45, 0.0, -0.25])
BACK_M = 0.36
"""Distance of the hand from the body, at most, before it goes for a thing: nearer than anything lies."""
BESIDE_M = 0.05
"""Gap between the hand and the thing that it is about to push."""
LIFT_M = 0.05
"""Height to which a thing is lifted."""


def plans(truth: Mapping[str, Any], task: str) -> tuple[np.ndarray, np.ndarray]:
    """Points float32 [N, H, 5] and symbols int64 [N, H] of a plan for each room of `handle/TASK`."""
    at, goal = truth["position"][:, ASKED], truth["position"][:, GOAL]
    steps = _pushed(at, goal, truth["size"][:, [ASKED]]) if task == PUSH else _carried(at, goal, task == GRASP)
    steps += [steps[-1]] * (HORIZON - len(steps))
    points = [np.column_stack((units(place), np.tile((grip, pace), (len(at), 1)))) for place, grip, pace, _ in steps]
    words = np.tile([about for *_, about in steps], (len(at), 1))
    return np.stack(points, 1).astype(np.float32), words.astype(np.int64)


def units(place_m: np.ndarray) -> np.ndarray:
    """Places [..., 3] in a plan's units."""
    return np.asarray((place_m - MIDDLE_M) / UNIT_M)


Step = tuple[np.ndarray, float, float, int]
"""Where the hand goes [N, 3], its grip there, its pace on the way, and the thing that the step is about."""


def _carried(at: np.ndarray, goal: np.ndarray, lifts: bool) -> list[Step]:
    """In front of the thing, to it, and up; or on to the box, and away from it with an open hand."""
    before = np.column_stack((np.minimum(at[:, 0] - 0.14, BACK_M), at[:, 1:]))
    found: list[Step] = [(before, -1.0, 1.0, 0), (at, 1.0, 1.0, 0)]
    if lifts:
        return [*found, (np.column_stack((at[:, 0] - 0.1, at[:, 1], np.full(len(at), LIFT_M))), 1.0, 1.0, THERE)]
    box = 1 + BOX_COLOUR
    away = goal - np.array([0.2, 0.0, 0.0])
    return [*found, (goal, 1.0, 1.0, box), (goal, -1.0, 1.0, box), (away, -1.0, 1.0, THERE)]


def _pushed(at: np.ndarray, goal: np.ndarray, size: np.ndarray) -> list[Step]:
    """To the thing's side away from the pillar, and slowly on until the thing is at the pillar."""
    way = (goal - at) * np.array([1.0, 1.0, 0.0])
    way /= np.linalg.norm(way, axis=1, keepdims=True)
    behind = at - way * (size + HAND_RADIUS_M + BESIDE_M)
    end = goal - way * (size + HAND_RADIUS_M)
    back = behind - np.array([0.08, 0.0, 0.0])
    pillar = 1 + PILLAR_COLOUR
    return [
        (back, -1.0, 1.0, 0),
        (behind, -1.0, 1.0, 0),
        (end, -1.0, -1.0, pillar),
        (end - 0.1 * way, -1.0, 1.0, THERE),
    ]
