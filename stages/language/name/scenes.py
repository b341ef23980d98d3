"""Four things in view, drawn so that neither the colour nor the noun alone tells which one is meant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np

from devmind.curriculum.stage import Context
from devmind.seeding import numpy_rng
from stages.language.caregiver.scene import PAIRS, name_of

LEVEL = "bind"
"""The nursery's level that puts four things apart from each other and in view."""
THINGS = 4
CROP = 12
"""Pixels of a cut-out's side, for rules on pixels."""

Pair = tuple[int, int]


@dataclass
class Scenes:
    """N pictures.

    Attributes:
        sight: uint8 [N, 64, 64, 3].
        pairs: colour and noun of each thing, int64 [N, 4, 2].
        boxes: float32 [N, 4, 4] (x0, y0, x1, y1 of the pixels that are seen, ends exclusive).
        target: which is meant, int64 [N]; it is in the middle of the picture where the child looks at it.
    """

    sight: np.ndarray
    pairs: np.ndarray
    boxes: np.ndarray
    target: np.ndarray

    @property
    def names(self) -> list[str]:
        """What the meant things are called: 'red ball'."""
        return [name_of(*pair) for pair in self.meant.tolist()]

    @property
    def meant(self) -> np.ndarray:
        """Colour and noun of the meant things, int64 [N, 2]."""
        return self.pairs[np.arange(len(self.target)), self.target]

    def crops(self) -> np.ndarray:
        """Each thing cut out by its box and shrunk, float32 [N, 4, CROP * CROP * 3] in 0..1."""
        cut = np.zeros((*self.pairs.shape[:2], CROP, CROP, 3), np.float32)
        for row, thing in np.ndindex(*self.pairs.shape[:2]):
            x0, y0, x1, y1 = self.boxes[row, thing].astype(int)
            if x1 > x0 and y1 > y0:
                patch = np.ascontiguousarray(self.sight[row, y0:y1, x0:x1])
                cut[row, thing] = cv2.resize(patch, (CROP, CROP), interpolation=cv2.INTER_AREA) / 255.0
        return cut.reshape(*self.pairs.shape[:2], -1)


def scenes(
    context: Context, seeds: np.ndarray, meant: Sequence[Pair], others: Sequence[Pair], looked_at: np.ndarray
) -> Scenes:
    """A scene for each of seeds int64 [N].

    Args:
        meant: pairs of which one is drawn to be meant; others: those that may stand beside it. One beside it has its
            colour and one its noun, as far as `others` allow.
        looked_at: bool [N]: the child looks at what is meant, instead of straight ahead.
    """
    world = context.make_world("nursery", LEVEL, seeds)
    state, truth = world.state(), world.truth()
    pairs, target = (np.stack(x) for x in zip(*(_drawn(seed, meant, others) for seed in seeds.tolist()), strict=True))
    state.colour[:, :THINGS], state.shape[:, :THINGS] = pairs[..., 0], pairs[..., 1]
    at = np.arange(len(seeds)), target
    state.pan = np.where(looked_at, truth["object_azimuth_deg"][at], state.pan)
    state.tilt = np.where(looked_at, truth["object_elevation_deg"][at], state.tilt)
    state.pan_before = state.pan.copy()
    sight = world.restore(state)["sight"]
    return Scenes(sight, pairs, world.truth()["boxes"][:, :THINGS], target)


def _drawn(seed: int, meant: Sequence[Pair], others: Sequence[Pair]) -> tuple[np.ndarray, np.int64]:
    """Four different pairs int64 [4, 2] and which of them is meant, by a seed."""
    rng = numpy_rng("name", seed)
    chosen = [meant[int(rng.integers(len(meant)))]]
    colour, noun = chosen[0]
    alike = ([p for p in others if p[0] == colour], [p for p in others if p[1] == noun], list(others))
    for options in alike:
        left = [pair for pair in options if pair not in chosen] or [pair for pair in PAIRS if pair not in chosen]
        chosen.append(left[int(rng.integers(len(left)))])
    order = rng.permutation(THINGS)
    return np.array([chosen[at] for at in order]), np.int64(np.flatnonzero(order == 0)[0])
