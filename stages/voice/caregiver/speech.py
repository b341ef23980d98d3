"""What the caregiver says, and in which voices: exams have voices, phrases and words that lessons do not have.

espeak-ng speaks if it is installed (the extra `voice`), with its voices, accents, speeds and pitches; else a small
synthesiser of devmind.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from devmind.moment import SOUND_RATE_HZ
from devmind.seeding import numpy_rng
from stages.voice.caregiver import espeak, formants

DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
COLOURS = ("red", "green", "blue", "yellow")
NOUNS = ("ball", "box", "can")
MANY = {"ball": "balls", "box": "boxes", "can": "cans"}
NEW_WORDS = ("apple", "garden", "window", "music", "river", "button", "paper", "cookie")
"""Words that no lesson speaks, to be repeated."""
TAUGHT_VOICES = (
    "m1", "m2", "m3", "m5", "m7", "f1", "f4", "adam", "Alex", "anika", "antonio", "belinda", "benjamin", "boris",
    "caleb", "david", "edward", "Gene", "iven", "john", "klatt2", "linda", "Mario", "max", "Michael", "pedro",
    "steph", "travis", "zac", "aunty",
)  # fmt: skip
UNSEEN_VOICES = ("m4", "m6", "m8", "Andrea", "Annie", "ian", "norbert", "quincy", "shelby", "paul")
"""espeak-ng's variants. Breathy ones are left out, because their noise differs at every start."""
ACCENTS = ("en-us", "en", "en-gb-scotland", "en-gb-x-rp")


def phrases() -> list[tuple[str, int, str, str]]:
    """(phrase, digit, colour, noun): "two red balls", "one green box"."""
    return [
        (f"{DIGITS[n]} {colour} {noun if n == 1 else MANY[noun]}", n, colour, noun)
        for n in range(10)
        for colour in COLOURS
        for noun in NOUNS
    ]


def is_held_out(number: int, colour: str, noun: str) -> bool:
    """Whether a phrase is left for exams: 24 of 120, each word of which is in other phrases that are taught."""
    return (number + 2 * COLOURS.index(colour) + 3 * NOUNS.index(noun)) % 5 == 0


TAUGHT_PHRASES = tuple(phrase for phrase, n, colour, noun in phrases() if not is_held_out(n, colour, noun))
UNSEEN_PHRASES = tuple(phrase for phrase, n, colour, noun in phrases() if is_held_out(n, colour, noun))
WORDS = (*DIGITS, *COLOURS, *NOUNS, *MANY.values())
"""Every word that is taught by itself and in phrases."""
NAMES = (*NOUNS, "cup", "key", "book", "dog")
"""Things that she names while she shows them."""
NAMING = ("this is a {}", "that is a {}", "it is a {}")
"""How she says it."""
NAMING_WORDS = ("this", "that", "it", "is", "a", "cup", "key", "book", "dog")
"""Words of such sentences that are in no phrase."""


def naming_sentences(held_out: bool) -> tuple[str, ...]:
    """'this is a cup': of lessons, or the third that is left for exams, each word of which is taught in others."""
    return tuple(
        form.format(name)
        for at, form in enumerate(NAMING)
        for number, name in enumerate(NAMES)
        if ((at + number) % len(NAMING) == 0) == held_out
    )


TAUGHT_NAMING, UNSEEN_NAMING = naming_sentences(False), naming_sentences(True)
SPOKEN = (
    *WORDS, "magenta", "cyan", "orange", "white", "left", "middle", "right", "yes", "no", "none", "unknown", "look",
    "touch", "take", "roll", "find", "go", "key", "door", "square", "grey", "purple", "pick", "put", "open", "next",
    "here", "see", "what", "where",
)  # fmt: skip
"""Fifty words that are said aloud: WORDS, and others that the caregiver writes."""


@dataclass(frozen=True)
class Bank:
    """Utterances.

    Attributes:
        texts: [N]; voices: [N], their names; speaker: the synthesiser.
        waves: float32 [S] each at 16 kHz, their peak at 0.5.
    """

    texts: tuple[str, ...]
    voices: tuple[str, ...]
    waves: tuple[np.ndarray, ...]
    speaker: str

    @property
    def groups(self) -> np.ndarray:
        """The voices as numbers, int64 [N]."""
        return np.unique(self.voices, return_inverse=True)[1]

    def take(self, rows: Sequence[int] | np.ndarray) -> Bank:
        """Some of them."""
        at = [int(row) for row in rows]
        texts, voices = tuple(self.texts[i] for i in at), tuple(self.voices[i] for i in at)
        return Bank(texts, voices, tuple(self.waves[i] for i in at), self.speaker)


def speaker() -> str:
    """The synthesiser of the caregiver's voices on this machine."""
    return "espeak-ng" if espeak.espeak_installed() else "devmind's formant synthesiser"


@lru_cache(maxsize=8)
def bank(name: str, seed: int, n: int, texts: tuple[str, ...], unseen: bool, by: str | None = None) -> Bank:
    """`n` utterances of `texts`, drawn by name and seed.

    Args:
        unseen: in the voices of exams, else in those of lessons.
        by: who speaks (`speaker()` by default).
    """
    rng, by = numpy_rng("voice", name, seed), by or speaker()
    drawn_texts = tuple(texts[int(i)] for i in rng.integers(len(texts), size=n))
    speeds = rng.integers(140, 230, n)  # words a minute
    pitches = rng.integers(20, 81, n)
    if by != "espeak-ng":
        drawn = [formants.Voice.drawn(unseen, rng) for _ in range(n)]
        waves = [
            formants.speak(text, voice, speed / 170)
            for text, voice, speed in zip(drawn_texts, drawn, speeds, strict=True)
        ]
        return Bank(
            drawn_texts, tuple(voice.name for voice in drawn), tuple(trim_and_level(wave) for wave in waves), by
        )
    variants = UNSEEN_VOICES if unseen else TAUGHT_VOICES
    voices = [f"{ACCENTS[int(rng.integers(4))]}+{variants[int(rng.integers(len(variants)))]}" for _ in range(n)]
    utterances = [(drawn_texts[i], voices[i], int(speeds[i]), int(pitches[i])) for i in range(n)]
    rate_hz, spoken = espeak.speak(utterances)
    return Bank(
        drawn_texts, tuple(v.partition("+")[2] for v in voices), tuple(resample(w, rate_hz) for w in spoken), by
    )


def resample(samples: np.ndarray, rate_hz: int) -> np.ndarray:
    """int16 [S] at a rate as `trim_and_level` sound at 16 kHz."""
    import soxr

    return trim_and_level(soxr.resample(samples.astype(np.float32) / 32_768, rate_hz, SOUND_RATE_HZ))


def trim_and_level(wave: np.ndarray) -> np.ndarray:
    """Sound float32 [S] without the silence on either side, its peak at 0.5."""
    loud = np.flatnonzero(np.abs(wave) > 0.02 * np.abs(wave).max(initial=1e-9))
    wave = wave[loud[0] : loud[-1] + 1] if len(loud) else wave
    return (0.5 / max(1e-6, float(np.abs(wave).max(initial=0.0))) * wave).astype(np.float32)
