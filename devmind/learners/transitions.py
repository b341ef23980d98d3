"""Transitions that were met, to learn from again: a ring of rows, drawn evenly or by priority, saved whole."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from devmind.algorithms.priorities import SumTree, importance

LEAST_PRIORITY = 1e-6
"""Added to every error: what was learned well is drawn again now and then."""


class Transitions:
    """Up to `capacity` rows of named tensors; behind that the oldest places are given anew.

    Args:
        priority: how much errors count in drawing, 0 to 1; None draws evenly.
    """

    def __init__(self, capacity: int, priority: float | None = None) -> None:
        self.capacity, self.priority = capacity, priority
        self.columns: dict[str, Tensor] = {}
        self.count = self.next = 0
        self.tree = None if priority is None else SumTree(capacity)
        self.highest = 1.0

    def __len__(self) -> int:
        return self.count

    def add(self, rows: Mapping[str, Tensor]) -> None:
        """Take in rows [n, ...], at most as many as there are places; new ones have the highest priority yet.

        Raises:
            ValueError: there are more rows than places, or they have other columns than those before.
        """
        n = len(next(iter(rows.values())))
        if n > self.capacity:
            raise ValueError(f"Expected at most {self.capacity} rows, the places there are; got {n}.")
        if not self.columns:
            self.columns = {name: x.new_zeros(self.capacity, *x.shape[1:]).cpu() for name, x in rows.items()}
        if rows.keys() != self.columns.keys():
            raise ValueError(f"Expected the columns {sorted(self.columns)}; got {sorted(rows)}.")
        at = (self.next + torch.arange(n)) % self.capacity
        for name, x in rows.items():
            self.columns[name][at] = x.detach().cpu()
        if self.tree is not None:
            self.tree.set(at.numpy(), np.full(n, self.highest))
        self.next, self.count = (self.next + n) % self.capacity, min(self.capacity, self.count + n)

    def draw(self, n: int, rng: np.random.Generator, beta: float = 0.0) -> tuple[dict[str, Tensor], np.ndarray, Tensor]:
        """N rows by column, their places int64 [n], and the weights float [n] by which their losses count.

        Args:
            beta: of `importance`; without priorities all weights are 1.
        """
        if self.tree is None:
            places, weight = rng.integers(0, self.count, n), np.ones(n)
        else:
            places = self.tree.draw(n, rng)
            weight = importance(self.tree[places], self.tree.total, self.count, beta)
        index = torch.from_numpy(places)
        return {name: x[index] for name, x in self.columns.items()}, places, torch.from_numpy(weight).float()

    def tell(self, places: np.ndarray, error: np.ndarray) -> None:
        """Give what was drawn the priorities of its errors, float [n]; nothing without priorities."""
        if self.tree is None or self.priority is None:
            return
        priority = (np.abs(error.astype(np.float64)) + LEAST_PRIORITY) ** self.priority
        self.tree.set(places, priority)
        self.highest = max(self.highest, float(priority.max()))

    def state_dict(self) -> dict[str, Any]:
        """The rows there are, where the next one goes, and priorities."""
        return {
            "columns": {name: x[: self.count].clone() for name, x in self.columns.items()},
            "next": self.next,
            "highest": self.highest,
            "priorities": None if self.tree is None else torch.from_numpy(self.tree.values[: self.count]),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on with these."""
        self.columns, self.count = {}, 0
        self.next, self.highest = int(state["next"]), float(state["highest"])
        for name, x in state["columns"].items():
            self.count = len(x)
            self.columns[name] = x.new_zeros(self.capacity, *x.shape[1:]).cpu()
            self.columns[name][: self.count] = x.cpu()
        if self.tree is not None:
            self.tree = SumTree(self.capacity)
            self.tree.set(np.arange(self.count), state["priorities"].cpu().numpy())
