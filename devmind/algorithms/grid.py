"""A grid with four headings, seen in views from within: cells, shortest paths, views, a map, and how to act on it.

An agent in such a room sees a square of cells in front of it. It keeps a `Map`, its belief about the room and its own
pose, from readings and own actions, and a `Walker` chooses steps on it. Cells, views and actions are MiniGrid's
(Chevalier-Boisvert et al. 2023).

**Cells.** Classes of a cell in a view: free, a wall, a door of a colour and state, a thing of a kind and colour. A view
without errors comes as MiniGrid's planes: one plane for each kind of object, then colour and state as numbers.

**Paths** are shortest: A* to given poses (Hart, Nilsson and Raphael 1968, IEEE Trans. SSC 4), Dijkstra to all (1959,
Numer. Math. 1; with buckets, as costs are small integers: Dial 1969, CACM 12). A turn costs 1. A step costs at least 1,
as the entered cell says; a cell of cost 0 cannot be entered.

**Views.** The viewer stands in the middle of the lowest row and looks up the rows. Light goes from the viewer up and to
the sides, from cell to cell, through all that is not opaque. With unknown cells taken as clear, this predicts what a
view from elsewhere would show, and so the worth of looking from there (next best view: Connolly 1985; frontiers:
Yamauchi 1997).

**The map.** The agent begins in the middle of an unknown grid. A step is dead reckoning, checked by the next view: the
map takes "moved" or "did not move", whichever the new view contradicts less. Cells are stored as read, so an error
lasts until the agent sees the cell again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from heapq import heappop, heappush

import numpy as np

SIDE = 7
COLOURS = ("red", "green", "blue", "purple", "yellow", "grey")
UNSEEN, FLOOR, WALL, GOAL, LAVA, DOOR = range(6)
OPEN, CLOSED, LOCKED = range(3)
KINDS = ("key", "ball", "box")
"""Things that can be picked up. Their classes follow those of doors, which have one for each colour and state."""
THINGS = DOOR + 3 * len(COLOURS)
"""The class of the first thing."""
CLASSES = THINGS + len(KINDS) * len(COLOURS)
_KIND = {0: UNSEEN, 1: FLOOR, 2: WALL, 3: FLOOR, 8: GOAL, 9: LAVA, 10: FLOOR}
"""The classes of MiniGrid's object numbers whose colour and state do not matter."""


def door(colour: int, state: int) -> int:
    """The class of a door."""
    return DOOR + 3 * colour + state


def thing(kind: str, colour: int) -> int:
    """The class of a key, ball or box."""
    return THINGS + KINDS.index(kind) * len(COLOURS) + colour


def is_door(cells: np.ndarray, state: int | None = None) -> np.ndarray:
    """Which cells are doors (of this state, if one is given), bool [...]."""
    doors = (cells >= DOOR) & (cells < THINGS)
    return np.asarray(doors if state is None else doors & ((cells - DOOR) % 3 == state))


def describe_cell(one: int) -> str:
    """A class in words: "locked red door"."""
    if one < DOOR:
        return ("unseen", "floor", "wall", "goal", "lava")[one]
    if one < THINGS:
        colour, state = divmod(one - DOOR, 3)
        return f"{('open', 'closed', 'locked')[state]} {COLOURS[colour]} door"
    kind, colour = divmod(one - THINGS, len(COLOURS))
    return f"{COLOURS[colour]} {KINDS[kind]}"


_OBJECTS = 11
"""Planes for kinds, from unseen to agent; colour and state come after them."""


def _table() -> np.ndarray:
    found = np.zeros((_OBJECTS, len(COLOURS), 3), np.int64)
    for number, plain in _KIND.items():
        found[number] = plain
    for colour in range(len(COLOURS)):
        found[4, colour] = [door(colour, state) for state in range(3)]
        for number, kind in zip((5, 6, 7), KINDS, strict=True):
            found[number, colour] = thing(kind, colour)
    return found


_OF = _table()


