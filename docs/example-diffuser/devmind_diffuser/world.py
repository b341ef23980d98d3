"""A walk around a pond to a flag, as Rules, and a guide that knows the way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from gymnasium import spaces

from devmind.errors import WorldError
from devmind.seeding import numpy_rng
from devmind.worlds.rules import Outcome, Struct

SHORE, REACH, PACE = 0.35, 0.1, 0.08
"""The pond's radius, the distance that counts as the flag, and the longest step of a tick."""


@dataclass
class Walk(Struct):
    """at, flag and pond float32 [N, 2]; tick int64 [N]; over bool [N]: it had ended before this tick."""

    at: np.ndarray
    flag: np.ndarray
    pond: np.ndarray
    tick: np.ndarray
    over: np.ndarray


class PondRules:
    """`body` float32 [4] is the offset of flag and pond; `move` float32 [2] is a step, of length 1 at most.

    The flag earns 1; an episode in the pond ends.
    """

    name = "pond"
    horizon = 60
    observation_space = spaces.Dict({"body": spaces.Box(-np.inf, np.inf, (4,), np.float32)})
    action_space = spaces.Dict({"move": spaces.Box(-1.0, 1.0, (2,), np.float32)})

    def __init__(self, level: str = "") -> None:
        if level:
            raise WorldError(f"The world 'pond' has no levels; got '{level}'. Leave the level out.")
        self.level = level

    def initial(self, seeds: np.ndarray) -> Walk:
        rngs = [numpy_rng("pond", int(seed)) for seed in seeds]
        angle = np.array([rng.uniform(0, 2 * np.pi) for rng in rngs])
        ahead = np.stack([np.cos(angle), np.sin(angle)], 1)
        pond = np.array([rng.uniform(-0.35, 0.35, 2) for rng in rngs]).reshape(-1, 2)
        points = ((0.9 * part).astype(np.float32) for part in (-ahead, ahead, pond))
        return Walk(*points, np.zeros(len(seeds), np.int64), np.zeros(len(seeds), bool))

    def legal(self, state: Walk) -> Mapping[str, np.ndarray]:
        return {}

    def step(self, state: Walk, actions: Mapping[str, np.ndarray]) -> Walk:
        over, move = self._ended(state), np.asarray(actions.get("move", np.zeros((len(state), 2))))
        move = move / np.maximum(np.linalg.norm(move, axis=1, keepdims=True), 1)
        at = np.where(over[:, None], state.at, state.at + PACE * move).astype(np.float32)
        return replace(state.copy(), at=at, tick=state.tick + ~over, over=over)

    def outcome(self, state: Walk) -> Outcome:
        arrived = _arrived(state) & ~state.over
        return Outcome(arrived.astype(np.float32), _arrived(state) | _wet(state), state.tick >= self.horizon)

    def observe(self, state: Walk) -> dict[str, Any]:
        return {"body": np.concatenate([state.flag - state.at, state.pond - state.at], 1)}

    def truth(self, state: Walk) -> dict[str, np.ndarray]:
        return {"arrived": _arrived(state)}

    def _ended(self, state: Walk) -> np.ndarray:
        return _arrived(state) | _wet(state) | (state.tick >= self.horizon)


def _arrived(state: Walk) -> np.ndarray:
    return np.asarray(np.linalg.norm(state.flag - state.at, axis=1) < REACH)


def _wet(state: Walk) -> np.ndarray:
    return np.asarray(np.linalg.norm(state.pond - state.at, axis=1) < SHORE)


def guide(body: np.ndarray, side: np.ndarray, margin: float = 0.2) -> np.ndarray:
    """The guide's step float32 [N, 2] for `body` [N, 4]: straight to the flag, or along the shore in the way.

    Args:
        side: +1 or -1 [N], the side on which the pond is passed if both ways are about equally long.
    """
    far, wide = np.linalg.norm(body[:, :2], axis=1), np.linalg.norm(body[:, 2:], axis=1)
    flag, pond = body[:, :2] / np.maximum(far, 1e-6)[:, None], body[:, 2:]
    along = (flag * body[:, 2:]).sum(1)
    across = flag[:, 0] * body[:, 3] - flag[:, 1] * body[:, 2]
    blocked = (along > 0) & (along < far) & (np.abs(across) < SHORE + margin)
    turn = np.where(np.abs(across) < 0.08, side, -np.sign(across))
    slip = np.arcsin(np.clip((SHORE + margin) / np.maximum(wide, 1e-6), -1, 1))
    # Within the margin the guide turns away from the shore, the more the nearer it is.
    away = np.clip((SHORE + margin - wide) / margin, 0, 1)
    angle = np.arctan2(pond[:, 1], pond[:, 0]) + turn * (slip + away)
    tangent = np.stack([np.cos(angle), np.sin(angle)], 1)
    speed = np.minimum(1, far / PACE)[:, None]
    return np.where(blocked[:, None], tangent, flag * speed).astype(np.float32)
