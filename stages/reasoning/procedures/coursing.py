"""The primitive `follow_plan` of procedures: a plan file gives symbols of a plan, and a head draws the plan.

The head fills in the missing symbols and the path. The plan file names the head; this module knows neither the head nor
the meaning of its symbols. It follows the path tick by tick, and every command comes from the head. Nothing heavy is
imported.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from stages.reasoning.procedures.interpreter import AGAIN
from stages.reasoning.procedures.terms import LIST, show

if TYPE_CHECKING:
    import numpy as np

    from devmind.agent.output import Output
    from devmind.agent.plans import Course

ANY = "any"
"""A step that the head may choose."""
FURTHER, PATIENCE = 0.05, 24
"""The path has ended, at its end or not, if the child gains no more than FURTHER of a point in PATIENCE ticks; and in
the tick after its last point was reached."""


class Coursing:
    """Follows a plan whose symbols were given, for one child.

    Args:
        read: `(head) -> Output`, the head's output for this Moment; None if the agent has no such head.

    Attributes:
        order: the commands of this tick, by effector.
        course: the path that is followed; None: nothing.
    """

    def __init__(self, read: Callable[[str], Output | None]) -> None:
        self._read = read
        self._asked: tuple[Any, ...] = ()
        self._at, self._marked, self._waited = 0.0, 0.0, 0
        self.course: Course | None = None
        self.order: dict[str, np.ndarray] = {}

    def begin_tick(self) -> None:
        """Drop the path if it was not followed in the last tick."""
        if not self.order:
            self.course = None
        self.order = {}

    def follow_plan(self, head: Any, effector: Any, steps: Any) -> object:
        """Follow, by `effector`, a plan of `head` whose first symbols are these steps.

        Returns True at the end of the path. Returns False if the drawn path does not make the given steps, or if the
        child gets no further before the end.

        Raises:
            LookupError: the head reads nothing, the steps are not a list, or no plan is drawn.
            ConfigError: the head has no such symbol.
        """
        if self.order:
            return AGAIN
        planner = self._read(str(head))
        if planner is None:
            raise LookupError(f"the agent has no head '{head}', or senses nothing that this head reads")
        if not (isinstance(steps, tuple) and steps[:1] == (LIST,)):
            raise LookupError(f"expected the steps as a list, such as [south, any, east]; got {show(steps)}")
        if self.course is None or self._asked != (head, effector, steps):
            fixed_words = {number: show(step) for number, step in enumerate(steps[1:]) if step != ANY}
            course = planner.course(fixed_words)
            if course is None:
                raise LookupError(f"the head '{head}' draws no plan for this Moment")
            if course.missed:
                return False
            self.course, self._asked = course, (head, effector, steps)
            self._at, self._marked, self._waited = 0.0, 0.0, 0
        last = len(self.course.points) - 1
        if self._at >= last:  # the command of the last point was given in the tick before
            self.course = None
            return True
        self._at, command = planner.along(self.course, self._at)
        self._waited += 1
        if self._at - self._marked > FURTHER:
            self._marked, self._waited = self._at, 0
        if self._waited >= PATIENCE:
            ended, self.course = self.course, None
            return bool(self._at >= last - ended.near)
        self.order = {str(effector): command}
        return AGAIN
