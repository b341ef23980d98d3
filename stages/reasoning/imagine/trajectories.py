"""Trajectories of rows side by side, and what a model is to say along a piece of one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

GOING, OVER, CUT = 0, 1, 2
"""What a step led to: more of the episode, its end, or where it was cut and would have gone on."""


class Trajectories:
    """A ring of the last ticks of R rows; columns are [ticks, R, ...].

    A tick has `observed` [R, ...], `action` int64 [R], `reward` and `ended` [R] that it led to, and what a search said
    before it: `weights` [R, A] and `value` [R]. A row begins a new episode behind one that has ended.

    Args:
        ticks: that are kept.
        discount, n_step: of a value's target: so many rewards, and what a search said of the state behind them.
    """

    def __init__(self, ticks: int, discount: float, n_step: int) -> None:
        self.ticks, self.discount, self.n_step = ticks, discount, n_step
        self.columns: dict[str, np.ndarray] = {}
        self.count = 0

    def add(self, **tick: np.ndarray) -> None:
        """One more tick; the oldest is forgotten."""
        for name, value in tick.items():
            if name not in self.columns:
                self.columns[name] = np.zeros((self.ticks, *value.shape), value.dtype)
            self.columns[name][self.count % self.ticks] = value
        self.count += 1

    def pieces(self, unroll: int) -> int:
        """Ticks at which a piece of `unroll` steps may begin, all its targets known."""
        return max(0, min(self.count, self.ticks) - unroll - self.n_step)

    def draw(self, n: int, unroll: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
        """N pieces of K = `unroll` steps.

        Returns:
            observed [N, ...]; later [N, ...], what was observed `ahead` int64 [N] steps (1 to K) further on;
            action, reward [N, K]; value [N, K + 1], weights [N, K + 1, A];
            alive bool [N, K + 1]: the episode goes on there; known: it does or has ended, so that all beyond is 0.
        """
        newest = self.count - unroll - self.n_step
        start = rng.integers(newest - self.pieces(unroll), newest, n)
        row = rng.integers(0, self.columns["action"].shape[1], n)
        at = start[:, None] + np.arange(unroll + 1)
        rows = np.broadcast_to(row[:, None], at.shape)
        ended = self._of("ended", at, rows)[:, :-1]
        over, cut = (np.cumsum(ended == how, 1) > 0 for how in (OVER, CUT))
        # Only what ended the piece's own episode counts; behind that the row lives another one.
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
        """Sums of rewards from `at` on, n steps or to the episode's end, and the value behind them."""
        total, factor, alive = np.zeros(at.shape), 1.0, np.ones(at.shape, bool)
        for step in range(self.n_step):
            ended = self._of("ended", at + step, rows)
            # What a cut step would have led to is not known; what a search said before it is.
            total += factor * (alive & (ended == CUT)) * self._of("value", at + step, rows)
            alive &= ended != CUT
            total += factor * alive * self._of("reward", at + step, rows)
            alive &= ended != OVER
            factor *= self.discount
        return np.asarray(total + factor * alive * self._of("value", at + self.n_step, rows))

    def state_dict(self) -> dict[str, Any]:
        """All that is kept."""
        return {"count": self.count, "columns": {name: torch.from_numpy(x.copy()) for name, x in self.columns.items()}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on with it."""
        self.count = int(state["count"])
        self.columns = {name: x.cpu().numpy().copy() for name, x in state["columns"].items()}


def _before(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Where the first of `one` bool [N, K] came before the first of `other`, bool [N, K]."""
    first = np.where(one.any(1), one.argmax(1), one.shape[1])
    return np.broadcast_to((first < np.where(other.any(1), other.argmax(1), one.shape[1]))[:, None], one.shape)
