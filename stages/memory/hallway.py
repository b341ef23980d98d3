"""MiniGrid's Memory rooms as worlds, and a teacher that walks them.

A key or a ball lies at the start of a hallway; at its end one of each, and the child is to go to the one that equals
the first. It starts anywhere in the hallway with its back to the first one, so it has to go and look before it goes.
The environment is MiniGrid's own (`devmind.worlds.minigrid`, extra `worlds`).
"""

from __future__ import annotations

from collections import deque
from typing import Any

from devmind.worlds.minigrid import FORWARD, LEFT, RIGHT, room
from devmind.worlds.side_by_side import SideBySide

KEY, BALL = 5, 6
_HEADINGS = ((1, 0), (0, 1), (-1, 0), (0, -1))
LONGEST = {7: 24, 13: 40}
"""Steps after which an episode counts as failed: three times the teacher's longest."""
Layout = tuple[int, int, int]
"""What differs between rooms of one size: how far along the hallway the child starts, from 1; what lies at its start (0
a key, 1 a ball); whether what equals that lies at the left (0) or the right (1) of its end."""


def for_exams(layout: Layout) -> bool:
    """Whether a room is kept for exams: every second one, so that lessons have each start, thing and side, but not
    every combination of them.
    """
    return sum(layout) % 2 == 1


def room_name(size: int) -> str:
    """MiniGrid's name of the room of that size."""
    return f"MiniGrid-MemoryS{size}-v0"


class Hallway:
    """One such room with a teacher that sees the whole grid."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.world = room(room_name(size))
        self.env: Any = self.world.env.unwrapped

    def begin(self, seed: int) -> SideBySide:
        """The episode of `seed` as a world of one row, for a rollout; the teacher looks at it anew."""
        world = SideBySide([self.world], [seed])
        middle = self.env.height // 2
        self.start = int(self.env.agent_pos[0])
        self.looked = False
        self.to_look = self._steps_to((1, middle), ())
        self.to_goal = self._steps_to(tuple(self.env.success_pos), (tuple(self.env.failure_pos),))
        return world

    def teach(self) -> int:
        """The teacher's action: go and look until the first thing was in view, then to the one that equals it."""
        self.looked = self.looked or self.in_view
        steps = self.to_goal if self.looked else self.to_look
        here = int(self.env.agent_pos[0]), int(self.env.agent_pos[1]), int(self.env.agent_dir)
        return min((LEFT, RIGHT, FORWARD), key=lambda action: steps.get(self._after(here, action), 10**6))

    @property
    def in_view(self) -> bool:
        """The child sees the first thing now."""
        return bool(self.env.agent_sees(1, self.env.height // 2 - 1))

    @property
    def first_thing(self) -> int:
        """What lies at the start: 0 a key, 1 a ball."""
        return int(self.env.grid.get(1, self.env.height // 2 - 1).type == "ball")

    @property
    def layout(self) -> Layout:
        """Which room the episode that was begun last is in."""
        right = self.env.success_pos[1] > self.env.height // 2
        return self.start, self.first_thing, int(right)

    @property
    def at_the_fork(self) -> bool:
        """The child stands where the hallway ends, having looked, and has not turned yet: now it must remember."""
        fork = self.env.success_pos[0], self.env.height // 2
        return self.looked and tuple(self.env.agent_pos) == fork and self.env.agent_dir == 0

    def _after(self, here: tuple[int, int, int], action: int) -> tuple[int, int, int]:
        x, y, heading = here
        if action != FORWARD:
            return x, y, (heading + (1 if action == RIGHT else -1)) % 4
        ahead = x + _HEADINGS[heading][0], y + _HEADINGS[heading][1]
        return (*ahead, heading) if self.env.grid.get(*ahead) is None else here

    def _steps_to(self, goal: tuple[int, ...], avoid: tuple[Any, ...]) -> dict[tuple[int, int, int], int]:
        """Actions to the cell `goal` from every place and heading: breadth first, backwards."""
        steps = {(goal[0], goal[1], heading): 0 for heading in range(4)}
        waiting = deque(steps)
        while waiting:
            x, y, heading = here = waiting.popleft()
            back = x - _HEADINGS[heading][0], y - _HEADINGS[heading][1]
            before = [(x, y, (heading + 1) % 4), (x, y, (heading - 1) % 4), (*back, heading)]
            for place in before:
                if place not in steps and self.env.grid.get(*place[:2]) is None and place[:2] not in avoid:
                    steps[place] = steps[here] + 1
                    waiting.append(place)
        return steps