def truth(board: np.ndarray) -> np.ndarray:
    """The class of each cell, int64 [..., 7, 7], from planes int8 [..., 13, 7, 7] (`devmind.worlds.minigrid`)."""
    planes = np.asarray(board)
    kind = planes[..., :_OBJECTS, :, :].argmax(-3)
    return np.asarray(_OF[kind, planes[..., _OBJECTS, :, :], planes[..., _OBJECTS + 1, :, :]])


Pose = tuple[int, int, int]
"""Row, column and heading: 0 along the columns, 1 down the rows, 2 and 3 the reverse of these; heading + 1 is a turn to
the right.
"""
Cell = tuple[int, int]
STEPS = ((0, 1), (1, 0), (0, -1), (-1, 0))
"""Change of row and column in a step, by heading."""
LEFT, RIGHT, FORWARD = range(3)
"""Moves."""


def ahead(pose: Pose) -> Cell:
    """The cell in front of a pose."""
    row, column, heading = pose
    return row + STEPS[heading][0], column + STEPS[heading][1]


def move_pose(pose: Pose, move: int) -> Pose:
    """The pose after a move, if every cell were free."""
    if move == FORWARD:
        return (*ahead(pose), pose[2])
    return (pose[0], pose[1], (pose[2] + (1 if move == RIGHT else -1)) % 4)


def on(cell: Cell) -> list[Pose]:
    """The four poses on a cell."""
    return [(*cell, heading) for heading in range(4)]


def before(cell: Cell) -> list[Pose]:
    """The four poses that look at a cell from a neighbouring one."""
    return [(cell[0] - step[0], cell[1] - step[1], heading) for heading, step in enumerate(STEPS)]


def _check(cost: np.ndarray, start: Pose) -> None:
    if cost.ndim != 2 or not (0 <= start[0] < cost.shape[0] and 0 <= start[1] < cost.shape[1]):
        raise ValueError(f"Expected costs [H, W] and a start on them; got {cost.shape} and {start}.")


def shortest(cost: np.ndarray, start: Pose, goals: Iterable[Pose]) -> list[int] | None:
    """The moves of a cheapest path to the nearest of some poses; None if none can be reached.

    Args:
        cost: int [H, W], 0 for cells that cannot be entered; cells outside cannot be entered. The start's own cost does
            not matter.

    Raises:
        ValueError: the costs are no grid, or the start is not on it.
    """
    _check(cost, start)
    height, width = cost.shape
    prices = cost.tolist()
    wanted = {goal for goal in goals if goal == start or _open(prices, goal[0], goal[1], height, width)}
    if not wanted:
        return None
    # No pose is nearer than the box around them all, so the heuristic never overestimates and is consistent.
    top, bottom = min(goal[0] for goal in wanted), max(goal[0] for goal in wanted)
    left, right = min(goal[1] for goal in wanted), max(goal[1] for goal in wanted)

    def least(row: int, column: int) -> int:
        return max(0, top - row, row - bottom) + max(0, left - column, column - right)

    paid, came = {start: 0}, dict[Pose, tuple[Pose, int]]()
    waiting: list[tuple[int, int, Pose]] = [(least(start[0], start[1]), 0, start)]
    while waiting:
        _, spent, here = heappop(waiting)
        if here in wanted:
            return _back(came, start, here)
        if spent > paid[here]:
            continue
        for move in (LEFT, RIGHT, FORWARD):
            there, price = move_pose(here, move), 1
            if move == FORWARD:
                if not _open(prices, there[0], there[1], height, width):
                    continue
                price = prices[there[0]][there[1]]
            if spent + price < paid.get(there, 1 << 30):
                paid[there], came[there] = spent + price, (here, move)
                heappush(waiting, (spent + price + least(there[0], there[1]), spent + price, there))
    return None


def _open(prices: list[list[int]], row: int, column: int, height: int, width: int) -> bool:
    return 0 <= row < height and 0 <= column < width and prices[row][column] > 0


