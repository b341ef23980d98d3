"""The map: what one agent believes of the room it is in, and where in it it stands. Fed by readings and own actions.

It begins in the middle of a grid of which nothing is known. Where a step led is dead reckoning, checked by what is seen
next: of "moved" and "did not" the one holds which the new view contradicts less. What is seen is written down as it is
read, so an error lasts until the cell is seen again.
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
"""Cells a side: rooms of 32 fit, wherever in them one begins."""
_EVERY = np.arange(CLASSES)
CLEAR = np.where((_EVERY == WALL) | is_door(_EVERY, CLOSED) | is_door(_EVERY, LOCKED), 0.0, 1.0)
CLEAR[UNSEEN] = 0.8
"""How likely light goes on from a cell; of one that is not known yet by what was best in rooms of lessons."""
_ENTERED = np.where((_EVERY == FLOOR) | is_door(_EVERY, 0) | (_EVERY == GOAL), 1, np.where(is_door(_EVERY, 1), 2, 0))
"""What a step into a cell costs; a closed door has to be opened too. 0: it cannot be entered."""


@dataclass
class Map:
    """Occupancy, things with colour and state, and the pose.

    Attributes:
        cells: int64 [EXTENT, EXTENT], classes of `grid_cells`; pose: where one stands, and looks.
        carried: the class of what is carried, FLOOR where it is nothing.
        looked: bool [EXTENT, EXTENT, 4], from which poses nothing more is to be seen.
        slips: how many steps did not lead where dead reckoning said.
    """

    cells: np.ndarray = field(default_factory=lambda: np.zeros((EXTENT, EXTENT), np.int64))
    pose: Pose = (EXTENT // 2, EXTENT // 2, 3)
    carried: int = FLOOR
    looked: np.ndarray = field(default_factory=lambda: np.zeros((EXTENT, EXTENT, 4), bool))
    slips: int = 0

    def take_in(self, reading: np.ndarray, action: int | None) -> None:
        """Go on by one tick.

        Args:
            reading: int64 [7, 7] of classes, what is seen now; UNSEEN where nothing is.
            action: what was done since the last reading; None at the first.
        """
        if action in (LEFT, RIGHT):
            self.pose = moved(self.pose, action)
        elif action == FORWARD:
            self._step(reading)
        rows, columns = self._places(self.pose)
        seen = (reading != UNSEEN) & (rows >= 0)
        # The own cell shows what is carried.
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
        """Whether a step led on: what is seen says it, or, where it tells nothing, what stood before."""
        before = self.cells[ahead(self.pose)]
        on = moved(self.pose, FORWARD)
        wrong = [self._contradicted(reading, pose) for pose in (self.pose, on)]
        expected = bool(_ENTERED[before] == 1)
        led_on = wrong[1] < wrong[0] or (wrong[1] == wrong[0] and expected)
        self.slips += led_on != expected
        if led_on and self._inside(on):
            self.pose = on

    def _contradicted(self, reading: np.ndarray, pose: Pose) -> int:
        """How many cells are known to be something else than this reading says, were one at this pose."""
        rows, columns = self._places(pose)
        known = np.where(rows >= 0, self.cells[rows, columns], UNSEEN)
        compared = (reading != UNSEEN) & (known != UNSEEN)
        compared[-1, SIDE // 2] = False
        return int((compared & (known != reading)).sum())

    def _places(self, pose: Pose) -> tuple[np.ndarray, np.ndarray]:
        """Rows and columns [7, 7] of the cells before a pose; -1 where they are off the map."""
        (rows,), (columns,) = places(np.array([pose]), SIDE)
        off = (rows < 0) | (columns < 0) | (rows >= EXTENT) | (columns >= EXTENT)
        return np.where(off, -1, rows), np.where(off, -1, columns)

    @staticmethod
    def _inside(pose: Pose) -> bool:
        return 0 < pose[0] < EXTENT - 1 and 0 < pose[1] < EXTENT - 1

    # -- what can be asked of it -----------------------------------------------------------------------------------

    def costs(self, onto_goal: bool) -> np.ndarray:
        """What a step into each cell costs, int64 [EXTENT, EXTENT], 0 where none leads: unknown cells count as such.

        Args:
            onto_goal: a goal may be stood on; it ends the episode, wanted or not.
        """
        found = _ENTERED[self.cells]
        if self.carried < THINGS + 6 and self.carried >= THINGS:  # a key
            found = np.where(self.cells == DOOR + 3 * (self.carried - THINGS) + LOCKED, 2, found)
        if not onto_goal:
            found = np.where(self.cells == GOAL, 0, found)
        return np.asarray(found)

    def news(self, poses: np.ndarray) -> np.ndarray:
        """How many unknown cells a look from each pose int64 [P, 3] is likely to show, float [P]; 0 where one was."""
        fresh = ~self.looked[tuple(poses.T)]
        found = np.zeros(len(poses))
        found[fresh] = news(self.cells == UNSEEN, CLEAR[self.cells], poses[fresh], SIDE)
        return found

    def where(self, classes: frozenset[int] | set[int]) -> list[Cell]:
        """The cells that hold one of these."""
        rows, columns = np.nonzero(np.isin(self.cells, list(classes)))
        return list(zip(rows.tolist(), columns.tolist(), strict=True))
