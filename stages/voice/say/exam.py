"""The exam of `say`: fifty words that are read are said in manners that no lesson had, and have to be understood.

The judge is independent of the agent: ridge on original recordings of other voices, and of other takes of the voice
that the agent learned from. It is never fitted on what the agent says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from devmind.agent.agent import Agent
from devmind.curriculum.exam import Exhibit, Measure, Parts, in_parts
from devmind.curriculum.gate import Gate, Threshold
from devmind.curriculum.stage import Context
from stages.voice.caregiver.aloud import VOICE
from stages.voice.caregiver.speech import SPOKEN, Bank, bank, speaker
from stages.voice.echo.exam import PAUSE_SAMPLES, repeat_sound, store_recogniser
from stages.voice.exhibits import spectra, wav
from stages.voice.hear_words.exam import UNTAUGHT, untrained_agent
from stages.voice.moments import in_a_row
from stages.voice.parts import SAY
from stages.voice.recogniser import Recogniser
from stages.voice.say.lesson import OwnWords, own_voice, pages, said_mel
from stages.voice.utterances import utterance_names
from stages.voice.vocoder import sound_of

WORDS = "say/words"
GATE = Gate([Threshold(WORDS, 0.90)])
JUDGED_BY = 3000
"""Originals on which the recogniser is fitted, half of them in voices of lessons; ORIGINALS more are a row."""
ORIGINALS = 400
OWN, CODED = "the voice of the lessons", "the voice of the lessons by the codec alone"
TOGETHER = 50


@in_parts
def examine(agent: Agent, context: Context) -> Parts:
    """One value for each word in a manner: whether the recogniser understands it."""
    if SAY not in agent.heads:
        return
    own, judge = exam_words(context), the_judge(context)
    words = np.array(own.texts)
    sounds = say_words(agent, own)
    right = judge.named(sounds) == words
    note = (
        f"{len(set(words))} words, each at paces and pitches that no lesson had it at, learned from {speaker()}; "
        f"{store_recogniser(context, 'say', judge)}"
    )
    measure = Measure(
        WORDS, "words understood", right.astype(float), 1 / len(SPOKEN), 1.0, rate=True,
        episodes=utterance_names(list(own.waves)), groups=np.unique(words, return_inverse=True)[1], note=note,
    )  # fmt: skip
    yield [measure]
    share = lambda waves: float((judge.named(waves) == words).mean())  # noqa: E731
    floors = {UNTAUGHT: share(say_words(untrained_agent(agent), own))}
    rows = {OWN: share(own.waves), CODED: share(repeat_by_codec(agent, own.waves)), **_originals(context, judge)}
    yield [replace(measure, floors=floors, rows=rows, exhibits=_exhibits(own, sounds, right))]


def exam_words(context: Context) -> OwnWords:
    """The words of the exam: every word in a quarter of the manners, or as many as the configuration says."""
    own = own_voice(True)
    rows = np.linspace(0, len(own.texts) - 1, context.episodes(len(own.texts))).astype(int)
    return OwnWords(
        tuple(own.texts[i] for i in rows), own.manner[rows], tuple(own.waves[i] for i in rows), own.mel[rows]
    )


def the_judge(context: Context) -> Recogniser:
    """The recogniser, fitted on originals of the fifty words: in the caregiver's voices, and in other takes of the
    voice that the agent learned from; never on a codec's output.
    """
    n = max(200, context.scaled(JUDGED_BY)) // 2
    banks = [_of_others(bank("say judge", context.seed, n, SPOKEN, unseen)) for unseen in (False, True)]
    takes = own_voice(False)
    waves = [*(wave for one in banks for wave in one.waves), *takes.waves]
    return Recogniser.of(waves, np.array([*(text for one in banks for text in one.texts), *takes.texts]))


def _of_others(speech: Bank) -> Bank:
    own = VOICE.partition("+")[2]
    return speech.take([row for row, voice in enumerate(speech.voices) if voice != own])


def _originals(context: Context, judge: Recogniser) -> Mapping[str, float]:
    """The share of other originals that the recogniser understands, in voices that it knows."""
    others = _of_others(bank("say originals", context.seed, context.scaled(ORIGINALS), SPOKEN, True))
    return {"originals of other voices": float((judge.named(others.waves) == np.array(others.texts)).mean())}


def say_words(agent: Agent, own: OwnWords) -> list[np.ndarray]:
    """Each of these words as the agent says it in its manner, as sound float32 [16000]."""
    sounds: list[np.ndarray] = []
    for rows in torch.arange(len(own.texts)).split(TOGETHER):
        output: Any = agent(pages([own.texts[i] for i in rows]), [SAY])[SAY]
        manner = torch.from_numpy(own.manner[rows.numpy()]).reshape(-1, 1, 2).to(agent.device)
        sounds += list(sound_of(said_mel(agent, output.levels(manner)[:, 0]).cpu()).numpy())
    return sounds


def repeat_by_codec(agent: Agent, waves: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Sounds as the codec alone repeats them."""
    sound, _ = in_a_row(waves)
    mel: list[Tensor] = [repeat_sound(agent, some)[1].cpu() for some in sound.split(TOGETHER)]
    return [wave for some in mel for wave in sound_of(some).numpy()]


def _exhibits(own: OwnWords, sounds: Sequence[np.ndarray], right: np.ndarray) -> tuple[Exhibit, ...]:
    """Two words that were understood and four that were not, behind the voice that the agent learned from."""
    pause, exhibits = np.zeros(PAUSE_SAMPLES, np.float32), list[Exhibit]()
    for i in (*np.flatnonzero(right)[:2], *np.flatnonzero(~right)[:4]):
        together = wav(np.concatenate((own.waves[i], pause, sounds[i])))
        kind: Literal["example", "failure"] = "example" if right[i] else "failure"
        caption = f"'{own.texts[i]}' by the voice of the lessons, then by the agent"
        exhibits.append(Exhibit(kind, caption, spectra(own.waves[i], sounds[i]), together, ("learned from", "said")))
    return tuple(exhibits)
