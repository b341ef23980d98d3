"""The lesson `clean`: speech in noise, without the noise. The head alone learns, from sound."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from devmind.agent.agent import Agent
from devmind.curriculum.stage import Context, Lesson
from devmind.moment import TICK_SAMPLES
from devmind.seeding import numpy_rng, torch_generator
from stages.voice.echo.clean.filters import in_bins, spectrum
from stages.voice.moments import as_batch, in_a_row, vary_sound
from stages.voice.one_head import head_lesson
from stages.voice.parts import CLEANED
from stages.voice.utterances import alike, groups, shares, sources, where

STEPS = {"tiny": 8, "nursery": 1000, "child": 3000, "adult": 8000}
LOUD_DB = (-2.0, 12.0)
"""Range of the level of speech above noise in lessons."""
LEAD = 2 * TICK_SAMPLES
"""Samples of noise alone before the speech."""


def lesson(context: Context) -> Lesson:
    """The lesson as data."""
    return head_lesson(
        context, "clean", CLEANED, loss, lesson_batch, steps=STEPS, rows=16, learning_rate=4e-3, minutes=1.5,
        skill="echo", learns_from=groups(context),
    )  # fmt: skip


def lesson_batch(context: Context, update: int, rows: int) -> dict[str, Any]:
    """About `rows` utterances of one source and of similar length, in noise, with `clean` [N, T x 1600] beside."""
    rng, generator = numpy_rng(context.seed, "clean", update), torch_generator(context.seed, "clean", update)
    all_sources = sources(*where(context))
    waves, texts = all_sources[int(rng.choice(len(all_sources), p=shares(len(all_sources))))]
    index = alike(rng, len(texts), rows if " " not in texts[0] else max(2, rows // 2))
    sound, _ = in_a_row([np.pad(waves[i], (0, len(waves[i]) // 5)) for i in index], before=LEAD)
    clean = vary_sound(sound, generator, quiet=True)
    db = LOUD_DB[0] + (LOUD_DB[1] - LOUD_DB[0]) * torch.rand(len(clean), 1, generator=generator)
    return as_batch(clean + noise(clean, db, generator)) | {"clean": clean}


def noise(clean: Tensor, db: Tensor, generator: torch.Generator) -> Tensor:
    """Noise [N, S] of random colour whose level varies a little, `db` [N, 1] below the speech in `clean`."""
    n, s = clean.shape
    white = torch.fft.rfft(torch.randn(n, s, generator=generator))
    knots = 8.0 * torch.randn(n, 1, 7, generator=generator)
    colour_db = F.interpolate(knots, white.shape[-1], mode="linear", align_corners=True)[:, 0]
    sound = torch.fft.irfft(white * 10 ** (colour_db / 20), s)
    swell = F.interpolate(torch.randn(n, 1, max(2, s // 8000), generator=generator), s, mode="linear")[:, 0]
    sound = sound * 10 ** (1.5 * swell / 20)
    power = lambda x: x.square().mean(-1, keepdim=True).clamp_min(1e-12)  # noqa: E731
    return sound * (power(clean) / power(sound) * 10 ** (-db / 10)).sqrt()


def loss(agent: Agent, batch: Mapping[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
    """The power of the remaining error relative to the clean speech, in the spectrum, in dB."""
    output: Any = agent(dict(batch), [CLEANED])[CLEANED]
    heard = spectrum(batch["senses"]["sound"].flatten(1).to(agent.device))
    target = spectrum(batch["clean"].to(agent.device))
    left = heard * in_bins(output.value.flatten(1, 2))
    power = lambda x: x.abs().square().sum((-1, -2)).clamp_min(1e-9)  # noqa: E731
    value = 10 * (power(left - target) / power(target)).log10()
    before = 10 * (power(heard - target) / power(target)).log10()
    return value.mean(), {"left db": value.mean().detach(), "gain db": (before - value).mean().detach()}
