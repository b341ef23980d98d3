"""Rendered scenes: up to four things in the nursery, near enough to tell the kind of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np

from devmind.curriculum.stage import Context
from devmind.worlds.nursery.in_cells import COLUMNS, put_in_cells
from stages.language.caregiver.scene import PAIRS, PLACES, Pair, Scene, visible_scene

LEVEL = "bind"
"""The nursery's level with things in view; this module moves them to cells."""
MOST = 4
"""Things of a scene."""
assert len(PLACES) == COLUMNS
LIGHT = (0.15, 1.8)
"""The range of red, green and blue of light of one colour, relative to plain light."""
CROP = 12
"""Side of a cut-out in pixels, for rules on pixels."""


@dataclass
class Views:
    """N pictures of things.

    Attributes:
        sight: uint8 [N, 64, 64, 3].
        pairs: colour and noun of each thing, int64 [N, K, 2].
        boxes: float32 [N, K, 4] (x0, y0, x1, y1 of the pixels that are seen, ends exclusive; zeros where none is).
        scenes: what is in view, and where.
    """

    sight: np.ndarray
    pairs: np.ndarray
    boxes: np.ndarray
    scenes: list[Scene]

    def rows(self, n: int) -> Views:
        """The first `n` of them."""
        return Views(self.sight[:n], self.pairs[:n], self.boxes[:n], self.scenes[:n])

    def crops(self) -> np.ndarray:
        """Each thing cut out by its box and shrunk, float32 [N, K, CROP * CROP * 3] in 0..1; zeros where none is."""
        cut = np.zeros((*self.pairs.shape[:2], CROP, CROP, 3), np.float32)
        for row, thing in np.ndindex(*self.pairs.shape[:2]):
            x0, y0, x1, y1 = self.boxes[row, thing].astype(int)
            if x1 > x0 and y1 > y0:
                patch = np.ascontiguousarray(self.sight[row, y0:y1, x0:x1])
                cut[row, thing] = cv2.resize(patch, (CROP, CROP), interpolation=cv2.INTER_AREA) / 255.0
        return cut.reshape(*self.pairs.shape[:2], -1)


def views(
    context: Context,
    seeds: np.ndarray,
    pairs: np.ndarray,
    cells: np.ndarray,
    looked_at: np.ndarray | None = None,
    of: Sequence[Pair] = PAIRS,
) -> Views:
    """The pictures that children of `seeds` int64 [N] see.

    Args:
        pairs: int64 [N, K, 2]; cells: int64 [N, K], where each thing stands, -1 for one that is not there.
        looked_at: which thing the child looks at, int64 [N]; -1, and by default: straight ahead.
        of: pairs that may be mentioned.
    """
    world, state = place_things(context, seeds, pairs, cells, looked_at)
    return as_views(world, world.restore(state)["sight"], pairs, of)


def as_views(world: Any, sight: np.ndarray, pairs: np.ndarray, of: Sequence[Pair] = PAIRS) -> Views:
    """The `Views` of a world as it is now, whose things are these pairs, with its picture `sight`."""
    truth = world.truth()
    boxes = truth["boxes"][:, : pairs.shape[1]]
    return Views(sight, pairs, boxes, [visible_scene(truth, row, of) for row in range(len(sight))])


def place_things(
    context: Context, seeds: np.ndarray, pairs: np.ndarray, cells: np.ndarray, looked_at: np.ndarray | None = None
) -> tuple[Any, Any]:
    """The nursery and its state with things placed as in `views`, with the same arguments; nothing is sensed yet."""
    world = context.make_world("nursery", LEVEL, seeds)
    state = put_in_cells(world.state(), seeds, pairs[..., 0], pairs[..., 1], cells)
    world.restore(state)
    if looked_at is not None:
        truth, at = world.truth(), (np.arange(len(seeds)), np.maximum(looked_at, 0))
        state.pan = np.where(looked_at >= 0, truth["object_azimuth_deg"][at], state.pan)
        state.tilt = np.where(looked_at >= 0, truth["object_elevation_deg"][at], state.tilt)
        state.pan_before = state.pan.copy()
    return world, state


def in_light_of_one_colour(sight: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Pictures uint8 [N, H, W, 3], each as if in light of a single wavelength: everything has the light's colour, and
    things have none of their own. Which colours look bright is drawn at random.
    """
    bright = rng.dirichlet(np.ones(3), len(sight)).astype(np.float32)
    light = rng.uniform(*LIGHT, (len(sight), 1, 1, 3)).astype(np.float32)
    return np.clip(np.einsum("nhwc,nc->nhw", sight, bright)[..., None] * light, 0, 255).astype(np.uint8)
