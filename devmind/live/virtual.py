"""A life on a virtual clock: one live loop in a room whose sensors the caller fills tick by tick, at any speed."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from devmind.acting import Actor, Senses
from devmind.acting.in_life import EFFECTORS
from devmind.errors import StaleReading
from devmind.live.loop import LiveLoop, Tick
from devmind.moment import TICK_HZ
from devmind.worlds.fovea import MAX_TURN_DEG, Fovea
from devmind.worlds.room import Room

EDGE = 0.01
"""A look is stopped by the frame's edge if it is shortened by more than this (of 25 degrees)."""


class VirtualClock:
    """A clock that moves only when somebody sleeps."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def now(self) -> float:
        """Seconds since it was created."""
        return self.now_s

    def sleep(self, seconds: float) -> None:
        """Let so many seconds pass at once."""
        self.now_s += seconds


class Mailbox:
    """A sensor that holds data posted for the coming tick, and gives it once.

    Args:
        looks_itself: pictures are those of a head that moves (see `Room`).
    """

    def __init__(self, sense: str, clock: VirtualClock, looks_itself: bool = False) -> None:
        self.sense, self.clock, self.looks_itself = sense, clock, looks_itself
        self._value: np.ndarray | None = None
        self._at_s: float | None = None

    def post(self, value: np.ndarray) -> None:
        """Set what the next tick will sense."""
        self._value, self._at_s = value, None

    def read_latest(self, max_age_s: float) -> tuple[np.ndarray, float]:
        """The posted data, captured when it is first asked for."""
        if self._value is None or (self._at_s is not None and self.clock.now() - self._at_s > max_age_s):
            raise StaleReading(f"Nothing was posted for '{self.sense}'.")
        if self._at_s is None:
            self._at_s = self.clock.now()
        return self._value, self._at_s


class SoundMailbox:
    """A microphone that gives posted samples for the tick just past."""

    sense = "sound"

    def __init__(self) -> None:
        self._value: np.ndarray | None = None

    def post(self, value: np.ndarray) -> None:
        """Set the sound float32 [C, S] of the next tick."""
        self._value = value

    def read_window(self, start_s: float, end_s: float) -> np.ndarray:
        """The posted sound, once."""
        value, self._value = self._value, None
        if value is None:
            raise StaleReading("Nothing was played.")
        return value


class VirtualLife:
    """One live loop in one room, for one row of a rollout.

    Args:
        senses: the senses it will have; where they are `rendered`, its room makes the others from a camera's frames.

    Attributes:
        stopped: whether the frame's edge ever stopped the gaze.
    """

    def __init__(self, actor: Actor, senses: Senses, rendered: bool) -> None:
        clock = VirtualClock()
        self.sound = SoundMailbox()
        self.boxes = {
            name: Mailbox(name, clock, looks_itself=not rendered)
            for name in senses
            if (name == "sight" if rendered else name not in ("sound", "words"))
        }
        sensors: dict[str, Any] = dict(self.boxes) | ({"sound": self.sound} if "sound" in senses else {})
        self.room = Room(sensors, TICK_HZ, now=clock.now, sleep=clock.sleep)
        self.stopped = False
        self.loop = LiveLoop(actor.agent, self.room, effectors=actor.effectors or EFFECTORS)
        # An exam may ask heads that a life without passed measures would not let answer: those on the trunk.
        if actor.standing is not None:
            self.loop.standing = actor.standing
        elif actor.trunk:
            self.loop.standing = {name: tuple(actor.agent.heads_of(name)) for name in self.loop.effectors}
        self._ticks: Iterator[Tick | None] = self.loop.ticks()

    def wait(self, senses: Mapping[str, Any]) -> None:
        """Let one tick pass in the room before the agent wakes."""
        self.loop.paused = True
        self._post(senses)
        next(self._ticks)
        self.loop.paused = False

    def tick(self, senses: Mapping[str, Any], first: bool) -> Tick:
        """Live through one tick with this to be sensed."""
        self._post(senses)
        self.loop.afresh = self.loop.afresh or first
        tick = next(self._ticks)
        assert tick is not None
        return tick

    def _post(self, senses: Mapping[str, Any]) -> None:
        for name, value in senses.items():
            if name == "words":
                self.room.say(value)
            else:
                (self.sound if name == "sound" else self.boxes[name]).post(value)

    def turned(self, look: np.ndarray) -> np.ndarray:
        """The command [2] that moves the world's head as this look moves the fovea, limited by the frame's edge."""
        fovea: Fovea = copy.copy(self.room.fovea)
        fovea.turn(look)
        moved = (fovea.pan_deg - self.room.fovea.pan_deg, fovea.tilt_deg - self.room.fovea.tilt_deg)
        turned = np.asarray(moved, np.float32) / MAX_TURN_DEG
        self.stopped |= bool(np.abs(turned - np.clip(look, -1, 1)).max() > EDGE)
        return turned
