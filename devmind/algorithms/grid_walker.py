"""One step towards a target on a map that is carried along: fetching, putting down, unlocking, exploring.

Each method returns the next action, MiniGrid's number, or None if no known path leads to the target.
"""

from __future__ import annotations

import numpy as np

from devmind.algorithms.grid_cells import DOOR, FLOOR, LOCKED, THINGS, is_door
from devmind.algorithms.grid_map import Map
from devmind.algorithms.grid_paths import FORWARD, Cell, Ways, ahead, before, moved, shortest, ways

PICKUP, DROP, TOGGLE, DONE = range(3, 7)
"""MiniGrid's numbers of actions; turns and steps have the numbers of `grid_paths`."""
IN_THE_WAY = 8
"""A path may be so many steps longer for each thing less that has to be moved out of the way."""
PATIENCE = 0.12
"""The patience that did best in lesson rooms."""


class Walker:
    """Chooses actions on a map.

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
            pose = moved(pose, move)
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
            pose = moved(pose, move)
            if move == FORWARD and not costs[pose[:2]]:
                return self.fetch(here, costs, [pose[:2]])
        return None
