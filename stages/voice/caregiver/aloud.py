"""A voice for what the agent says in words: espeak-ng's where it is installed, else devmind's own small synthesiser."""

from __future__ import annotations

import re

import numpy as np

from devmind.errors import DevmindError
from stages.voice.caregiver import espeak, formants
from stages.voice.caregiver.speech import levelled, resampled

VOICE, WORDS_A_MINUTE, PITCH = "en-us+f4", 165, 75
SMALL_VOICE = formants.Voice(pitch_hz=230.0, tract=1.15, breath=0.02, seed=0)
"""A short vocal tract and a high pitch, as a child has."""


def spoken(text: str) -> np.ndarray:
    """Sound float32 [1, S] at 16 kHz of words said aloud. It takes a second: ask it in a thread.

    Raises:
        DevmindError: espeak-ng could not be run, or is not installed and the small synthesiser lacks a word.
    """
    if espeak.installed():
        rate_hz, (said,) = espeak.speak([(text, VOICE, WORDS_A_MINUTE, PITCH)])
        return resampled(said, rate_hz)[None]
    words = re.findall(r"[a-z']+", text.lower())
    lacking = [word for word in words if word not in formants.SAID]
    if lacking or not words:
        raise DevmindError(
            f"Without espeak-ng only words of lessons can be said aloud, and '{(lacking or [text])[0]}' is none; "
            'install it with: pip install "devmind[voice]".'
        )
    return levelled(formants.speak(" ".join(words), SMALL_VOICE))[None]
