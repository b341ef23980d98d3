"""The utterances of lessons: the caregiver's, and recorded digits of all speakers but one.

The held-out speaker is the same that other stages hold out.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np

from devmind.agent.config import by_size
from devmind.curriculum.episodes import identities
from devmind.curriculum.stage import Context
from devmind.sessions.spoken import Clips, clips, held_out_speaker, speaker_group
from stages.voice.caregiver.speech import DIGITS, TAUGHT_NAMING, TAUGHT_PHRASES, WORDS, Bank, bank

UTTERANCES = by_size(2400, tiny=24)
"""Utterances in the lessons' bank, by size; each is varied anew at every use."""
ALONE = 0.4
"""The share of single words among them."""
NAMED = 0.25
"""Sentences that name a thing, as a share of these utterances and beside them."""
CAREGIVERS = 3
"""The number of sources that are the caregiver's; recordings stand behind them."""
Waves = tuple[tuple[np.ndarray, ...], tuple[str, ...]]
"""Sounds and their texts."""
Where = tuple[Path | None, int, str, str | None]
"""What determines utterances: the folder of data, the seed, the size and the held-out speaker."""


def groups(context: Context) -> tuple[str, ...]:
    """The speakers that are learned from."""
    known = lesson_clips(context)
    return tuple(speaker_group(name) for name in sorted(set(known.speakers))) if known is not None else ()


def lesson_clips(context: Context) -> Clips | None:
    """The recorded digits of every speaker but the held-out one; None without recordings."""
    return _lesson_clips(context.data, context.seed, context.config.exam.holdout)


def _lesson_clips(data: Path | None, seed: int, holdout: str | None) -> Clips | None:
    """None also if the held-out speaker is the only one."""
    every = clips(data)
    if every is None:
        return None
    taught = every.speakers != held_out_speaker([*every.speakers], seed, holdout)
    return every.take(taught) if taught.any() else None


def utterances(context: Context) -> Bank:
    """The caregiver's words and phrases of lessons."""
    return _lesson_bank(context.seed, context.config.size)


def _lesson_bank(seed: int, size: str) -> Bank:
    n = UTTERANCES[size]
    single = round(ALONE * n)
    words = bank("words", seed, single, WORDS, False)
    said = bank("phrases", seed, n - single, TAUGHT_PHRASES, False)
    return Bank(words.texts + said.texts, words.voices + said.voices, words.waves + said.waves, said.speaker)


def naming(seed: int, size: str) -> Bank:
    """The caregiver's sentences of lessons that name a thing."""
    return bank("naming", seed, round(NAMED * UTTERANCES[size]), TAUGHT_NAMING, False)


def of_exam(name: str, context: Context, n: int, texts: tuple[str, ...]) -> Bank:
    """The first of the exam's `n` utterances of `texts` in voices of exams, of which a glimpse asks about a fifth."""
    whole = bank(name, context.seed, context.scaled(n), texts, True)
    return whole.take(np.arange(context.episodes(n)))


def where(context: Context) -> Where:
    """What determines the utterances of a context."""
    return context.data, context.seed, context.config.size, context.config.exam.holdout


@lru_cache(maxsize=2)
def sources(data: Path | None, seed: int, size: str, holdout: str | None) -> tuple[Waves, ...]:
    """The sources of lessons, each sorted by length: the caregiver's words, her phrases, her sentences that name a
    thing, and recorded digits, if there are any: (waves, texts) each.
    """
    every, known = _lesson_bank(seed, size), _lesson_clips(data, seed, holdout)
    single = np.array([" " not in text for text in every.texts])
    found = [every.take(np.flatnonzero(single)), every.take(np.flatnonzero(~single)), naming(seed, size)]
    made: list[tuple[Sequence[np.ndarray], Sequence[str]]] = [(one.waves, one.texts) for one in found]
    if known is not None:
        rows = range(len(known.labels))
        made.append(([speech_of(known, row) for row in rows], [DIGITS[label] for label in known.labels]))
    shortest = [np.argsort([len(wave) for wave in waves], kind="stable") for waves, _ in made]
    return tuple(
        (tuple(waves[i] for i in order), tuple(texts[i] for i in order))
        for (waves, texts), order in zip(made, shortest, strict=True)
    )


def shares(n: int) -> list[float]:
    """How often each of `n` sources is drawn; recordings most, if there are any."""
    return [0.2, 0.25, 0.1, 0.45] if n > CAREGIVERS else [0.35, 0.5, 0.15]


def alike(rng: np.random.Generator, n: int, rows: int) -> np.ndarray:
    """`rows` numbers of 0..n - 1 from a stretch of about a fifth; sources are sorted, so these are about as long."""
    width = min(n, max(4 * rows, n // 5))
    start = int(np.clip(rng.integers(-width // 2, n - width // 2), 0, n - width))
    return start + rng.integers(0, width, rows)


def speech_of(known: Clips, row: int) -> np.ndarray:
    """The speech of a clip, without its padding, float32 [S]."""
    start = (known.waves.shape[1] - int(known.lengths[row])) // 2
    return known.waves[row, start : start + int(known.lengths[row])]


def names_of_lessons(context: Context, n: int) -> np.ndarray:
    """Names of utterances of lessons, before they are varied: int64 [about n]."""
    waves = list(utterances(context).waves)
    if (known := lesson_clips(context)) is not None:
        waves += [speech_of(known, row) for row in range(len(known.labels))]
    waves += naming(context.seed, context.config.size).waves
    return utterance_names(waves[:n] if len(waves) > n else waves)


def utterance_names(waves: list[np.ndarray]) -> np.ndarray:
    """Names of utterances of any lengths, int64 [N]."""
    return np.concatenate([identities({"wave": wave[None]}) for wave in waves])
