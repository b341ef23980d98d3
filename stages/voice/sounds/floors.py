"""Baselines of `sounds`: ridge on statistics of log-mel, and a small convolutional network from scratch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from devmind.agent.features import log_mel
from stages.voice.small_net import fit

MELS, HOP, N_FFT = 40, 400, 1024
STEPS, ROWS, RATE = 250, 24, 3e-3
STEPS_EACH = 8
"""Steps for each taught sound, at most, so that few sounds get few steps."""
FRAMES = 100
"""Frames of a piece that the network learns from: 2.5 s."""


def mels_of(waves: Sequence[np.ndarray]) -> list[Tensor]:
    """Log-mel [F, 40] of each sound float32 [S]."""
    return [log_mel(torch.from_numpy(wave.copy()), N_FFT, HOP, MELS) for wave in waves]


def statistics(waves: Sequence[np.ndarray]) -> np.ndarray:
    """Mean and spread of log-mel over a sound, and the mean step from frame to frame: float64 [N, 120]."""
    rows = []
    for mel in mels_of(waves):
        steps = mel.diff(dim=0).abs().mean(0) if len(mel) > 1 else torch.zeros(MELS)
        rows.append(torch.cat((mel.mean(0), mel.std(0, correction=0), steps)).numpy())
    return np.stack(rows).astype(np.float64)


def named_by_network(
    known_waves: Sequence[np.ndarray], labels: np.ndarray, queries: Sequence[np.ndarray]
) -> np.ndarray:
    """The label of each sound of `queries`, by a network that learned from pieces of `known_waves`, [N].

    Args:
        known_waves, queries: sounds float32 [S] each at 16 kHz; labels: int64 [M], any numbers.
    """
    generator = torch.Generator().manual_seed(0)
    known, index = np.unique(labels, return_inverse=True)
    # An exam runs in inference mode; this baseline learns now.
    with torch.inference_mode(False), torch.enable_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        mels, targets = mels_of(known_waves), torch.from_numpy(index)
        net = Net(len(known))
        steps = min(STEPS, max(30, STEPS_EACH * len(mels)))

        def pieces(rows: Tensor) -> Tensor:
            return torch.stack([_piece(mels[int(row)], generator) for row in rows])

        fit(net, pieces, targets, steps, ROWS, RATE, generator)
        with torch.no_grad():
            return known[torch.stack([net(mel[None])[0] for mel in mels_of(queries)]).argmax(-1).numpy()]


class Net(nn.Module):
    """Three convolutions over log-mel [N, F, 40], mean and maximum over time, a linear layer."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.look = nn.Sequential(
            nn.Conv2d(1, 12, 3, stride=2, padding=1), nn.BatchNorm2d(12), nn.ReLU(),
            nn.Conv2d(12, 24, 3, stride=2, padding=1), nn.BatchNorm2d(24), nn.ReLU(),
            nn.Conv2d(24, 48, 3, stride=2, padding=1), nn.BatchNorm2d(48), nn.ReLU(),
        )  # fmt: skip
        self.answer = nn.Sequential(nn.Dropout(0.3), nn.Linear(2 * 48 * (MELS // 8), classes))

    def forward(self, mel: Tensor) -> Tensor:
        seen = self.look(mel[:, None] + 1.0).transpose(1, 2).flatten(2)  # [N, F / 8, 48 x 5]
        return self.answer(torch.cat((seen.mean(1), seen.amax(1)), -1))


def _piece(mel: Tensor, generator: torch.Generator) -> Tensor:
    """2.5 s of log-mel [F, 40], rolled in time by a random shift, louder or softer, with bands taken away."""
    drawn = torch.rand(5, generator=generator)
    while len(mel) < FRAMES:
        mel = torch.cat((mel, mel))
    turned = mel.roll(int(drawn[0] * len(mel)), 0)[:FRAMES] + (drawn[1] - 0.5) * 0.6
    band = int(drawn[2] * MELS)
    turned = turned.clone()
    turned[:, band : band + int(drawn[3] * 8)] = -1.0
    return turned + 0.1 * torch.randn(turned.shape, generator=generator)
