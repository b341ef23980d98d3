"""The scene head: for every pixel, whether it shows a thing, its depth, and the offset to the thing's centre.

Instances are found bottom-up as in Panoptic-DeepLab (Cheng et al. 2020, arXiv 1911.10194): peaks of a centre map, and
every foreground pixel goes to the peak its offset points at. Boxes are the extents of the instances' masks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from devmind.agent.heads import Head, Inlet, Tapped
from devmind.agent.output import Output
from devmind.errors import ConfigError

SIZE = 64
MAPS = 5
OFFSET_SCALE_PX = 8.0
DEPTH_WEIGHT = 2.5
PEAK = 0.15
PEAK_RADIUS_PX = 2
MIN_PIXELS = 8


@dataclass
class Scene(Output):
    """Maps [..., 64, 64]: `thing` and `centre` logits, `log_depth` (of metres), `offset` [..., 2, 64, 64] (y, x) px."""

    thing: Tensor
    centre: Tensor
    log_depth: Tensor
    offset: Tensor

    def loss(  # type: ignore[override]
        self, target: Mapping[str, Tensor], mask: Tensor | None = None, generator: torch.Generator | None = None
    ) -> Tensor:
        """Sum of the four maps' losses; target has `thing`, `centre`, `log_depth`, `offset` of the same shapes."""
        return sum(self.losses(target).values(), start=torch.zeros((), device=self.thing.device))

    def losses(self, target: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Each map's weighted loss: cross-entropy of things and centres, L1 of log depth and of offsets."""
        thing = target["thing"]
        weight = 1 + 8 * target["centre"]
        centre = F.binary_cross_entropy_with_logits(self.centre, target["centre"], weight=weight)
        offset = (self.offset - target["offset"]).abs().mean(-3) * thing
        return {
            "thing": F.binary_cross_entropy_with_logits(self.thing, thing),
            "centre": centre,
            "log_depth": DEPTH_WEIGHT * (self.log_depth - target["log_depth"]).abs().mean(),
            "offset": 0.3 * offset.sum() / thing.sum().clamp_min(1) / OFFSET_SCALE_PX,
        }

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        """A sampled mask of things, bool [..., 64, 64]."""
        return torch.rand(self.thing.shape, generator=generator, device=self.thing.device) < self.thing.sigmoid()

    def mode(self) -> Tensor:
        """Depth in metres [..., 64, 64]."""
        return self.log_depth.exp()

    def instances(self) -> list[Instances]:
        """The things found in each picture; leading dimensions are flattened."""
        thing, centre = (value.sigmoid().reshape(-1, SIZE, SIZE) for value in (self.thing, self.centre))
        window = 2 * PEAK_RADIUS_PX + 1
        highest = F.max_pool2d(centre[:, None], window, 1, PEAK_RADIUS_PX)[:, 0]
        peaks = ((centre == highest) & (centre > PEAK)).cpu().numpy()
        offset = self.offset.reshape(-1, 2, SIZE, SIZE).cpu().numpy()
        thing_np, centre_np = thing.cpu().numpy(), centre.cpu().numpy()
        return [_group(thing_np[i], centre_np[i], peaks[i], offset[i]) for i in range(len(peaks))]

    def overlays(self, row: int = 0) -> dict[str, np.ndarray]:
        """Boxes and masks of the things found, and the depth of every pixel."""
        maps = (self.thing, self.centre, self.log_depth, self.offset.flatten(-3, -2))
        thing, centre, log_depth, offset = (value.detach().reshape(-1, *value.shape[-2:])[row] for value in maps)
        instances = Scene(thing, centre, log_depth, offset.unflatten(0, (2, SIZE))).instances()[0]
        masks = np.zeros((SIZE, SIZE), np.uint8)
        for number, mask in enumerate(instances.masks, start=1):
            masks[mask] = number
        boxes = np.concatenate([instances.boxes / SIZE, instances.scores[:, None]], 1).astype(np.float32)
        return {"boxes": boxes, "masks": masks, "depth": log_depth.exp().float().cpu().numpy()}


@dataclass(frozen=True)
class Instances:
    """Masks bool [K, 64, 64], boxes float32 [K, 4] (x0, y0, x1, y1; exclusive ends) and scores [K] of one picture."""

    masks: np.ndarray
    boxes: np.ndarray
    scores: np.ndarray


def _group(thing: np.ndarray, centre: np.ndarray, peaks: np.ndarray, offset: np.ndarray) -> Instances:
    rows, columns = np.nonzero(thing > 0.5)
    at = np.argwhere(peaks)
    if not len(at) or not len(rows):
        return Instances(np.zeros((0, SIZE, SIZE), bool), np.zeros((0, 4), np.float32), np.zeros(0, np.float32))
    pointed = np.stack([rows, columns], 1) + offset[:, rows, columns].T
    owner = ((pointed[:, None] - at[None]) ** 2).sum(-1).argmin(1)
    masks, boxes, scores = [], [], []
    for k in range(len(at)):
        of_peak = owner == k
        if of_peak.sum() < MIN_PIXELS:
            continue
        mask = np.zeros((SIZE, SIZE), bool)
        mask[rows[of_peak], columns[of_peak]] = True
        masks.append(mask)
        boxes.append((columns[of_peak].min(), rows[of_peak].min(), columns[of_peak].max() + 1, rows[of_peak].max() + 1))
        scores.append(centre[tuple(at[k])] * thing[mask].mean())
    if not masks:
        return Instances(np.zeros((0, SIZE, SIZE), bool), np.zeros((0, 4), np.float32), np.zeros(0, np.float32))
    return Instances(np.stack(masks), np.array(boxes, np.float32), np.array(scores, np.float32))


class SceneHead(Head):
    """A small U-Net decoder on the sight encoder's pyramid (Ronneberger et al. 2015, arXiv 1505.04597).

    Everything runs at half size and the full-size maps come out by sub-pixel convolution (Shi et al. 2016, arXiv
    1609.05158), four times cheaper than convolving at full size; the picture itself joins at the end for sharp edges.
    """

    def __init__(self, inlet: Inlet, channels: int | None = None) -> None:
        super().__init__(inlet)
        if "stride1" not in inlet.map_channels:
            raise ConfigError("The scene head must tap a sense whose encoder gives feature maps, such as 'sight'.")
        c = channels or max(8, inlet.width * 5 // 16)
        self.levels = ("stride16", "stride8", "stride4", "stride2")
        self.lateral = nn.ModuleList(nn.Conv2d(inlet.map_channels[name], c, 1) for name in self.levels)
        self.smooth = nn.ModuleList(nn.Conv2d(c, c, 3, padding=1) for _ in self.levels)
        self.place = nn.Parameter(torch.zeros(1, c, SIZE // 16, SIZE // 16))
        self.fine = nn.Conv2d(c + 4 * 3, c, 3, padding=1)
        self.out = nn.Conv2d(c, 4 * MAPS, 1)
        nn.init.zeros_(self.out.weight)
        # Most pixels are room, few are centres, and the room is about two metres deep.
        self.out.bias = nn.Parameter(torch.tensor([-2.0, -4.0, 0.7, 0.0, 0.0]).repeat_interleave(4))

    def forward(self, tapped: Tapped) -> Scene:
        lead = tapped.tokens.shape[:-2]
        maps = {name: value.flatten(0, len(lead) - 1) for name, value in tapped.maps.items()}
        features: Tensor | None = None
        for name, lateral, smooth in zip(self.levels, self.lateral, self.smooth, strict=True):
            above = self.place if features is None else F.interpolate(features, scale_factor=2.0, mode="nearest")
            features = F.relu(smooth(F.relu(lateral(maps[name]) + above)))
        picture = F.pixel_unshuffle(maps["stride1"][:, :3], 2)
        fine = F.relu(self.fine(torch.cat((features, picture), 1)))  # type: ignore[arg-type]
        out = F.pixel_shuffle(self.out(fine), 2).unflatten(0, lead)
        thing, centre, log_depth = out[..., 0, :, :], out[..., 1, :, :], out[..., 2, :, :]
        return Scene(thing, centre, log_depth, out[..., 3:, :, :] * OFFSET_SCALE_PX)
