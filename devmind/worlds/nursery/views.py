"""The views: the scene as primitives, the fovea's picture with depth and mask, and the torso-fixed wide view."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache

import numpy as np

from devmind.moment import PERIPHERY_SIZE, SIGHT_SIZE, WIDE_SIZE
from devmind.worlds.nursery.caregiver import caregiver_prims
from devmind.worlds.nursery.geometry import cos_deg, sin_deg
from devmind.worlds.nursery.state import (
    COLOURS,
    HAND_RADIUS_M,
    MASK_HAND,
    N_OBJECTS,
    ROOM_HIGH,
    ROOM_LOW,
    NurseryState,
)
from devmind.worlds.nursery.turns import in_turn

SIGHT_FOV_DEG = 60.0
WIDE_FOV_DEG = 120.0
HAND_COLOUR = (150, 105, 75)
_ROOM = np.stack([ROOM_LOW, ROOM_HIGH], axis=1).astype(np.float32).reshape(-1)
_RGB = np.array(list(COLOURS.values()), np.float32)
_NOTICE_AFTER_S = 1.5


@contextmanager
def _notice(text: str) -> Iterator[None]:
    """Print `text` on stderr if the block takes long; loading a kernel from the disk cache is much faster."""
    timer = threading.Timer(_NOTICE_AFTER_S, lambda: print(text, file=sys.stderr, flush=True))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


@cache
def _raster() -> Callable[..., None]:
    """The renderer, compiled or loaded on first use by drawing one empty room."""
    from devmind.worlds.nursery import raster

    shapes = [((1, 6, 6), np.float32), ((1, 1, raster.PRIM), np.float32), ((1, 5), np.float32)]
    outputs = [((1, 4, 4, 3), np.uint8), ((1, 4, 4), np.float32), ((1, 4, 4), np.uint8)]
    kernel: Callable[..., None] = raster.draw
    with _notice("compiling or loading the nursery's renderer (compiling: once, about 15 s)"):
        inputs = [np.zeros(shape, kind) for shape, kind in shapes]
        in_turn(kernel, _ROOM, *inputs, np.float32(1.0), *[np.zeros(shape, kind) for shape, kind in outputs])
    return kernel


def scene(state: NurseryState, position: np.ndarray) -> np.ndarray:
    """Primitives float32 [N, P, 14] of everything visible, with the objects at `position` [N, O, 3]."""
    n = len(state)
    prims = np.zeros((n, N_OBJECTS + 1 + 5, 14), np.float32)
    objects = prims[:, :N_OBJECTS]
    objects[..., 0] = np.where(state.present, state.shape + 1, 0)
    objects[..., 1] = np.arange(1, N_OBJECTS + 1)
    objects[..., 2:5] = position
    objects[..., 5:8] = state.size[..., None]
    objects[..., 8], objects[..., 9] = cos_deg(state.yaw), sin_deg(state.yaw)
    objects[..., 10:13] = _RGB[state.colour]
    objects[..., 13] = state.texture
    hand = prims[:, N_OBJECTS]
    hand[:, 0], hand[:, 1], hand[:, 8] = 1, MASK_HAND, 1
    hand[:, 2:5] = state.hand
    hand[:, 2] += state.lean
    hand[:, 5:8] = HAND_RADIUS_M
    hand[:, 10:13] = HAND_COLOUR
    prims[:, N_OBJECTS + 1 :] = caregiver_prims(state)
    return prims


def draw(
    state: NurseryState, prims: np.ndarray, pan_deg: np.ndarray, tilt_deg: np.ndarray, fov_deg: float, size: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Picture uint8 [N, S, S, 3], depth float32 and mask uint8 [N, S, S] of primitives from `scene`."""
    n = len(state)
    eyes = np.zeros((n, 5), np.float32)
    eyes[:, 0] = state.lean
    eyes[:, 3], eyes[:, 4] = pan_deg * (np.pi / 180), tilt_deg * (np.pi / 180)
    rgb, depth = np.empty((n, size, size, 3), np.uint8), np.empty((n, size, size), np.float32)
    mask = np.empty((n, size, size), np.uint8)
    half = np.float32(np.tan(np.deg2rad(fov_deg / 2)))
    in_turn(_raster(), _ROOM, np.ascontiguousarray(state.planes), prims, eyes, half, rgb, depth, mask)
    return rgb, depth, mask


def wide_view(state: NurseryState, position: np.ndarray, tick: np.ndarray) -> np.ndarray:
    """Brightness of the wide view straight ahead, uint8 [N, W, W], with the objects at `position`, at `tick` [N]."""
    from devmind.worlds.nursery import backdrop, pixels

    level = np.zeros(len(state))
    rgb, _, mask = draw(state, scene(state, position), level, level, WIDE_FOV_DEG, WIDE_SIZE)
    backdrop.paint(state, tick, rgb, mask, level, level, WIDE_FOV_DEG)
    gray = np.empty(rgb.shape[:3], np.uint8)
    pixels.brightness(rgb, gray)
    return gray


def frames(
    state: NurseryState, pan_deg: np.ndarray, tilt_deg: np.ndarray, width: int, height: int, before: bool = False
) -> np.ndarray:
    """The picture of a camera on the torso that looks in this direction [N]: uint8 [N, height, width, 3].

    The width stands for the wide view's 120 degrees, as it does for a live room's fovea; `height` is at most `width`.

    Args:
        before: the picture of one tick earlier.
    """
    from devmind.worlds.nursery import backdrop

    prims = scene(state, state.position_before if before else state.position)
    rgb, _, mask = draw(state, prims, pan_deg, tilt_deg, WIDE_FOV_DEG, width)
    backdrop.paint(state, state.tick - before, rgb, mask, pan_deg, tilt_deg, WIDE_FOV_DEG)
    top = (width - height) // 2
    return rgb[:, top : top + height]


def views(state: NurseryState) -> dict[str, np.ndarray]:
    """`sight` uint8 [N, 64, 64, 3], `depth` float32 and `mask` uint8 [N, 64, 64], `wide` uint8 [N, W, W].

    They are rendered once a state and kept with it, so observations and truth share the work.
    """
    from devmind.worlds.nursery import backdrop

    if not state.rendered:
        prims = scene(state, state.position)
        sight, depth, mask = draw(state, prims, state.pan, state.tilt, SIGHT_FOV_DEG, SIGHT_SIZE)
        backdrop.paint(state, state.tick, sight, mask, state.pan, state.tilt, SIGHT_FOV_DEG)
        wide = wide_view(state, state.position, state.tick)
        state.rendered.update(sight=sight, depth=depth, mask=mask, wide=wide)
    return state.rendered


def periphery(state: NurseryState) -> np.ndarray:
    """Change of the wide view since the last tick, float32 [N, 1, 16, 16] in 0..1."""
    from devmind.worlds.nursery import pixels

    out = np.empty((len(state), 1, PERIPHERY_SIZE, PERIPHERY_SIZE), np.float32)
    pixels.pooled_change(views(state)["wide"], np.ascontiguousarray(state.wide_before), out)
    return out


def visible_boxes(state: NurseryState) -> tuple[np.ndarray, np.ndarray]:
    """Boxes float32 [N, O, 4] (x0, y0, x1, y1 in px, ends exclusive) and pixel counts int32 [N, O], as seen."""
    from devmind.worlds.nursery import pixels

    boxes, counts = np.empty((len(state), N_OBJECTS, 4), np.float32), np.empty((len(state), N_OBJECTS), np.int32)
    pixels.visible_boxes(views(state)["mask"], boxes, counts)
    return boxes, counts
