"""Four pictures in one view, while a name is spoken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from devmind.agent.batch import clip
from devmind.moment import SIGHT_SIZE, TICK_SAMPLES
from devmind.sessions.written import Pictures
from stages.voice.name_heard.head import PICTURES
from stages.voice.parts import SIGHT, SOUND

HALF = SIGHT_SIZE // 2
"""Side of a picture in pixels."""


@dataclass(frozen=True)
class Shown:
    """N views of four pictures of as many kinds.

    Attributes:
        kinds: int64 [N, 4], of each picture; which: int64 [N], the picture that is named.
        rows: int64 [N, 4], the pictures' rows.
    """

    kinds: np.ndarray
    which: np.ndarray
    rows: np.ndarray


def draw_views(rng: np.random.Generator, of: Pictures, named: Sequence[int] | np.ndarray) -> Shown:
    """Views in which one picture, at a random place, is of the kind `named`, and the others are of other kinds."""
    by_kind = {kind: np.flatnonzero(of.labels == kind) for kind in range(10)}
    kinds = np.stack([rng.permutation([kind for kind in range(10) if kind != one])[:PICTURES] for one in named])
    which = rng.integers(PICTURES, size=len(kinds))
    kinds[np.arange(len(kinds)), which] = named
    rows = np.array([[rng.choice(by_kind[int(kind)]) for kind in row] for row in kinds])
    return Shown(kinds.astype(np.int64), which.astype(np.int64), rows)


def views(images: np.ndarray, generator: torch.Generator | None = None) -> Tensor:
    """Grey pictures uint8 [N, 4, H, W] side by side as sight, uint8 [N, 64, 64, 3].

    With a generator each is turned (15 deg), scaled (15 %), sheared (0.2) and shifted (8 %) by chance.
    """
    planes = torch.from_numpy(np.ascontiguousarray(images)).flatten(0, 1)[:, None].float()
    n = len(planes)
    theta = torch.eye(2, 3).expand(n, 2, 3).clone()
    if generator is not None:
        turn, shear, scale = (torch.rand(3, n, generator=generator) * 2 - 1) * torch.tensor([[0.26], [0.2], [0.15]])
        cos, sin = turn.cos(), turn.sin()
        theta[:, 0, 0], theta[:, 0, 1] = cos * (1 + scale), (-sin + shear) * (1 + scale)
        theta[:, 1, 0], theta[:, 1, 1] = (sin + shear) * (1 + scale), cos * (1 + scale)
        theta[:, :, 2] = 0.16 * (torch.rand(n, 2, generator=generator) * 2 - 1)
    grid = F.affine_grid(theta, [n, 1, HALF, HALF], align_corners=False)
    small = F.grid_sample(planes, grid, mode="bilinear", align_corners=False).round().clamp(0, 255).to(torch.uint8)
    halves = small.reshape(-1, 2, 2, HALF, HALF).transpose(2, 3).reshape(-1, SIGHT_SIZE, SIGHT_SIZE)
    return halves[..., None].expand(-1, -1, -1, 3)


def as_batch(sound: Tensor, sight: Tensor) -> dict[str, Any]:
    """Sound [N, T x 1600] of one ear with a constant view [N, 64, 64, 3], as a Batch of T Moments."""
    heard = sound.unflatten(1, (-1, 1, TICK_SAMPLES))
    return clip({SOUND: heard, SIGHT: sight[:, None].expand(-1, heard.shape[1], -1, -1, -1)})
