"""The eye turns a picture, and its change since the last one, into 16 tokens and a pyramid of feature maps."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from devmind.agent.encoders import Encoded, Encoder
from devmind.moment import SIGHT_SIZE

_GRID_TOKENS = 16


def as_planes(picture: Tensor) -> Tensor:
    """Pictures [N, H, W, C] (uint8, or float in 0..1) as float [N, C, 64, 64] in 0..1, area-resized if needed."""
    planes = picture.permute(0, 3, 1, 2)
    planes = planes.float() / 255.0 if planes.dtype == torch.uint8 else planes.float()
    if planes.shape[-2:] != (SIGHT_SIZE, SIGHT_SIZE):
        planes = F.interpolate(planes, (SIGHT_SIZE, SIGHT_SIZE), mode="area")
    return planes


class SightEncoder(Encoder):
    """Four convolutions down to a 4x4 grid, with one token for each cell.

    Channels follow the width (c = width / 8: c, 2c, 4c, 8c). `maps` are `stride1` (the 2C input planes: picture and
    change, at 64x64), `stride2` (c, 32x32), `stride4`, `stride8` and `stride16`. The change is zero if there was no
    picture before.
    """

    sense_dims = 3
    uses_previous = True

    def __init__(self, width: int, channels: int = 3) -> None:
        super().__init__(width, n_tokens=_GRID_TOKENS)
        c = width // 8
        sizes = [2 * channels, c, 2 * c, 4 * c, 8 * c]
        layers = [
            nn.Conv2d(n_in, n_out, 3 if depth else 5, stride=2, padding=1 if depth else 2)
            for depth, (n_in, n_out) in enumerate(pairwise(sizes))
        ]
        for layer in layers:
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
            nn.init.zeros_(layer.bias)  # type: ignore[arg-type]
        self.convolutions = nn.ModuleList(layers)
        self.project = nn.Linear(sizes[-1], width)
        self.map_channels = {f"stride{2**depth}": size for depth, size in enumerate(sizes)}

    def encode(self, x: Tensor, previous: Tensor | None, previous_present: Tensor | None) -> Encoded:
        picture = as_planes(x)
        if previous is None or previous_present is None:
            change = torch.zeros_like(picture)
        else:
            change = (picture - as_planes(previous)) * previous_present[:, None, None, None]
        features = torch.cat((picture - 0.5, change), 1)
        maps = {"stride1": features}
        for depth, layer in enumerate(self.convolutions):
            features = F.relu(layer(features))
            maps[f"stride{2 ** (depth + 1)}"] = features
        tokens = self.project(features.flatten(2).transpose(1, 2))
        return Encoded(tokens, self.all_present(tokens), maps)
