"""The lesson `codec`: speech of lessons as whole numbers and back, in log-mel.

Like `listen` it learns from log-mel that is computed once, and needs no trunk.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from devmind.agent.agent import Agent
from devmind.agent.taps import Tapped
from devmind.curriculum.stage import Context, Lesson
from devmind.learners.gradient import gradient_lesson
from devmind.seeding import torch_generator
from stages.voice.codec import CodecHead
from stages.voice.ear import BEFORE, FRAMES, LEAD, MEL, TOKENS
from stages.voice.hear_words.listen import disguise, draw_utterances
from stages.voice.parts import CODEC
from stages.voice.utterances import groups

STEPS = {"tiny": 8, "nursery": 1500, "child": 6000, "adult": 20_000}


def lesson(context: Context) -> Lesson:
    """The lesson as data."""
    return gradient_lesson(
        context, "codec", loss, lambda agent, context, update, rows, steps: batch(context, update, rows),
        steps=STEPS, rows=24, learning_rate=2e-3, minutes=1.5, trains=lambda agent: (f"heads.{CODEC}.",), prefetch=True,
        skills=("echo",), learns_from=groups(context),
    )  # fmt: skip


def batch(context: Context, update: int, rows: int) -> dict[str, Any]:
    """About `rows` varied utterances: log-mel of each Moment with the one before, [N, T, 64, 1, 15]."""
    mels, _ = draw_utterances(context, "codec", update, rows)
    mel, _ = disguise(mels, torch_generator(context.seed, "codec", update), gently=True)
    return {"mel": moments_in(mel)}


def moments_in(mel: Tensor) -> Tensor:
    """Log-mel [N, 6 + 8 T, 64] as the ear's map of all Moments but the first, which has no whole one before it:
    [N, T - 1, 64, 1, 15].
    """
    return mel[:, LEAD + FRAMES - BEFORE :].unfold(1, BEFORE + FRAMES, FRAMES)[:, :, :, None]


def loss(agent: Agent, batch: Mapping[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
    """Mean distance in log-mel of the decoded sound from what was heard."""
    mel = batch["mel"].to(agent.device)
    nothing = mel.new_zeros(*mel.shape[:2], TOKENS, agent.config.width)
    output: Any = agent.head(CODEC)(Tapped(nothing, torch.ones_like(nothing[..., 0], dtype=torch.bool), {MEL: mel}))
    decoded = decode(agent, output.rounded)
    value = output.loss(decoded)
    return value, {"codec": value.detach(), "codec db": 20.0 * value.detach()}


def decode(agent: Agent, rounded: Tensor) -> Tensor:
    """Log-mel [N, T, 8, 64] of whole levels [N, T, 4, 10]."""
    head: CodecHead = agent.head(CODEC)  # type: ignore[assignment]
    return head.decode(rounded.flatten(1, 2)).unflatten(1, (rounded.shape[1], -1))
