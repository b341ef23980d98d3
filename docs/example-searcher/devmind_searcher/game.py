"""Noughts and crosses as Rules: N games at once, each seen by the player whose turn it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from gymnasium import spaces

from devmind.errors import WorldError
from devmind.worlds.rules import Outcome, Struct

LINES = np.array([[0, 1, 2], [3, 4, 5], [6, 7, 8], [0, 3, 6], [1, 4, 7], [2, 5, 8], [0, 4, 8], [2, 4, 6]])


@dataclass
class Position(Struct):
    """marks int8 [N, 9]: 1 of the player to move, -1 of the other; player int64 [N]; over bool [N], before now."""

    marks: np.ndarray
    player: np.ndarray
    over: np.ndarray


class NoughtsRules:
    """The sense `board` int8 [2, 3, 3] (own marks, the other's), the effector `place`; three in a row earn 1."""

    name = "noughts"
    horizon = 9
    observation_space = spaces.Dict({"board": spaces.Box(0, 1, (2, 3, 3), np.int8)})
    action_space = spaces.Dict({"place": spaces.Discrete(9)})

    def __init__(self, level: str = "") -> None:
        if level:
            raise WorldError(f"The world 'noughts' has no levels; got '{level}'. Leave the level out.")
        self.level = level

    def initial(self, seeds: np.ndarray) -> Position:
        n = len(seeds)
        return Position(np.zeros((n, 9), np.int8), np.zeros(n, np.int64), np.zeros(n, bool))

    def legal(self, state: Position) -> Mapping[str, np.ndarray]:
        return {"place": (state.marks == 0) | _ended(state)[:, None]}

    def step(self, state: Position, actions: Mapping[str, np.ndarray]) -> Position:
        over, marks, rows = _ended(state), state.marks.copy(), np.arange(len(state))
        if "place" not in actions:
            return replace(state.copy(), over=over)
        cells = np.asarray(actions["place"])
        if (wrong := ~over & (marks[rows, cells] != 0)).any():
            raise WorldError(f"Cell {cells[wrong][0]} is taken; place on one that `legal` allows.")
        marks[rows, cells] = np.where(over, marks[rows, cells], 1)
        return Position(np.where(over[:, None], marks, -marks), np.where(over, state.player, 1 - state.player), over)

    def outcome(self, state: Position) -> Outcome:
        ended = _ended(state)
        reward = (_won(state) & ~state.over).astype(np.float32)
        discount = np.where(ended, 0, -1).astype(np.float32)
        return Outcome(reward, ended, np.zeros_like(ended), state.player.copy(), discount)

    def observe(self, state: Position) -> dict[str, Any]:
        return {"board": np.stack([state.marks == 1, state.marks == -1], 1).astype(np.int8).reshape(-1, 2, 3, 3)}

    def truth(self, state: Position) -> dict[str, np.ndarray]:
        return {}


def _won(state: Position) -> np.ndarray:
    """Whether the player who moved last has a line, bool [N]."""
    return (state.marks[:, LINES] == -1).all(-1).any(-1)


def _ended(state: Position) -> np.ndarray:
    return _won(state) | (state.marks != 0).all(-1)
