"""Trajectories of rows side by side, and the targets of a model along a piece of one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

GOING, OVER, CUT = 0, 1, 2
"""A step led to more of the episode, to its end, or to a truncation."""


class Trajectories:
    """A ring of the last ticks of R rows; columns are [ticks, R, ...].

    A tick has `observed` [R, ...], `action` int64 [R], the `reward` and `ended` [R] that the action led to, and what a
    search said before it: `weights` [R, A] and `value` [R]. A row begins a new episode after the end of one.

    Args:
        ticks: ticks that are stored.
        discount: of a value's target.
        n_step: rewards that a value's target sums; the search's value of the state behind them is added.
    """

    def __init__(self, ticks: int, discount: float, n_step: int) -> None:
        self.ticks, self.discount, self.n_step = ticks, discount, n_step
        self.columns: dict[str, np.ndarray] = {}
        self.count = 0

    def add(self, **tick: np.ndarray) -> None:
        """Add a tick; the oldest is dropped."""
        for name, value in tick.items():
            if name not in self.columns:
                self.columns[name] = np.zeros((self.ticks, *value.shape), value.dtype)
            self.columns[name][self.count % self.ticks] = value
        self.count += 1

    def pieces(self, unroll: int) -> int:
        """Number of ticks at which a piece of `unroll` steps can begin with all targets known."""
        return max(0, min(self.count, self.ticks) - unroll - self.n_step)

    def draw(self, n: int, unroll: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
        """Draw `n` pieces of K = `unroll` steps.

        Returns:
            observed [N, ...]; later [N, ...], the observation `ahead` int64 [N] steps (1 to K) further on;
            action, reward [N, K]; value [N, K + 1], weights [N, K + 1, A];
            alive bool [N, K + 1]: the episode goes on there; known: it goes on or has ended, so that everything behind
                is 0.
        """
        newest = self.count - unroll - self.n_step
        start = rng.integers(newest - self.pieces(unroll), newest, n)
        row = rng.integers(0, self.columns["action"].shape[1], n)
        at = start[:, None] + np.arange(unroll + 1)
        rows = np.broadcast_to(row[:, None], at.shape)
        ended = self._of("ended", at, rows)[:, :-1]
        over, cut = (np.cumsum(ended == how, 1) > 0 for how in (OVER, CUT))
        # Only the end of the piece's own episode counts; after it the row is in another episode.
        first = np.concatenate([np.zeros((n, 1), np.int64), np.where(over | cut, 1, 0)], 1).astype(bool)
        was_cut = np.concatenate([np.zeros((n, 1), bool), cut & ~_before(over, cut)], 1)
        alive = ~first
        value = np.where(alive, self._returns(at, rows), 0.0)
        ahead = rng.integers(1, unroll + 1, n)
        here = np.arange(n)
        return {
            "observed": self._of("observed", start, row),
            "later": self._of("observed", start + ahead, row),
            "ahead": ahead,
            "action": self._of("action", at[:, :-1], rows[:, :-1]),
            "reward": np.where(alive[:, :-1], self._of("reward", at[:, :-1], rows[:, :-1]), 0.0),
            "weights": self._of("weights", at, rows),
            "value": value,
            "alive": alive,
            "known": ~was_cut,
            "followed": alive[here, ahead],
        }

    def _of(self, name: str, at: np.ndarray, rows: np.ndarray) -> np.ndarray:
        return self.columns[name][at % self.ticks, rows]

    def _returns(self, at: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Sums of rewards from `at` on, over n steps or to the episode's end, plus the value behind them."""
        total, factor, alive = np.zeros(at.shape), 1.0, np.ones(at.shape, bool)
        for step in range(self.n_step):
            ended = self._of("ended", at + step, rows)
            # The state after a truncated step is unknown; what a search said before it is known.
            total += factor * (alive & (ended == CUT)) * self._of("value", at + step, rows)
            alive &= ended != CUT
            total += factor * alive * self._of("reward", at + step, rows)
            alive &= ended != OVER
            factor *= self.discount
        return np.asarray(total + factor * alive * self._of("value", at + self.n_step, rows))

    def state_dict(self) -> dict[str, Any]:
        """All stored ticks."""
        return {"count": self.count, "columns": {name: torch.from_numpy(x.copy()) for name, x in self.columns.items()}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore them."""
        self.count = int(state["count"])
        self.columns = {name: x.cpu().numpy().copy() for name, x in state["columns"].items()}


def _before(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Where the first True of `one` bool [N, K] comes before the first True of `other`, bool [N, K]."""
    first = np.where(one.any(1), one.argmax(1), one.shape[1])
    return np.broadcast_to((first < np.where(other.any(1), other.argmax(1), one.shape[1]))[:, None], one.shape)
