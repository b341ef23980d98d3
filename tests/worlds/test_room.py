"""The live room on a clock that the test sets: what is in a Moment, and what is not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from devmind.errors import StaleReading, WorldError
from devmind.moment import Moment
from devmind.testing.laws import ATOL
from devmind.worlds.room import Room, sensor_health


class Clock:
    """Time that passes only in `sleep`."""

    def __init__(self) -> None:
        self.s = 100.0

    def now(self) -> float:
        return self.s

    def sleep(self, seconds: float) -> None:
        self.s += seconds


class Camera:
    """A frame every 30 ms with its number in its pixels; frames `gone` (from, to) never come."""

    sense = "sight"

    def __init__(self, clock: Clock, gone: tuple[float, float] = (0.0, 0.0)) -> None:
        self.clock, self.gone = clock, gone

    def read_latest(self, max_age_s: float) -> tuple[np.ndarray, float]:
        number = int((self.clock.s + 1e-9) / 0.03)
        while self.gone[0] <= number * 0.03 < self.gone[1]:
            number -= 1
        captured_s = number * 0.03
        if self.clock.s - captured_s >= max_age_s:
            raise StaleReading("gone")
        return np.full((48, 120, 3), number % 256, np.uint8), captured_s


class Microphone:
    """Samples that encode their own time and come 40 ms late."""

    sense, rate_hz = "sound", 16_000

    def __init__(self, clock: Clock) -> None:
        self.clock = clock

    def read_window(self, start_s: float, end_s: float) -> np.ndarray:
        if end_s > self.clock.s - 0.04:
            raise StaleReading("still to come")
        return (round(start_s * 16_000) + np.arange(round((end_s - start_s) * 16_000)))[None].astype(np.float32)


class Thermometer:
    """One number, with the same reading for a second."""

    sense = "warmth"

    def __init__(self, clock: Clock) -> None:
        from gymnasium import spaces

        self.clock, self.space = clock, spaces.Box(-1, 1, (1,), np.float32)

    def read_latest(self, max_age_s: float) -> tuple[np.ndarray, float]:
        return np.array([0.5], np.float32), float(int(self.clock.s))


def make(*sensors: Any, clock: Clock, **options: Any) -> Room:
    return Room({type(s).__name__: s for s in sensors}, now=clock.now, sleep=clock.sleep, **options)


def test_a_moment_holds_the_nearest_frame_and_exactly_the_ticks_samples() -> None:
    clock = Clock()
    room = make(Camera(clock), Microphone(clock), clock=clock)
    senses, info = room.reset()
    heard = []
    for tick in range(1, 30):
        assert info["tick"] == tick
        at_s = 100.0 + tick * 0.1
        nearest = round(at_s / 0.03)
        assert int(senses["sight"][0, 0, 0]) == nearest % 256
        heard.append(senses["sound"])
        assert ("periphery" in senses) == (tick > 1)
        Moment(info["time_s"], senses)
        senses, reward, terminal, truncated, info = room.step({"look": np.zeros(2)})
        assert (reward, terminal, truncated) == (0.0, False, False)
    assert np.array_equal(np.diff(np.concatenate(heard, 1))[0], np.ones(29 * 1600 - 1)), (
        "no sample twice, none left out"
    )
    assert room.health.skipped == 0
    assert room.health.missing == {"sight": 0, "sound": 0}


def test_missing_data_are_absent_and_nothing_is_given_twice() -> None:
    clock = Clock()
    room = make(Camera(clock, gone=(100.45, 101.05)), Thermometer(clock), clock=clock)
    seen, changes, warm = [], [], []
    senses, _ = room.reset()
    for _ in range(18):
        seen.append("sight" in senses)
        changes.append("periphery" in senses)
        warm.append("warmth" in senses)
        senses, *_ = room.step({})
    # ticks 100.1 to 101.8; the camera gives nothing between 100.45 and 101.05
    assert seen == [True] * 5 + [False] * 5 + [True] * 8
    assert changes == [False] + [True] * 4 + [False] * 6 + [True] * 7, "a change is told between two frames only"
    assert np.flatnonzero(warm).tolist() == [9], "a reading a second is in one Moment a second"
    assert room.health.missing["sight"] == 5


def test_a_late_caller_skips_ticks_and_the_room_counts_them() -> None:
    clock = Clock()
    room = make(Camera(clock), Microphone(clock), clock=clock)
    _, info = room.reset()
    clock.s += 0.35
    senses, *_, info = room.step({})
    assert info["skipped"] == 3
    assert info["tick"] == 5
    assert room.health.skipped == 3
    assert senses["sound"][0, 0] == round((100.0 + 0.4) * 16_000)


def test_look_moves_the_fovea_and_words_come_once() -> None:
    clock = Clock()
    room = make(Camera(clock), clock=clock)
    room.reset()
    room.say("look")
    room.say("here")
    senses, *_ = room.step({"look": np.array([1.0, 0.0])})
    assert senses["words"] == "look here"
    assert senses["body"][0] == pytest.approx(np.sin(np.deg2rad(25.0)), abs=ATOL)
    assert np.isnan(senses["body"][3:9]).all()
    senses, *_ = room.step({})
    assert "words" not in senses


def test_long_words_continue_in_the_next_ticks_and_none_is_lost() -> None:
    clock = Clock()
    room = make(Camera(clock), clock=clock)
    room.reset()
    said = "one " * 20 + "é" * 50 + " end"
    room.say(said.strip())
    heard = []
    while (words := room.step({})[0].get("words")) is not None:
        assert len(words.encode()) <= 64
        heard.append(words)
    assert heard[0] == " ".join(["one"] * 16)
    assert "".join(heard).replace(" ", "") == said.replace(" ", "")
    assert len(heard) == 4
    room.say("  ")
    assert "words" not in room.step({})[0]


def test_two_sensors_of_one_sense_are_refused() -> None:
    clock = Clock()
    with pytest.raises(WorldError, match="one sensor"):
        Room({"a": Camera(clock), "b": Camera(clock)})


def test_two_sensors_of_one_name_both_have_their_health() -> None:
    first, second = Camera(Clock()), Camera(Clock())
    first.name = second.name = "weather"  # type: ignore[attr-defined]
    first.sense, second.sense = "hall", "cellar"
    health = sensor_health((first, second))
    assert [(name, about["sense"]) for name, about in health.items()] == [
        ("weather", "hall"),
        ("weather (cellar)", "cellar"),
    ]
