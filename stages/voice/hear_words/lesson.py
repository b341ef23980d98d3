"""The lesson `listen`: what the caregiver says, in many voices, is spelt; and the digits of `--data`, where there are.

One speaker is kept out of the lessons, the same that other stages keep out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from devmind.agent.agent import Agent
from devmind.curriculum.episodes import identities
from devmind.curriculum.stage import Context, Lesson
from devmind.learners.gradient import gradient_lesson
from devmind.seeding import numpy_rng, torch_generator
from devmind.sessions.spoken import Clips, clips, held_out_speaker, speaker_group
from stages.voice.caregiver.speech import DIGITS, TAUGHT_PHRASES, WORDS, Bank, bank
from stages.voice.moments import as_batch, in_a_row, varied
from stages.voice.parts import WORDS as HEAD
from stages.voice.parts import WORDS_ARC as ARC
from stages.voice.parts import trained, trained_without_trunk
from stages.voice.spelling import ctc

STEPS = {"tiny": 8, "nursery": 600, "child": 6000, "adult": 20_000}
UTTERANCES = {"tiny": 24}
UTTERANCES_ELSE = 2400
"""In the lesson's bank; each is met in another room every time."""
ALONE = 0.4
"""The share of single words among them."""


def lesson(context: Context) -> Lesson:
    """The lesson as data."""
    return gradient_lesson(
        context, "listen", loss, lambda agent, context, update, rows, steps: lesson_batch(context, update, rows),
        steps=STEPS, rows=20, learning_rate=3e-3, minutes=4.5, trains=trained, prefetch=True,
        control_trains=trained_without_trunk, skills=("hear_words",), learns_from=groups(context),
    )  # fmt: skip


def groups(context: Context) -> tuple[str, ...]:
    """The speakers that are learned from."""
    known = lesson_clips(context)
    return tuple(speaker_group(name) for name in sorted(set(known.speakers))) if known is not None else ()


def lesson_clips(context: Context) -> Clips | None:
    """The recorded digits of every speaker but the one held out; None without recordings."""
    every = clips(context.data)
    if every is None:
        return None
    out = held_out_speaker(list(every.speakers), context.seed, context.config.exam.holdout)
    return every.take(every.speakers != out)


def utterances(context: Context) -> Bank:
    """What the caregiver says in lessons."""
    n = UTTERANCES.get(context.config.size, UTTERANCES_ELSE)
    single = round(ALONE * n)
    words = bank("words", context.seed, single, WORDS, False)
    said = bank("phrases", context.seed, n - single, TAUGHT_PHRASES, False)
    return Bank(words.texts + said.texts, words.voices + said.voices, words.waves + said.waves, said.speaker)


def lesson_batch(context: Context, update: int, rows: int) -> dict[str, Any]:
    """`rows` utterances of the caregiver, or, in every second batch, spoken digits of the recordings."""
    rng, known = numpy_rng(context.seed, "listen", update), lesson_clips(context)
    if known is not None and update % 2:
        index = rng.integers(0, len(known.labels), rows)
        waves = [spoken(known, int(i)) for i in index]
        texts = [DIGITS[int(known.labels[i])] for i in index]
    else:
        drawn = (every := utterances(context)).take(rng.integers(0, len(every.texts), rows))
        waves, texts = list(drawn.waves), list(drawn.texts)
    # A fifth longer than it is, as it may be played that much slower.
    sound, counts = in_a_row([np.pad(wave, (0, len(wave) // 5)) for wave in waves])
    return as_batch(varied(sound, torch_generator(context.seed, "listen", update))) | {"texts": texts, "counts": counts}


def spoken(known: Clips, row: int) -> np.ndarray:
    """The speech of a clip alone, float32 [S]."""
    start = (known.waves.shape[1] - int(known.lengths[row])) // 2
    return known.waves[row, start : start + int(known.lengths[row])]


def loss(agent: Agent, batch: Mapping[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
    """Nats a sign of what was said, by the head on the trunk and by the ear alone, which helps the ear early."""
    outputs = agent(dict(batch), [HEAD, ARC])
    frames = {name: outputs[name].numbers().flatten(1, 2) for name in (HEAD, ARC)}
    each = frames[HEAD].shape[1] // len(batch["first"][0])
    signs = torch.tensor([len(text) for text in batch["texts"]])
    nats = {}
    for name, logits in frames.items():
        missed = ctc(logits, each * batch["counts"], batch["texts"])
        nats[name] = (missed / signs).clamp_max(50.0).mean().to(agent.device)
    return nats[HEAD] + 0.5 * nats[ARC], {"words": nats[HEAD].detach(), "words by ear": nats[ARC].detach()}


def taught(context: Context, n: int) -> np.ndarray:
    """Utterances, before they are varied, that lessons show: int64 [about n]."""
    waves = list(utterances(context).waves)
    if (known := lesson_clips(context)) is not None:
        waves += [spoken(known, row) for row in range(len(known.labels))]
    return heard(waves[:n] if len(waves) > n else waves)


def heard(waves: list[np.ndarray]) -> np.ndarray:
    """Names of utterances of any lengths, int64 [N]."""
    return np.concatenate([identities({"wave": wave[None]}) for wave in waves])
