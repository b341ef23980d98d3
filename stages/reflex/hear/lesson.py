"""Hear: what kind of sound it is, in the nursery; and spoken digits, when the run was given recordings (`--data`).

One speaker of the recordings is held out of the lessons. The trunk hears a second of speech and names the digit at its
end.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from devmind.acting import observations
from devmind.agent.agent import Agent
from devmind.agent.batch import clip, stack_ticks
from devmind.curriculum.episodes import identities
from devmind.curriculum.stage import Context
from devmind.learners.gradient import head_loss
from devmind.moment import TICK_SAMPLES
from devmind.seeding import lesson_seeds, numpy_rng, torch_generator
from devmind.sessions.spoken import CLIP_TICKS, Clips, clips, held_out_speaker

TICKS = 5
CLASSES = ("quiet", "sphere tone", "box tone", "cylinder tone", "voice", "bang", "contact")


def sounds(context: Context, seeds: np.ndarray) -> tuple[Tensor, np.ndarray]:
    """(sound float32 [N, 5, 2, 1600], class int64 [N]) of the nursery's level `hear`."""
    world = context.make_world("nursery", "hear", seeds)
    return stack_ticks(observations(world, TICKS), ["sound"])["sound"], world.truth()["sound_class"]


def lesson_batch(context: Context, update: int, size: int) -> dict[str, Any]:
    """`size` clips of half a second, with the class at every tick."""
    heard, kind = sounds(context, lesson_seeds(size, context.seed, "hear", update))
    return clip({"sound": heard}) | {"kind": torch.from_numpy(kind)[:, None].expand(-1, TICKS)}


loss = head_loss("hear", "kind")


def has_speech(context: Context) -> bool:
    """Whether the run was given speech of more speakers than the held-out one."""
    return clips(context.data) is not None and len(lesson_clips(context).speakers) > 0


def lesson_clips(context: Context) -> Clips:
    """The clips of every speaker but the one held out."""
    every = clips(context.data)
    assert every is not None
    out = held_out_speaker(list(every.speakers), context.seed, context.config.exam.holdout)
    return every.take(every.speakers != out)


def as_sound(waves: Tensor) -> Tensor:
    """Waves [N, 16000] as ten ticks of mono sound [N, 10, 1, 1600]."""
    return waves.reshape(len(waves), CLIP_TICKS, 1, TICK_SAMPLES)


def speech_batch(context: Context, update: int, size: int) -> dict[str, Any]:
    """Half of `size` clips, varied at random, with the digit; the answer is asked for in the last tick."""
    known, n = lesson_clips(context), max(2, size // 2)
    index = numpy_rng(context.seed, "speech", update).integers(0, len(known.labels), n)
    waves = vary(torch.from_numpy(known.waves[index]), torch_generator(context.seed, "speech", update))
    return clip({"sound": as_sound(waves)}) | {"digit": torch.from_numpy(known.labels[index])}


def vary(waves: Tensor, generator: torch.Generator) -> Tensor:
    """Other voices and rooms: played 0.8 to 1.25 times as fast (pitch and formants move), shifted, filtered, noisy."""
    n, s = waves.shape
    draw = lambda low, high: low + (high - low) * torch.rand(n, 1, generator=generator)  # noqa: E731
    speed, shift = draw(0.8, 1.25), draw(-0.15, 0.15)
    base = torch.linspace(-1, 1, s).expand(n, s) * speed + shift
    grid = torch.stack((base, torch.zeros_like(base)), -1)[:, None]
    warped = F.grid_sample(waves[:, None, None], grid, align_corners=True)[:, 0, 0]
    spectrum = torch.fft.rfft(warped)
    knots = torch.randn(n, 1, 9, generator=generator) * 4.0
    gain_db = F.interpolate(knots, spectrum.shape[-1], mode="linear", align_corners=True)[:, 0]
    coloured = torch.fft.irfft(spectrum * 10 ** (gain_db / 20), s)
    noise = torch.randn(n, s, generator=generator) * 10 ** draw(-4.0, -2.0)
    return (coloured + noise) * 10 ** draw(-0.4, 0.2)


def speech_loss(agent: Agent, batch: Mapping[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
    """Cross-entropy of the digit over the last ticks: early answers are guesses, so they count little."""
    output = agent(batch, ["spoken"])["spoken"]
    logits = output.logits[:, CLIP_TICKS // 2 :]
    targets = batch["digit"][:, None].expand(logits.shape[:2])
    each = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none", label_smoothing=0.05)
    weight = torch.linspace(0.2, 1.0, logits.shape[1], device=logits.device)
    value = (each.unflatten(0, logits.shape[:2]) * weight).sum(1).mean() / weight.sum()
    return value, {"speech": value.detach()}


def clips_of_lessons(context: Context, n: int) -> np.ndarray:
    """Up to `n` of the clips that lessons show, before they are varied: int64."""
    return identities({"wave": lesson_clips(context).waves[:n]}) if has_speech(context) else np.zeros(0, np.int64)
