"""The primitive `find_way` of procedures: the navigator of the exam `navigate` leads one child through a room.

Nothing heavy is imported before the first step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from devmind.errors import WorldError
from stages.reasoning.procedures.intentions import AGAIN

if TYPE_CHECKING:
    from stages.reasoning.navigate.navigator import Navigator

Cells = Callable[[], "np.ndarray | None"]
"""What the agent reads in each cell of its view in this tick, int64 [7, 7]; None where it sees no board, or was never
taught to read one."""


class Walking:
    """One child's way to what a mission names, a step a tick.

    Attributes:
        order: what is done in this tick, MiniGrid's number of an action; None where nothing is.
    """

    def __init__(self, cells: Cells) -> None:
        self._cells = cells
        self._navigator: Navigator | None = None
        self.order: int | None = None
        self._new = True

    def begin_tick(self) -> None:
        """A map is kept from tick to tick; who did not walk in the last one may have been moved, so it begins anew."""
        self._new, self.order = self.order is None, None

    def find_way(self, mission: Any) -> object:
        """Walk on to what is wanted, such as "reach the goal": True there, False where no way leads there or the
        mission is not understood.

        Raises:
            LookupError: nothing is read.
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
            done = self._navigator({"board": cells[None], "words": [str(mission)]}, np.array([self._new]))
        except WorldError:
            return False
        state = self._navigator.rows[0].state
        if state in (REACHED, UNREACHABLE):
            return state == REACHED
        self.order = int(done["choose"][0])
        return AGAIN
