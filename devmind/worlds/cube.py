"""Rubik's cube as Rules: 2 x 2 x 2 and 3 x 3 x 3, twelve or six quarter turns, stickers of six colours.

A sticker is a place on the surface of the cube, and a turn moves the stickers of one face's layer. Both follow from the
geometry, so there is no table of moves. In 3 x 3 x 3 the centres are fixed, and all six faces turn either way. In
2 x 2 x 2 there are no centres: the piece at down, back, left is fixed, and the three faces without it turn.

Of all assemblies of a cube of 3 x 3 x 3 one in twelve can be solved, of 2 x 2 x 2 one in three: turns preserve the sum
of corner twists, the sum of edge flips, and the joint parity of corners and edges.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations
from typing import Any

import numpy as np
from gymnasium import spaces

from devmind.errors import WorldError
from devmind.seeding import numpy_rng
from devmind.worlds.rules import Outcome, Struct

SIDES = (2, 3)
FACES = "URFDLB"
"""Up, right, front, down, left, back: faces, their colours and the order of stickers, as in Singmaster's notation; the
stickers of a face go row by row, as on the usual unfolded cube."""
_NORMAL = {"U": (0, 0, 1), "R": (1, 0, 0), "F": (0, -1, 0), "D": (0, 0, -1), "L": (-1, 0, 0), "B": (0, 1, 0)}
_RIGHT = {"U": (1, 0, 0), "R": (0, 1, 0), "F": (1, 0, 0), "D": (1, 0, 0), "L": (0, -1, 0), "B": (-1, 0, 0)}
_DOWN = {"U": (0, -1, 0), "R": (0, 0, -1), "F": (0, 0, -1), "D": (0, 1, 0), "L": (0, 0, -1), "B": (0, 0, -1)}
SCRAMBLED = {2: 30, 3: 60}
"""Random quarter turns, at most, by default."""


@dataclass
class Stickers(Struct):
    """colours int8 [N, 6 * side * side], 0 to 5 in the order of FACES; earned float32 [N] by the last turn; over bool
    [N]: it was solved before that."""

    colours: np.ndarray
    earned: np.ndarray
    over: np.ndarray


class CubeRules:
    """The sense `puzzle` int8 [6, 3 * side, 4 * side], the effector `turn`; a turn costs 1 until all is solved.

    Plane c shows where colour c is on the unfolded cube: up above front, then left, front, right, back, and down below.
    Turns are in `names`: a face clockwise ("U"), then the same face back ("U'"). The level is the side, and optionally
    the largest number of random turns of a scramble: "3" or "3-20".

    Raises:
        WorldError: the level is neither, or there is no such turn.
    """

    name = "cube"
    horizon = None

    def __init__(self, level: str = "3") -> None:
        self.level = level
        found = re.fullmatch(r"([23])(?:-(\d{1,4}))?", level)
        if not found or (found[2] and int(found[2]) < 1):
            raise WorldError(
                f"The level of the world 'cube' is a side, '2' or '3', or with the most turns of a scramble, '3-20'; "
                f"got '{level}'."
            )
        self.side = int(found[1])
        self.most = int(found[2] or SCRAMBLED[self.side])
        self.names, self.moves = turns(self.side)
        self.cells = 6 * self.side**2
        self.goal = np.repeat(np.arange(6, dtype=np.int8), self.side**2)
        height, width = 3 * self.side, 4 * self.side
        self._net = _unfolded(self.side)
        self.observation_space = spaces.Dict({"puzzle": spaces.Box(0, 1, (6, height, width), np.int8)})
        self.action_space = spaces.Dict({"turn": spaces.Discrete(len(self.names))})

    def initial(self, seeds: np.ndarray) -> Stickers:
        """The goal after 1 to `most` random turns, none of which undoes the one before."""
        rngs = [numpy_rng(self.name, self.level, int(seed)) for seed in seeds]
        mixed = [self.mixed(rng.integers(1, self.most + 1, 1), rng)[0] for rng in rngs]
        return self.of(np.concatenate(mixed) if mixed else np.zeros((0, self.cells), np.int8))

    def of(self, colours: np.ndarray) -> Stickers:
        """States with these colours, int8 [N, stickers]."""
        n = len(colours)
        return Stickers(np.asarray(colours, np.int8).copy(), np.zeros(n, np.float32), np.zeros(n, bool))

    def mixed(self, count: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Colours int8 [N, stickers] after `count` random turns int64 [N], and the turn that undoes the last."""
        colours, back = np.tile(self.goal, (len(count), 1)), np.full(len(count), -1)
        for number in range(int(count.max(initial=0))):
            chance = rng.random((len(count), len(self.names)))
            chance[back >= 0, back[back >= 0]] = -1
            chosen, going = chance.argmax(-1), number < count
            colours[going] = self.turned(colours[going], chosen[going])
            back = np.where(going, chosen ^ 1, back)
        return colours, back

    def turned(self, colours: np.ndarray, moves: np.ndarray) -> np.ndarray:
        """Colours after one turn of each row."""
        return np.take_along_axis(colours, self.moves[moves], 1)

    def legal(self, state: Stickers) -> Mapping[str, np.ndarray]:
        """Every face can be turned."""
        return {}

    def step(self, state: Stickers, actions: Mapping[str, np.ndarray]) -> Stickers:
        """One turn; a solved cube does not change."""
        over = self.solved(state.colours)
        if "turn" not in actions:
            return Stickers(state.colours.copy(), np.zeros(len(state), np.float32), over)
        moves = np.asarray(actions["turn"])
        if not ((moves >= 0) & (moves < len(self.names))).all():
            raise WorldError(f"A turn of 'cube' is one of 0 to {len(self.names) - 1}: {', '.join(self.names)}.")
        colours = np.where(over[:, None], state.colours, self.turned(state.colours, moves))
        return Stickers(colours, np.where(over, 0, -1).astype(np.float32), over)

    def outcome(self, state: Stickers) -> Outcome:
        """-1 a turn, also for the last; terminal when every face has one colour."""
        solved = self.solved(state.colours)
        return Outcome(state.earned.copy(), solved, np.zeros_like(solved))

    def observe(self, state: Stickers) -> dict[str, Any]:
        """int8 [N, 6, 3 * side, 4 * side]."""
        n, height, width = len(state), 3 * self.side, 4 * self.side
        board = np.zeros((n, 6, height * width), np.int8)
        board[:, :, self._net] = state.colours[:, None] == np.arange(6)[:, None]
        return {"puzzle": board.reshape(n, 6, height, width)}

    def truth(self, state: Stickers) -> dict[str, np.ndarray]:
        """Nothing: the puzzle is fully visible."""
        return {}

    def solved(self, colours: np.ndarray) -> np.ndarray:
        """Whether every face has its own colour alone, bool [N]."""
        return np.asarray((colours == self.goal).all(-1))

    def unsolvable(self, colours: np.ndarray) -> str:
        """Why no turns lead from colours int8 [stickers] to the goal, as a sentence; "" if some do.

        In 2 x 2 x 2 the piece at down, back, left must be at home, as no turn moves it.
        """
        counts = np.bincount(colours, minlength=6)
        for colour, count in enumerate(counts):
            if count != self.side**2:
                return f"There are {count} stickers of the colour {FACES[colour]}, and {self.side**2} are expected."
        if self.side == 3 and (colours[4::9] != self.goal[4::9]).any():
            return "The centres are not where turns leave them: up U, right R, front F, down D, left L, back B."
        corners, edges = pieces(self.side)
        where, twists, wrong = _placed(colours, self.goal, corners, "corner")
        if wrong:
            return wrong
        if self.side == 2:
            home = _corner_at_home(corners)
            if where[home] != home or twists[home]:
                return "The piece at down, back, left is not D, B, L: turn the whole cube until it is."
        if sum(twists) % 3:
            return "A corner is twisted: the corners' twists do not add up to a whole turn."
        if self.side == 2:
            return ""
        edge_where, flips, wrong = _placed(colours, self.goal, edges, "edge")
        if wrong:
            return wrong
        if sum(flips) % 2:
            return "An edge is flipped: an odd number of edges is the wrong way round."
        if _odd(where) != _odd(edge_where):
            return "The parity is odd: two corners or two edges have changed places, and nothing else did."
        return ""


