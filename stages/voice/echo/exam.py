"""The exam of `echo`: words that no lesson spoke, in new voices, are repeated by the codec alone.

A recogniser judges whether a repetition is understood. It is fitted on original recordings of the same words in other
takes, never on a codec's output, and the agent never learns from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from devmind.agent.agent import Agent
from devmind.curriculum.exam import Exam, Exhibit, Measure, Parts, in_parts
from devmind.curriculum.gate import Gate, Threshold
from devmind.curriculum.stage import Context
from devmind.moment import TICK_SAMPLES
from devmind.sessions.spoken import clips
from stages.voice.caregiver.speech import DIGITS, NEW_WORDS, bank
from stages.voice.codec import LEVELS, SIZE, levels_of
from stages.voice.ear import BEFORE, FRAMES, MELS, frames
from stages.voice.echo.clean.exam import CLEAN, measure_cleaning
from stages.voice.echo.go_on.exam import CONTINUED, measure_continuation
from stages.voice.echo.lesson import decode
from stages.voice.echo.tokens.exam import TOLD, token_exam
from stages.voice.exhibits import spectra, wav
from stages.voice.hear_words.exam import UNTAUGHT, untrained_agent
from stages.voice.moments import as_batch, in_a_row
from stages.voice.parts import CODEC
from stages.voice.recogniser import Recogniser
from stages.voice.utterances import names_of_lessons as lesson_utterances
from stages.voice.utterances import of_exam, speech_of, utterance_names, utterances
from stages.voice.vocoder import sound_of

DIGIT, WORD, ERROR = "echo/digits", "echo/words", "echo/error"
GATE = Gate([
    Threshold(DIGIT, 0.85, when_absent="skip"), Threshold(WORD, 0.85),
    Threshold(ERROR, None, beats_floor=True, lower_is_better=True), Threshold(CLEAN, 5.0),
    Threshold(CONTINUED, None, beats_floor=True, lower_is_better=True),
    Threshold(TOLD, None, beats_floor=True, lower_is_better=True, goal=True, when_absent="skip"),
])  # fmt: skip
WORDS_ASKED, DIGITS_ASKED = 200, 400
JUDGED_BY = 800
"""Originals of the new words on which the recogniser is fitted."""
DB = 20.0
"""Decibels in one unit of log-mel."""
ORIGINAL, PHASES = "the originals", "the original log-mel by Griffin-Lim"
HELD, LINEAR = "each Moment's first frame, held", "principal components of as many bits"
COPIED = "the previous frame, repeated"
UNIT = "repetitions understood"
PAUSE_SAMPLES = 3_200
"""Between an original and its echo, in the report."""
Others = Mapping[str, Callable[[Tensor], Tensor]]
"""Baselines by name: sound [N, T x 1600] to log-mel [N, F, 64]."""


@dataclass(frozen=True)
class Repeated:
    """N sounds and their repetitions.

    Attributes:
        mel: what was heard, [N, F, 64]; frames: how many of the F count, [N].
        by: log-mel [N, F, 64] of the repetitions, by name of the agent or baseline.
    """

    mel: Tensor
    frames: Tensor
    by: Mapping[str, Tensor]

    def sounds(self, name: str) -> list[np.ndarray]:
        """The repetitions by `name`, as sounds float32 [S]."""
        parts = [sound_of(some) for some in self.by[name].split(50)]
        whole = torch.cat(parts).numpy()
        samples = self.frames.numpy() * (TICK_SAMPLES // FRAMES)
        return [wave[:n] for wave, n in zip(whole, samples, strict=True)]

    def error_db(self, name: str) -> np.ndarray:
        """Mean distance in log-mel of each repetition by `name`, in dB, float64 [N]."""
        error = (self.by[name] - self.mel).abs().mean(-1)
        counts = torch.arange(error.shape[1]) < self.frames[:, None]
        return (DB * (error * counts).sum(1) / self.frames).double().numpy()


def examine(agent: Agent, context: Context) -> Exam:
    """Digits of speakers never met, if there are recordings; the caregiver's new words; and the error in log-mel."""
    others = cache(lambda: _others(agent, context))
    parts = [measure_cleaning(agent, context), measure_continuation(agent, context), token_exam(agent, context)]
    return Exam.joined([_digits(agent, context, others), _words(agent, context, others), *parts])


def _others(agent: Agent, context: Context) -> Others:
    fresh, linear = untrained_agent(agent), Linear.of(_lesson_mel(context))
    return {UNTAUGHT: lambda sound: repeat_sound(fresh, sound)[1],
            HELD: lambda sound: hold_first_frames(heard_by(agent, sound)),
            LINEAR: lambda sound: linear(heard_by(agent, sound))}  # fmt: skip


