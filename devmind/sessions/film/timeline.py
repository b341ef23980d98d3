"""A recording as media: pictures, unbroken sound and words on one clock that begins at zero, over all parts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from devmind.errors import SessionError
from devmind.moment import SOUND_RATE_HZ
from devmind.sessions.extras import Frame
from devmind.sessions.reader import Session

ROUNDING_S = 0.005
"""Sound that begins within this time of the end of the sound before continues without a seam."""
SHOWN_S = 3.0
"""How long words are shown without others after them."""


@dataclass(frozen=True)
class Picture:
    """A picture shown from `time_s` on: the agent's `sight`, RGB uint8 [H, W, 3], or a frame of the camera."""

    time_s: float
    sight: np.ndarray | None = None
    frame: Frame | None = None

    def pixels(self) -> np.ndarray:
        """RGB uint8 [H, W, 3].

        Raises:
            SessionError: the frame is damaged.
        """
        if self.frame is not None:
            return self.frame.picture()
        assert self.sight is not None
        return self.sight


@dataclass(frozen=True)
class Stretch:
    """Samples int16 [n, C] at 16 kHz from `time_s` on; `is_gap`: silence where nothing was heard."""

    time_s: float
    samples: np.ndarray
    is_gap: bool = False


@dataclass(frozen=True)
class Said:
    """Words shown from `from_s` to `to_s`."""

    from_s: float
    to_s: float
    text: str


class Timeline:
    """All parts of one recording, opened.

    A room's Moment holds the sound before its tick, a file's the sound from its tick on; the clock begins so that no
    sound is before zero.

    Attributes:
        has_camera: there are whole frames, which `pictures` gives instead of the agent's sight.
        channels: of the sound, 0 when there is none.

    Raises:
        SessionError: a part cannot be read, or no part has a tick.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        self._sessions = [session for session in map(Session, paths) if len(session)]
        if not self._sessions:
            raise SessionError(f"'{paths[0]}' holds no Moment; there is nothing to export.")
        self.tick_hz = self._sessions[0].tick_hz
        self.has_camera = any(session.frame_count for session in self._sessions)
        shapes = [shape for s in self._sessions if "sound" in s.senses for _, shape in s.senses["sound"].kinds]
        self.channels = max((shape[0] for shape in shapes), default=0)
        self.has_pictures = self.has_camera or any("sight" in session.senses for session in self._sessions)
        self._sound_before_s = 1 / self.tick_hz if self._sessions[0].metadata.get("source") == "room" else 0.0
        self._zero_s = self._sessions[0].elapsed_s(0) - self._sound_before_s

    @property
    def duration_s(self) -> float:
        """Time to the end of the last tick."""
        return self._sessions[-1].elapsed_s(-1) - self._zero_s + 1 / self.tick_hz

    def pictures(self) -> Iterator[Picture]:
        """The camera's frames, else the agent's sight, each later than the one before."""
        last_s = -1.0
        for session in self._sessions:
            for picture in self._frames(session) if self.has_camera else self._sights(session):
                if picture.time_s > last_s:
                    yield picture
                    last_s = picture.time_s

    def sound(self) -> Iterator[Stretch]:
        """Unbroken from zero on; stretches where nothing was heard are silence, and marked."""
        at = 0
        for session in self._sessions:
            for tick, (moment, _) in enumerate(session):
                heard = moment.senses.get("sound")
                if not isinstance(heard, np.ndarray) or not heard.size:
                    continue
                begin = round((session.elapsed_s(tick) - self._zero_s - self._sound_before_s) * SOUND_RATE_HZ)
                while begin - at > ROUNDING_S * SOUND_RATE_HZ:  # by the second: a gap may be an hour
                    silence = np.zeros((min(begin - at, SOUND_RATE_HZ), self.channels), np.int16)
                    yield Stretch(at / SOUND_RATE_HZ, silence, is_gap=True)
                    at += len(silence)
                samples = _as_pcm(heard, self.channels)
                if at - begin > ROUNDING_S * SOUND_RATE_HZ:  # two devices' clocks overlap: the earlier sound stays
                    samples = samples[at - begin :]
                if len(samples):
                    yield Stretch(at / SOUND_RATE_HZ, samples)
                at += len(samples)

    def words(self) -> list[Said]:
        """Words heard or read, each until the next, or for three seconds."""
        said = [
            (session.elapsed_s(tick) - self._zero_s, str(moment.senses["words"]))
            for session in self._sessions
            if "words" in session.senses
            for tick, (moment, _) in enumerate(session)
            if moment.senses.get("words")
        ]
        ends = [*(at for at, _ in said[1:]), float("inf")]
        return [
            Said(at, min(at + SHOWN_S, max(end, at + 1 / self.tick_hz)), text)
            for (at, text), end in zip(said, ends, strict=False)
        ]

    def _frames(self, session: Session) -> Iterator[Picture]:
        for frame in session.frames():
            yield Picture(max(0.0, frame.time_s - self._zero_s), frame=frame)

    def _sights(self, session: Session) -> Iterator[Picture]:
        for tick, (moment, _) in enumerate(session):
            sight = moment.senses.get("sight")
            if isinstance(sight, np.ndarray):
                yield Picture(session.elapsed_s(tick) - self._zero_s, sight=sight)


def srt(words: Sequence[Said]) -> str:
    """Words as a SubRip text, without empty lines, which would end an entry."""
    entries = [
        f"{number}\n{_clock(said.from_s)} --> {_clock(said.to_s)}\n"
        + "\n".join(line for line in said.text.splitlines() if line.strip())
        for number, said in enumerate(words, start=1)
    ]
    return "".join(f"{entry}\n\n" for entry in entries)


def _clock(time_s: float) -> str:
    total = round(time_s * 1000)
    return f"{total // 3_600_000:02d}:{total // 60_000 % 60:02d}:{total // 1000 % 60:02d},{total % 1000:03d}"


def _as_pcm(sound: np.ndarray, channels: int) -> np.ndarray:
    """float32 [C, n] as int16 [n, channels]; one ear is copied to both."""
    samples = np.clip(np.rint(sound.T * 32768), -32768, 32767).astype(np.int16)
    return samples if samples.shape[1] == channels else np.repeat(samples[:, :1], channels, axis=1)
