"""The navigator: a policy that reads its view, keeps a map, and walks to its target."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from devmind.acting import Senses
from devmind.algorithms.grid import PATIENCE, Map, Walker, on, shortest
from devmind.worlds.minigrid import DONE
from stages.reasoning.navigate.cells import Reading
from stages.reasoning.navigate.missions import Mission, parse_mission

ON_THE_WAY, REACHED = "on the way", "reached"
UNREACHABLE = "it cannot be reached: everything visible was seen, and no path leads there"


@dataclass
class Traveller:
    """The state of one row: its map, its mission and how that stands."""

    map: Map = field(default_factory=Map)
    mission: Mission | None = None
    words: str = ""
    action: int | None = None
    state: str = ON_THE_WAY


class Navigator(Walker):
    """A `Policy` over `board` and `words` that acts by `choose`.

    Args:
        read: the class of each visible cell.
        patience: how fast the worth of new cells falls with the cost of the path to them.

    Attributes:
        rows: a Traveller each; a caller may look at their maps.
    """

    def __init__(self, read: Reading, patience: float = PATIENCE) -> None:
        super().__init__(patience)
        self.read = read
        self.rows: list[Traveller] = []

    def __call__(self, senses: Senses, first: np.ndarray) -> dict[str, np.ndarray]:
        """One tick; a row without words keeps its mission."""
        if len(self.rows) != len(first):
            self.rows = [Traveller() for _ in first]
        words = senses.get("words") or [""] * len(first)
        readings = self.read(senses)
        for row, begins in enumerate(first):
            if begins:
                self.rows[row] = Traveller()
            one = self.rows[row]
            if words[row] and words[row] != one.words:
                one.words, one.mission, one.state = words[row], parse_mission(words[row]), ON_THE_WAY
            if one.state != REACHED:
                one.map.take_in(readings[row], one.action)
                one.action = self.choose(one)
        return {"choose": np.array([one.action for one in self.rows], np.int64)}

    def choose(self, one: Traveller) -> int:
        """The next action, MiniGrid's number."""
        here, mission = one.map, one.mission
        if mission is None:
            return DONE
        if here.carried in mission.targets if mission.picked_up else int(here.cells[here.pose[:2]]) in mission.targets:
            one.state = REACHED
            return DONE
        costs = here.costs(onto_goal=not mission.picked_up)
        targets = here.where(mission.targets)
        if mission.picked_up:
            action = self.fetch(here, costs, targets)
        else:
            action = self.by(here, shortest(costs, here.pose, [pose for cell in targets for pose in on(cell)]))
        if action is None:
            action = self.unlock(here, costs)
        if action is None:
            action = self.explore(here, costs)
        one.state = UNREACHABLE if action is None else ON_THE_WAY
        return DONE if action is None else action