def heard_by(agent: Agent, sound: Tensor) -> Tensor:
    """Log-mel [N, F, 64] of the Moments of sound [N, T x 1600], as the ear hears them."""
    output: Any = agent(as_batch(sound), [CODEC])[CODEC]
    return output.mel.flatten(1, 2).cpu()


def repeat_sound(agent: Agent, sound: Tensor) -> tuple[Tensor, Tensor]:
    """What was heard and its repetition through the effector's whole numbers: log-mel [N, F, 64] each."""
    output: Any = agent(as_batch(sound), [CODEC])[CODEC]
    return output.mel.flatten(1, 2), decode(agent, levels_of(output.mode())).flatten(1, 2)


def hold_first_frames(mel: Tensor) -> Tensor:
    """Log-mel with the first frame of each Moment held for the whole Moment."""
    return mel[:, ::FRAMES].repeat_interleave(FRAMES, 1)


@dataclass(frozen=True)
class Linear:
    """A linear codec: principal components of pairs of frames, rounded to as many levels as the agent's."""

    mean: Tensor
    axes: Tensor
    scale: Tensor

    @staticmethod
    def of(mel: Tensor) -> Linear:
        """Fitted on log-mel [N, F, 64], F even."""
        pairs = mel.unflatten(1, (-1, 2)).flatten(2).flatten(0, 1)
        mean = pairs.mean(0)
        _, sizes, axes = torch.linalg.svd(pairs - mean, full_matrices=False)
        return Linear(mean, axes[:SIZE], sizes[:SIZE] / len(pairs) ** 0.5)

    def __call__(self, mel: Tensor) -> Tensor:
        levels = torch.tensor(sorted(LEVELS * (SIZE // len(LEVELS)), reverse=True))  # most levels for what varies most
        half = (levels - 1) / 2
        step = 2.0 * self.scale / half
        pairs = mel.unflatten(1, (-1, 2)).flatten(2)
        rounded = ((pairs - self.mean) @ self.axes.mT / step).round().clamp(-half, half)
        return (rounded * step @ self.axes + self.mean).unflatten(-1, (2, MELS)).flatten(1, 2)


def _lesson_mel(context: Context) -> Tensor:
    """Log-mel [N, F, 64] of up to 300 utterances of lessons, not varied."""
    sound, _ = in_a_row(utterances(context).waves[:300])
    return frames(torch.cat((torch.zeros(len(sound), TICK_SAMPLES), sound), 1))[:, BEFORE:]


def _repeats(agent: Agent, waves: Sequence[np.ndarray]) -> Repeated:
    """By the agent, and the log-mel that it heard."""
    sound, counts = in_a_row(waves)
    pairs = [repeat_sound(agent, some) for some in sound.split(50)]
    mel, again = (torch.cat([part.cpu() for part in parts]) for parts in zip(*pairs, strict=True))
    return Repeated(mel, FRAMES * counts, {"agent": again, PHASES: mel})


def _by_others(repeats: Repeated, waves: Sequence[np.ndarray], others: Others) -> Repeated:
    """The same sounds repeated by baselines."""
    parts = in_a_row(waves)[0].split(50)
    return replace(repeats, by={name: torch.cat([by(some).cpu() for some in parts]) for name, by in others.items()})


def _words(agent: Agent, context: Context, others: Callable[[], Others]) -> Exam:
    """The caregiver's new words, and the error of their repetitions in log-mel."""
    asked = of_exam("echo exam", context, WORDS_ASKED, NEW_WORDS)
    known = bank("echo judge", context.seed, max(32, context.scaled(JUDGED_BY)), NEW_WORDS, True)
    judge = Recogniser.of(known.waves, np.array(known.texts))
    repeats = _repeats(agent, asked.waves)
    by_others = cache(lambda: _by_others(repeats, asked.waves, others()))
    of_whom = f"words and voices of no lesson, spoken by {asked.speaker}; {store_recogniser(context, 'words', judge)}"
    chance, texts = 1 / len(NEW_WORDS), np.array(asked.texts)
    recognised = _measure_arguments(
        WORD, repeats, asked.waves, texts, asked.voices, judge.named, by_others, chance, of_whom
    )
    (measure,) = recognised.alone()
    error = Measure(
        ERROR, "dB of log-mel", repeats.error_db("agent"), max(_flat_db(repeats), 1e-3), 0.0, higher_is_better=False,
        episodes=measure.episodes, groups=measure.groups,
        note="mean distance from what was heard; chance is each sound's mean frame",
    )  # fmt: skip

    def complete() -> list[Measure]:
        before = torch.cat((repeats.mel[:, :1], repeats.mel[:, :-1]), 1)
        whole = replace(repeats, by={**by_others().by, COPIED: before})
        return [replace(error, floors={name: float(whole.error_db(name).mean()) for name in whole.by})]

    return Exam.joined([recognised, Exam([error], complete)])


def _digits(agent: Agent, context: Context, others: Callable[[], Others]) -> Exam:
    """Digits of speakers never met. Each half is judged by a recogniser of the other half and all other speakers."""
    all_clips = clips(context.data)
    if all_clips is None:
        return Exam([])
    unseen = all_clips.unmet(agent.config.trained_on)
    rows = np.linspace(0, len(unseen.labels) - 1, min(context.scaled(DIGITS_ASKED), len(unseen.labels))).astype(int)
    asked = unseen.take(rows[:: context.one_in])
    waves, known = ([speech_of(of, row) for row in range(len(of.labels))] for of in (asked, all_clips))
    # Halves by content, so that a glimpse has the same halves as the full exam.
    half, half_of_known = utterance_names(waves) % 2, utterance_names(known) % 2
    strange, words = np.isin(all_clips.speakers, list(set(unseen.speakers))), np.array(DIGITS)
    use = [~strange | (half_of_known != side) for side in (0, 1)]
    judges = [Recogniser.of([known[i] for i in np.flatnonzero(one)], words[all_clips.labels[one]]) for one in use]

    def named(sounds: Sequence[np.ndarray]) -> np.ndarray:
        return np.where(half == 0, *(judge.named(sounds) for judge in judges))

    repeats = _repeats(agent, waves)
    storage = "; ".join(store_recogniser(context, f"digits-{side}", judge) for side, judge in enumerate(judges))
    note = f"new speakers: {', '.join(sorted(set(asked.speakers)))}, whose other takes the recogniser knows; {storage}"
    by_others = cache(lambda: _by_others(repeats, waves, others()))
    return _measure_arguments(DIGIT, repeats, waves, words[asked.labels], asked.speakers, named, by_others, 0.1, note)


@in_parts
def _measure_arguments(
    name: str,
    repeats: Repeated,
    waves: Sequence[np.ndarray],
    words: np.ndarray,
    voices: Sequence[str] | np.ndarray,
    named: Callable[[Sequence[np.ndarray]], np.ndarray],
    by_others: Callable[[], Repeated],
    chance: float,
    note: str,
) -> Parts:
    """Whether each repetition is understood; beside those of others, and the originals."""
    echoed = repeats.sounds("agent")
    right = named(echoed) == words
    share = lambda sounds: float((named(sounds) == words).mean())  # noqa: E731
    measure = Measure(
        name, UNIT, right.astype(float), chance, 1.0, rate=True, note=note, episodes=utterance_names(list(waves)),
        groups=np.unique(voices, return_inverse=True)[1],
    )  # fmt: skip
    yield [measure]
    floors = {other: share(by_others().sounds(other)) for other in by_others().by}
    rows = {ORIGINAL: share(waves), PHASES: share(repeats.sounds(PHASES))}
    captions = [f"{voice} says '{word}', then the echo" for voice, word in zip(voices, words, strict=True)]
    yield [replace(measure, floors=floors, rows=rows, exhibits=_exhibits(waves, echoed, captions, right))]


def _flat_db(repeats: Repeated) -> float:
    counts = (torch.arange(repeats.mel.shape[1]) < repeats.frames[:, None])[..., None]
    flat = (repeats.mel * counts).sum(1, keepdim=True) / repeats.frames[:, None, None]
    return float(replace(repeats, by={"flat": flat.expand_as(repeats.mel)}).error_db("flat").mean())


def store_recogniser(context: Context, name: str, judge: Recogniser) -> str:
    """Save the recogniser in the run's folder, and describe it."""
    judge.save(context.out / "recognisers" / f"{name}.npz")
    return f"judged by ridge on {judge.n} original recordings, SHA-256 {judge.sha256[:12]}"


def _exhibits(
    waves: Sequence[np.ndarray], sounds: Sequence[np.ndarray], captions: Sequence[str], right: np.ndarray
) -> tuple[Exhibit, ...]:
    """Two repetitions that were understood and three that were not, behind their originals and with both spectra."""
    pause, exhibits = np.zeros(PAUSE_SAMPLES, np.float32), list[Exhibit]()
    for i in (*np.flatnonzero(right)[:2], *np.flatnonzero(~right)[:3]):
        together = wav(np.concatenate((waves[i], pause, sounds[i])))
        kind: Literal["example", "failure"] = "example" if right[i] else "failure"
        exhibits.append(Exhibit(kind, captions[i], spectra(waves[i], sounds[i]), together, ("original", "echo")))
    return tuple(exhibits)


def lesson_episodes(context: Context, n: int) -> np.ndarray:
    """Names of utterances of lessons: int64 [about n]."""
    return lesson_utterances(context, n)
