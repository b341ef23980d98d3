"""The lesson `say`: fifty words that are read, said in the agent's own voice. The head alone learns.

The targets are from the voice with which a life says words (`caregiver.aloud`). Some manners of each word are left for
the exam. Log-mel is compared, behind the codec's decoder.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from devmind.agent.agent import Agent
from devmind.agent.batch import one_tick
from devmind.agent.text import BEGIN
from devmind.curriculum.stage import Context, Lesson
from devmind.moment import TICK_SAMPLES
from devmind.seeding import numpy_rng
from stages.voice.caregiver.aloud import spoken_so
from stages.voice.caregiver.speech import SPOKEN
from stages.voice.ear import BEFORE, FRAMES, MELS, frames
from stages.voice.echo.lesson import decode
from stages.voice.one_head import HeadByMuon, head_lesson
from stages.voice.parts import SAY, TEXT
from stages.voice.say.head import MANNER, MOMENTS
from stages.voice.utterances import utterance_names

STEPS = {"tiny": 8, "nursery": 800, "child": 3000, "adult": 8000}
PACES, PITCHES = (-1.0, -1 / 3, 1 / 3, 1.0), (-1.0, -1 / 3, 1 / 3, 1.0)
LEFT_OUT = 4
"""One of so many manners of a word is left for the exam."""
SQUARED = 2.0
"""Weight of squared distances."""
LEAD = TICK_SAMPLES // 4
"""Samples of silence before a word."""


@dataclass(frozen=True)
class OwnWords:
    """Words in the agent's own voice: texts [N]; manner float32 [N, 2]; waves float32 [S]; their mel [N, 80, 64]."""

    texts: tuple[str, ...]
    manner: np.ndarray
    waves: tuple[np.ndarray, ...]
    mel: Tensor


def lesson(context: Context) -> Lesson:
    """The lesson as data."""
    # AdamW came to 4.17 dB in 300 steps, Muon to 3.92, and to 3.61 with a head twice as wide (2026-11-27).
    return head_lesson(
        context, "say", SAY, loss, lesson_batch, steps=STEPS, rows=32, learning_rate=2e-3, minutes=2.0, skill="say",
        learner=HeadByMuon,
    )  # fmt: skip


def manners(left_out: bool) -> list[tuple[str, float, float]]:
    """(word, pace, pitch) of lessons, or those that are left out: a quarter of the manners of each word."""
    return [
        (word, pace, pitch)
        for number, word in enumerate(SPOKEN)
        for i, pace in enumerate(PACES)
        for j, pitch in enumerate(PITCHES)
        if ((number + i + 2 * j) % LEFT_OUT == 0) == left_out
    ]


@lru_cache(maxsize=2)
def own_voice(left_out: bool) -> OwnWords:
    """The words of lessons, or those of exams, in the agent's own voice."""
    utterances = manners(left_out)
    waves = spoken_so(utterances)
    sound = torch.zeros(len(waves), (1 + MOMENTS) * TICK_SAMPLES)
    for row, wave in enumerate(waves):
        part = wave[: MOMENTS * TICK_SAMPLES - LEAD]
        sound[row, TICK_SAMPLES + LEAD : TICK_SAMPLES + LEAD + len(part)] = torch.from_numpy(part)
    mel = torch.cat([frames(some) for some in sound.split(100)])[:, BEFORE:]
    assert mel.shape[1:] == (MOMENTS * FRAMES, MELS)
    manner = np.array([how for _, *how in utterances], np.float32)
    return OwnWords(tuple(word for word, *_ in utterances), manner, tuple(waves), mel)


def pages(words: Sequence[str]) -> dict[str, Any]:
    """Words as pages, a Batch of one Moment a row."""
    longest = max(map(len, words)) + 1
    read = torch.full((len(words), longest), -1)
    for row, word in enumerate(words):
        read[row, : len(word) + 1] = torch.tensor([BEGIN, *word.encode()])
    return one_tick({TEXT: read})


def lesson_batch(context: Context, update: int, rows: int) -> dict[str, Any]:
    """`rows` words, each in a manner of lessons: pages, `manner` [N, 2], and the target `mel` [N, 80, 64]."""
    own = own_voice(False)
    index = numpy_rng(context.seed, "say", update).integers(len(own.texts), size=rows)
    manner = torch.from_numpy(own.manner[index]).reshape(-1, MANNER)
    return pages([own.texts[i] for i in index]) | {"manner": manner, "mel": own.mel[index]}


def loss(agent: Agent, batch: Mapping[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
    """The distance of what the agent says from its own voice (`how_far_off`)."""
    output: Any = agent(dict(batch), [SAY])[SAY]
    mel = said_mel(agent, output.levels(batch["manner"].to(agent.device)[:, None])[:, 0])
    off, value = how_far_off(mel, batch["mel"].to(agent.device))
    return off, {"say": value.detach(), "say db": 20.0 * value.detach()}


def how_far_off(mel: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """The loss, the mean distance of log-mel [N, F, 64] from another one and its square; and the distance alone. The
    square counts because a missing consonant is far off in few places, and tells one word from another.
    """
    off = mel - target
    value = off.abs().mean()
    return value + SQUARED * off.square().mean(), value


def said_mel(agent: Agent, levels: Tensor) -> Tensor:
    """Log-mel [N, 80, 64] of whole levels [N, 10, 4, 10]."""
    return decode(agent, levels).flatten(1, 2)


def lesson_episodes(context: Context, n: int) -> np.ndarray:
    """Utterances that lessons imitate: int64 [about n]."""
    return utterance_names(list(own_voice(False).waves[:n]))
