"""The controller: it carries out a plan in symbols, action by action, on a map that it draws itself.

It gets what stands in the cells in view, and knows its own actions; its map remembers where things are and where it is.
Nothing here is learned, and nothing knows the instruction.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from devmind.algorithms.grid import (
    DONE,
    DROP,
    FLOOR,
    LOCKED,
    OPEN,
    STEPS,
    TOGGLE,
    Map,
    Walker,
    ahead,
    before,
    is_door,
    shortest,
)
from stages.planning.instruct import symbols
from stages.planning.instruct.symbols import DROP_NEXT_TO, GO_TO, PICK_UP, Subgoal, Subgoals


@dataclass
class Errand:
    """A plan that is being carried out, and its progress.

    Attributes:
        plan, at: the plan, and the number of the next subgoal.
        action: the last action; None before the first.
        stuck: no way leads to the next subgoal, and all that can be seen was seen.
    """

    map: Map = field(default_factory=Map)
    plan: Subgoals = ()
    at: int = 0
    action: int | None = None
    stuck: bool = False

    @property
    def over(self) -> bool:
        """Whether nothing will be done any more: the plan is carried out, or stuck."""
        return self.stuck or self.at >= len(self.plan)

    @property
    def lacks(self) -> Subgoal | None:
        """The next subgoal, if nothing on the map fits it, so that its place has to be found first; else None."""
        goal = None if self.at >= len(self.plan) else self.plan[self.at]
        held = goal is not None and goal.verb == PICK_UP and self.map.carried in goal.classes
        return None if goal is None or held or self.map.where(goal.classes) else goal

    @property
    def belief(self) -> str:
        """The state of the errand, in a sentence: what the agent would have to know first, or why it has ended."""
        if self.at >= len(self.plan):
            return "done, as far as I see."
        kind, lacks = self.plan[self.at].kind, self.lacks is not None
        if self.stuck:
            return (
                f"there is no {kind}: I have looked wherever I can come to." if lacks
                else f"I know of a {kind}, and no way leads on."
            )  # fmt: skip
        return f"I would have to know first where a {kind} is: I look for one." if lacks else f"I know of a {kind}."

    def begin(self, plan: Subgoals) -> None:
        """Begin another plan on the same map; the same plan again changes nothing."""
        if plan != self.plan:
            self.plan, self.at, self.stuck = plan, 0, False


class Controller(Walker):
    """Carries out errands, tick by tick."""

    def act(self, errand: Errand, reading: np.ndarray) -> int:
        """Add the view to the map and choose an action, by MiniGrid's number.

        Args:
            reading: int64 [7, 7] of classes of `grid`.
        """
        errand.map.take_in(reading, errand.action)
        while not errand.over and self.reached(errand):
            errand.at += 1
        if errand.over:
            action: int | None = DONE
        elif errand.action is None and self._there(errand):
            action = DONE  # BabyAI checks only after an action whether something was reached
        else:
            action = self._towards(errand, errand.plan[errand.at])
        errand.stuck |= action is None
        errand.action = DONE if action is None else action
        return errand.action

    def reached(self, errand: Errand) -> bool:
        """Whether the next subgoal is reached, as far as the agent sees."""
        here, goal = errand.map, errand.plan[errand.at]
        if goal.verb == GO_TO:
            return errand.action is not None and self._faces(here, goal)
        if goal.verb == PICK_UP:
            return here.carried in goal.classes
        if goal.verb == DROP_NEXT_TO:
            return errand.action == DROP and here.carried == FLOOR
        cell = here.cells[ahead(here.pose)]
        return errand.action == TOGGLE and self._faces(here, goal) and bool(is_door(cell, OPEN))

    def _there(self, errand: Errand) -> bool:
        goal = errand.plan[errand.at]
        return goal.verb == GO_TO and self._faces(errand.map, goal)

    def _faces(self, here: Map, goal: Subgoal) -> bool:
        return int(here.cells[ahead(here.pose)]) in goal.classes

    def _towards(self, errand: Errand, goal: Subgoal) -> int | None:
        here = errand.map
        costs, targets = here.costs(onto_goal=False), here.where(goal.classes)
        action: int | None
        if goal.verb == PICK_UP:
            action = self.fetch(here, costs, targets)
        elif goal.verb == DROP_NEXT_TO:
            if here.carried == FLOOR:
                return None  # the plan puts down what was never picked up
            beside = {(row + down, column + along) for row, column in targets for down, along in STEPS}
            free = [cell for cell in beside if here.cells[cell] == FLOOR and cell != here.pose[:2]]
            moves = shortest(costs, here.pose, [pose for cell in sorted(free) for pose in before(cell)])
            action = DROP if moves == [] else self.by(here, moves)
        else:
            near = [cell for cell in targets if not (goal.verb == symbols.OPEN and is_door(here.cells[cell], LOCKED))]
            moves = shortest(costs, here.pose, [pose for cell in near for pose in before(cell)])
            action = TOGGLE if moves == [] else self.by(here, moves)
        # To fetch a key or clear the way, the agent would first drop what it is to put down elsewhere.
        carries = goal.verb == DROP_NEXT_TO
        if action is None and not carries:
            action = self.unlock(here, costs)
        if action is None:
            action = self.explore(here, costs)
        return self.clear(here, costs, targets) if action is None and not carries else action