@lru_cache
def places(side: int) -> tuple[np.ndarray, np.ndarray]:
    """The place of each sticker's piece and the direction it faces, int64 [stickers, 3] each.

    Places are -1 and 1, and 0 in the middle, along x (to the right), y (to the back), z (up).
    """
    steps = np.linspace(-1, 1, side).astype(int)
    where, facing = [], []
    for face in FACES:
        normal, right, down = (np.array(each[face]) for each in (_NORMAL, _RIGHT, _DOWN))
        for row in steps:
            for column in steps:
                where.append(normal + row * down + column * right)
                facing.append(normal)
    return np.array(where), np.array(facing)


@lru_cache
def turns(side: int) -> tuple[tuple[str, ...], np.ndarray]:
    """Names of the turns, and for each turn the sticker that comes to each place, int64 [turns, stickers]."""
    where, facing = places(side)
    known = {(*a, *b): number for number, (a, b) in enumerate(zip(where.tolist(), facing.tolist(), strict=True))}
    names, moves = [], []
    for face in FACES if side == 3 else "URF":
        axis = np.array(_NORMAL[face])
        layer = where @ axis == 1
        # Clockwise as seen from outside is a turn by -90 degrees about the face's normal: v -> n (n v) - n x v.
        turned = [np.where(layer[:, None], axis * (v @ axis)[:, None] - np.cross(axis, v), v) for v in (where, facing)]
        goes = np.array([known[(*a, *b)] for a, b in zip(turned[0].tolist(), turned[1].tolist(), strict=True)])
        comes = np.argsort(goes)
        names += [face, face + "'"]
        moves += [comes, goes]
    return tuple(names), np.array(moves)


