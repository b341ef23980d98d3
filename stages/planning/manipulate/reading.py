"""How the head that handles things reads where they are: from tokens of the picture, and of the word that names one.

The network is the one by which reflexes read places (`whereabouts`), so it can begin with what that has learned: each
token of the picture answers for its own cell, and a softmax over cells picks the one that counts.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from devmind.agent.heads import Head
from devmind.errors import ConfigError

SIGHT_TOKENS, NUMBERS = 16, 4
"""Of a place: in view (a logit), left and up of the gaze (/30 deg), log of the distance in metres."""
SCALE_DEG = HALF_VIEW_DEG = 30.0


class Reading(nn.Module):
    """Tokens of sight [..., 16, D] and of words [..., W, D] to places [..., slots + 1, 4], the named one last."""

    cells: Tensor

    def __init__(self, width: int, slots: int) -> None:
        super().__init__()
        self.slots, narrow = slots, max(4, width // 8)
        self.cell, self.squeeze = nn.Linear(width, width), nn.Linear(width, narrow)
        self.scene = nn.Linear(SIGHT_TOKENS * narrow, width)
        self.look = nn.Sequential(nn.GELU(), nn.Linear(width, slots * NUMBERS))
        self.choose = nn.Linear(width, slots)
        side = math.isqrt(SIGHT_TOKENS)
        middle = 1 - (2 * torch.arange(side) + 1) / side
        angle = torch.rad2deg(torch.atan(middle * math.tan(math.radians(HALF_VIEW_DEG)))) / SCALE_DEG
        up, left = torch.meshgrid(angle, angle, indexing="ij")
        self.register_buffer("cells", torch.stack((left, up), -1).reshape(SIGHT_TOKENS, 2), persistent=False)

    def forward(self, sight: Tensor, words: Tensor) -> Tensor:
        scene = self.scene(self.squeeze(sight).flatten(-2))[..., None, :]
        told = self.look(self.cell(sight) + scene).unflatten(-1, (self.slots, NUMBERS)).transpose(-3, -2)
        where = told[..., 1:] + F.pad(self.cells, (0, 1))
        place = (told[..., 0].softmax(-1)[..., None] * where).sum(-2)
        places = torch.cat((told[..., 0].logsumexp(-1)[..., None], place), -1)
        choice = self.choose(words.sum(-2)).softmax(-1)
        return torch.cat((places, (choice[..., None] * places).sum(-2, keepdim=True)), -2)

    def start_from(self, other: Head) -> None:
        """Read as a head that tells places of colours does.

        Raises:
            ConfigError: it reads something else, or from other tokens.
        """
        try:
            self.load_state_dict(other.places.state_dict())  # type: ignore[union-attr]
        except (AttributeError, RuntimeError) as error:
            raise ConfigError(f"Places can be read only as by a head of the same slots and width: {error}") from error


def losses(places: Tensor, target: Tensor) -> dict[str, Tensor]:
    """Nats and errors of places [B, S + 1, 4] against those that are true, of the same shape, by name."""
    here, error = target[..., 0], (places[..., 1:] - target[..., 1:]).abs().mean(-1)
    return {
        "present": F.binary_cross_entropy_with_logits(places[..., 0], here),
        "where": 4 * (error * here).sum() / here.sum().clamp_min(1),
    }


def in_room(places: Tensor, body: Tensor) -> Tensor:
    """Places [..., K, 4] as x, y, z in the room [..., K, 3] (m), by the gaze that the body [..., 12] tells of."""
    pan = torch.atan2(body[..., 0], body[..., 1])[..., None]
    tilt = torch.deg2rad(60.0 * body[..., 2])[..., None]
    turn, rise = torch.deg2rad(SCALE_DEG * places[..., 1:3]).unbind(-1)
    far = places[..., 3].clamp(-3.0, 3.0).exp()
    turn, rise = turn + pan, rise + tilt
    return far[..., None] * torch.stack((rise.cos() * turn.cos(), rise.cos() * turn.sin(), rise.sin()), -1)
