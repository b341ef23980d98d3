"""Sokoban as Rules: boxes are pushed onto goals, never pulled; levels come from text or are made by reverse play.

A level made here can be solved: boxes begin on the goals and are pulled away, and pushing them back is a solution. A
level from text may have no solution. `dead` finds squares from which no box can reach a goal, whatever else there is; a
state with a box on one is lost (Junghanns and Schaeffer 2001).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces
from scipy.ndimage import label

from devmind.errors import WorldError
from devmind.seeding import numpy_rng
from devmind.worlds.rules import Outcome, Struct

MOVES = ("up", "down", "left", "right")
SIDES, BOXES = range(5, 33), range(1, 13)
SIGNS: Mapping[str, tuple[int, int, int, int]] = {
    "#": (1, 0, 0, 0), " ": (0, 0, 0, 0), "-": (0, 0, 0, 0), "_": (0, 0, 0, 0), ".": (0, 1, 0, 0), "$": (0, 0, 1, 0),
    "*": (0, 1, 1, 0), "@": (0, 0, 0, 1), "+": (0, 1, 0, 1),
}  # fmt: skip
"""Content of a cell by sign: wall, goal, box, player."""
PULLED = 60
"""Steps of reverse play a box that make a level."""


@dataclass
class Warehouse(Struct):
    """wall, goal, box bool [N, side * side]; player int64 [N], its cell; earned float32 [N] by the last move; over bool
    [N]: it was solved before that."""

    wall: np.ndarray
    goal: np.ndarray
    box: np.ndarray
    player: np.ndarray
    earned: np.ndarray
    over: np.ndarray


class SokobanRules:
    """The sense `puzzle` int8 [4, side, side], walls, goals, boxes and the player; the effector `walk`.

    A move costs 1 until every box is on a goal. The level is the side and the number of boxes: "8-2". A seed makes
    a room of that side in which at least half of the boxes were pulled off their goals.

    Raises:
        WorldError: the level is not of this form, or a move is not legal.
    """

    name = "sokoban"
    horizon = None

    def __init__(self, level: str = "8-2") -> None:
        self.level = level
        found = re.fullmatch(r"(\d{1,2})-(\d{1,2})", level)
        if not found or int(found[1]) not in SIDES or int(found[2]) not in BOXES or not _fit(level):
            raise WorldError(
                f"The level of the world 'sokoban' is a side from {SIDES[0]} to {SIDES[-1]} and a number of boxes from "
                f"{BOXES[0]} to {BOXES[-1]}, of which a room takes (side - 3) squared by four, as '8-2'; got '{level}'."
            )
        self.side, self.boxes = int(found[1]), int(found[2])
        self.cells = self.side**2
        self.steps = np.array([-self.side, self.side, -1, 1])
        self.observation_space = spaces.Dict({"puzzle": spaces.Box(0, 1, (4, self.side, self.side), np.int8)})
        self.action_space = spaces.Dict({"walk": spaces.Discrete(len(MOVES))})

    def initial(self, seeds: np.ndarray) -> Warehouse:
        """A level for each seed."""
        return _joined([self._made(int(seed)) for seed in seeds], self.cells)

    def read(self, texts: Sequence[str]) -> Warehouse:
        """States of levels from texts, each no larger than a board of this side; smaller ones are padded with walls.

        Raises:
            WorldError: a text is no level; the sentence names line and column.
        """
        return _joined([self._placed(text) for text in texts], self.cells)

    def legal(self, state: Warehouse) -> Mapping[str, np.ndarray]:
        """Moves to cells without a wall or a box that cannot be pushed; all moves once the level is solved."""
        return {"walk": self.able(state) | self.solved(state)[:, None]}

    def able(self, state: Warehouse) -> np.ndarray:
        """The possible moves, bool [N, 4]."""
        rows = np.arange(len(state))[:, None]
        ahead = state.player[:, None] + self.steps
        behind = np.clip(ahead + self.steps, 0, self.cells - 1)
        blocked = state.wall[rows, behind] | state.box[rows, behind]
        return np.asarray(~state.wall[rows, ahead] & ~(state.box[rows, ahead] & blocked))

    def step(self, state: Warehouse, actions: Mapping[str, np.ndarray]) -> Warehouse:
        """One move; a solved level does not change."""
        over, after = self.solved(state), state.copy()
        after.over, after.earned = over, np.zeros(len(state), np.float32)
        if "walk" not in actions:
            return after
        moves, rows = np.asarray(actions["walk"]), np.arange(len(state))
        known = ((moves >= 0) & (moves < len(MOVES))).all()
        if not known or not (over | self.able(state)[rows, moves]).all():
            raise WorldError(
                f"A move of 'sokoban' is one of 0 to {len(MOVES) - 1} that `legal` allows; a wall is there, or a box "
                "that cannot be pushed."
            )
        step = np.where(over, 0, self.steps[moves])
        after.player = state.player + step
        pushed = np.flatnonzero(~over & state.box[rows, after.player])
        after.box[pushed, after.player[pushed]] = False
        after.box[pushed, after.player[pushed] + step[pushed]] = True
        after.earned = np.where(over, 0, -1).astype(np.float32)
        return after

    def outcome(self, state: Warehouse) -> Outcome:
        """-1 a move, also for the last; terminal when every box is on a goal."""
        solved = self.solved(state)
        return Outcome(state.earned.copy(), solved, np.zeros_like(solved))

    def observe(self, state: Warehouse) -> dict[str, Any]:
        """int8 [N, 4, side, side]."""
        player = state.player[:, None] == np.arange(self.cells)
        planes = np.stack([state.wall, state.goal, state.box, player], 1).astype(np.int8)
        return {"puzzle": planes.reshape(-1, 4, self.side, self.side)}

    def truth(self, state: Warehouse) -> dict[str, np.ndarray]:
        """Nothing: the level is fully visible."""
        return {}

    def solved(self, state: Warehouse) -> np.ndarray:
        """Whether every box is on a goal, bool [N]."""
        return np.asarray(~(state.box & ~state.goal).any(-1))

    def pushes(self, state: Warehouse) -> np.ndarray:
        """The fewest pushes of a single box from each cell to any goal, int64 [N, cells]; -1 if it is impossible.

        Other boxes and the player's paths are ignored: a box moves wherever there is room for the player behind it. So
        the numbers are lower bounds.
        """
        far = np.where(state.goal, 0, -1)
        here = state.goal.copy()
        while here.any():
            reached = np.zeros_like(here)
            for step in self.steps:
                # Pushed by `step` into `here`: the box was one cell before, and the player two cells before.
                before, stands = np.roll(here, -step, 1), np.roll(~state.wall, step, 1)
                reached |= before & ~state.wall & stands & (far < 0)
            far[reached] = far.max(-1, keepdims=True).repeat(self.cells, 1)[reached] + 1
            here = reached
        return far

    def dead(self, state: Warehouse) -> np.ndarray:
        """Cells without walls from which a box cannot reach a goal, bool [N, cells]."""
        return np.asarray((self.pushes(state) < 0) & ~state.wall)

    def unsolvable(self, state: Warehouse) -> list[str]:
        """For each state why it is lost, as a sentence; "" if it may not be lost.

        It finds boxes on dead squares, and boxes in blocks of two by two with walls or other boxes. There are further
        kinds of deadlocks.
        """
        said = []
        dead, full = self.dead(state), state.wall | state.box
        for row in range(len(state)):
            found = ""
            for cell in np.flatnonzero(state.box[row] & ~state.goal[row]).tolist():
                where = f"The box in line {cell // self.side + 1}, column {cell % self.side + 1}"
                squares = [
                    [cell, cell + across, cell + along, cell + across + along]
                    for across in (-1, 1)
                    for along in (-self.side, self.side)
                ]
                if dead[row, cell]:
                    found = f"{where} can never be pushed to a goal."
                elif any(full[row, square].all() for square in squares):
                    found = f"{where} is stuck: walls and boxes close a square of two by two."
                if found:
                    break
            said.append(found)
        return said

    def text(self, state: Warehouse) -> list[str]:
        """Each state as text in the form of `read`."""
        signs = {marks: sign for sign, marks in list(SIGNS.items())[::-1]}
        seen = self.observe(state)["puzzle"].transpose(0, 2, 3, 1)
        return ["\n".join("".join(signs[tuple(cell)] for cell in line) for line in one.tolist()) for one in seen]

    def _placed(self, text: str) -> Warehouse:
        planes = parse(text)
        _, height, width = planes.shape
        if height > self.side or width > self.side:
            raise WorldError(
                f"A level of '{self.level}' is at most {self.side} by {self.side}; this one has {height} lines and "
                f"{width} columns."
            )
        board = np.zeros((4, self.side, self.side), bool)
        board[0] = True
        board[:, :height, :width] = planes
        return _of(board)

    def _made(self, seed: int) -> Warehouse:
        """A random room with some walls, in which at least half of the boxes were pulled off their goals."""
        rng = numpy_rng(self.name, self.level, seed)
        while True:
            board = np.zeros((4, self.side, self.side), bool)
            board[0] = True
            inner = board[0, 1:-1, 1:-1]
            inner[:] = rng.random(inner.shape) < 0.2
            board[0] |= ~_connected(~board[0])
            free = rng.permutation(np.flatnonzero(~board[0].reshape(-1)))
            if len(free) < self.boxes + 4:
                continue
            board[1].reshape(-1)[free[: self.boxes]] = True
            state = _of(np.stack([board[0], board[1], board[1], board[3]]), int(free[self.boxes]))
            self._pull(state, rng)
            if 2 * (state.box & ~state.goal).sum() >= self.boxes:
                return state

    def _pull(self, state: Warehouse, rng: np.random.Generator) -> None:
        """Walk at random and pull boxes along wherever possible, in place."""
        wall, box = state.wall[0], state.box[0]
        for _ in range(PULLED * self.boxes):
            step = int(self.steps[rng.integers(4)])
            at = int(state.player[0])
            if wall[at + step] or box[at + step]:
                continue
            state.player[0] = at + step
            if box[at - step] and rng.random() < 0.8:
                box[at - step], box[at] = False, True


def parse(text: str) -> np.ndarray:
    """A level in the usual signs, as planes bool [4, lines, columns]: walls, goals, boxes, the player.

    `#` wall, `.` goal, `$` box, `*` box on a goal, `@` player, `+` player on a goal, and a blank, `-` or `_` floor.
    Empty lines before and after are left out; cells outside of the walls become walls.

    Raises:
        WorldError: a sign is unknown, there is not one player, or not as many boxes as goals, or the player's room has
            a gap in its walls: by line and column.
    """
    lines = text.expandtabs(1).split("\n")
    first = next((number for number, line in enumerate(lines) if line.strip()), len(lines))
    lines = [line.rstrip() for line in lines[first:]]
    while lines and not lines[-1]:
        lines.pop()
    if not lines:
        raise WorldError("A level has a player, boxes, goals and walls; this text is empty.")
    planes = np.zeros((4, len(lines), max(map(len, lines))), bool)
    players = list[str]()
    for row, line in enumerate(lines):
        for column, sign in enumerate(line):
            where = f"line {row + first + 1}, column {column + 1}"
            if sign not in SIGNS:
                raise WorldError(f"{where}: '{sign}' is no sign of a level; these are # . $ * @ + - _ and blanks.")
            planes[:, row, column] = SIGNS[sign]
            players += [where] if planes[3, row, column] else []
    if len(players) != 1:
        there = f": {'; '.join(players[:3])}" if players else ""
        raise WorldError(f"A level has one player, '@' or '+'; got {len(players)}{there}.")
    if planes[1].sum() != planes[2].sum() or not planes[2].any():
        raise WorldError(
            f"A level has as many boxes as goals, one at least; got {planes[2].sum()} and {planes[1].sum()}."
        )
    _walled_in(planes, first)
    return planes


def split_levels(text: str) -> list[str]:
    """The levels of a collection: blocks of lines, without titles (lines that begin with `;` or have letters)."""
    blocks, block = list[str](), list[str]()
    for line in [*text.splitlines(), ""]:
        if line.strip() and set(line) <= set(SIGNS):
            block.append(line)
        elif block:
            blocks.append("\n".join(block))
            block = []
    return blocks


def _walled_in(planes: np.ndarray, first: int) -> None:
    """Turn everything outside of the player's room into wall, in place."""
    open_ = ~planes[0]
    inside = _connected(open_, np.flatnonzero(planes[3])[0])
    rim = np.zeros_like(inside)
    rim[[0, -1]] = rim[:, [0, -1]] = True
    for row, column in np.argwhere(inside & rim)[:1].tolist():
        raise WorldError(f"line {row + first + 1}, column {column + 1}: the player's room has a gap in its walls.")
    for row, column in np.argwhere(planes[2] & ~planes[1] & ~inside)[:1].tolist():
        raise WorldError(f"line {row + first + 1}, column {column + 1}: the player can never come to this box.")
    # Boxes on goals outside are solved; they and their goals are left out.
    planes[0] |= ~inside
    planes[1:3] &= inside