@lru_cache
def pieces(side: int) -> tuple[tuple[tuple[int, ...], ...], tuple[tuple[int, ...], ...]]:
    """The stickers of each corner and of each edge. A corner begins with the sticker that faces up or down, then
    clockwise; an edge with the one that faces up or down, else front or back."""
    where, facing = places(side)
    found: dict[tuple[int, ...], list[int]] = {}
    for number, place in enumerate(where.tolist()):
        found.setdefault(tuple(place), []).append(number)
    corners, edges = [], []
    for stickers in found.values():
        if len(stickers) == 2:
            edges.append(tuple(sorted(stickers, key=lambda s: (-abs(facing[s][2]), -abs(facing[s][1])))))
        elif len(stickers) == 3:
            first = max(stickers, key=lambda s: abs(facing[s][2]))
            for second, third in permutations([s for s in stickers if s != first]):
                if np.linalg.det(facing[[first, second, third]]) < 0:
                    corners.append((first, second, third))
    return tuple(corners), tuple(edges)


def _placed(
    colours: np.ndarray, goal: np.ndarray, made_of: tuple[tuple[int, ...], ...], kind: str
) -> tuple[list[int], list[int], str]:
    """The piece in each place and its twist; and what is wrong, if a piece does not exist."""
    home = {}
    for number, stickers in enumerate(made_of):
        has = goal[list(stickers)].tolist()
        for turn in range(len(has)):
            home[tuple(has[-turn:] + has[:-turn] if turn else has)] = number, turn
    where, turned = [], []
    for stickers in made_of:
        has = tuple(colours[list(stickers)].tolist())
        at = "".join(FACES[c] for c in goal[list(stickers)])
        if has not in home:
            return [], [], f"There is no {kind} with the colours {', '.join(FACES[c] for c in has)}, as at {at}."
        where.append(home[has][0])
        turned.append(home[has][1])
        if where.count(where[-1]) > 1:
            return [], [], f"The {kind} with the colours {', '.join(FACES[c] for c in has)} is there twice, as at {at}."
    return where, turned, ""


def _corner_at_home(corners: tuple[tuple[int, ...], ...]) -> int:
    """The corner of 2 x 2 x 2 that no turn moves."""
    where, _ = places(2)
    return next(number for number, (first, *_) in enumerate(corners) if where[first].tolist() == [-1, 1, -1])


def _odd(order: list[int]) -> bool:
    """Whether a permutation is odd."""
    return sum(b < a for at, a in enumerate(order) for b in order[at + 1 :]) % 2 == 1


def _unfolded(side: int) -> np.ndarray:
    """The cell of the unfolded cube for each sticker, int64 [stickers]; rows have 4 * side cells."""
    corner = {"U": (0, 1), "L": (1, 0), "F": (1, 1), "R": (1, 2), "B": (1, 3), "D": (2, 1)}
    row, column = np.divmod(np.arange(side**2), side)
    cells = [(corner[f][0] * side + row) * 4 * side + corner[f][1] * side + column for f in FACES]
    return np.concatenate(cells)
