"""Moving pictures in place of the walls, for the cluttered levels.

A backdrop is a picture of the bank around the child, mirrored at its edges, and often a second one in a round patch
before it. They drift, shake, zoom and are cut, all as a function of seed and tick. Fovea and wide view show the same
picture behind the things, so it shifts when the head turns.
"""

from __future__ import annotations

import numpy as np

from devmind.worlds.nursery.chance import uniform
from devmind.worlds.nursery.pictures import COUNT, bank
from devmind.worlds.nursery.state import TICK_S, NurseryState
from devmind.worlds.nursery.turns import in_turn

SHARE = 0.85
"""Share of the children of a cluttered level with a backdrop; the others keep their walls."""
OTHER = 331
"""Distance in the bank to the picture after a cut."""


def hang(state: NurseryState) -> NurseryState:
    """Give most of the children a backdrop."""
    state.backdrop = uniform(state.seed, "backdrop") < SHARE
    return state


def layers(state: NurseryState, tick: np.ndarray) -> np.ndarray:
    """The far layer and the patch before it, at `tick` [N]: float32 [N, 2, 7].

    Columns: picture; its left and upper edge and the degrees of a side; the patch's middle (left, up) and its radius.
    """
    seeds, time_s = state.seed, (tick * TICK_S)[:, None]
    lot = iter(np.moveaxis(uniform(seeds, "backdrop layers", shape=(2, 18)), 2, 0))

    def draw(low: float, high: float, share: float = 1.0) -> np.ndarray:
        """Numbers [N, 2]; zero except in this share of the layers."""
        chosen = np.zeros(1) if share == 1.0 else next(lot)
        return np.where(chosen < share, low + (high - low) * next(lot), 0.0)

    way, speed, shake = draw(0.0, 2 * np.pi), draw(3.0, 30.0, 0.5), draw(0.3, 3.0, 0.4)
    jolt = uniform(seeds, "backdrop shake", -1.0, 1.0, (2, 2), tick)
    moved = speed * time_s * np.stack([np.cos(way), 0.5 * np.sin(way)]) + shake * np.moveaxis(jolt, 2, 0)
    cut = tick[:, None] >= np.where(draw(0.0, 1.0, 0.25) > 0, draw(1.0, 30.0), np.inf)
    picture = (draw(0.0, COUNT).astype(np.int64) + cut * OTHER) % COUNT
    edge = np.stack([draw(0.0, 300.0), draw(0.0, 300.0)]) + moved
    side = draw(40.0, 140.0) * np.exp(draw(-0.25, 0.25, 0.3) * time_s)
    middle = np.stack([draw(-50.0, 50.0), draw(-30.0, 30.0)]) + moved
    return np.stack([picture, *edge, side, *middle, draw(6.0, 28.0, 0.6)], -1).astype(np.float32)


def paint(
    state: NurseryState,
    tick: np.ndarray,
    rgb: np.ndarray,
    mask: np.ndarray,
    pan_deg: np.ndarray,
    tilt_deg: np.ndarray,
    fov_deg: float,
) -> None:
    """Lay the backdrops at `tick` [N] over the walls (mask 0) of pictures uint8 [N, S, S, 3], in place."""
    if not state.backdrop.any():
        return
    from devmind.worlds.nursery import pixels

    size = rgb.shape[1]
    slopes = (1 - (2 * np.arange(size) + 1) / size) * np.tan(np.deg2rad(fov_deg / 2))
    aside = np.rad2deg(np.arctan(slopes)).astype(np.float32)
    gaze = np.stack([pan_deg, tilt_deg], 1).astype(np.float32)
    in_turn(pixels.lay_backdrops, rgb, mask, state.backdrop, bank(), layers(state, tick), gaze, aside)
