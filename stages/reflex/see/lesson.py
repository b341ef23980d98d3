"""See: handwritten digits, read from the sight encoder's tokens. Its batches, distorted at random, and its loss."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from devmind.agent.batch import one_tick
from devmind.curriculum.episodes import identities
from devmind.curriculum.stage import Context
from devmind.learners.gradient import head_loss
from devmind.moment import SIGHT_SIZE
from devmind.seeding import numpy_rng, torch_generator
from devmind.sessions.written import pictures, split_pictures

SHIFTS = ("margin", "pen", "blur", "light")
"""What may differ between sources of handwriting, besides the writers: how much of the view a digit fills, the width
of a stroke, how sharp it is, and how bright it and its ground are."""
SMALLEST, MOST_BLUR_PX, FAINTEST, BRIGHTEST_GROUND = 3.0, 2.0, 0.4, 0.3
PLAIN = 4
"""One picture in PLAIN of a lesson fills the view and is shown as it is."""


def as_sight(images: np.ndarray, generator: torch.Generator | None = None, shifts: Sequence[str] = ()) -> Tensor:
    """Grey pictures uint8 [N, H, W] as the fovea would show them, uint8 [N, 64, 64, 3].

    With a generator each is turned (15 deg), scaled (15 %), sheared (0.2), shifted (8 %) and bent (5 %) at random; and
    it is changed in the ways of SHIFTS that `shifts` names: "margin" shows it smaller, down to a third of the view, and
    anywhere in it.
    """
    planes = torch.from_numpy(np.ascontiguousarray(images))[:, None].float()
    n, view = len(planes), [len(planes), 1, SIGHT_SIZE, SIGHT_SIZE]
    if generator is None:
        whole = F.affine_grid(torch.eye(2, 3).expand(n, 2, 3), view, align_corners=False)
        return _as_bytes(F.grid_sample(planes, whole, align_corners=False))
    some = lambda low, high, *shape: low + (high - low) * torch.rand(n, *shape, generator=generator)  # noqa: E731
    turn, shear, size = some(-0.26, 0.26), some(-0.2, 0.2), some(0.85, 1.15, 2)
    smaller = SMALLEST ** some(0, 1, 1) if "margin" in shifts else torch.ones(n, 1)
    scale, theta = size * smaller, torch.zeros(n, 2, 3)
    theta[:, 0, 0], theta[:, 0, 1] = turn.cos() * scale[:, 0], (-turn.sin() + shear) * scale[:, 0]
    theta[:, 1, 0], theta[:, 1, 1] = (turn.sin() + shear) * scale[:, 1], turn.cos() * scale[:, 1]
    theta[:, :, 2] = some(-1, 1, 2) * (smaller - 1 + 0.16)
    bent = F.interpolate(some(-0.1, 0.1, 2, 4, 4), (SIGHT_SIZE, SIGHT_SIZE), mode="bicubic").movedim(1, -1)
    grid = F.affine_grid(theta, view, align_corners=False) + bent * smaller[:, None, None]
    ink = F.grid_sample(planes / 255, grid, align_corners=False)[:, 0]
    if "pen" in shifts:
        level, steep = some(0.25, 0.65, 1, 1), 4 * 8 ** some(0, 1, 1, 1)
        ink = (torch.sigmoid((ink - level) * steep) - torch.sigmoid(-level * steep)).clamp(min=0)
        ink = ink / ink.amax((1, 2), keepdim=True).clamp(min=1e-3)
    if "blur" in shifts:
        offsets = torch.arange(-6, 7)[None] / some(0.3, MOST_BLUR_PX, 1)
        kernel = torch.softmax(-(offsets**2) / 2, -1)
        for along in (kernel[:, None, None, :], kernel[:, None, :, None]):
            ink = F.conv2d(ink[None], along, padding="same", groups=n)[0]
    if "light" in shifts:
        ground, bright = some(0, BRIGHTEST_GROUND, 1, 1), some(FAINTEST, 1, 1, 1)
        ink = ground + (1 - ground) * bright * ink
    return _as_bytes(255 * ink[:, None])


def _as_bytes(planes: Tensor) -> Tensor:
    """Grey planes [N, 1, 64, 64] as sight."""
    return planes.round().clamp(0, 255).to(torch.uint8)[:, 0, :, :, None].expand(-1, -1, -1, 3)


def lesson_batch(context: Context, update: int, size: int) -> dict[str, Any]:
    """`size` digits of the lesson's part, distorted at random, with labels int64 [N, 1]; 1 in PLAIN fills the view."""
    training, _ = split_pictures(pictures(context.data), context.seed)
    index = numpy_rng(context.seed, "see", update).integers(0, len(training.labels), size)
    generator, plain = torch_generator(context.seed, "see", update), size // PLAIN
    parts = ((index[:plain], ()), (index[plain:], SHIFTS))
    sight = torch.cat([as_sight(training.images[rows], generator, shifts) for rows, shifts in parts if len(rows)])
    return one_tick({"sight": sight}) | {"digit": torch.from_numpy(training.labels[index])[:, None]}


loss = head_loss("see", "digit")


def lesson_pictures(context: Context, n: int) -> np.ndarray:
    """Up to `n` of the pictures that lessons show, before they are distorted: int64."""
    return identities({"picture": split_pictures(pictures(context.data), context.seed)[0].images[:n]})
