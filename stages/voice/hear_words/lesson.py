"""The lesson `words`: the trunk learns to hear words, from the texts and from the arc, which was taught before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from devmind.agent.agent import Agent
from devmind.curriculum.stage import Context, Lesson
from devmind.learners.gradient import gradient_lesson
from devmind.learners.muon import MuonLearner
from devmind.seeding import numpy_rng, torch_generator
from stages.voice.hear_words.written import nats_per_word as missed_writing
from stages.voice.moments import as_batch, in_a_row, vary_sound
from stages.voice.parts import WORDS as HEAD
from stages.voice.parts import WORDS_ARC as ARC
from stages.voice.parts import WRITTEN, trained_weights
from stages.voice.transcript import ctc
from stages.voice.utterances import alike, groups, shares, sources, where

STEPS = {"tiny": 8, "nursery": 1200, "child": 6000, "adult": 20_000}
BY_ITSELF = 0.5
"""Weight of the CTC loss of the texts, beside the cross-entropy with the arc's frames."""


def lesson(context: Context) -> Lesson:
    """The lesson as data."""
    return gradient_lesson(
        context, "words", loss, lambda agent, context, update, rows, steps: lesson_batch(context, update, rows),
        steps=STEPS, rows=24, learning_rate=2e-3, minutes=1.5, trains=trained_weights, prefetch=True,
        learner=MuonLearner,
        control=(), skills=("hear_words",), learns_from=groups(context),
    )  # fmt: skip


def lesson_batch(context: Context, update: int, rows: int) -> dict[str, Any]:
    """About `rows` utterances of one source and of similar length, as sound, varied by voice and room."""
    rng, all_sources = numpy_rng(context.seed, "words", update), sources(*where(context))
    waves, texts = all_sources[int(rng.choice(len(all_sources), p=shares(len(all_sources))))]
    index = alike(rng, len(texts), rows if " " not in texts[0] else max(2, rows // 2))
    # A fifth longer, as it may be played that much slower.
    sound, counts = in_a_row([np.pad(waves[i], (0, len(waves[i]) // 5)) for i in index])
    batch = as_batch(vary_sound(sound, torch_generator(context.seed, "words", update)))
    return batch | {"texts": [texts[i] for i in index], "counts": counts}


def loss(agent: Agent, batch: Mapping[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
    """Nats a word of the head on the trunk, against the texts and against the arc's frames; and those of the head on
    the trunk that writes, if there is one.
    """
    writes = [WRITTEN] if WRITTEN in agent.heads else []
    outputs: Any = agent(dict(batch), [HEAD, ARC, *writes])
    logits, arc = (outputs[name].numbers().flatten(1, 2) for name in (HEAD, ARC))
    each = logits.shape[1] // batch["first"].shape[1]
    words = torch.tensor([len(text.split()) for text in batch["texts"]])
    missed = (ctc(logits, each * batch["counts"], batch["texts"]) / words).clamp_max(50.0).mean().to(agent.device)
    teacher = arc.detach().softmax(-1)
    apart = -(teacher * logits.log_softmax(-1)).sum((-1, -2)) / words.to(agent.device)
    value = BY_ITSELF * missed + apart.clamp_max(100.0).mean()
    scalars = {"words": missed.detach(), "apart from the arc": apart.mean().detach()}
    if writes:
        by_writing = missed_writing(outputs[WRITTEN], batch["texts"], each * batch["counts"])
        value, scalars["written"] = value + by_writing, by_writing.detach()
    return value, scalars
