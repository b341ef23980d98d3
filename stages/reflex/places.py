"""Where things are: for each of some slots whether it is in view, in which direction and how far; and for a named one.

Every token of the picture answers for its own cell with the same small network, as grid detectors do (Redmon et al.
2016, "You only look once", arXiv 1506.02640), and a softmax over cells picks the one that counts. What is learned in
one cell serves in all; a network over all tokens side by side has to learn each cell anew, and took four times as
long. A word chooses among the slots by a soft attention, for the same reason: not every pair of word and place is met.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from devmind.agent.detections import Detections
from devmind.agent.heads import Head, Inlet
from devmind.agent.output import Output
from devmind.agent.taps import Tapped
from devmind.errors import ConfigError

SIGHT_TOKENS = 16
NUMBERS = 4
"""Of a place: in view (a logit), left and up of the gaze (/30 deg), log of the distance in metres."""
SCALE_DEG = 30.0
HALF_VIEW_DEG = 30.0
LEAST_SURE = 0.5
"""Probability from which a slot's thing counts as detected."""


@dataclass
class Located(Output):
    """`told` float [..., S + 1, 4], one place a slot and then the named one; `logits` [..., S, 16] of the cells, which
    stand at `cells` [16, 2] (left and up, /30 deg)."""

    told: Tensor
    logits: Tensor
    cells: Tensor

    def loss(self, target: Tensor, mask: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
        """Sum of `losses`; target like `told`, its first number 1 where the thing is in view, else 0."""
        return sum(self.losses(target).values(), start=torch.zeros((), device=target.device))

    def losses(self, target: Tensor) -> dict[str, Tensor]:
        """Cross-entropies of presence and of the cell; weighted mean errors of direction and distance where present.

        The cell is the one nearest to the thing: told so, the softmax over cells settles in a fifth of the lessons.
        The named place counts as much as all slots together.
        """
        slots = self.logits.shape[-2]
        here, where = target[..., 0], target[..., 1:]
        present = F.binary_cross_entropy_with_logits(self.told[..., :slots, 0], here[..., :slots])
        nearest = (where[..., :slots, None, :2] - self.cells).square().sum(-1).argmin(-1)
        missed = F.cross_entropy(self.logits.flatten(0, -2), nearest.flatten(), reduction="none").reshape(nearest.shape)
        error = (self.told[..., 1:] - where).abs().mean(-1) * here
        each, named = error[..., :slots], error[..., slots:]
        count = here[..., :slots].sum().clamp_min(1)
        return {
            "present": present,
            "cell": 0.5 * (missed * here[..., :slots]).sum() / count,
            "where": 2 * each.sum() / count,
            "named": 2 * named.sum() / here[..., slots:].sum().clamp_min(1),
        }

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        """The places; there is nothing to draw."""
        return self.told

    def mode(self) -> Tensor:
        """The places [..., S + 1, 4]."""
        return self.told

    def detections(self) -> Detections:
        """One a slot, whose number is its class; the named place is one of them already."""
        told = self.told.detach().float().cpu().numpy()[..., :-1, :]
        told = told.reshape(-1, *told.shape[-2:])
        sure = 1 / (1 + np.exp(-told[..., 0].astype(np.float64)))
        return Detections(
            here=sure >= LEAST_SURE,
            kind=np.broadcast_to(np.arange(told.shape[1]), sure.shape),
            azimuth_deg=told[..., 1] * SCALE_DEG,
            elevation_deg=told[..., 2] * SCALE_DEG,
            distance_m=np.exp(np.clip(told[..., 3], -3.0, 3.0)),
            sure=sure,
        )


class Cells(nn.Module):
    """Tokens of sight [..., 16, D], cell by cell from the top left, to a place for each slot."""

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
        told = self.look(self.cell(sight) + scene).unflatten(-1, (self.slots, NUMBERS)).transpose(-3, -2)
        logits = told[..., 0]
        where = told[..., 1:] + F.pad(self.cells, (0, 1))
        place = (logits.softmax(-1)[..., None] * where).sum(-2)
        return torch.cat((logits.logsumexp(-1)[..., None], place), -1), logits


class Places(Cells):
    """Tokens of sight [..., 16, D] and of words [..., W, D] to `Located`."""

    def __init__(self, width: int, slots: int) -> None:
        super().__init__(width, slots)
        self.choose = nn.Linear(width, slots)

    def forward(self, sight: Tensor, words: Tensor) -> Located:
        places, logits = self.tell(sight)
        choice = self.choose(words.sum(-2)).softmax(-1)
        named = (choice[..., None] * places).sum(-2, keepdim=True)
        return Located(torch.cat((places, named), -2), logits, self.cells)

    def start_from(self, other: Places) -> None:
        """Tell places as `other` does.

        Raises:
            ConfigError: it has other slots or another width.
        """
        try:
            self.load_state_dict(other.state_dict())
        except RuntimeError as error:
            raise ConfigError(f"These places have {self.slots} slots; those to start from must fit: {error}") from error


class PlacesHead(Head):
    """Taps ("sight", "words")."""

    def __init__(self, inlet: Inlet, slots: int) -> None:
        super().__init__(inlet)
        if inlet.n_tokens <= SIGHT_TOKENS:
            raise ConfigError("The places head must tap ('sight', 'words'), in this order.")
        self.places = Places(inlet.width, slots)

    def forward(self, tapped: Tapped) -> Located:
        tokens = tapped.tokens * tapped.present[..., None]
        return self.places(tokens[..., :SIGHT_TOKENS, :], tokens[..., SIGHT_TOKENS:, :])
