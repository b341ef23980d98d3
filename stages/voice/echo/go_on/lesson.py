"""The lesson `go_on`: predicting from every Moment how the sound goes on. The head alone learns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from devmind.agent.agent import Agent
from devmind.curriculum.stage import Context, Lesson
from devmind.moment import TICK_SAMPLES
from devmind.seeding import numpy_rng, torch_generator
from stages.voice.ear import BEFORE, FRAMES, frames
from stages.voice.echo.go_on.head import AHEAD
from stages.voice.echo.lesson import decode
from stages.voice.moments import as_batch, in_a_row, vary_sound
from stages.voice.one_head import HeadByMuon, head_lesson
from stages.voice.parts import GOES_ON
from stages.voice.utterances import alike, groups, shares, sources, where

STEPS = {"tiny": 8, "nursery": 200, "child": 3000, "adult": 8000}


def lesson(context: Context) -> Lesson:
    """The lesson as data."""
    return head_lesson(
        context, "go_on", GOES_ON, loss, lesson_batch, steps=STEPS, rows=24, learning_rate=3e-3, minutes=1.0,
        skill="echo", learner=HeadByMuon, learns_from=groups(context),
    )  # fmt: skip


def lesson_batch(context: Context, update: int, rows: int) -> dict[str, Any]:
    """About `rows` utterances of one source and of similar length, varied, and their `mel`."""
    rng, all_sources = numpy_rng(context.seed, "go on", update), sources(*where(context))
    waves, texts = all_sources[int(rng.choice(len(all_sources), p=shares(len(all_sources))))]
    index = alike(rng, len(texts), rows if " " not in texts[0] else max(2, rows // 2))
    sound, counts = in_a_row([np.pad(waves[i], (0, len(waves[i]) // 5)) for i in index])
    sounds = vary_sound(sound, torch_generator(context.seed, "go on", update))
    return as_batch(sounds) | {"mel": mel_of(sounds), "counts": counts}


def mel_of(sound: Tensor) -> Tensor:
    """Log-mel [N, T, 8, 64] of sound [N, T x 1600], each Moment's own frames."""
    row = frames(torch.cat((sound.new_zeros(len(sound), TICK_SAMPLES), sound), 1))[:, BEFORE:]
    return row.unflatten(1, (-1, FRAMES))


def to_come(mel: Tensor) -> Tensor:
    """The two Moments behind each Moment of log-mel [N, T, 8, 64] but the last two, [N, T - 2, 16, 64]."""
    parts = [mel[:, 1 + ahead : mel.shape[1] - AHEAD + 1 + ahead] for ahead in range(AHEAD)]
    return torch.cat(parts, 2)


def continued_mel(agent: Agent, batch: Mapping[str, Any]) -> Tensor:
    """The agent's prediction behind each Moment: log-mel [N, T, 16, 64]."""
    output: Any = agent(dict(batch), [GOES_ON])[GOES_ON]
    rounded = output.rounded.flatten(0, 1)
    return decode(agent, rounded).flatten(1, 2).unflatten(0, output.rounded.shape[:2])


def loss(agent: Agent, batch: Mapping[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
    """Mean distance in log-mel of the prediction from what came."""
    target = to_come(batch["mel"].to(agent.device))
    error = (continued_mel(agent, batch)[:, :-AHEAD] - target).abs().mean((-1, -2))
    # Only what came in the row itself counts, not its padding.
    here = torch.arange(error.shape[1], device=error.device)[None] < batch["counts"].to(error.device)[:, None] - AHEAD
    value = (error * here).sum() / here.sum().clamp_min(1)
    return value, {"go on": value.detach(), "go on db": 20.0 * value.detach()}
