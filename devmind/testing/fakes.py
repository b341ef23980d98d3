"""Small stand-ins: a world with every kind of sense, a tiny agent, a context, a short session."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces

from devmind import config
from devmind.moment import PERIPHERY_SIZE, TICK_HZ, TICK_SAMPLES, Action, Moment
from devmind.worlds.rules import Outcome, Rules, Struct

if TYPE_CHECKING:
    from devmind.agent.agent import Agent
    from devmind.curriculum.stage import Context

ROUND_TICKS = 8


@dataclass
class LampState(Struct):
    """seed int64 [N]; tick int64 [N]; lit int64 [N] (which of 3 lamps); score float32 [N]."""

    seed: np.ndarray
    tick: np.ndarray
    lit: np.ndarray
    score: np.ndarray


@dataclass
class LampRules(Rules[LampState]):
    """Three lamps, one lit at a time: pressing its button is rewarded. It has every standard sense and one of its own.

    It is short, and fast enough for thousands of steps in a test. Its own sense is `warmth` float32 [3].
    """

    name: str = "lamps"
    level: str = ""
    horizon: int | None = ROUND_TICKS
    observation_space: spaces.Dict = field(init=False)
    action_space: spaces.Dict = field(init=False)

    def __post_init__(self) -> None:
        box = spaces.Box
        self.observation_space = spaces.Dict(
            {
                "sight": box(0, 255, (64, 64, 3), np.uint8),
                "periphery": box(0.0, 1.0, (1, PERIPHERY_SIZE, PERIPHERY_SIZE), np.float32),
                "sound": box(-1.0, 1.0, (2, TICK_SAMPLES), np.float32),
                "words": spaces.Text(16),
                "body": box(-1.0, 1.0, (4,), np.float32),
                "board": box(-1, 1, (1, 1, 3), np.int8),
                "warmth": box(0.0, 1.0, (3,), np.float32),
            }
        )
        self.action_space = spaces.Dict({"press": spaces.Discrete(3), "lean": box(-1.0, 1.0, (2,), np.float32)})

    def initial(self, seeds: np.ndarray) -> LampState:
        seeds = np.asarray(seeds, dtype=np.int64)
        start = np.zeros_like(seeds)
        return LampState(seeds.copy(), start, _lit(seeds, start), np.zeros(len(seeds), np.float32))

    def legal(self, state: LampState) -> Mapping[str, np.ndarray]:
        return {}

    def step(self, state: LampState, actions: Mapping[str, np.ndarray]) -> LampState:
        pressed = np.asarray(actions.get("press", np.full(len(state), -1)))
        score = ((state.tick < ROUND_TICKS) & (pressed == state.lit)).astype(np.float32)
        tick = np.minimum(state.tick + 1, ROUND_TICKS)
        return replace(state.copy(), tick=tick, lit=_lit(state.seed, tick), score=score)

    def outcome(self, state: LampState) -> Outcome:
        ended = state.tick >= ROUND_TICKS
        return Outcome(state.score.copy(), ended, np.zeros_like(ended))

    def observe(self, state: LampState) -> dict[str, Any]:
        n, lamps = len(state), np.eye(3, dtype=np.float32)[state.lit]
        sight = np.zeros((n, 64, 64, 3), np.uint8)
        for lamp in range(3):
            sight[:, 24:40, 8 + 20 * lamp : 16 + 20 * lamp] = (lamps[:, lamp] * 255).astype(np.uint8)[
                :, None, None, None
            ]
        phase = (np.arange(TICK_SAMPLES) * (1 + state.lit[:, None]) * (2 * np.pi / 40)).astype(np.float32)
        turn = np.stack([np.sin(state.tick), np.cos(state.tick)], axis=1).astype(np.float32)
        return {
            "sight": sight,
            "periphery": np.repeat(lamps[:, None, :1, None], PERIPHERY_SIZE, 2).repeat(PERIPHERY_SIZE, 3),
            "sound": np.repeat((0.1 * np.sin(phase))[:, None], 2, axis=1),
            "words": ["press" if tick == 0 else "" for tick in state.tick],
            "body": np.concatenate([turn, np.zeros((n, 2), np.float32)], axis=1),
            "board": lamps.astype(np.int8)[:, None, None],
            "warmth": 0.5 * lamps,
        }

    def truth(self, state: LampState) -> dict[str, np.ndarray]:
        return {"lit": state.lit.copy()}


def _lit(seed: np.ndarray, tick: np.ndarray) -> np.ndarray:
    """The number of the lit lamp: a hash of seed and tick (multiplicative, wrapping at 64 bits)."""
    mixed = (seed.astype(np.uint64) * np.uint64(2_654_435_761) + tick.astype(np.uint64)) * np.uint64(
        11_400_714_819_323_198_485
    )
    return ((mixed >> np.uint64(40)) % np.uint64(3)).astype(np.int64)


def tiny_config(*sets: str) -> config.RunConfig:
    """The configuration `tiny` (about 20k parameters) on the CPU, with changes as `key=value` texts."""
    return config.load("tiny", sets=("device=cpu", "threads=1", *sets))


def tiny_agent(seed: int = 0) -> Agent:
    """A newborn agent of size tiny, without senses or heads."""
    from devmind.agent.agent import Agent
    from devmind.agent.config import AgentConfig

    return Agent(AgentConfig(size="tiny", seed=seed))


def tiny_context(out: Path, *sets: str, make_world: Callable[..., Any] | None = None) -> Context:
    """A context of size tiny that writes into `out`; worlds come from `devmind.worlds.make` unless given."""
    from devmind import worlds
    from devmind.curriculum.stage import Context

    settings = tiny_config(*sets)
    return Context(settings, settings.seed, "cpu", out, make_world or worlds.make)


def lamp_moments(ticks: int = ROUND_TICKS, seed: int = 0) -> list[tuple[Moment, Action]]:
    """One episode of LampRules as (Moment, Action) pairs; the child always presses the first button."""
    rules = LampRules()
    state, pairs = rules.initial(np.array([seed])), []
    for tick in range(ticks):
        senses = {name: value[0] for name, value in rules.observe(state).items() if len(value[0])}
        outcome, last = rules.outcome(state), tick == ticks - 1
        moment = Moment(tick / TICK_HZ, senses, float(outcome.reward[0]), first=tick == 0, last=last)
        pairs.append((moment, Action({"press": np.array([0])})))
        state = rules.step(state, {"press": np.array([0])})
    return pairs


def short_session(path: Path, ticks: int = ROUND_TICKS, seed: int = 0) -> Path:
    """Record `lamp_moments` as a session file at `path`."""
    from devmind.sessions.recorder import Recorder

    with Recorder(path, source="lamps") as recorder:
        for moment, action in lamp_moments(ticks, seed):
            recorder.write(moment, action)
    return path
