"""The map: one agent's belief about its room and its own pose in it, from readings and own actions.

The agent begins in the middle of an unknown grid. A step is dead reckoning, checked by the next view: the map takes
"moved" or "did not move", whichever the new view contradicts less. Cells are stored as read, so an error lasts until
the agent sees the cell again.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from devmind.algorithms.grid_cells import (
    CLASSES,
    CLOSED,
    DOOR,
    FLOOR,
    GOAL,
    LOCKED,
    SIDE,
    THINGS,
    UNSEEN,
    WALL,
    is_door,
)
from devmind.algorithms.grid_paths import FORWARD, LEFT, RIGHT, Cell, Pose, ahead, moved
from devmind.algorithms.grid_views import news, places

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
        cells: int64 [EXTENT, EXTENT], classes of `grid_cells`.
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
            self.pose = moved(self.pose, action)
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
        on = moved(self.pose, FORWARD)
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
