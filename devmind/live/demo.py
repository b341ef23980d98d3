"""A recorded session as a camera and a microphone, played at its own speed in a loop: a room without devices."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import numpy as np

from devmind.errors import SessionError, StaleReading
from devmind.moment import SOUND_RATE_HZ
from devmind.sessions.reader import Session

ROUNDING_S = 1e-6
MOST_FRAME_BYTES = 256 << 20
"""Whole frames are kept in RAM, as JPEG; a recording with more plays the pictures of its Moments."""


class Tape:
    """A session on a clock that starts when the tape is made; camera and microphone share one, so they stay together.

    Args:
        path: the session; it needs pictures or sound.
        now: the clock.

    Attributes:
        frames: the camera's whole frames, where the session has kept them.
        senses: what it can play.

    Raises:
        SessionError: it has neither pictures nor sound.
    """

    def __init__(self, path: Path, now: Callable[[], float] = time.monotonic) -> None:
        self.session, self.now, self.begun_s = Session(path), now, now()
        few = self.session.frame_bytes <= MOST_FRAME_BYTES
        self.frames = sorted(self.session.frames(), key=lambda frame: frame.time_s) if few else []
        self.senses = {"sight", "sound"} & set(self.session.senses) | ({"sight"} if self.frames else set())
        if not self.senses:
            raise SessionError(f"'{path}' holds no picture and no sound; give another session to play.")
        self.tick_s = 1 / self.session.tick_hz
        begun_s = self.session.elapsed_s(0)
        self.times_s = [self.session.elapsed_s(tick) - begun_s for tick in range(len(self.session))]
        self.length_s = self.times_s[-1] + self.tick_s

    def at(self, time_s: float) -> tuple[int, float]:
        """(round, seconds into it) at a time of the clock."""
        rounds, into_s = divmod(time_s - self.begun_s, self.length_s)
        return int(rounds), into_s


class _Player:
    """A sensor that plays a tape while it is open."""

    drops = 0

    def __init__(self, tape: Tape) -> None:
        self.tape, self._open = tape, False

    def __enter__(self) -> Self:
        self._open = True
        return self

    def __exit__(self, *error: object) -> None:
        self._open = False


class TapeCamera(_Player):
    """`sight`: the camera's whole frames where the session has kept them, else the pictures of its Moments."""

    sense = "sight"

    def __init__(self, tape: Tape) -> None:
        super().__init__(tape)
        self._times_s = [frame.time_s for frame in tape.frames] or tape.times_s
        self._held: tuple[int, Any] = (-1, None)

    def read_latest(self, max_age_s: float) -> tuple[np.ndarray, float]:
        """The newest picture uint8 [H, W, 3] and the time it was played; StaleReading when there is none that new."""
        now_s = self.tape.now()
        rounds, into_s = self.tape.at(now_s)
        number = bisect_right(self._times_s, into_s + ROUNDING_S) - 1
        at_s = self.tape.begun_s + rounds * self.tape.length_s + self._times_s[max(number, 0)]
        picture = self._picture(number) if self._open and number >= 0 else None
        if not isinstance(picture, np.ndarray) or now_s - at_s >= max_age_s:
            raise StaleReading(f"The tape shows nothing of the last {max_age_s:g} s at {into_s:.1f} s.")
        return picture, min(at_s, now_s)

    def _picture(self, number: int) -> Any:
        """A picture of the tape, kept: a room asks many times in a tick, and each would unpack a chunk of the file."""
        if self._held[0] != number:
            frames = self.tape.frames
            moment = None if frames else self.tape.session[number][0]
            self._held = number, moment.senses.get("sight") if moment else frames[number].picture()
        return self._held[1]


class TapeMicrophone(_Player):
    """`sound` float32 [1, S] of the session; several ears are mixed to one. A Moment's sound ends at its time."""

    sense, rate_hz = "sound", SOUND_RATE_HZ

    def __init__(self, tape: Tape) -> None:
        super().__init__(tape)
        samples = round(tape.length_s * self.rate_hz)
        self._track = np.zeros(samples, np.int16)
        self._there = np.zeros(samples, bool)
        for time_s, (moment, _) in zip(tape.times_s, tape.session, strict=True):
            sound = moment.senses.get("sound")
            if isinstance(sound, np.ndarray):
                # Sound before the first picture is heard at the end of a round, before the next round's first picture.
                at = (round(time_s * self.rate_hz) + np.arange(-sound.shape[1], 0)) % samples
                self._track[at] = np.clip(32768 * sound.mean(0), -32768, 32767)
                self._there[at] = True

    def read_window(self, start_s: float, end_s: float) -> np.ndarray:
        """The samples of [start_s, end_s); StaleReading when not all of them are on the tape."""
        count = round((end_s - start_s) * self.rate_hz)
        first = round((start_s - self.tape.begun_s) * self.rate_hz)
        at = (first + np.arange(count)) % len(self._track)
        if not self._open or end_s > self.tape.now() or first < 0 or count < 1 or not self._there[at].all():
            raise StaleReading("The tape has no sound there.")
        return (self._track[at].astype(np.float32) / 32768)[None]
