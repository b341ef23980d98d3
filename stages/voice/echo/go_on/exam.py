"""Part of the exam of `echo`: a new word breaks off in its middle, and the agent predicts how it goes on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from devmind.agent.agent import Agent
from devmind.algorithms.ridge import fit_ridge
from devmind.curriculum.exam import Exhibit, Measure, Parts, in_parts
from devmind.curriculum.stage import Context
from stages.voice.caregiver.speech import NEW_WORDS
from stages.voice.ear import FRAMES
from stages.voice.echo.go_on.head import AHEAD
from stages.voice.echo.go_on.lesson import continued_mel, mel_of, to_come
from stages.voice.echo.tokens.exam import beside
from stages.voice.exhibits import spectra, wav
from stages.voice.hear_words.exam import UNTAUGHT, untrained_agent
from stages.voice.moments import as_batch, in_a_row
from stages.voice.parts import GOES_ON
from stages.voice.utterances import of_exam, utterance_names, utterances
from stages.voice.vocoder import sound_of

CONTINUED = "echo/continued"
ASKED, TOGETHER = 200, 50
DB = 20.0
"""Decibels in one unit of log-mel."""
COPIED, RIDGE = "the last frame, repeated", "ridge on 100 ms of log-mel"
ALWAYS = "the median continuation, whatever was heard"
RIDGE_BY = 300
"""Utterances of lessons on which the last two are fitted."""


@in_parts
def measure_continuation(agent: Agent, context: Context) -> Parts:
    """One value an utterance: the error in log-mel of the predicted 200 ms, in dB."""
    if GOES_ON not in agent.heads:
        return
    words = of_exam("echo exam", context, ASKED, NEW_WORDS)
    sound, counts = in_a_row(words.waves)
    mel = mel_of(sound)
    at = broken_off(counts)
    rows = torch.arange(len(mel))
    target = to_come(mel)[rows, at]
    off = lambda made: DB * (made - target).abs().mean((-1, -2))  # noqa: E731
    went_on = gone_on(agent, sound, at)
    flat = off(mel.flatten(1, 2).mean(1, keepdim=True).expand_as(target)).mean()
    measure = Measure(
        CONTINUED, "dB of log-mel", off(went_on).double().numpy(), float(flat), 0.0, higher_is_better=False,
        episodes=utterance_names(list(words.waves)), groups=words.groups,
        note=f"{AHEAD * 100} ms from the middle of a word that no lesson spoke, by {words.speaker} in voices of no "
        "lesson; chance is each sound's mean frame",
    )  # fmt: skip
    yield [measure]
    last, (known, followed) = mel[rows, at][:, -1:], _lessons(context)
    floors = {
        COPIED: float(off(last.expand_as(target)).mean()),
        RIDGE: float(off(_ridge(known, followed, mel[rows, at])).mean()),
        ALWAYS: float(off(followed.median(0).values.expand_as(target)).mean()),
        UNTAUGHT: float(off(gone_on(untrained_agent(agent), sound, at)).mean()),
    }
    rows_of = {"its first 100 ms": float(DB * (went_on - target)[:, :FRAMES].abs().mean()),
               "its second 100 ms": float(DB * (went_on - target)[:, FRAMES:].abs().mean()),
               **beside(agent, sound, at, off)}  # fmt: skip
    exhibits = _exhibits(words.waves, words.texts, mel, at, went_on)
    yield [replace(measure, floors=floors, rows=rows_of, exhibits=exhibits)]


def broken_off(counts: Tensor) -> Tensor:
    """The last Moment that is heard of sounds of `counts` Moments, int64 [N]: in the middle of the word."""
    return ((counts - 1) // 2 - 1).clamp_min(1)


def gone_on(agent: Agent, sound: Tensor, at: Tensor) -> Tensor:
    """Log-mel [N, 16, 64] predicted behind Moment `at` [N] of sounds [N, T x 1600]; later sound is not heard."""
    longest = int(at.max()) + 1
    heard_so_far = sound.unflatten(1, (-1, 1600))[:, :longest].clone()
    heard_so_far[torch.arange(longest)[None] > at[:, None]] = 0.0
    parts = []
    for some, ends in zip(heard_so_far.flatten(1).split(TOGETHER), at.split(TOGETHER), strict=True):
        parts.append(continued_mel(agent, as_batch(some))[torch.arange(len(some)), ends].cpu())
    return torch.cat(parts)


def _lessons(context: Context) -> tuple[Tensor, Tensor]:
    """From utterances of lessons, 100 ms of log-mel [M, 8, 64] and the 200 ms that follow, [M, 16, 64]."""
    sound, counts = in_a_row(utterances(context).waves[:RIDGE_BY])
    mel = mel_of(sound)
    followed = to_come(mel)
    here = torch.arange(followed.shape[1])[None] < counts[:, None] - AHEAD
    return mel[:, : followed.shape[1]][here], followed[here]


def _ridge(known: Tensor, followed: Tensor, last: Tensor) -> Tensor:
    """The 200 ms that follow 100 ms of log-mel [N, 8, 64], by a linear map fitted on lessons."""
    rule = fit_ridge(known.flatten(1).numpy(), followed.flatten(1).numpy(), penalty=300.0)
    return torch.from_numpy(rule.predict(last.flatten(1).numpy())).float().unflatten(1, followed.shape[1:])


def _exhibits(
    waves: Sequence[np.ndarray], texts: Sequence[str], mel: Tensor, at: Tensor, went_on: Tensor
) -> tuple[Exhibit, ...]:
    """Four words as they were said, and as they broke off and were continued."""
    exhibits = []
    for i in range(min(4, len(waves))):
        begun = mel[i, : int(at[i]) + 1].flatten(0, 1)
        sound = sound_of(torch.cat((begun, went_on[i]))[None])[0].numpy()
        caption = f"'{texts[i]}' as said, then broken off and continued for {AHEAD * 100} ms"
        together = wav(np.concatenate((waves[i], np.zeros(3200, np.float32), sound)))
        exhibits.append(Exhibit("example", caption, spectra(waves[i], sound), together, ("said", "continued")))
    return tuple(exhibits)
