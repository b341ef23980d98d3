"""Two ways to judge overlays: against the truth, and where it is unknown, against the overlays of the mirrored picture.

A mirror shows the same room reversed. A reliable head finds the same things there; one that guesses seldom makes the
same guess twice.
"""

from __future__ import annotations

import numpy as np
import torch

from devmind.agent.agent import Agent
from devmind.agent.output import Output
from devmind.agent.taps import Percepts
from devmind.algorithms.overlap import box_iou, mask_iou

KINDS = ("boxes", "masks", "depth")
SAME_THING = 0.5
"""Least overlap of a right box or mask with a true one, as in AP50."""
SAME_DEPTH = 1.25
"""A pixel's depth is right within this factor of the true one (Eigen et al. 2014, arXiv 1406.2283)."""
SENSE = "sight"

Overlays = dict[str, np.ndarray]


@torch.no_grad()
def mirrored(agent: Agent, head: str, percepts: Percepts) -> Output | None:
    """The head's output [B] for the same ticks seen in a mirror; None where sight's encoder keeps no picture.

    Args:
        percepts: of the tick; the picture and its change are read from the encoder's finest map (`SightEncoder`).
    """
    planes = percepts.encoded[SENSE].maps.get("stride1") if SENSE in percepts.encoded else None
    if planes is None or planes.shape[1] % 2:
        return None
    flipped = planes.flip(-1)
    picture, change = flipped.chunk(2, 1)
    now, before = (value.permute(0, 2, 3, 1) for value in (picture + 0.5, picture + 0.5 - change))
    known = torch.ones(len(planes), dtype=torch.bool, device=planes.device)
    seen = agent.encode_senses({SENSE: now}, previous={SENSE: (before, known)})
    return agent.run_heads([head], seen)[head]


def back(overlays: Overlays) -> Overlays:
    """Overlays of a mirrored picture, reversed to lie on the picture itself, or the other way round."""
    turned = {kind: value[:, ::-1] for kind, value in overlays.items() if kind in ("masks", "depth")}
    if "boxes" in overlays:
        boxes = overlays["boxes"].copy()
        boxes[:, [0, 2]] = 1 - boxes[:, [2, 0]]
        turned["boxes"] = boxes
    return turned


def agreement(kind: str, seen: Overlays, other: Overlays) -> float | None:
    """The similarity of two overlays of one picture, 0..1; None where neither shows anything.

    Boxes and masks: the mean, over both sides, of each one's best overlap with one of the other side. Depth: falls with
    the mean difference of log depth, to 1/e at a quarter.
    """
    if kind == "depth":
        return float(np.exp(-4 * np.abs(np.log(seen[kind] / other[kind])).mean()))
    overlap = box_iou(seen[kind][:, :4], other[kind][:, :4]) if kind == "boxes" else _masks_iou(seen[kind], other[kind])
    count = sum(overlap.shape)
    if not count:
        return None
    return float((overlap.max(1).sum() + overlap.max(0).sum()) / count) if overlap.size else 0.0


def accuracy(kind: str, seen: Overlays, things: np.ndarray, depth: np.ndarray) -> float | None:
    """The share of what is shown that is right, 0..1; None where nothing is shown.

    Args:
        things: uint8 [64, 64], the number of the thing at each pixel, 0 for none; depth: float32 [64, 64] in metres.
    """
    if kind == "depth":
        ratio = seen[kind] / np.maximum(depth, 0.05)
        return float((np.maximum(ratio, 1 / ratio) < SAME_DEPTH).mean())
    overlap = box_iou(seen[kind][:, :4], _extents(things)) if kind == "boxes" else _masks_iou(seen[kind], things)
    if not len(overlap):
        return None
    return float((overlap.max(1) >= SAME_THING).mean()) if overlap.size else 0.0


def _apart(numbered: np.ndarray) -> np.ndarray:
    """Masks bool [K, H, W] of the numbers above 0 in a picture."""
    return numbered == np.unique(numbered[numbered > 0])[:, None, None]


def _masks_iou(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return mask_iou(_apart(a), _apart(b))


def _extents(things: np.ndarray) -> np.ndarray:
    """Boxes [K, 4] around numbered things, in 0..1 of the picture."""
    boxes = []
    for mask in _apart(things):
        rows, columns = np.nonzero(mask)
        boxes.append((columns.min(), rows.min(), columns.max() + 1, rows.max() + 1))
    return np.array(boxes, np.float32).reshape(-1, 4) / len(things)
