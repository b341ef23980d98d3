"""Positions that self-play has searched: each kept once, with the mean of what its last searches found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from stages.reasoning.games import Game

AVERAGED = 8
"""Searches that a position's mean is of, about: it moves by a share of 1 / visits, never less than 1 / AVERAGED."""


class Positions:
    """Up to `capacity` positions, images of each other counted as one; behind that the oldest place is given anew.

    A position met many times has one target, the mean (position averaging: AlphaZero.jl, Laurent 2021); one whose value
    is proven has that, and no mean.

    Attributes:
        marks: int8 [n, cells]; weights: float [n, choices], what the policy should be; value: float [n]; count: int64
            [n], how often it was searched; proven: bool [n], its value is exact.
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
        """Take in what searches found of N positions, in order."""
        keys, which = self.game.canonical(marks)
        cells, choices = (image[which] for image in self.game.symmetries)
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
        """Room for those that are new, as far as the capacity goes."""
        new = sum(key not in self._places for key in set(keys.tolist()))
        more = min(new, self.capacity - len(self))
        if not more:
            return
        for name in self.COLUMNS:
            old = getattr(self, name)
            setattr(self, name, np.concatenate([old, np.zeros((more, *old.shape[1:]), old.dtype)]))

    def _place(self, key: int) -> int:
        """Where a position is kept; one that is not yet gets the place behind the last, or the oldest."""
        if key not in self._places:
            at, self.next = self.next, (self.next + 1) % self.capacity
            if self.count[at]:
                del self._places[int(self.game.keys(self.marks[at]))]
            self.weights[at] = self.value[at] = self.count[at] = 0
            self.proven[at] = False
            self._places[key] = at
        return self._places[key]

    def draw(self, n: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
        """N positions, drawn evenly and turned or mirrored evenly: `marks`, `weights`, `value`."""
        at, which = rng.integers(0, len(self), n), rng.integers(0, len(self.game.symmetries[0]), n)
        cells, choices = (image[which] for image in self.game.symmetries)
        return {
            "marks": np.take_along_axis(self.marks[at], cells, 1),
            "weights": np.take_along_axis(self.weights[at], choices, 1),
            "value": self.value[at],
        }

    def open(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """The marks of up to `n` positions whose value is not proven, int8 [n, cells]: worth another search."""
        places = np.flatnonzero(~self.proven)
        return self.marks[rng.permutation(places)[:n]]

    def state_dict(self) -> dict[str, Any]:
        """All of it, as tensors."""
        return {"next": self.next} | {name: torch.from_numpy(getattr(self, name).copy()) for name in self.COLUMNS}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on with these positions."""
        self.next = int(state["next"])
        for name in self.COLUMNS:
            setattr(self, name, state[name].cpu().numpy().copy())
        self._places = {key: at for at, key in enumerate(self.game.keys(self.marks).tolist()) if self.count[at]}
