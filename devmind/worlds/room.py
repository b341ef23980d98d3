"""The live room: open sensors, read on one fixed tick, as a world.

Tick k is at `start + k / hz`. Its Moment holds the frame captured nearest to that time and exactly the samples of the
tick before it; both are read `lag_s` later, since devices deliver late. Late data is absent, and a Moment never
repeats data of the last one. A late caller skips ticks; the room counts them.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym
import numpy as np

from devmind.errors import StaleReading, WorldError, without_secrets
from devmind.moment import TICK_HZ, Sense
from devmind.worlds import spaces
from devmind.worlds.fovea import BODY_SIZE, LOOK, Fovea
from devmind.worlds.reading import read_latest, read_window

LAG_S = 0.06
POLL_S = 0.01


@dataclass
class RoomHealth:
    """Counters since `reset`.

    Attributes:
        ticks: Moments given.
        skipped: ticks that a late caller missed.
        missing: by sense, the number of Moments without it.
        waited_s: by sense, how long its sensor took to answer at most, if that was longer than a tick.
    """

    ticks: int = 0
    skipped: int = 0
    missing: dict[str, int] = field(default_factory=dict)
    waited_s: dict[str, float] = field(default_factory=dict)


def sensor_health(sensors: Iterable[Any]) -> dict[str, dict[str, Any]]:
    """The health of each sensor, by its name, as plain data for JSON, as far as the sensor reports it.

    `rate_hz` counts frames, or blocks of a series; a series also has `samples_hz`, and counts its `drops` in samples.
    It is recorded and shown, so it holds no credentials.
    """
    renamed = {"rate_hz": "capture_hz", "drops": "drops", "reconnects": "reconnects", "fault": "fault"}
    found: dict[str, dict[str, Any]] = {}
    for sensor in sensors:
        health = getattr(sensor, "health", None)
        values = {key: getattr(health, name) for key, name in renamed.items() if hasattr(health, name)}
        if "rate_hz" in values:
            values["rate_hz"] = round(values["rate_hz"], 3) if math.isfinite(values["rate_hz"]) else None
        if values and hasattr(sensor, "read_window") and hasattr(sensor, "rate_hz"):
            values["samples_hz"] = sensor.rate_hz  # a series: it counts blocks as captures, and lost samples as drops
        name = str(getattr(sensor, "name", sensor.sense))
        found[f"{name} ({sensor.sense})" if name in found else name] = {"sense": sensor.sense, **values}
    return {without_secrets(name): without_secrets(values) for name, values in found.items()}


def reasons(sensors: Mapping[str, Any], there: Collection[str]) -> dict[str, str]:
    """Why a sense is not in `there`, a sentence by sense, if its sensor knows."""
    faults = {sense: getattr(getattr(sensor, "health", None), "fault", "") for sense, sensor in sensors.items()}
    return {sense: fault for sense, fault in faults.items() if fault and sense not in there}


class Room(gym.Env[Any, Any]):
    """One room with one agent. Episodes do not end by themselves; `reset` begins a new one at once.

    Args:
        sensors: by name, opened by the caller (`sense`, and `read_latest` or `read_window`). The room looks at one
            camera (`sight`) through a fovea. If the camera `looks_itself` (a head that moves), its pictures are sight
            unchanged, and `look` is that head's. Other senses come unchanged.
        hz: ticks a second.
        lag_s: how long after its tick a Moment is assembled.

    Attributes:
        frame: the camera's whole frame of the last Moment, RGB uint8 [H, W, 3]; None without a frame.
        frame_s: its time, on the clock of `info["time_s"]`.
        names: the names of a sense's or effector's numbers, if known.

    Raises:
        WorldError: two sensors give the same sense.
        SensorError: on a step, a sensor failed or gave another array than it promises.
    """

    is_simulated = False
    """Whether a world's rules are behind it, and nobody can wave or hold up a thing."""
    instructions: tuple[str, ...] = ()
    """Examples of what it can be told to do here, for people."""

    def __init__(
        self,
        sensors: Mapping[str, Any],
        hz: float = TICK_HZ,
        lag_s: float = LAG_S,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.sensors = {sensor.sense: sensor for sensor in sensors.values()}
        if len(self.sensors) < len(sensors):
            raise WorldError(f"Each sense may have one sensor in a room; got {', '.join(sensors)}. Leave one out.")
        self.dt_s, self.lag_s, self._now, self._sleep = 1.0 / hz, lag_s, now, sleep
        self.fovea, self.health = Fovea(), RoomHealth()
        self.frame: np.ndarray | None = None
        self.frame_s: float | None = None
        self.names = self._names()
        self._said: list[str] = []
        self._waited_for = ""
        self._captured_s: dict[str, float] = {}
        known = {"sight": spaces.sight(), "periphery": spaces.periphery(), "body": spaces.body(BODY_SIZE)}
        own = {name: sensor.space for name, sensor in self.sensors.items() if hasattr(sensor, "space")}
        sound = {"sound": spaces.sound(1)} if "sound" in self.sensors else {}
        self.observation_space = gym.spaces.Dict({**known, **sound, **own, "words": spaces.words()})
        self.action_space = gym.spaces.Dict({"look": spaces.effector(2)})

    def progress(self) -> dict[str, Any]:
        """How its episodes went, for people; empty in a room without episodes."""
        return {}

    def say(self, text: str) -> None:
        """Words for the next Moment, typed or recognised elsewhere."""
        self._said.append(text)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Sense], dict[str, Any]]:
        """Look straight ahead; the first tick is one period from now."""
        super().reset(seed=seed)
        self.fovea.reset()
        self.health = RoomHealth(missing=dict.fromkeys(self.sensors, 0))
        self._captured_s.clear()
        self._start_s, self._tick = self._now(), 0
        return self._next()

    def step(self, action: Mapping[str, Any]) -> tuple[dict[str, Sense], float, bool, bool, dict[str, Any]]:
        """Act, wait for the next tick, and return the senses. Effectors that a room lacks do nothing."""
        self.fovea.turn(action.get("look", np.zeros(2)))
        observation, info = self._next()
        return observation, 0.0, False, False, info

    def _names(self) -> dict[str, tuple[str, ...]]:
        """Names of the gaze, with a camera, and names that sensors of numbers were given."""
        renamed = {name: tuple(sensor.names) for name, sensor in self.sensors.items() if getattr(sensor, "names", ())}
        return renamed | ({"body": spaces.BODY, "look": LOOK} if "sight" in self.sensors else {})

    def _next(self) -> tuple[dict[str, Sense], dict[str, Any]]:
        skipped = max(0, int((self._now() - self.lag_s - self._start_s) / self.dt_s) - self._tick)
        waited_for, self._waited_for = self._waited_for, ""
        self._tick += 1 + skipped
        tick_s = self._start_s + self._tick * self.dt_s
        self._wait_until(tick_s)
        senses = self._sensed(tick_s)
        self.health.ticks += 1
        self.health.skipped += skipped
        info = {"time_s": tick_s - self._start_s, "tick": self._tick, "skipped": skipped, "waited_for": waited_for}
        return senses, info

    def _wait_until(self, at_s: float) -> None:
        left_s = at_s - self._now()
        if left_s > 0:
            self._sleep(left_s)

    def _latest(self, tick_s: float) -> dict[str, tuple[np.ndarray, float]]:
        """The newest reading of each sensor of frames, if it is newer than the last Moment's."""
        found = {}
        for name, sensor in self.sensors.items():
            if not hasattr(sensor, "read_latest"):
                continue
            try:
                with self._timed(name):
                    value, captured_s = read_latest(sensor, self.dt_s + self.lag_s)
            except StaleReading:
                continue
            if captured_s > max(self._captured_s.get(name, -np.inf), tick_s - self.dt_s):
                found[name] = (value, captured_s)
        return found

    def _nearest(self, tick_s: float) -> dict[str, Sense]:
        """For each sensor of frames, the reading nearest to the tick among those that come until `lag_s` later."""
        nearest: dict[str, tuple[np.ndarray, float]] = {}
        while True:
            for name, (value, captured_s) in self._latest(tick_s).items():
                if name not in nearest or abs(captured_s - tick_s) < abs(nearest[name][1] - tick_s):
                    nearest[name] = (value, captured_s)
            if self._now() >= tick_s + self.lag_s:
                break
            self._wait_until(min(self._now() + POLL_S, tick_s + self.lag_s))
        self._captured_s |= {name: captured_s for name, (_, captured_s) in nearest.items()}
        return {name: value for name, (value, _) in nearest.items()}

    def _sensed(self, tick_s: float) -> dict[str, Sense]:
        senses = self._nearest(tick_s)
        for name, sensor in self.sensors.items():
            if hasattr(sensor, "read_window"):
                with contextlib.suppress(StaleReading), self._timed(name):
                    senses[name] = read_window(sensor, tick_s - self.dt_s, tick_s)
        for name in self.sensors:
            self.health.missing[name] += name not in senses
        return senses | self._words() | self._look_at(senses.pop("sight", None))

    @contextlib.contextmanager
    def _timed(self, sense: str) -> Iterator[None]:
        """A block in which a sensor is read: one that makes the room wait is named, as nothing else would tell why."""
        since_s = self._now()
        try:
            yield
        finally:
            if (waited_s := self._now() - since_s) > self.dt_s:
                self._waited_for = sense
                self.health.waited_s[sense] = max(waited_s, self.health.waited_s.get(sense, 0.0))

    def _words(self) -> dict[str, Sense]:
        """The words since the last tick, as many as one tick holds."""
        if not self._said:
            return {}
        words, self._said = _fitting(self._said)
        return {"words": words} if words else {}

    def _look_at(self, frame: Any) -> dict[str, Sense]:
        """The fovea's picture, the change and the gaze; empty without a frame."""
        if frame is not None and getattr(self.sensors["sight"], "looks_itself", False):
            return {"sight": frame}
        self.frame = frame
        self.frame_s = None if frame is None else self._captured_s["sight"] - self._start_s
        if frame is None:
            self.fovea.blink()
            return {}
        return {**self.fovea.see(frame), "body": self.fovea.body()}


def _fitting(said: list[str]) -> tuple[str, list[str]]:
    """As much as one tick can hold, and the rest for the next ticks; a long word continues in the next tick."""
    words = " ".join(said).split(" ")
    now = ""
    while words and len(f"{now} {words[0]}".strip().encode()) <= spaces.WORDS_MAX_LENGTH:
        now = f"{now} {words.pop(0)}".strip()
    if not now and words:
        whole = words.pop(0).encode()
        now = whole[: spaces.WORDS_MAX_LENGTH].decode(errors="ignore")
        words.insert(0, whole[len(now.encode()) :].decode())
    return now, [" ".join(words)] if words else []
