"""A voice for what the agent says in words: espeak-ng's where it is installed, else devmind's own small synthesiser."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from devmind.errors import DevmindError
from stages.voice.caregiver import espeak, formants
from stages.voice.caregiver.speech import resample, trim_and_level

VOICE, WORDS_A_MINUTE, PITCH = "en-us+f4", 165, 75
FASTER, HIGHER = 25, 15
"""Words a minute and pitch by which the fastest and the highest manner differ from the middle one."""
SMALL_VOICE = formants.Voice(pitch_hz=230.0, tract=1.15, breath=0.02, seed=0)
"""A short vocal tract and a high pitch, as a child has."""


def say_aloud(text: str) -> np.ndarray:
    """Sound float32 [1, S] at 16 kHz of words said aloud. It takes a second, so call it in a thread.

    Raises:
        DevmindError: espeak-ng could not be run, or is not installed and the small synthesiser lacks a word.
    """
    if espeak.espeak_installed():
        rate_hz, (wave,) = espeak.speak([(text, VOICE, WORDS_A_MINUTE, PITCH)])
        return resample(wave, rate_hz)[None]
    words = re.findall(r"[a-z']+", text.lower())
    lacking = [word for word in words if word not in formants.SAID]
    if lacking or not words:
        raise DevmindError(
            f"Without espeak-ng only words of lessons can be said aloud, and '{(lacking or [text])[0]}' is none; "
            'install it with: pip install "devmind[voice]".'
        )
    return trim_and_level(formants.speak(" ".join(words), SMALL_VOICE))[None]


def spoken_so(utterances: Sequence[tuple[str, float, float]]) -> list[np.ndarray]:
    """Words in that voice as sounds float32 [S] each at 16 kHz, their peak at 0.5.

    Args:
        utterances: (words, pace, pitch), the last two -1 to 1.
    """
    if espeak.espeak_installed():
        requests = [
            (text, VOICE, round(WORDS_A_MINUTE + FASTER * fast), round(PITCH + HIGHER * high))
            for text, fast, high in utterances
        ]
        rate_hz, waves = espeak.speak(requests)
        return [resample(wave, rate_hz) for wave in waves]
    voices = [replace(SMALL_VOICE, pitch_hz=SMALL_VOICE.pitch_hz * (1 + 0.15 * high)) for _, _, high in utterances]
    return [
        trim_and_level(formants.speak(text, voice, 1 + fast * FASTER / WORDS_A_MINUTE))
        for (text, fast, _), voice in zip(utterances, voices, strict=True)
    ]
