"""Sliding puzzles as Rules: eight tiles on 3 x 3, fifteen on 4 x 4; a move slides a tile into the free place.

Half of all orders of the tiles cannot be reached (Johnson and Story 1879); they are never initial states.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces

from devmind.errors import WorldError
from devmind.seeding import numpy_rng
from devmind.worlds.rules import Outcome, Struct

SIDES = range(2, 7)
MOVES = ("down", "up", "right", "left")
"""The direction of the moved tile: the one above, below, left of and right of the free place."""


@dataclass
class Tiles(Struct):
    """tiles int8 [N, side * side], 0 is the free place; earned float32 [N] by the last move; over bool [N]: it was
    solved before that."""

    tiles: np.ndarray
    earned: np.ndarray
    over: np.ndarray


class SlidingRules:
    """The sense `puzzle` int8 [2 * side, side, side], the effector `slide`; a move costs 1 until the goal is reached.

    Plane r says which tiles belong into row r, plane side + c which into column c; the free place is in none. The
    goal is 1, 2, 3 ... with the free place last. The level is the side, and optionally the largest number of random
    moves of an initial state: "3" or "3-40".

    Raises:
        WorldError: the level is neither, or there is no tile to move.
    """

    name = "sliding"
    horizon = None

    def __init__(self, level: str = "3") -> None:
        self.level = level
        found = re.fullmatch(r"(\d+)(?:-(\d+))?", level)
        if not found or int(found[1]) not in SIDES or found[2] == "0":
            raise WorldError(
                f"The level of the world 'sliding' is a side from {SIDES[0]} to {SIDES[-1]}, such as '3', or with the "
                f"most moves that mix it, '3-40'; got '{level}'."
            )
        self.side = int(found[1])
        self.cells = self.side**2
        self.most = int(found[2] or 12 * self.cells)
        self.goal = np.roll(np.arange(self.cells, dtype=np.int8), -1)
        self.leads = _leads(self.side)
        planes = 2 * self.side
        self.observation_space = spaces.Dict({"puzzle": spaces.Box(0, 1, (planes, self.side, self.side), np.int8)})
        self.action_space = spaces.Dict({"slide": spaces.Discrete(len(MOVES))})

    def initial(self, seeds: np.ndarray) -> Tiles:
        """The goal after 1 to `most` random moves, none of which undoes the one before."""
        rngs = [numpy_rng(self.name, self.level, int(seed)) for seed in seeds]
        return self.of(np.concatenate([self.mixed(rng.integers(1, self.most + 1, 1), rng)[0] for rng in rngs]))

    def of(self, tiles: np.ndarray) -> Tiles:
        """States with these tiles, int8 [N, side * side]."""
        n = len(tiles)
        return Tiles(np.asarray(tiles, np.int8).copy(), np.zeros(n, np.float32), np.zeros(n, bool))

    def mixed(self, moves: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Tiles int8 [N, cells] after `count` random moves int64 [N], and the move that undoes the last [N]."""
        tiles, back = np.tile(self.goal, (len(moves), 1)), np.full(len(moves), -1)
        for number in range(int(moves.max(initial=0))):
            able = self.able(tiles)
            able[back >= 0, back[back >= 0]] = False
            chosen = np.where(able, rng.random(able.shape), -1).argmax(-1)
            going = number < moves
            tiles[going] = self.slid(tiles[going], chosen[going])
            back = np.where(going, chosen ^ 1, back)
        return tiles, back

    def able(self, tiles: np.ndarray) -> np.ndarray:
        """The possible moves, bool [N, 4]."""
        return np.asarray(self.leads[(tiles == 0).argmax(-1)] >= 0)

    def slid(self, tiles: np.ndarray, moves: np.ndarray) -> np.ndarray:
        """Tiles after one move of each row; unchanged if the move is impossible."""
        rows, free = np.arange(len(tiles)), (tiles == 0).argmax(-1)
        at = self.leads[free, moves]
        at = np.where(at >= 0, at, free)
        after = tiles.copy()
        after[rows, free], after[rows, at] = tiles[rows, at], 0
        return after

    def manhattan(self, tiles: np.ndarray) -> np.ndarray:
        """A lower bound on the cost of each move and all that follows, float [N, 4], of tiles [N, side * side]."""
        side, count = self.side, len(MOVES)
        reached = self.slid(np.repeat(tiles, count, 0), np.tile(np.arange(count), len(tiles)))
        at, number = np.arange(side**2), np.maximum(reached - 1, 0)
        apart = abs(number // side - at // side) + abs(number % side - at % side)
        return np.asarray(1 + np.where(reached > 0, apart, 0).sum(-1, dtype=float).reshape(-1, count))

    def solvable(self, tiles: np.ndarray) -> np.ndarray:
        """Whether the tiles can be put in order, bool [N]: a move changes the parity of tiles and of the free place."""
        smaller = np.tril(np.ones((self.cells, self.cells), bool), -1)
        swapped = ((tiles[:, None] > tiles[:, :, None]) & smaller & (tiles[:, :, None] != 0)).sum((1, 2))
        row = (tiles == 0).argmax(-1) // self.side
        return np.asarray((swapped + (self.side % 2 == 0) * (self.side - 1 - row)) % 2 == 0)

    def legal(self, state: Tiles) -> Mapping[str, np.ndarray]:
        """The possible moves; all moves once the tiles are in order."""
        return {"slide": self.able(state.tiles) | self.solved(state.tiles)[:, None]}

    def step(self, state: Tiles, actions: Mapping[str, np.ndarray]) -> Tiles:
        """One move; a solved puzzle does not change."""
        over = self.solved(state.tiles)
        if "slide" not in actions:
            return Tiles(state.tiles.copy(), np.zeros(len(state), np.float32), over)
        moves = np.asarray(actions["slide"])
        if (
            not ((moves >= 0) & (moves < len(MOVES))).all()
            or not (over | self.able(state.tiles)[np.arange(len(state)), moves]).all()
        ):
            raise WorldError(
                f"A move of 'sliding' is one of 0 to {len(MOVES) - 1} that `legal` allows; no tile is there."
            )
        tiles = np.where(over[:, None], state.tiles, self.slid(state.tiles, moves))
        return Tiles(tiles, np.where(over, 0, -1).astype(np.float32), over)

    def outcome(self, state: Tiles) -> Outcome:
        """-1 a move, also for the last; terminal when all tiles are in order."""
        solved = self.solved(state.tiles)
        return Outcome(state.earned.copy(), solved, np.zeros_like(solved))

    def observe(self, state: Tiles) -> dict[str, Any]:
        """int8 [N, 2 * side, side, side]."""
        number = np.where(state.tiles > 0, state.tiles - 1, -1)[:, None]
        lines = np.arange(self.side)[:, None]
        row, column = number // self.side == lines, (number % self.side == lines) & (number >= 0)
        return {
            "puzzle": np.concatenate([row, column], 1).astype(np.int8).reshape(-1, 2 * self.side, self.side, self.side)
        }

    def truth(self, state: Tiles) -> dict[str, np.ndarray]:
        """Nothing: the puzzle is fully visible."""
        return {}

    def solved(self, tiles: np.ndarray) -> np.ndarray:
        """Whether all tiles are in order, bool [N]."""
        return np.asarray((tiles == self.goal).all(-1))


def _leads(side: int) -> np.ndarray:
    """The place of the tile that a move slides into a free place, int64 [cells, 4]; -1 if there is none."""
    row, column = np.divmod(np.arange(side**2), side)
    found = []
    for down, right in ((-1, 0), (1, 0), (0, -1), (0, 1)):
        at, beside = row + down, column + right
        inside = (at >= 0) & (at < side) & (beside >= 0) & (beside < side)
        found.append(np.where(inside, at * side + beside, -1))
    return np.stack(found, 1)
