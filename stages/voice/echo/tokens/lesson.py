"""The lesson `tokens`: utterances as rows of the codec's codes, each predicted from those before it by the trunk.

The encoder of codes and the head learn; the trunk is frozen, so nothing taught before is lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from devmind.agent.agent import Agent
from devmind.agent.batch import one_tick
from devmind.agent.taps import Tapped
from devmind.curriculum.stage import Context, Lesson
from devmind.learners.gradient import gradient_lesson
from devmind.seeding import torch_generator
from stages.voice.codec import TOKENS
from stages.voice.ear import MEL
from stages.voice.echo.lesson import moments_in
from stages.voice.hear_words.listen import disguise, draw_utterances
from stages.voice.one_head import HeadByMuon
from stages.voice.parts import CODEC, CODES, NEXT_CODE
from stages.voice.utterances import groups

STEPS = {"tiny": 8, "nursery": 600, "child": 4000, "adult": 10_000}
AFTER = 4
"""Tokens behind the speech that are predicted too, so that its end is learned."""


def lesson(context: Context) -> Lesson:
    """The lesson as data; its control is the same on a trunk that lets all tokens through."""
    return gradient_lesson(
        context, "tokens", loss, lambda agent, context, update, rows, steps: lesson_batch(context, update, rows),
        steps=STEPS, rows=24, learning_rate=3e-3, minutes=1.5, learner=HeadByMuon, trains=trains,
        control=(), prefetch=True, skills=("echo",), learns_from=groups(context),
    )  # fmt: skip


def trains(agent: Agent) -> tuple[str, ...]:
    """The parameters that learn: the encoder of codes and the head `next_code`."""
    return f"encoders.{CODES}.", f"heads.{NEXT_CODE}."


def lesson_batch(context: Context, update: int, rows: int) -> dict[str, Any]:
    """About `rows` varied utterances: log-mel of each Moment with the one before, [N, T, 64, 1, 15], and `ends` int64
    [N], the number of tokens of the speech and AFTER more.
    """
    mels, _ = draw_utterances(context, "tokens", update, rows)
    mel, spans = disguise(mels, torch_generator(context.seed, "tokens", update), gently=True)
    # Spans count the ear's tokens, two a Moment, from the first Moment on, which `moments_in` leaves out.
    ends = (spans[:, 1] * 2).long() - TOKENS + AFTER
    return {"mel": moments_in(mel), "ends": ends.clamp_min(2)}


def codes_in(agent: Agent, mel: Tensor) -> Tensor:
    """The codec's codes of log-mel [N, T, 64, 1, 15], as pages int64 [N, 4 T, 2]."""
    nothing = mel.new_zeros(*mel.shape[:2], TOKENS, agent.config.width)
    here = torch.ones_like(nothing[..., 0], dtype=torch.bool)
    with torch.no_grad():
        output: Any = agent.head(CODEC)(Tapped(nothing, here, {MEL: mel}))
    return output.mode().flatten(1, 2)


def foretold(agent: Agent, page: Tensor) -> Any:
    """The prediction behind each token of pages int64 [N, L, 2]: an Output [N, L]."""
    output: Any = agent(one_tick({CODES: page}), [NEXT_CODE])[NEXT_CODE]
    return type(output)(output.logits[:, 0])


def nats(agent: Agent, page: Tensor) -> Tensor:
    """Nats of each token but the first, given those before it, [N, L - 1]."""
    return -foretold(agent, page[:, :-1]).log_prob(page[:, 1:].to(agent.device))


def loss(agent: Agent, batch: Mapping[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
    """Nats a token of the utterances, each predicted from those before it."""
    page = codes_in(agent, batch["mel"].to(agent.device))
    missed = nats(agent, page)
    here = torch.arange(missed.shape[1], device=missed.device)[None] < batch["ends"].to(missed.device)[:, None] - 1
    value = (missed * here).sum() / here.sum().clamp_min(1)
    return value, {"nats a token": value.detach()}
