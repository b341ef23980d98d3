"""Nodes of an intention that watch a condition: to wait for it, or to keep it while a body runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from stages.reasoning.procedures.beliefs import Believed, Condition
from stages.reasoning.procedures.intentions import Goal, Node, Strand
from stages.reasoning.procedures.plans import ACHIEVE
from stages.reasoning.procedures.terms import resolve

if TYPE_CHECKING:
    from stages.reasoning.procedures.interpreter import Interpreter
    from stages.reasoning.procedures.statements import Statement


class Wait(Node):
    """Waits until a condition holds or the time is over."""

    __slots__ = ("condition", "strand", "until")

    def __init__(self, parent: Strand, condition: Condition, until: int | None) -> None:
        super().__init__(parent, parent.intention)
        self.strand, self.condition, self.until = parent, condition, until

    def look(self, it: Interpreter) -> None:
        bindings = self.condition.first(it.beliefs, self.strand.bindings)
        if bindings is None and (self.until is None or it.now < self.until):
            return
        it.unwatch(self)
        if bindings is not None:
            self.strand.bindings.update(bindings)
        it.finish(self, bindings is not None)


class Guard(Node):
    """A condition that must hold while a body runs.

    With `preserve` the body fails as soon as the condition does not hold. With `maintain` the body stands still, and a
    goal is set to make it hold again.
    """

    __slots__ = ("condition", "held", "maintains", "repair", "strand")

    def __init__(self, parent: Strand, condition: Condition, maintains: bool, body: Sequence[Statement]) -> None:
        super().__init__(parent, parent.intention)
        self.condition, self.maintains = condition, maintains
        self.strand = Strand(self, self.intention, body, parent.bindings)
        self.held: list[Node] = []
        self.repair: Goal | None = None

    def begin(self, it: Interpreter) -> bool:
        """Begin the body; if a condition to maintain does not hold yet, begin its repair."""
        it.watch(self, self.condition)
        it.ready(self.strand)
        if self.condition.first(it.beliefs, self.strand.bindings) is None:
            if not self.maintains:
                it.abort(self.strand)
                it.unwatch(self)
                return False
            return self._mend(it)
        return True

    def look(self, it: Interpreter) -> None:
        if self.repair is not None or self.condition.first(it.beliefs, self.strand.bindings) is not None:
            return
        if self.maintains:
            if not self._mend(it):
                it.finish(self, False)
            return
        it.abort(self.strand)
        it.unwatch(self)
        it.finish(self, False)

    def _mend(self, it: Interpreter) -> bool:
        """Hold back the body and set the goal; False if there is no plan for it."""
        assert isinstance(self.condition, Believed)
        goal = Goal(self, self.intention, ACHIEVE, resolve(self.condition.pattern, self.strand.bindings))
        self.repair = goal
        self.held = it.hold(self)
        if goal.begin(it):
            return True
        self._give_up(it)
        return False

    def _give_up(self, it: Interpreter) -> None:
        it.release(self)
        it.abort(self.strand)
        it.unwatch(self)

    def child_done(self, it: Interpreter, child: Node, ok: bool) -> bool | None:
        if child is not self.repair:
            it.release(self)
            it.unwatch(self)
            if self.repair is not None:
                it.abort(self.repair)
            return ok
        self.repair = None
        if not ok or self.condition.first(it.beliefs, self.strand.bindings) is None:
            self._give_up(it)
            return False
        for node in it.release(self):
            it.ready(node)
        return None

    def children(self) -> Iterator[Node]:
        yield self.strand
        if self.repair is not None:
            yield self.repair
