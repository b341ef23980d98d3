"""The lesson `codec`: speech as whole numbers and back, in log-mel, of the voices and words of lessons."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from devmind.agent.agent import Agent
from devmind.curriculum.stage import Context, Lesson
from devmind.learners.gradient import gradient_lesson
from stages.voice.codec import CodecHead
from stages.voice.hear_words.lesson import groups, lesson_batch
from stages.voice.parts import CODEC

STEPS = {"tiny": 8, "nursery": 1500, "child": 6000, "adult": 20_000}
ALONE = "It trains a head of its own, and no other lesson changes what that reads."


def lesson(context: Context) -> Lesson:
    """The lesson as data."""
    return gradient_lesson(
        context, "codec", loss, lambda agent, context, update, rows, steps: batch(context, update, rows),
        steps=STEPS, rows=16, learning_rate=2e-3, minutes=1.5, trains=lambda agent: (f"heads.{CODEC}.",), prefetch=True,
        skills=("echo",), learns_from=groups(context), rehearsal_every=0, unrehearsed=ALONE,
    )  # fmt: skip


def batch(context: Context, update: int, rows: int) -> dict[str, Any]:
    """What the lesson `listen` hears, from other random numbers."""
    # Its own updates begin behind those of `listen`.
    made = lesson_batch(context, 1_000_000 + update, rows)
    del made["texts"]
    return made


def loss(agent: Agent, batch: Mapping[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
    """Mean distance in log-mel of what is decoded from what was heard."""
    output: Any = agent(dict(batch), [CODEC])[CODEC]
    decoded = decode(agent, output.rounded)
    value = output.loss(decoded)
    return value, {"codec": value.detach(), "codec db": 20.0 * value.detach()}


def decode(agent: Agent, rounded: Tensor) -> Tensor:
    """Log-mel [N, T, 8, 64] of whole levels [N, T, 4, 10]."""
    head: CodecHead = agent.head(CODEC)  # type: ignore[assignment]
    return head.decode(rounded.flatten(1, 2)).unflatten(1, (rounded.shape[1], -1))
