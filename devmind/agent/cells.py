"""Where things are, predicted cell by cell from the picture's tokens.

As in grid detectors (Redmon et al. 2016, "You only look once", arXiv 1506.02640) the same small network predicts from
each token for its cell, and a softmax over cells weighs the predictions. So what is learned in one cell holds in all.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

SIGHT_TOKENS, NUMBERS = 16, 4
"""The numbers of a place: a logit of being in view, left and up of the gaze (in units of 30 deg), and the log of the
distance in metres."""
SCALE_DEG = HALF_VIEW_DEG = 30.0


class Cells(nn.Module):
    """A place for each of S slots from the tokens of sight [..., 16, D], ordered from the top left."""

    cells: Tensor

    def __init__(self, width: int, slots: int) -> None:
        super().__init__()
        self.slots, narrow = slots, max(4, width // 8)
        self.cell, self.squeeze = nn.Linear(width, width), nn.Linear(width, narrow)
        self.scene = nn.Linear(SIGHT_TOKENS * narrow, width)
        self.look = nn.Sequential(nn.GELU(), nn.Linear(width, slots * NUMBERS))
        side = math.isqrt(SIGHT_TOKENS)
        middle = 1 - (2 * torch.arange(side) + 1) / side
        angle = torch.rad2deg(torch.atan(middle * math.tan(math.radians(HALF_VIEW_DEG)))) / SCALE_DEG
        up, left = torch.meshgrid(angle, angle, indexing="ij")
        self.register_buffer("cells", torch.stack((left, up), -1).reshape(SIGHT_TOKENS, 2), persistent=False)

    def tell(self, sight: Tensor) -> tuple[Tensor, Tensor]:
        """Places [..., S, 4] (see NUMBERS) and logits of the cells [..., S, 16]."""
        scene = self.scene(self.squeeze(sight).flatten(-2))[..., None, :]
        estimates = self.look(self.cell(sight) + scene).unflatten(-1, (self.slots, NUMBERS)).transpose(-3, -2)
        logits = estimates[..., 0]
        where = estimates[..., 1:] + F.pad(self.cells, (0, 1))
        place = (logits.softmax(-1)[..., None] * where).sum(-2)
        return torch.cat((logits.logsumexp(-1)[..., None], place), -1), logits


class NamedCells(Cells):
    """Cells that also read tokens of words [..., W, D], which name a slot."""

    def __init__(self, width: int, slots: int) -> None:
        super().__init__(width, slots)
        self.choose = nn.Linear(width, slots)

    def tell_named(self, sight: Tensor, words: Tensor) -> tuple[Tensor, Tensor]:
        """Places [..., S + 1, 4] of all slots and of the named one, last, and logits of the cells [..., S, 16]."""
        places, logits = self.tell(sight)
        choice = self.choose(words.sum(-2)).softmax(-1)
        named = (choice[..., None] * places).sum(-2, keepdim=True)
        return torch.cat((places, named), -2), logits
