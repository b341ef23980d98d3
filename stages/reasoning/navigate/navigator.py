"""The navigator: a policy that reads what is seen, keeps a map, and walks by it to what is wanted."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from devmind.acting import Senses
from devmind.algorithms.grid_paths import FORWARD, Cell, Ways, ahead, before, moved, on, shortest, ways
from devmind.worlds.minigrid import DONE, DROP, PICKUP, TOGGLE
from stages.reasoning.navigate.cells import DOOR, FLOOR, LOCKED, THINGS, Reading, is_door
from stages.reasoning.navigate.map import Map
from stages.reasoning.navigate.missions import Mission, understood

REACHED, UNREACHABLE = "reached", "it cannot be reached: all that can be seen was, and no way leads there"
PATIENCE = 0.12
"""By what was best in rooms of lessons."""


@dataclass
class Traveller:
    """One row: its map, what is wanted, and how that stands."""

    map: Map = field(default_factory=Map)
    mission: Mission | None = None
    words: str = ""
    action: int | None = None
    state: str = "on the way"


class Navigator:
    """A `Policy` over `board` and `words`, acting by `choose`.

    Args:
        read: says what stands in each cell that is seen.
        patience: how much less news are worth for each step that leads to them.

    Attributes:
        rows: a Traveller each; whoever lives with it may look at their maps.
    """

    def __init__(self, read: Reading, patience: float = PATIENCE) -> None:
        self.read, self.patience = read, patience
        self.rows: list[Traveller] = []

    def __call__(self, senses: Senses, first: np.ndarray) -> dict[str, np.ndarray]:
        """One tick; a row without words goes on with the mission it has."""
        if len(self.rows) != len(first):
            self.rows = [Traveller() for _ in first]
        words = senses.get("words") or [""] * len(first)
        readings = self.read(senses)
        for row, begins in enumerate(first):
            if begins:
                self.rows[row] = Traveller()
            one = self.rows[row]
            if words[row] and words[row] != one.words:
                one.words, one.mission = words[row], understood(words[row])
            if one.state != REACHED:
                one.map.take_in(readings[row], one.action)
                one.action = self.choose(one)
        return {"choose": np.array([one.action for one in self.rows], np.int64)}

    def choose(self, one: Traveller) -> int:
        """What to do next: MiniGrid's number of an action."""
        here, wanted = one.map, one.mission
        if wanted is None:
            return DONE
        if here.carried in wanted.wanted if wanted.picked_up else int(here.cells[here.pose[:2]]) in wanted.wanted:
            one.state = REACHED
            return DONE
        costs = here.costs(onto_goal=not wanted.picked_up)
        targets = here.where(wanted.wanted)
        if wanted.picked_up:
            action = self._fetch(here, costs, targets)
        else:
            action = self._by(here, shortest(costs, here.pose, [pose for cell in targets for pose in on(cell)]))
        if action is None:
            action = self._unlock(here, costs)
        if action is None:
            action = self._explore(here, costs)
        one.state = UNREACHABLE if action is None else "on the way"
        return DONE if action is None else action

    def _by(self, here: Map, moves: list[int] | None) -> int | None:
        """The first of these moves, as an action (turns and steps have its numbers); a closed door is opened first."""
        if not moves:
            return None
        cell = here.cells[ahead(here.pose)]
        return TOGGLE if moves[0] == FORWARD and is_door(cell) and (cell - DOOR) % 3 else moves[0]

    def _fetch(self, here: Map, costs: np.ndarray, targets: list[Cell]) -> int | None:
        """Towards picking up one of the targets; what is carried is put down first where it is in nobody's way."""
        moves = shortest(costs, here.pose, [pose for cell in targets for pose in before(cell)])
        if moves is None:
            return None
        if here.carried == FLOOR:
            return self._by(here, moves) if moves else PICKUP
        # It is carried as far as it may be needed: all locked doors lie behind one then.
        crossed, pose = False, here.pose
        for move in moves:
            pose = moved(pose, move)
            crossed |= bool(is_door(here.cells[pose[:2]], LOCKED))
        return self._by(here, moves) if crossed else self._put_down(here, costs, targets)

    def _put_down(self, here: Map, costs: np.ndarray, targets: list[Cell]) -> int | None:
        """Towards the pose before a free cell from which, with the thing lying there, the whole way is the shortest."""
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
        return DROP if at == 0 else self._by(here, reach.to(at))

    def _unlock(self, here: Map, costs: np.ndarray) -> int | None:
        """Towards the key of a locked door, or with it towards the door."""
        rows, columns = np.nonzero(is_door(here.cells, LOCKED))
        doors = list(zip(rows.tolist(), columns.tolist(), strict=True))
        keys = {THINGS + (int(here.cells[cell]) - DOOR) // 3 for cell in doors}
        if not keys:
            return None
        if here.carried in keys:
            fits = [cell for cell in doors if THINGS + (int(here.cells[cell]) - DOOR) // 3 == here.carried]
            moves = shortest(costs, here.pose, [pose for cell in fits for pose in before(cell)])
            return None if moves is None else self._by(here, moves) if moves else TOGGLE
        return self._fetch(here, costs, here.where(keys))

    def _explore(self, here: Map, costs: np.ndarray) -> int | None:
        """Towards the view that is worth most: new cells, less the further it is (Gonzalez-Banos and Latombe 2002)."""
        reach = ways(costs, here.pose)
        found = here.news(reach.poses)
        if not found.any():
            return None
        worth = found * np.exp(-self.patience * reach.costs)
        return self._by(here, reach.to(int(worth.argmax())))
