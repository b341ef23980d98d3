"""The primitive `follow_plan` of procedures: steps that a plan file says are symbols of a plan that a head draws.

A head that plans fills in what is not said, and the way there; which head that is, and what its symbols mean, is not
known here: the plan file names it. The way is followed here, tick by tick, and every command is the head's own. Nothing
heavy is imported.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from stages.reasoning.procedures.intentions import AGAIN
from stages.reasoning.procedures.terms import LIST, show

if TYPE_CHECKING:
    import numpy as np

    from devmind.agent.output import Output
    from devmind.agent.plans import Course

ANY = "any"
"""A step that is left to the head."""
FURTHER, PATIENCE = 0.05, 24
"""Who has come no further than this share of a point in so many ticks has come to an end, there or not."""
LAST = 1.0
"""How near to the last point counts as there, in points."""


class Coursing:
    """One child's way by a plan whose symbols were given.

    Args:
        read: `(head) -> Output`, what a head says of this Moment; None where the agent has no such head.

    Attributes:
        order: what is done in this tick, by effector.
        course: what is followed; None: nothing.
    """

    def __init__(self, read: Callable[[str], Output | None]) -> None:
        self._read = read
        self._asked: tuple[Any, ...] = ()
        self._at, self._marked, self._waited = 0.0, 0.0, 0
        self.course: Course | None = None
        self.order: dict[str, np.ndarray] = {}

    def begin_tick(self) -> None:
        """Who did not follow in the last tick begins anew."""
        if not self.order:
            self.course = None
        self.order = {}

    def follow_plan(self, head: Any, effector: Any, steps: Any) -> object:
        """Follow a plan of `head` with these steps as its first symbols, by `effector`: True at its end, False where
        the way that was drawn does not make them, or where one comes no further.

        Raises:
            LookupError: nothing is read, or that is no list of steps.
            ConfigError: the head has no such symbol.
        """
        if self.order:
            return AGAIN
        said = self._read(str(head))
        if said is None:
            raise LookupError(f"the agent has no head '{head}', or senses nothing that it reads")
        if not (isinstance(steps, tuple) and steps[:1] == (LIST,)):
            raise LookupError(f"steps are a list, such as [south, any, east]; got {show(steps)}")
        if self.course is None or self._asked != (head, effector, steps):
            given = {number: show(step) for number, step in enumerate(steps[1:]) if step != ANY}
            course = said.course(given)
            if course is None:
                raise LookupError(f"the head '{head}' draws no plan of what is sensed")
            if course.missed:
                return False
            self.course, self._asked = course, (head, effector, steps)
            self._at, self._marked, self._waited = 0.0, 0.0, 0
        self._at, command = said.along(self.course, self._at)
        self._waited += 1
        if self._at - self._marked > FURTHER:
            self._marked, self._waited = self._at, 0
        if self._waited >= PATIENCE:
            ended, self.course = self.course, None
            return bool(self._at >= len(ended.points) - 1 - LAST)
        self.order = {str(effector): command}
        return AGAIN
