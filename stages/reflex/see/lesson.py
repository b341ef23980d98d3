"""See: handwritten digits, read from the sight encoder's tokens. Its batches, distorted at random, and its loss."""

from __future__ import annotations

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


def as_sight(images: np.ndarray, generator: torch.Generator | None = None) -> Tensor:
    """Grey pictures uint8 [N, H, W] as the fovea would show them, uint8 [N, 64, 64, 3].

    With a generator each is turned (15 deg), scaled (15 %), sheared (0.2) and shifted (8 %) at random.
    """
    planes = torch.from_numpy(np.ascontiguousarray(images))[:, None].float()
    n = len(planes)
    theta = torch.eye(2, 3).expand(n, 2, 3).clone()
    if generator is not None:
        turn, shear = (torch.rand(2, n, generator=generator) * 2 - 1) * torch.tensor([[0.26], [0.2]])
        scale = 1 + 0.15 * (torch.rand(2, n, generator=generator) * 2 - 1)
        cos, sin = turn.cos(), turn.sin()
        theta[:, 0, 0], theta[:, 0, 1] = cos * scale[0], (-sin + shear) * scale[0]
        theta[:, 1, 0], theta[:, 1, 1] = (sin + shear) * scale[1], cos * scale[1]
        theta[:, :, 2] = 0.16 * (torch.rand(n, 2, generator=generator) - 0.5) * 2
    grid = F.affine_grid(theta, [n, 1, SIGHT_SIZE, SIGHT_SIZE], align_corners=False)
    placed = F.grid_sample(planes, grid, mode="bilinear", align_corners=False)
    return placed.round().clamp(0, 255).to(torch.uint8)[:, 0, :, :, None].expand(-1, -1, -1, 3)


def lesson_batch(context: Context, update: int, size: int) -> dict[str, Any]:
    """`size` digits of the lesson's part, distorted at random, with labels int64 [N, 1]."""
    training, _ = split_pictures(pictures(context.data), context.seed)
    index = numpy_rng(context.seed, "see", update).integers(0, len(training.labels), size)
    sight = as_sight(training.images[index], torch_generator(context.seed, "see", update))
    return one_tick({"sight": sight}) | {"digit": torch.from_numpy(training.labels[index])[:, None]}


loss = head_loss("see", "digit")


def lesson_pictures(context: Context, n: int) -> np.ndarray:
    """Up to `n` of the pictures that lessons show, before they are distorted: int64."""
    return identities({"picture": split_pictures(pictures(context.data), context.seed)[0].images[:n]})
