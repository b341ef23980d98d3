"""Speaking: an installed voice turns the agent's words into sound and plays it, never in the loop's thread.

While its voice sounds, and a little longer, the ear is deaf (`is_heard`): a microphone then hears the agent's own
voice, so it does not hear people who speak at the same time. Subtracting the voice would need the acoustic path from
speaker to microphone, which is not measured here.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from devmind import plugins
from devmind.errors import DevmindError
from devmind.moment import SOUND_RATE_HZ
from devmind.worker import Worker

WAITING = 4
"""Sentences that wait at most; when more come, the oldest is dropped."""
NO_VOICE = "No voice is installed, so its words are shown and not heard; install devmind again, or a voice."

PIECE_S, AHEAD_S = 4.0, 1.0
"""Length of the pieces in which the speaker gets a long sentence, and how early it gets each."""
ECHO_S = 0.5
"""How long after the last sample the voice may still be heard: the device's delay, the room's echo, and the tick that
is put together after them."""

Voice = Callable[[str], np.ndarray]
"""Words to sound, float32 [C, S] at 16 kHz; a plugin of the group `devmind.voices`."""
Maker = Callable[[], np.ndarray]
"""Makes sound float32 [C, S] at 16 kHz; called in the thread that speaks."""


def installed_voice() -> Voice:
    """The first of the installed voices by name.

    Raises:
        DevmindError: there is none, or it is broken.
    """
    voice = next(iter(plugins.available("voices").values()), None)
    if voice is None:
        raise DevmindError(NO_VOICE)
    found: Voice = voice.load()
    return found


class Speaking(Worker[str | Maker]):
    """A speaker with a voice.

    Only one voice sounds at a time: sentences follow one another, a sentence repeated while it is being said is said
    once, and sound that the agent utters itself meanwhile is not played.

    Args:
        speaker: opened by the caller; plays float32 [C, S] at 16 kHz by `act`, and may have `pending_s`, the seconds of
            sound still waiting.
        find: gives the voice, when it is first needed.

    """

    failed = "Its words cannot be said aloud ({kind}: {error}). Please report it."

    def __init__(self, speaker: Any, find: Callable[[], Voice] = installed_voice) -> None:
        super().__init__("speaking", WAITING)
        self.speaker, self._find = speaker, find
        self._voice: Voice | None = None
        self._heard_until_s = float("-inf")

    def act(self, value: np.ndarray) -> None:
        """Play what the agent utters, unless words are being said; returns at once."""
        if self.working is None:
            self._sound(value)

    def say(self, text: str) -> None:
        """Say words after those that wait; returns at once."""
        with self._wake:
            if text.strip() and text != (self._waiting[-1] if self._waiting else self.working):
                self.put(text)

    def play(self, make: Maker) -> None:
        """Play the sound of `make` after what waits; returns at once. Without samples nothing is played."""
        self.put(make)

    @property
    def is_heard(self) -> bool:
        """Whether a microphone may now hear this voice."""
        now_s = time.monotonic()
        if getattr(self.speaker, "pending_s", 0.0) > 0:  # a busy machine plays late
            self._heard_until_s = max(self._heard_until_s, now_s)
        return now_s < self._heard_until_s + ECHO_S

    def _sound(self, value: np.ndarray) -> None:
        self.speaker.act(value)
        with self._wake:
            self._heard_until_s = max(self._heard_until_s, time.monotonic()) + value.shape[-1] / SOUND_RATE_HZ

    def work(self, item: str | Maker) -> None:
        sound = self._made(item)
        begun_s = time.monotonic()
        self._give(sound)
        self.fault = ""
        self._wait_until(begun_s + sound.shape[1] / SOUND_RATE_HZ)

    def complaint(self, error: Exception) -> str:
        """The first is kept: one note, whatever fails next."""
        return self.fault or super().complaint(error)

    def _give(self, sound: np.ndarray) -> None:
        """Pass sound [C, S] on in pieces, each just before the one before ends: a speaker keeps only some seconds."""
        size, begun_s = round(PIECE_S * SOUND_RATE_HZ), time.monotonic()
        for start in range(0, sound.shape[1], size):
            self._wait_until(begun_s + start / SOUND_RATE_HZ - AHEAD_S)
            if self.is_over:
                return
            self._sound(sound[:, start : start + size])

    def _made(self, what: str | Maker) -> np.ndarray:
        if not isinstance(what, str):
            return what()
        if self._voice is None:
            self._voice = self._find()
        return self._voice(what)

    def _wait_until(self, at_s: float) -> None:
        with self._wake:
            self._wake.wait_for(lambda: self._ended, max(0.0, at_s - time.monotonic()))
