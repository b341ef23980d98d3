"""Replay buffer of transitions: a ring of rows, drawn uniformly or by priority, and saved whole."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from devmind.algorithms.priorities import SumTree, importance

LEAST_PRIORITY = 1e-6
"""Added to every error, so that well learned transitions are still drawn sometimes."""


class Transitions:
    """Up to `capacity` rows of named tensors; further rows replace the oldest.

    Args:
        priority: exponent of the errors in drawing, 0 to 1; None draws uniformly.
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
        """Add rows [n, ...], at most `capacity`; they get the highest priority so far.

        Raises:
            ValueError: there are more rows than `capacity`, or they have other columns than earlier rows.
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
        """Draw n rows: tensors by column, their places int64 [n], and weights float [n] for their losses.

        Args:
            beta: as for `importance`; without priorities all weights are 1.
        """
        if self.tree is None:
            places, weight = rng.integers(0, self.count, n), np.ones(n)
        else:
            places = self.tree.draw(n, rng)
            weight = importance(self.tree[places], self.tree.total, self.count, beta)
        index = torch.from_numpy(places)
        return {name: x[index] for name, x in self.columns.items()}, places, torch.from_numpy(weight).float()

    def tell(self, places: np.ndarray, error: np.ndarray) -> None:
        """Set the priorities of drawn rows by their errors, float [n]; does nothing without priorities."""
        if self.tree is None or self.priority is None:
            return
        priority = (np.abs(error.astype(np.float64)) + LEAST_PRIORITY) ** self.priority
        self.tree.set(places, priority)
        self.highest = max(self.highest, float(priority.max()))

    def state_dict(self) -> dict[str, Any]:
        """The rows, the place of the next one, and the priorities."""
        return {
            "columns": {name: x[: self.count].clone() for name, x in self.columns.items()},
            "next": self.next,
            "highest": self.highest,
            "priorities": None if self.tree is None else torch.from_numpy(self.tree.values[: self.count]),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a state from `state_dict`."""
        self.columns, self.count = {}, 0
        self.next, self.highest = int(state["next"]), float(state["highest"])
        for name, x in state["columns"].items():
            self.count = len(x)
            self.columns[name] = x.new_zeros(self.capacity, *x.shape[1:]).cpu()
            self.columns[name][: self.count] = x.cpu()
        if self.tree is not None:
            self.tree = SumTree(self.capacity)
            self.tree.set(np.arange(self.count), state["priorities"].cpu().numpy())