def _back(came: dict[Pose, tuple[Pose, int]], start: Pose, end: Pose) -> list[int]:
    moves = []
    while end != start:
        end, move = came[end]
        moves.append(move)
    return moves[::-1]


@dataclass(frozen=True)
class Ways:
    """All poses that can be reached from a start.

    Attributes:
        poses: int64 [P, 3], rows of row, column, heading; the nearest first, so the start is the first.
        costs: int64 [P], of the cheapest path to each.
    """

    poses: np.ndarray
    costs: np.ndarray
    _codes: list[int]
    _came: list[int]

    def to(self, which: int) -> list[int]:
        """The moves of a cheapest path to one of the poses."""
        moves, here = [], self._codes[which]
        while (step := self._came[here]) >= 0:
            here, move = divmod(step, 3)
            moves.append(move)
        return moves[::-1]


def ways(cost: np.ndarray, start: Pose) -> Ways:
    """The cheapest paths to every pose that can be reached; arguments and errors as in `shortest`."""
    _check(cost, start)
    # A border that cannot be entered replaces the check whether a cell is on the grid.
    padded = np.pad(cost, 1)
    width = padded.shape[1]
    prices = padded.ravel().tolist()
    shift = [row * width + column for row, column in STEPS]
    begin = ((start[0] + 1) * width + start[1] + 1) * 4 + start[2]
    paid, came = [-1] * (4 * len(prices)), [-1] * (4 * len(prices))
    paid[begin] = 0
    found: list[int] = []
    buckets: dict[int, list[int]] = {0: [begin]}
    spent = 0
    while buckets:
        for here in buckets.pop(spent, ()):
            if paid[here] != spent:
                continue
            found.append(here)
            cell, heading = here >> 2, here & 3
            turned = cell << 2
            into = cell + shift[heading]
            for move, there, price in (
                (LEFT, turned | (heading - 1) & 3, 1),
                (RIGHT, turned | (heading + 1) & 3, 1),
                (FORWARD, into << 2 | heading, prices[into]),
            ):
                if price and not 0 <= paid[there] <= spent + price:
                    paid[there], came[there] = spent + price, here * 3 + move
                    buckets.setdefault(spent + price, []).append(there)
        spent += 1
    codes = np.array(found)
    rows, columns = np.divmod(codes >> 2, width)
    poses = np.stack((rows - 1, columns - 1, codes & 3), 1)
    return Ways(poses, np.array([paid[code] for code in found]), found, came)


@lru_cache
def offsets(side: int) -> np.ndarray:
    """Offsets of a view's cells from its viewer, by heading: int64 [4, 2, side, side] of rows and columns."""
    forward = side - 1 - np.arange(side)[:, None]
    aside = np.arange(side)[None, :] - side // 2
    found = []
    for heading, (down, along) in enumerate(STEPS):
        right = STEPS[(heading + 1) % 4]
        found.append((forward * down + aside * right[0], forward * along + aside * right[1]))
    return np.array(found)


