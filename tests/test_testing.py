"""The checks pass plugins that keep the laws, and name the law that a broken plugin breaks."""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from devmind import plugins
from devmind.errors import StaleReading
from devmind.moment import SOUND_RATE_HZ
from devmind.sessions.reader import open_session
from devmind.testing import BrokenLawError, LampRules, check_sensor, check_world, lamp_moments, short_session
from devmind.testing.fakes import LampState
from devmind.testing.laws import difference
from devmind.worlds.adapter import RulesWorld
from devmind.worlds.gym_world import GymWorld
from devmind.worlds.rules import Outcome


class Shared(LampRules):
    """Draws from a generator that all children share."""

    rng = np.random.default_rng(0)

    def initial(self, seeds: np.ndarray) -> LampState:
        return replace(super().initial(seeds), lit=self.rng.integers(0, 3, len(seeds)))


class Crowded(LampRules):
    """The reward of a child depends on the number of children."""

    def step(self, state: LampState, actions: Mapping[str, np.ndarray]) -> LampState:
        after = super().step(state, actions)
        return replace(after, score=after.score + np.float32(len(state)))


class InPlace(LampRules):
    """Changes the state that it is given."""

    def step(self, state: LampState, actions: Mapping[str, np.ndarray]) -> LampState:
        state.tick += 1
        return super().step(state, actions)


class Restless(LampRules):
    """Observing changes the state."""

    def observe(self, state: LampState) -> dict[str, Any]:
        state.score += 1
        return super().observe(state)


class TooBright(LampRules):
    """Leaves its observation space."""

    def observe(self, state: LampState) -> dict[str, Any]:
        senses = super().observe(state)
        return senses | {"warmth": senses["warmth"] * 5}


class DoubleReward(LampRules):
    """Gives rewards in float64."""

    def outcome(self, state: LampState) -> Outcome:
        outcome = super().outcome(state)
        return Outcome(outcome.reward.astype(np.float64), outcome.terminal, outcome.truncated)


