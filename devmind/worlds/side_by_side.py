"""Several worlds stepped as one of N rows: single environments side by side, or worlds of rows, concatenated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np

from devmind.worlds.adapter import VectorWorld


class SideBySide:
    """N worlds of the same senses. A row whose episode is over is not stepped any more and keeps its last senses.

    Texts are lists of N str; a row without `words`, as a world that says nothing in a tick, has "".

    Args:
        worlds: each a `GymWorld`, or any environment with Dict spaces of senses and effectors.
        seeds: the seeds of their episodes.
    """

    def __init__(self, worlds: Sequence[gymnasium.Env], seeds: Sequence[int] | np.ndarray) -> None:
        self.worlds = list(worlds)
        self._felt = [world.reset(seed=int(seed))[0] for world, seed in zip(self.worlds, seeds, strict=True)]
        self._senses = _stacked(self._felt)
        self._terminated, self._truncated = np.zeros(self.num_envs, bool), np.zeros(self.num_envs, bool)

    @property
    def num_envs(self) -> int:
        """The number of rows, N."""
        return len(self.worlds)

    def observe(self) -> dict[str, Any]:
        """The present senses, [N, ...]."""
        return self._senses

    def step(
        self, actions: Mapping[str, np.ndarray]
    ) -> tuple[dict[str, Any], np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Act in the worlds whose episodes are not over; the others earn nothing."""
        reward = np.zeros(self.num_envs)
        for row in np.flatnonzero(~(self._terminated | self._truncated)):
            own = {name: value[row] for name, value in actions.items()}
            felt, reward[row], self._terminated[row], self._truncated[row], _ = self.worlds[row].step(own)
            self._felt[row] = felt
        self._senses = _stacked(self._felt)
        return self._senses, reward, self._terminated.copy(), self._truncated.copy(), {}

    def close(self) -> None:
        """Close all worlds."""
        for world in self.worlds:
            world.close()


def _stacked(felt: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Single rows' senses as new arrays [N, ...] and lists of texts, with "" for rows without one."""
    names = {name: isinstance(value, str) for senses in felt for name, value in senses.items()}
    return {
        name: [senses.get(name, "") for senses in felt] if text else np.stack([senses[name] for senses in felt])
        for name, text in names.items()
    }


class Joined:
    """Worlds of rows with the same senses and effectors, with their rows concatenated.

    Args:
        worlds: worlds that do not restart ended rows.
    """

    def __init__(self, worlds: Sequence[VectorWorld[Any]]) -> None:
        self.worlds = list(worlds)
        self.sizes = [world.num_envs for world in self.worlds]

    @property
    def num_envs(self) -> int:
        """The number of rows of all worlds."""
        return sum(self.sizes)

    def observe(self) -> dict[str, Any]:
        """The present senses, [N, ...]."""
        return _joined([world.observe() for world in self.worlds])

    def step(
        self, actions: Mapping[str, np.ndarray]
    ) -> tuple[dict[str, Any], np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Act in every world."""
        cuts = np.cumsum(self.sizes)[:-1]
        parts = {name: np.split(value, cuts) for name, value in actions.items()}
        steps = [
            world.step({name: part[number] for name, part in parts.items()}) for number, world in enumerate(self.worlds)
        ]
        reward, terminated, truncated = (np.concatenate([step[k] for step in steps]) for k in (1, 2, 3))
        return _joined([step[0] for step in steps]), reward, terminated, truncated, {}


def _joined(senses: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Arrays [n, ...] and lists of words, concatenated; a world without words has empty ones."""
    if len(senses) == 1:
        return dict(senses[0])
    joined: dict[str, Any] = {}
    for name, value in {name: value for part in senses for name, value in part.items()}.items():
        if isinstance(value, list):
            joined[name] = [text for part in senses for text in part.get(name, [""] * _rows(part))]
        else:
            joined[name] = np.concatenate([part[name] for part in senses])
    return joined


def _rows(senses: Mapping[str, Any]) -> int:
    return len(next(iter(senses.values())))
