"""A small convolutional network on time-normalised log-mel: a baseline that learns, in some seconds."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from devmind.learners.gradient import schedule
from stages.voice.recogniser import MELS, NORMAL_FRAMES, time_normalised

STEPS, ROWS, RATE = 300, 48, 4e-3
PER_STEP = 5
"""Taught sounds for each step, so that few sounds get few steps."""
SHIFT, TILT, HISS = 3, 0.15, 0.1
"""Variation as by other voices and rooms: bins up or down the frequency axis, a slope of log-mel over it, and noise."""


def fit(
    net: nn.Module, make: Callable[[Tensor], Tensor], targets: Tensor, steps: int, rows: int, rate: float,
    generator: torch.Generator,
) -> None:  # fmt: skip
    """Teach a baseline to tell `targets` int64 [M] in `steps` batches of `rows`.

    Args:
        make: what the network reads of some of the M, whose numbers are int64 [rows].
    """
    optimizer = torch.optim.AdamW(net.parameters(), lr=rate, weight_decay=0.05)
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = rate * schedule(step, steps)
        some = torch.randint(len(targets), (rows,), generator=generator)
        loss = F.cross_entropy(net(make(some)), targets[some], label_smoothing=0.1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    net.eval()


def named_by_small_net(
    known_waves: Sequence[np.ndarray], labels: np.ndarray, queries: Sequence[np.ndarray]
) -> np.ndarray:
    """Which of 0..max(labels) each sound of `queries` is, int64 [N], by a network that learned from `known_waves`."""
    return np.asarray(scores_by_small_net(known_waves, labels, queries).argmax(-1))


def scores_by_small_net(
    known_waves: Sequence[np.ndarray], labels: np.ndarray, queries: Sequence[np.ndarray]
) -> np.ndarray:
    """Its outputs before the choice, float32 [N, 1 + max(labels)].

    Args:
        known_waves, queries: sounds float32 [S] each at 16 kHz, of any lengths; labels: int64 [M].
    """
    generator = torch.Generator().manual_seed(0)
    # An exam runs in inference mode; this baseline learns now.
    with torch.inference_mode(False), torch.enable_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        known, targets = _pictures(known_waves), torch.from_numpy(np.asarray(labels, dtype=np.int64))
        shift = known.mean()
        net = _net(int(targets.max()) + 1)
        steps = min(STEPS, max(30, len(known) // PER_STEP))
        fit(net, lambda rows: _disguised(known[rows] - shift, generator), targets, steps, ROWS, RATE, generator)
        with torch.no_grad():
            return np.asarray(net(_pictures(queries) - shift).numpy())


def _pictures(waves: Sequence[np.ndarray]) -> Tensor:
    return torch.from_numpy(time_normalised(waves).astype(np.float32)).reshape(-1, 1, NORMAL_FRAMES, MELS)


def _net(classes: int) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Dropout(0.3), nn.Linear(32 * (NORMAL_FRAMES // 8) * (MELS // 8), classes),
    )  # fmt: skip


def _disguised(pictures: Tensor, generator: torch.Generator) -> Tensor:
    """Log-mel [N, 1, 32, 40] a few bins higher or lower, tilted and noisy."""
    n = len(pictures)
    bins = torch.arange(MELS) - torch.randint(-SHIFT, SHIFT + 1, (n, 1), generator=generator)
    moved = pictures.gather(3, bins.clamp(0, MELS - 1)[:, None, None].expand_as(pictures))
    slope = TILT * torch.randn(n, 1, 1, 1, generator=generator) * torch.linspace(-1, 1, MELS)
    return moved + slope + HISS * torch.randn(pictures.shape, generator=generator)
