"""A child on a turning chair beside a stove, with a sense that devmind does not have: `warmth`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from gymnasium import spaces

from devmind.errors import WorldError
from devmind.seeding import numpy_rng
from devmind.worlds.rules import Outcome, Struct

GAINS = np.array([1.0, 0.35, 0.8, 0.5], np.float32)
"""Gain of each patch of skin (front, left, back, right): the strongest reading may not be the warmest side."""


@dataclass
class Chair(Struct):
    """stove and facing float32 [N] in radians; noise float32 [N, 4]; seed and tick int64 [N]."""

    stove: np.ndarray
    facing: np.ndarray
    noise: np.ndarray
    seed: np.ndarray
    tick: np.ndarray


class ThermalRules:
    """Senses `warmth` float32 [4] and `body` float32 [2] (sine and cosine of the facing); the effector is `turn`."""

    name = "thermal"
    horizon = 20
    observation_space = spaces.Dict(
        {"warmth": spaces.Box(-1.0, 2.0, (4,), np.float32), "body": spaces.Box(-1.0, 1.0, (2,), np.float32)}
    )
    action_space = spaces.Dict({"turn": spaces.Box(-1.0, 1.0, (1,), np.float32)})

    def __init__(self, level: str = "") -> None:
        if level:
            raise WorldError(f"The world 'thermal' has no levels; got '{level}'. Leave the level out.")
        self.level = level

    def initial(self, seeds: np.ndarray) -> Chair:
        angles = np.array([numpy_rng("thermal", int(seed)).uniform(-np.pi, np.pi, 2) for seed in seeds], np.float32)
        tick = np.zeros(len(seeds), np.int64)
        return Chair(angles[:, 0].copy(), angles[:, 1].copy(), _noise(seeds, tick), np.array(seeds, np.int64), tick)

    def legal(self, state: Chair) -> Mapping[str, np.ndarray]:
        return {}

    def step(self, state: Chair, actions: Mapping[str, np.ndarray]) -> Chair:
        turn = actions["turn"][:, 0] if "turn" in actions else np.float32(0)
        # One beyond the horizon: this tick distinguishes the last step from those after the end.
        tick = np.minimum(state.tick + 1, self.horizon + 1)
        facing = (state.facing + np.float32(0.5) * turn).astype(np.float32)
        return replace(state.copy(), facing=facing, noise=_noise(state.seed, tick), tick=tick)

    def outcome(self, state: Chair) -> Outcome:
        reward = np.where(state.tick <= self.horizon, _falling(state)[:, 0], 0).astype(np.float32)
        return Outcome(reward, np.zeros(len(state), bool), state.tick >= self.horizon)

    def observe(self, state: Chair) -> dict[str, Any]:
        body = np.stack([np.sin(state.facing), np.cos(state.facing)], axis=1)
        return {"warmth": GAINS * _falling(state) + state.noise, "body": body}

    def truth(self, state: Chair) -> dict[str, np.ndarray]:
        return {"side": _falling(state).argmax(axis=1)}


def _falling(state: Chair) -> np.ndarray:
    """Warmth on each patch, float32 [N, 4] in 0..1."""
    patches = np.arange(4, dtype=np.float32) * np.float32(np.pi / 2)
    return np.maximum(np.cos((state.stove - state.facing)[:, None] - patches), 0).astype(np.float32)


def _noise(seeds: np.ndarray, ticks: np.ndarray) -> np.ndarray:
    draws = [numpy_rng("thermal", int(s), int(t)).normal(0, 0.01, 4) for s, t in zip(seeds, ticks, strict=True)]
    return np.array(draws, np.float32)
