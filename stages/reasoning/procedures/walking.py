"""The primitive `find_way` of procedures: the navigator of the exam `navigate` leads one child through a room.

Nothing heavy is imported before the first step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from devmind.errors import WorldError
from stages.reasoning.procedures.interpreter import AGAIN

if TYPE_CHECKING:
    from stages.reasoning.navigate.navigator import Navigator

Cells = Callable[[], "np.ndarray | None"]
"""The agent's reading of each cell of its view in this tick, int64 [7, 7]; None if it sees no board, or was never
taught to read one.
"""


class Walking:
    """Leads one child to the target of a mission, a step a tick.

    Attributes:
        order: the action of this tick, MiniGrid's number; None: nothing.
    """

    def __init__(self, cells: Cells) -> None:
        self._cells = cells
        self._navigator: Navigator | None = None
        self.order: int | None = None
        self._new = True

    def begin_tick(self) -> None:
        """Keep the map if the child walked in the last tick; else it may have been moved, so the map begins anew."""
        self._new, self.order = self.order is None, None

    def find_way(self, mission: Any) -> object:
        """Walk on to a target, such as "reach the goal".

        Returns True at the target, False if no path leads there or the mission is not understood.

        Raises:
            LookupError: the agent reads no board.
        """
        if self.order is not None:
            return AGAIN
        cells = self._cells()
        if cells is None:
            raise LookupError("no board is seen, or the agent was never taught to read one")
        from stages.reasoning.navigate.navigator import REACHED, UNREACHABLE, Navigator

        if self._navigator is None:
            self._navigator = Navigator(lambda senses: senses["board"])
        try:
            actions = self._navigator({"board": cells[None], "words": [str(mission)]}, np.array([self._new]))
        except WorldError:
            return False
        state = self._navigator.rows[0].state
        if state in (REACHED, UNREACHABLE):
            return state == REACHED
        self.order = int(actions["choose"][0])
        return AGAIN
