"""The lesson `names`: finding the picture that is named aloud. The head alone learns; ear, eye and trunk are frozen."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from devmind.agent.agent import Agent
from devmind.agent.config import by_size
from devmind.curriculum.stage import Context, Lesson
from devmind.seeding import numpy_rng, torch_generator
from devmind.sessions.written import pictures, source_group, split_pictures
from stages.voice import utterances
from stages.voice.caregiver.speech import DIGITS, bank
from stages.voice.moments import in_a_row, vary_sound
from stages.voice.name_heard.shown import as_batch, draw_views, views
from stages.voice.one_head import HeadByMuon, head_lesson
from stages.voice.parts import NAMED
from stages.voice.utterances import Waves, alike, utterance_names, where

STEPS = {"tiny": 8, "nursery": 600, "child": 2000, "adult": 6000}
SPOKEN = by_size(800, tiny=24)
"""Digits that the caregiver says, each varied anew at every use."""


def lesson(context: Context) -> Lesson:
    """The lesson as data."""
    # In 300 steps on kept features AdamW found 0.75 of pictures, Muon 0.96 (2026-11-26).
    return head_lesson(
        context, "names", NAMED, loss, lesson_batch, steps=STEPS, rows=16, learning_rate=3e-3, minutes=1.5,
        skill="name_heard", learner=HeadByMuon, learns_from=groups(context),
    )  # fmt: skip


def groups(context: Context) -> tuple[str, ...]:
    """The speakers and the pictures that are learned from."""
    return (*utterances.groups(context), source_group(pictures(context.data), context.seed))


@lru_cache(maxsize=2)
def sources(data: Path | None, seed: int, size: str, holdout: str | None) -> tuple[Waves, ...]:
    """Spoken digits of lessons, sorted by length: the caregiver's, and recorded ones, if there are any."""
    speech = bank("names", seed, SPOKEN[size], DIGITS, False)
    order = np.argsort([len(wave) for wave in speech.waves], kind="stable")
    ours = tuple(speech.waves[i] for i in order), tuple(speech.texts[i] for i in order)
    return (ours, *utterances.sources(data, seed, size, holdout)[utterances.CAREGIVERS :])


def lesson_batch(context: Context, update: int, rows: int) -> dict[str, Any]:
    """`rows` spoken digits of one source and of similar length, each with four pictures of lessons.

    Returns:
        Beside the Batch: `counts` int64 [N], Moments of each; `kinds` int64 [N, 4] and `which` int64 [N], as `Shown`
        has them.
    """
    rng, generator = numpy_rng(context.seed, "names", update), torch_generator(context.seed, "names", update)
    all_sources = sources(*where(context))
    waves, texts = all_sources[int(rng.integers(len(all_sources)))]
    index = alike(rng, len(texts), rows)
    sound, counts = in_a_row([np.pad(waves[i], (0, len(waves[i]) // 5)) for i in index])
    taught, _ = split_pictures(pictures(context.data), context.seed)
    of = draw_views(rng, taught, [DIGITS.index(texts[i]) for i in index])
    batch = as_batch(vary_sound(sound, generator), views(taught.images[of.rows], generator))
    return batch | {"counts": counts, "kinds": torch.from_numpy(of.kinds), "which": torch.from_numpy(of.which)}


def loss(agent: Agent, batch: Mapping[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
    """Cross-entropy of the picture among its four, and among all pictures of the batch, at each row's end.

    Among all, every picture of the digit is right, so a row learns from 64 pictures.
    """
    output: Any = agent(dict(batch), [NAMED])[NAMED]
    rows, end = torch.arange(len(batch["counts"])), batch["counts"] - 1
    which = batch["which"].to(agent.device)
    logits = output.logits[rows, end]
    missed = F.cross_entropy(logits, which)
    kinds = batch["kinds"].to(agent.device)
    named = kinds.gather(1, which[:, None])
    fits = output.meant[rows, end] @ output.shown[rows, end].flatten(0, 1).mT * agent.head(NAMED).gain
    right = (named == kinds.flatten()[None]).float()
    among = -(fits.log_softmax(-1) * right).sum(-1) / right.sum(-1)
    found = (logits.argmax(-1) == which).float().mean()
    return missed + among.mean(), {"names": missed.detach(), "found": found}


def lesson_episodes(context: Context, n: int) -> np.ndarray:
    """Names of utterances of lessons, before they are varied: int64 [about n]."""
    waves = [wave for known, _ in sources(*where(context)) for wave in known]
    return utterance_names(waves[:n])