def places(poses: np.ndarray, side: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns [P, side, side] of the cells in front of poses int64 [P, 3]; they may lie off the grid."""
    of = offsets(side)[poses[:, 2]]
    return of[:, 0] + poses[:, 0, None, None], of[:, 1] + poses[:, 1, None, None]


def looked_at(grid: np.ndarray, poses: np.ndarray, side: int, beyond: int | bool = 0) -> np.ndarray:
    """The cells [P, side, side] of a grid [H, W] in front of poses int64 [P, 3]; `beyond` off the grid."""
    padded = np.pad(grid, side, constant_values=beyond)
    rows, columns = places(poses, side)
    return np.asarray(padded[rows + side, columns + side])


def lit(clear: np.ndarray) -> np.ndarray:
    """Probability that each cell of a view is seen, float [P, side, side], by the likeliest path of the light.

    The viewer's own cell counts as clear: a viewer in a door has opened it.

    Args:
        clear: float [P, side, side], the probability that light passes each cell; 0 or 1 for known cells.
    """
    side = clear.shape[-1]
    seen, clear = np.zeros(clear.shape, np.float32), clear.astype(np.float32)
    seen[:, -1, side // 2] = clear[:, -1, side // 2] = 1.0
    for row in range(side - 1, -1, -1):
        for columns, step in ((range(side - 1), 1), (range(side - 1, 0, -1), -1)):
            for column in columns:
                through = seen[:, row, column] * clear[:, row, column]
                for up, aside in ((0, step), (1, step), (1, 0)):
                    if up <= row:
                        at = seen[:, row - up, column + aside]
                        np.maximum(at, through, out=at)
    return seen


def news(unknown: np.ndarray, clear: np.ndarray, poses: np.ndarray, side: int) -> np.ndarray:
    """Expected number of unknown cells that each view shows, float [P].

    Args:
        unknown: bool [H, W].
        clear: float [H, W], the probability that light passes a cell.
        poses: int64 [P, 3].
    """
    seen = lit(looked_at(clear, poses, side, beyond=0))
    return np.asarray((seen * looked_at(unknown, poses, side, beyond=False)).sum((1, 2)))


EXTENT = 72
"""Side in cells: rooms of side 32 fit, wherever in them the agent begins."""
_EVERY = np.arange(CLASSES)
CLEAR = np.where((_EVERY == WALL) | is_door(_EVERY, CLOSED) | is_door(_EVERY, LOCKED), 0.0, 1.0)
CLEAR[UNSEEN] = 0.8
"""Probability that light passes a cell; for an unknown cell the value that did best in lesson rooms."""
_ENTERED = np.where((_EVERY == FLOOR) | is_door(_EVERY, 0) | (_EVERY == GOAL), 1, np.where(is_door(_EVERY, 1), 2, 0))
"""Cost of a step into a cell; a closed door has to be opened too. 0: the cell cannot be entered."""


@dataclass
class Map:
    """Cells with things, colours and states, and the agent's pose.

    Attributes:
        cells: int64 [EXTENT, EXTENT], classes of cells.
        pose: the agent's cell and heading.
        carried: the class of the carried thing; FLOOR if there is none.
        looked: bool [EXTENT, EXTENT, 4], poses that the agent has looked from, so that they have nothing new to show.
        slips: steps whose result differed from dead reckoning.
    """

    cells: np.ndarray = field(default_factory=lambda: np.zeros((EXTENT, EXTENT), np.int64))
    pose: Pose = (EXTENT // 2, EXTENT // 2, 3)
    carried: int = FLOOR
    looked: np.ndarray = field(default_factory=lambda: np.zeros((EXTENT, EXTENT, 4), bool))
    slips: int = 0

    def take_in(self, reading: np.ndarray, action: int | None) -> None:
        """Update by one tick.

        Args:
            reading: int64 [7, 7] of classes, the current view; UNSEEN where nothing is seen.
            action: the action since the last reading; None at the first.
        """
        if action in (LEFT, RIGHT):
            self.pose = move_pose(self.pose, action)
        elif action == FORWARD:
            self._step(reading)
        rows, columns = self._places(self.pose)
        seen = (reading != UNSEEN) & (rows >= 0)
        # The agent's own cell shows the carried thing.
        seen[-1, SIDE // 2] = False
        changed = seen & (self.cells[rows, columns] != reading)
        if (changed & (is_door(reading) | is_door(self.cells[rows, columns]))).any():
            self.looked[:] = False
        self.cells[rows[seen], columns[seen]] = reading[seen]
        own = int(reading[-1, SIDE // 2])
        self.carried = own if own >= THINGS else FLOOR
        if self.cells[self.pose[:2]] == UNSEEN or self.cells[self.pose[:2]] >= THINGS:
            self.cells[self.pose[:2]] = FLOOR
        self.looked[self.pose] = True

    def _step(self, reading: np.ndarray) -> None:
        """Decide whether a step has moved the agent: by the view or, if that tells nothing, by the cell in front
        before.
        """
        before = self.cells[ahead(self.pose)]
        on = move_pose(self.pose, FORWARD)
        wrong = [self._contradicted(reading, pose) for pose in (self.pose, on)]
        expected = bool(_ENTERED[before] == 1)
        led_on = wrong[1] < wrong[0] or (wrong[1] == wrong[0] and expected)
        self.slips += led_on != expected
        if led_on and self._inside(on):
            self.pose = on

    def _contradicted(self, reading: np.ndarray, pose: Pose) -> int:
        """Number of known cells that this reading contradicts, if the agent were at this pose."""
        rows, columns = self._places(pose)
        known = np.where(rows >= 0, self.cells[rows, columns], UNSEEN)
        compared = (reading != UNSEEN) & (known != UNSEEN)
        compared[-1, SIDE // 2] = False
        return int((compared & (known != reading)).sum())

    def _places(self, pose: Pose) -> tuple[np.ndarray, np.ndarray]:
        """Rows and columns [7, 7] of the cells in front of a pose; -1 off the map."""
        (rows,), (columns,) = places(np.array([pose]), SIDE)
        off = (rows < 0) | (columns < 0) | (rows >= EXTENT) | (columns >= EXTENT)
        return np.where(off, -1, rows), np.where(off, -1, columns)

    @staticmethod
    def _inside(pose: Pose) -> bool:
        return 0 < pose[0] < EXTENT - 1 and 0 < pose[1] < EXTENT - 1

    # -- questions to the map -----------------------------------------------------------------------------------------

    def costs(self, onto_goal: bool) -> np.ndarray:
        """Cost of a step into each cell, int64 [EXTENT, EXTENT]; 0 for cells that cannot be entered, unknown ones
        included.

        Args:
            onto_goal: a goal may be entered; this ends the episode, wanted or not.
        """
        found = _ENTERED[self.cells]
        if self.carried < THINGS + 6 and self.carried >= THINGS:  # a key
            found = np.where(self.cells == DOOR + 3 * (self.carried - THINGS) + LOCKED, 2, found)
        if not onto_goal:
            found = np.where(self.cells == GOAL, 0, found)
        return np.asarray(found)

    def news(self, poses: np.ndarray) -> np.ndarray:
        """Expected number of unknown cells that each pose int64 [P, 3] shows, float [P]; 0 for poses already looked
        from.
        """
        fresh = ~self.looked[tuple(poses.T)]
        found = np.zeros(len(poses))
        found[fresh] = news(self.cells == UNSEEN, CLEAR[self.cells], poses[fresh], SIDE)
        return found

    def where(self, classes: frozenset[int] | set[int]) -> list[Cell]:
        """The cells of these classes."""
        rows, columns = np.nonzero(np.isin(self.cells, list(classes)))
        return list(zip(rows.tolist(), columns.tolist(), strict=True))


PICKUP, DROP, TOGGLE, DONE = range(3, 7)
"""MiniGrid's numbers of actions; turns and steps have the numbers of moves."""
IN_THE_WAY = 8
"""A path may be so many steps longer for each thing less that has to be moved out of the way."""
PATIENCE = 0.12
"""The patience that did best in lesson rooms."""


class Walker:
    """Chooses actions on a map: fetching, putting down, unlocking, exploring.

    Each method returns the next action, MiniGrid's number, or None if no known path leads to the target.

    Args:
        patience: how fast the worth of new cells falls with the cost of the path to them.
    """

    def __init__(self, patience: float = PATIENCE) -> None:
        self.patience = patience

    def by(self, here: Map, moves: list[int] | None) -> int | None:
        """The first of these moves as an action; a closed door is opened first."""
        if not moves:
            return None
        cell = here.cells[ahead(here.pose)]
        return TOGGLE if moves[0] == FORWARD and is_door(cell) and (cell - DOOR) % 3 else moves[0]

    def fetch(self, here: Map, costs: np.ndarray, targets: list[Cell]) -> int | None:
        """Towards picking up one of the targets; the carried thing is first put down where it blocks nothing."""
        moves = shortest(costs, here.pose, [pose for cell in targets for pose in before(cell)])
        if moves is None:
            return None
        if here.carried == FLOOR:
            return self.by(here, moves) if moves else PICKUP
        # The thing may be the key of a locked door on the path; only without such a door it is put down.
        crossed, pose = False, here.pose
        for move in moves:
            pose = move_pose(pose, move)
            crossed |= bool(is_door(here.cells[pose[:2]], LOCKED))
        return self.by(here, moves) if crossed else self.put_down(here, costs, targets)

    def put_down(self, here: Map, costs: np.ndarray, targets: list[Cell]) -> int | None:
        """Towards a pose in front of a free cell for the carried thing, such that the whole path is shortest."""
        reach: Ways = ways(costs, here.pose)
        goals, best, at = [pose for cell in targets for pose in before(cell)], None, 0
        for which, (row, column, heading) in enumerate(reach.poses.tolist()):
            if best is not None and reach.costs[which] >= best:
                break
            cell = ahead((row, column, heading))
            if here.cells[cell] != FLOOR:
                continue
            blocked = costs.copy()
            blocked[cell] = 0
            onward = shortest(blocked, (row, column, heading), goals)
            if onward is not None and (best is None or reach.costs[which] + len(onward) < best):
                best, at = reach.costs[which] + len(onward), which
        if best is None:
            return None
        return DROP if at == 0 else self.by(here, reach.to(at))

    def unlock(self, here: Map, costs: np.ndarray) -> int | None:
        """Towards the key of a locked door, or with the key towards the door."""
        rows, columns = np.nonzero(is_door(here.cells, LOCKED))
        doors = list(zip(rows.tolist(), columns.tolist(), strict=True))
        keys = {THINGS + (int(here.cells[cell]) - DOOR) // 3 for cell in doors}
        if not keys:
            return None
        if here.carried in keys:
            fits = [cell for cell in doors if THINGS + (int(here.cells[cell]) - DOOR) // 3 == here.carried]
            moves = shortest(costs, here.pose, [pose for cell in fits for pose in before(cell)])
            return None if moves is None else self.by(here, moves) if moves else TOGGLE
        return self.fetch(here, costs, here.where(keys))

    def explore(self, here: Map, costs: np.ndarray) -> int | None:
        """Towards the view of highest worth: new cells, discounted by path cost (Gonzalez-Banos and Latombe 2002)."""
        reach = ways(costs, here.pose)
        found = here.news(reach.poses)
        if not found.any():
            return None
        worth = found * np.exp(-self.patience * reach.costs)
        return self.by(here, reach.to(int(worth.argmax())))

    def clear(self, here: Map, costs: np.ndarray, targets: list[Cell]) -> int | None:
        """Towards picking up the first thing that blocks the path to the targets, to a locked door's key or to the best
        view.

        A carried key of a locked door is never put down for it.
        """
        locked = is_door(here.cells, LOCKED)
        keys = {THINGS + int(colour) for colour in (here.cells[locked] - DOOR) // 3}
        if here.carried in keys:
            return None
        through = np.where((here.cells >= THINGS) & (costs == 0), IN_THE_WAY, costs)
        moves: list[int] | None = None
        for cells in (targets, here.where(keys)):
            moves = moves or shortest(through, here.pose, [pose for cell in cells for pose in before(cell)])
        if not moves:
            reach = ways(through, here.pose)
            found = here.news(reach.poses)
            moves = reach.to(int((found * np.exp(-self.patience * reach.costs)).argmax())) if found.any() else []
        pose = here.pose
        for move in moves:
            pose = move_pose(pose, move)
            if move == FORWARD and not costs[pose[:2]]:
                return self.fetch(here, costs, [pose[:2]])
        return None