def _connected(open_: np.ndarray, start: int | None = None) -> np.ndarray:
    """The cells bool [lines, columns] connected with `start`; without `start`, the largest connected part."""
    part, _ = label(open_)
    if start is not None:
        return np.asarray(part == part.reshape(-1)[start])
    counts = np.bincount(part[open_], minlength=2)
    return np.asarray((part == counts.argmax()) & open_)


def _of(board: np.ndarray, player: int | None = None) -> Warehouse:
    """One state of planes bool [4, side, side]."""
    flat = board.reshape(4, 1, -1)
    at = int(flat[3, 0].argmax()) if player is None else player
    wall, goal, box = (flat[plane].copy() for plane in range(3))
    return Warehouse(wall, goal, box, np.array([at]), np.zeros(1, np.float32), np.zeros(1, bool))


def _joined(states: list[Warehouse], cells: int) -> Warehouse:
    if states:
        return Warehouse.concat(states)
    none = np.zeros((0, cells), bool)
    return Warehouse(none, none.copy(), none.copy(), np.zeros(0, np.int64), np.zeros(0, np.float32), np.zeros(0, bool))


def _fit(level: str) -> bool:
    """Whether a room of this side has places for so many boxes."""
    side, boxes = map(int, level.split("-"))
    return boxes <= max(1, (side - 3) ** 2 // 4)
