"""Where things are: for each of some slots whether it is in view, in which direction and how far; and for a named one.

Every token of the picture answers for its own cell with the same small network, as grid detectors do (Redmon et al.
2016, "You only look once", arXiv 1506.02640), and a softmax over cells picks the one that counts. What is learned in
one cell serves in all; a network over all tokens side by side has to learn each cell anew, and took four times as
long. A word chooses among the slots by a soft attention, for the same reason: not every pair of word and place is met.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from devmind.agent.heads import Head, Inlet
from devmind.agent.output import Regression
from devmind.agent.taps import Tapped
from devmind.errors import ConfigError

SIGHT_TOKENS = 16
NUMBERS = 4
"""Of a place: in view (a logit), left and up of the gaze (/30 deg), log of the distance in metres."""
SCALE_DEG = 30.0
HALF_VIEW_DEG = 30.0


class Places(nn.Module):
    """Tokens of sight [..., 16, D], cell by cell from the top left, and of words [..., W, D], to places [..., S+1, 4].

    One row a slot, then the one that the words name.
    """

    cells: Tensor

    def __init__(self, width: int, slots: int) -> None:
        super().__init__()
        self.slots = slots
        self.look = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, slots * NUMBERS))
        self.choose = nn.Linear(width, slots)
        side = math.isqrt(SIGHT_TOKENS)
        middle = 1 - (2 * torch.arange(side) + 1) / side
        angle = torch.rad2deg(torch.atan(middle * math.tan(math.radians(HALF_VIEW_DEG)))) / SCALE_DEG
        up, left = torch.meshgrid(angle, angle, indexing="ij")
        cells = torch.stack((left, up, torch.zeros_like(up)), -1).reshape(SIGHT_TOKENS, 1, 3)
        self.register_buffer("cells", cells, persistent=False)

    def forward(self, sight: Tensor, words: Tensor) -> Tensor:
        told = self.look(sight).unflatten(-1, (self.slots, NUMBERS))
        logit = told[..., 0]
        where = (logit.softmax(-2)[..., None] * (told[..., 1:] + self.cells)).sum(-3)
        places = torch.cat((logit.logsumexp(-2)[..., None], where), -1)
        choice = self.choose(words.sum(-2)).softmax(-1)
        return torch.cat((places, (choice[..., None] * places).sum(-2, keepdim=True)), -2)

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
    """Taps ("sight", "words"); a `Regression` [..., slots + 1, 4]."""

    def __init__(self, inlet: Inlet, slots: int) -> None:
        super().__init__(inlet)
        if inlet.n_tokens <= SIGHT_TOKENS:
            raise ConfigError("The places head must tap ('sight', 'words'), in this order.")
        self.places = Places(inlet.width, slots)

    def forward(self, tapped: Tapped) -> Regression:
        tokens = tapped.tokens * tapped.present[..., None]
        return Regression(self.places(tokens[..., :SIGHT_TOKENS, :], tokens[..., SIGHT_TOKENS:, :]), "l1")