class OddSight(LampRules):
    """Uses the name `sight` for another sense."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.observation_space.spaces["sight"] = spaces.Box(0, 1, (64, 64), np.float32)


def test_rules_that_keep_their_laws_pass() -> None:
    check_world(LampRules())


@pytest.mark.parametrize("name", [n for n, p in plugins.available("worlds").items() if p.distribution == "devmind"])
def test_every_world_of_devmind_keeps_its_laws(name: str) -> None:
    rules = plugins.load("worlds", name)()
    check_world(rules, ticks=4)
    check_world(RulesWorld(rules), ticks=4)


def test_wrapped_gymnasium_environment_keeps_the_laws() -> None:
    check_world(GymWorld(gymnasium.make("MountainCar-v0")))


class Buffered(gymnasium.Env):
    """Writes each observation into the arrays that it gave before, as simulators do."""

    def __init__(self, space: gymnasium.Space) -> None:
        self.observation_space, self.action_space = space, spaces.Discrete(2)
        self.seen = np.zeros(space.shape, space.dtype)

    def reset(self, **_: Any) -> tuple[np.ndarray, dict[str, Any]]:
        self.seen[:] = 0
        return self.seen, {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.seen.flat[0] = 1 - self.seen.flat[0]
        return self.seen, 0.0, False, False, {}


@pytest.mark.parametrize(
    "space",
    [
        spaces.Box(-1, 1, (3,), np.float32),
        spaces.Box(0, 255, (8, 8, 3), np.uint8),
        spaces.Box(-1, 1, (2, 3), np.float64),
        spaces.MultiBinary(3),
        spaces.MultiDiscrete([2, 2]),
    ],
    ids=lambda space: f"{type(space).__name__}{len(space.shape)}",
)
def test_environment_that_writes_into_its_observation_is_wrapped_with_copies(space: gymnasium.Space) -> None:
    check_world(GymWorld(Buffered(space)))
    world = GymWorld(Buffered(space))
    (before, _), (after, *_) = world.reset(), world.step({"push": 1})
    assert any(not np.array_equal(before[name], after[name]) for name in before)


@pytest.mark.parametrize(
    ("rules", "law"),
    [
        (Shared, "the same seeds give the same first states"),
        (Crowded, "N children stepped together equal N single ones"),
        (InPlace, "step leaves the given state untouched"),
        (Restless, "observe is a pure function of the state"),
        (TooBright, "lies in its observation_space"),
        (DoubleReward, "reward is float32"),
        (OddSight, "'sight' is the fovea's picture"),
    ],
)
def test_broken_law_of_rules_is_named(rules: type[LampRules], law: str) -> None:
    with pytest.raises(BrokenLawError, match="Law: ") as told:
        check_world(rules())
    assert law in str(told.value)


class Corridor(gymnasium.Env):
    """A typical environment with Dict spaces: walk right to the end of a corridor."""

    observation_space = spaces.Dict({"body": spaces.Box(0.0, 9.0, (1,), np.float32)})
    action_space = spaces.Dict({"move": spaces.Discrete(2)})

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:
        super().reset(seed=seed)
        self.place = np.array([self.np_random.integers(0, 3)], np.float32)
        return self._senses(), {}

    def step(self, action: Mapping[str, Any]) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        self.place = np.clip(self.place + (1 if action["move"] else -1), 0, 9).astype(np.float32)
        return self._senses(), float(self.place[0]), bool(self.place[0] == 9), False, {}

    def _senses(self) -> dict[str, Any]:
        return {"body": self.place.copy()}


class Unseeded(Corridor):
    """Starts at a random place, whatever the seed."""

    started = itertools.count()

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:
        super().reset(seed=seed)
        self.place = np.array([next(self.started) % 7], np.float32)
        return self._senses(), {}


class OneArray(Corridor):
    """Returns the same array each time and writes into it."""

    buffer = np.zeros(1, np.float32)

    def _senses(self) -> dict[str, Any]:
        self.buffer[:] = self.place
        return {"body": self.buffer}


class Unnamed(Corridor):
    """Has no names for its senses."""

    observation_space = spaces.Box(0.0, 9.0, (1,), np.float32)  # type: ignore[assignment]


def test_environment_that_keeps_its_laws_passes() -> None:
    check_world(Corridor())


@pytest.mark.parametrize(
    ("env", "law"),
    [
        (Unseeded, "the same seed and the same actions give the same experience"),
        (OneArray, "never changes what it has given"),
        (Unnamed, "has Dict spaces"),
    ],
)
def test_broken_law_of_an_environment_is_named(env: type[Corridor], law: str) -> None:
    with pytest.raises(BrokenLawError) as told:
        check_world(env())
    assert law in str(told.value)


class Clock:
    """A frame sensor without a thread: its device is the clock, with a capture every hundredth of a second."""

    sense = "seconds"
    space = spaces.Box(0.0, np.inf, (1,), np.float32)

    def __init__(self) -> None:
        self.drops, self.opened_s = 0, float("inf")

    def __enter__(self) -> Clock:
        self.opened_s = time.monotonic()
        return self

    def __exit__(self, *error: object) -> None:
        self.opened_s = float("inf")

    def capture(self, captured_at_s: float) -> np.ndarray:
        return np.array([captured_at_s], np.float32)

    def read_latest(self, max_age_s: float) -> tuple[np.ndarray, float]:
        captured_at_s = np.floor(time.monotonic() * 100) / 100
        if captured_at_s < self.opened_s or time.monotonic() - captured_at_s >= max_age_s:
            raise StaleReading("Nothing that new.")
        return self.capture(captured_at_s), captured_at_s


class Waiting(Clock):
    """Waits for the next capture."""

    def read_latest(self, max_age_s: float) -> tuple[np.ndarray, float]:
        if self.opened_s < float("inf"):
            time.sleep(0.012)
        return super().read_latest(max_age_s)


class Repeating(Clock):
    """Returns old captures as if they were new."""

    def read_latest(self, max_age_s: float) -> tuple[np.ndarray, float]:
        return super().read_latest(1e9)


class AlwaysOpen(Clock):
    """Reads its device before it is opened."""

    def __init__(self) -> None:
        super().__init__()
        self.opened_s = 0.0


class NotASense(Clock):
    """Claims sight, but returns numbers."""

    sense = "sight"


class NoSpace(Clock):
    """A custom sense without its space."""

    space = None  # type: ignore[assignment]


class Careless(Clock):
    """Does not report lost samples."""

    def __init__(self) -> None:
        super().__init__()
        self.drops = None  # type: ignore[assignment]


class Hum:
    """A series sensor: a sample is a function of the time since the sensor was opened."""

    sense, rate_hz = "sound", SOUND_RATE_HZ

    def __init__(self) -> None:
        self.drops, self.opened_s = 0, float("inf")

    def __enter__(self) -> Hum:
        self.opened_s = time.monotonic()
        return self

    def __exit__(self, *error: object) -> None:
        self.opened_s = float("inf")

    def read_window(self, start_s: float, end_s: float) -> np.ndarray:
        if start_s < self.opened_s or end_s > time.monotonic():
            raise StaleReading("Not in the ring.")
        times_s = start_s + np.arange(self.samples(start_s, end_s)) / self.rate_hz
        return np.sin(2 * np.pi * 50 * times_s).astype(np.float32)[None]

    def samples(self, start_s: float, end_s: float) -> int:
        return round((end_s - start_s) * self.rate_hz)


class Short(Hum):
    """Loses a sample of each window."""

    def samples(self, start_s: float, end_s: float) -> int:
        return super().samples(start_s, end_s) - 1


class Inventing(Hum):
    """Replaces missing samples by silence."""

    def read_window(self, start_s: float, end_s: float) -> np.ndarray:
        if self.opened_s < float("inf") and end_s > time.monotonic():
            return np.zeros((1, self.samples(start_s, end_s)), np.float32)
        return super().read_window(start_s, end_s)


@pytest.mark.parametrize("sensor", [Clock, Hum])
def test_sensor_that_keeps_its_laws_passes(sensor: Any) -> None:
    check_sensor(sensor)


@pytest.mark.parametrize(
    ("sensor", "law"),
    [
        (Waiting, "never waits"),
        (Repeating, "older than max_age_s raises StaleReading"),
        (AlwaysOpen, "a sensor that is not open has nothing to read"),
        (NotASense, "gives arrays of its sense 'sight'"),
        (NoSpace, "an own sense says its space"),
        (Careless, "drops counts"),
        (Short, "S = (end - start) * rate_hz"),
        (Inventing, "still to come raises StaleReading"),
    ],
)
def test_broken_law_of_a_sensor_is_named(sensor: Any, law: str) -> None:
    with pytest.raises(BrokenLawError) as told:
        check_sensor(sensor)
    assert law in str(told.value)


def test_short_session_replays_its_recording(tmp_path: Path) -> None:
    pairs = lamp_moments()
    assert list(open_session(short_session(tmp_path / "lamps.mcap"))) == pairs
    assert "words" in pairs[0][0].senses
    assert "words" not in pairs[1][0].senses


def test_values_beside_nan_and_infinity_are_compared_too() -> None:
    for odd in (np.nan, np.inf):
        one = {"a": np.array([odd, 1.0])}
        assert difference(one, {"a": np.array([odd, 1.0])}) == ""
        assert "by up to 1 " in difference(one, {"a": np.array([odd, 2.0])})
        assert difference(one, {"a": np.array([odd, 1.5])}, {"a": 0.5}) == ""
        assert difference(one, {"a": np.array([0.0, 1.0])}, {"a": 9.0}).startswith("'a' differs")
    assert difference({"a": np.float32(np.nan)}, {"a": np.float32(np.nan)}) == ""
    assert difference({"a": np.zeros(0)}, {"a": np.zeros(0)}) == ""
