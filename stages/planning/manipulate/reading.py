"""How the head that handles things reads where they are: from tokens of the picture, and of the word that names one.

The network is that of reflex's `whereabouts`, so it can begin with the weights of that head.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from devmind.agent.heads import SCALE_DEG, Head, NamedCells
from devmind.errors import ConfigError


class Reading(NamedCells):
    """From tokens of sight [..., 16, D] and of words [..., W, D] to places [..., slots + 1, 4], the named one last."""

    def forward(self, sight: Tensor, words: Tensor) -> Tensor:
        return self.tell_named(sight, words)[0]

    def start_from(self, other: Head) -> None:
        """Take over the weights of a head that reads places of colours.

        Raises:
            ConfigError: that head reads something else, or from other tokens.
        """
        try:
            self.load_state_dict(other.places.state_dict())  # type: ignore[union-attr]
        except (AttributeError, RuntimeError) as error:
            raise ConfigError(f"Places can be read only as by a head of the same slots and width: {error}") from error


def losses(places: Tensor, target: Tensor) -> dict[str, Tensor]:
    """Losses by name of places [B, S + 1, 4] against the true ones, of the same shape: nats of presence, and errors."""
    here, error = target[..., 0], (places[..., 1:] - target[..., 1:]).abs().mean(-1)
    return {
        "present": F.binary_cross_entropy_with_logits(places[..., 0], here),
        "where": 4 * (error * here).sum() / here.sum().clamp_min(1),
    }


def in_room(places: Tensor, body: Tensor) -> Tensor:
    """Places [..., K, 4] as x, y, z in the room [..., K, 3] (m), given the gaze in `body` [..., 12]."""
    pan = torch.atan2(body[..., 0], body[..., 1])[..., None]
    tilt = torch.deg2rad(60.0 * body[..., 2])[..., None]
    turn, rise = torch.deg2rad(SCALE_DEG * places[..., 1:3]).unbind(-1)
    far = places[..., 3].clamp(-3.0, 3.0).exp()
    turn, rise = turn + pan, rise + tilt
    return far[..., None] * torch.stack((rise.cos() * turn.cos(), rise.cos() * turn.sin(), rise.sin()), -1)
