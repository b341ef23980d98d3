"""Positions that self-play has searched: each is stored once, with the mean of its last searches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from stages.reasoning.games import Game

AVERAGED = 8
"""A position's mean is over about so many searches: a search moves it by 1 / visits, but never by less than 1 /
AVERAGED.
"""


class Positions:
    """Up to `capacity` positions; images of a position count as one. When it is full, a new position replaces the
    oldest.

    A position met many times has one target, the mean of its searches (position averaging: AlphaZero.jl, Laurent 2021).
    A proven value is stored as it is, without a mean.

    Attributes:
        marks: int8 [n, cells].
        weights: float [n, choices], the policy target.
        value: float [n].
        count: int64 [n], how often the position was searched.
        proven: bool [n], whether the value is exact.
    """

    COLUMNS = ("marks", "weights", "value", "count", "proven")

    def __init__(self, game: Game, capacity: int) -> None:
        self.game, self.capacity, self.next = game, capacity, 0
        self.marks = np.zeros((0, game.rules.cells), np.int8)
        self.weights = np.zeros((0, game.rules.choices))
        self.value, self.count, self.proven = np.zeros(0), np.zeros(0, np.int64), np.zeros(0, bool)
        self._places: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self.value)

    def add(self, marks: np.ndarray, weights: np.ndarray, value: np.ndarray, proven: np.ndarray) -> None:
        """Add the search results of N positions, in order."""
        keys, symmetry = self.game.canonical(marks)
        cells, choices = (image[symmetry] for image in self.game.symmetries)
        marks, weights = np.take_along_axis(marks, cells, 1), np.take_along_axis(weights, choices, 1)
        self._grow(keys)
        for row, key in enumerate(keys.tolist()):
            at = self._place(key)
            if self.count[at] and self.proven[at] and not proven[row]:
                continue
            anew = proven[row] or not self.count[at]
            share = 1.0 if anew else 1 / min(self.count[at] + 1, AVERAGED)
            self.marks[at], self.proven[at] = marks[row], proven[row]
            self.weights[at] += share * (weights[row] - self.weights[at])
            self.value[at] += share * (value[row] - self.value[at])
            self.count[at] += 1

    def _grow(self, keys: np.ndarray) -> None:
        """Make room for new positions, as far as the capacity goes."""
        new = sum(key not in self._places for key in set(keys.tolist()))
        more = min(new, self.capacity - len(self))
        if not more:
            return
        for name in self.COLUMNS:
            old = getattr(self, name)
            setattr(self, name, np.concatenate([old, np.zeros((more, *old.shape[1:]), old.dtype)]))

    def _place(self, key: int) -> int:
        """The place of a position; a new one gets the next free place, or the oldest."""
        if key not in self._places:
            at, self.next = self.next, (self.next + 1) % self.capacity
            if self.count[at]:
                del self._places[int(self.game.keys(self.marks[at]))]
            self.weights[at] = self.value[at] = self.count[at] = 0
            self.proven[at] = False
            self._places[key] = at
        return self._places[key]

    def draw(self, n: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
        """`n` random positions in random images: `marks`, `weights`, `value`."""
        at, symmetry = rng.integers(0, len(self), n), rng.integers(0, len(self.game.symmetries[0]), n)
        cells, choices = (image[symmetry] for image in self.game.symmetries)
        return {
            "marks": np.take_along_axis(self.marks[at], cells, 1),
            "weights": np.take_along_axis(self.weights[at], choices, 1),
            "value": self.value[at],
        }

    def open(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Marks int8 [n, cells] of up to `n` random positions without a proven value, to be searched again."""
        places = np.flatnonzero(~self.proven)
        return self.marks[rng.permutation(places)[:n]]

    def state_dict(self) -> dict[str, Any]:
        """All of it, as tensors."""
        return {"next": self.next} | {name: torch.from_numpy(getattr(self, name).copy()) for name in self.COLUMNS}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the positions."""
        self.next = int(state["next"])
        for name in self.COLUMNS:
            setattr(self, name, state[name].cpu().numpy().copy())
        self._places = {key: at for at, key in enumerate(self.game.keys(self.marks).tolist()) if self.count[at]}
