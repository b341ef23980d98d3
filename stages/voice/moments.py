"""Sound as Moments, and sound varied as by other rooms and voices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from devmind.agent.batch import clip
from devmind.moment import SOUND_RATE_HZ, TICK_SAMPLES
from stages.voice.parts import SOUND

QUIET = 1e-4
"""Loudness of the faint noise that is added to everything: no room is as still as zeros."""


def in_a_row(waves: Sequence[np.ndarray], before: int = 800, after: int = TICK_SAMPLES) -> tuple[Tensor, Tensor]:
    """Sounds float32 [S] of any lengths with silence on either side: [N, T x 1600], and their Moments int64 [N].

    Args:
        before, after: samples of silence, `after` at least.
    """
    counts = torch.tensor([-(-(before + len(wave) + after) // TICK_SAMPLES) for wave in waves])
    together = torch.zeros(len(waves), int(counts.max()) * TICK_SAMPLES)
    for row, wave in enumerate(waves):
        together[row, before : before + len(wave)] = torch.from_numpy(wave)
    return together + QUIET * torch.randn(together.shape, generator=torch.Generator().manual_seed(0)), counts


def as_batch(sound: Tensor) -> dict[str, Any]:
    """Sound [N, T x 1600] as a Batch of T Moments, heard by one ear."""
    return clip({SOUND: sound.unflatten(1, (-1, 1, TICK_SAMPLES))})


def vary_sound(sound: Tensor, generator: torch.Generator, quiet: bool = False) -> Tensor:
    """Sound [N, S] varied as by other voices and rooms: faster or slower (with pitch and formants), shifted by up to
    50 ms, coloured, often limited to a telephone's band, noisy, louder or softer; `quiet`: without noise.
    """
    n, s = sound.shape
    draw = lambda low, high: low + (high - low) * torch.rand(n, 1, generator=generator)  # noqa: E731
    speed, shift = draw(np.log(0.83), np.log(1.2)).exp(), draw(-0.05, 0.05) * SOUND_RATE_HZ
    # Slower speech has to fit in; behind the end is silence.
    at = (torch.arange(s) * speed + shift) * 2 / (s - 1) - 1
    grid = torch.stack((at, torch.zeros_like(at)), -1)[:, None]
    warped = F.grid_sample(sound[:, None, None], grid, align_corners=True)[:, 0, 0]
    spectrum = torch.fft.rfft(warped)
    knots = torch.randn(n, 1, 9, generator=generator) * 4.0
    gain_db = F.interpolate(knots, spectrum.shape[-1], mode="linear", align_corners=True)[:, 0]
    share = torch.linspace(0, 1, spectrum.shape[-1])
    cut = torch.where(draw(0, 1) < 0.5, draw(0.42, 0.52), torch.full((n, 1), 2.0))
    gain_db = gain_db - 60.0 * ((share - cut) * 20).clamp(0, 1)
    coloured = torch.fft.irfft(spectrum * 10 ** (gain_db / 20), s)
    noise = torch.randn(n, s, generator=generator) * 10 ** draw(-4.0, -2.3)
    return (coloured + (0.0 if quiet else 1.0) * noise) * 10 ** draw(-0.5, 0.25)
