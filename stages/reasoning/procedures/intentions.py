"""The intention graph: a tree for each intention, with orders and interrupts between intentions.

A node is a goal, a plan's body, a branch, parallel strands, a wait or a guard. Nodes that can take a step are in their
intention's `ready`; changes of belief wake waiting nodes. A child that ends tells its parent, which goes on or ends in
turn. So a hundred thousand nested subgoals need no stack.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from stages.reasoning.procedures.plans import CHOOSE, Option
from stages.reasoning.procedures.terms import Bindings, Term, renamed, resolve, unify

if TYPE_CHECKING:
    from stages.reasoning.procedures.guards import Guard
    from stages.reasoning.procedures.interpreter import Interpreter
    from stages.reasoning.procedures.statements import Statement

AGAIN = object()
"""The result of a statement or primitive that is not over yet: it is called again in the intention's next cycle."""


class Intention:
    """One thing that the agent is committed to.

    Attributes:
        root: the outermost node.
        name: for people to read.
        priority: among intentions that can go on, the highest goes on; equals take turns.
        ready: nodes that can take a step.
        suspended: True until a plan resumes it.
        after: intentions that must be over first.
        state: 'going', 'done', 'failed' or 'dropped'.
        guards: maintain guards that hold back a part of it now.
    """

    __slots__ = ("after", "guards", "name", "priority", "ran", "ready", "root", "state", "suspended")

    def __init__(self, name: str, priority: int = 0, after: Sequence[Intention] = ()) -> None:
        self.name, self.priority, self.after = name, priority, list(after)
        self.ready: deque[Node] = deque()
        self.root: Node | None = None
        self.suspended, self.state, self.ran = False, "going", 0
        self.guards: list[Guard] = []

    def waits(self) -> bool:
        """Whether an intention that must be over first is still going."""
        self.after = [other for other in self.after if other.state == "going"]
        return bool(self.after)

    def __repr__(self) -> str:
        return f"{self.name} ({self.state}{', suspended' if self.suspended else ''})"


class Node:
    """Part of an intention's tree."""

    __slots__ = ("intention", "parent")

    def __init__(self, parent: Node | None, intention: Intention) -> None:
        self.parent, self.intention = parent, intention

    def step(self, it: Interpreter) -> None:
        """Take one step, if this node can."""

    def child_done(self, it: Interpreter, child: Node, ok: bool) -> bool | None:
        """Handle the end of a child: True or False ends this node with success or failure; None lets it go on."""
        return ok

    def look(self, it: Interpreter) -> None:
        """Handle a change of what it watches."""

    def children(self) -> Iterator[Node]:
        """The nodes that work for this one."""
        return iter(())


class Strand(Node):
    """Statements one after the other, with the variables of their plan."""

    __slots__ = ("at", "bindings", "child", "statements")

    def __init__(
        self, parent: Node | None, intention: Intention, statements: Sequence[Statement], bindings: Bindings
    ) -> None:
        self.parent, self.intention = parent, intention  # without super(), as a cycle makes a strand and a goal
        self.statements, self.bindings, self.at = statements, bindings, 0
        self.child: Node | None = None

    def step(self, it: Interpreter) -> None:
        if self.at == len(self.statements):
            it.finish(self, True)
            return
        verdict = self.statements[self.at].run(it, self)
        if verdict is True:
            self.at += 1
            if self.at < len(self.statements):
                it.ready(self)
            else:
                it.finish(self, True)
        elif verdict is False:
            it.finish(self, False)
        elif verdict is AGAIN:
            it.ready(self)

    def child_done(self, it: Interpreter, child: Node, ok: bool) -> bool | None:
        self.child = None
        if not ok:
            return False
        self.at += 1
        if self.at == len(self.statements):
            return True
        it.ready(self)
        return None

    def children(self) -> Iterator[Node]:
        if self.child is not None:
            yield self.child


class Goal(Node):
    """A goal to achieve or test: tries one applicable plan after the other until one succeeds.

    Attributes:
        term: the goal, its unbound variables renamed.
        asked: the goal as its strand wrote it.
        option: the plan at work.
        tried: keys of the plans that were tried.
        choosing: the options while a meta-level plan chooses among them.
        picked: the plan that the meta-level plan named.
        since, situation: for learned utilities, the total reward and the situation when that plan began.
    """

    picked: str | None
    since: float
    situation: Hashable

    __slots__ = (
        "asked",
        "child",
        "choosing",
        "failing",
        "kind",
        "option",
        "picked",
        "since",
        "situation",
        "term",
        "tried",
    )

    def __init__(self, parent: Node | None, intention: Intention, kind: str, term: Term) -> None:
        self.parent, self.intention, self.kind, self.asked = parent, intention, kind, term
        self.term = term if type(term) is tuple else renamed(term, {})
        self.tried: set[tuple[Any, ...]] | None = None
        self.option: Option | None = None
        self.child: Strand | None = None
        self.choosing: list[Option] | None = None
        self.failing = False

    def begin(self, it: Interpreter) -> bool:
        """Begin a plan that has not been tried; False if there is none."""
        candidates, tried = it.library.candidates(self.kind, self.term), self.tried
        if it.utilities is None and not candidates.weighed:
            if not tried:
                option = candidates.first(self.term, it.beliefs)
            else:
                applicable = candidates.applicable(self.term, it.beliefs)
                option = next((one for one in applicable if one.key not in tried), None)
            if option is None:
                return False
            self._set_out(it, option)
            return True
        applicable = candidates.applicable(self.term, it.beliefs)
        options = [one for one in applicable if not tried or one.key not in tried]
        if len(options) > 1 and self.kind != CHOOSE:
            offered = _Choosing(it, it.offered(self, options))
            meta = next(it.library.applicable(CHOOSE, self.term, offered, id(self)), None)
            if meta is not None:
                self._deliberate(it, meta, options)
                return True
        if not options:
            return False
        self._set_out(it, it.best(self.term, options))
        return True

    def _deliberate(self, it: Interpreter, meta: Option, options: list[Option]) -> None:
        """Run the meta-level plan first; the goal then uses the plan that it picks."""
        self.choosing, self.picked = options, None
        it.offer(self, options)
        self.child = Strand(self, self.intention, meta.plan.body, meta.bindings)
        it.ready(self.child)

    def _set_out(self, it: Interpreter, option: Option) -> None:
        self.option, self.failing = option, False
        if it.utilities is not None:
            self.since, self.situation = it.reward, it.utilities.situation(self.term)
        # A copy, because a failed plan is recognised by the bindings that it began with.
        self.child = Strand(self, self.intention, option.plan.body, option.bindings.copy())
        it.ready(self.child)
        if it.trace is not None:
            it.trace(self, option.plan)

    def child_done(self, it: Interpreter, child: Node, ok: bool) -> bool | None:
        if self.choosing is not None:
            options, self.choosing = self.choosing, None
            it.withdraw(self)
            picked = [one for one in options if one.plan.name == self.picked]
            self._set_out(it, it.best(self.term, picked or options))
            return None
        option, strand = self.option, self.child
        assert option is not None
        assert strand is not None
        if not ok and option.plan.failing and not self.failing:
            self.failing = True
            self.child = Strand(self, self.intention, option.plan.failing, strand.bindings)
            it.ready(self.child)
            return None
        ok = ok and not self.failing
        if it.utilities is not None:
            it.utilities.ended(self.situation, option, it.reward - self.since, ok)
        if ok:
            self.child = None  # no circle is left behind, so what is over is freed at once
            return type(self.asked) is tuple or self._hand_back(resolve(self.term, strand.bindings))
        self.tried = self.tried or set()
        self.tried.add(option.key)
        return None if self.begin(it) else False

    def _hand_back(self, result: Term) -> bool:
        """Bind the caller's variables to the result."""
        if self.parent is None:
            return True
        caller = self.parent
        while not isinstance(caller, Strand):
            assert caller.parent is not None
            caller = caller.parent
        return unify(self.asked, result, caller.bindings)

    def children(self) -> Iterator[Node]:
        if self.child is not None:
            yield self.child


class _Choosing:
    """Beliefs for the context of a meta-level plan: they include the options before these are offered."""

    def __init__(self, it: Interpreter, offered: Sequence[tuple[Any, ...]]) -> None:
        self.beliefs, self.offered = it.beliefs, offered

    def find(self, pattern: Term, bindings: Bindings) -> Iterator[Bindings]:
        """As `Beliefs.find`."""
        for fact in self.offered:
            extended = bindings.copy()
            if unify(pattern, fact, extended):
                yield extended
        yield from self.beliefs.find(pattern, bindings)


class Answer(Node):
    """The plan that answers an event: its body, and if that fails its `failing` part; the answer has failed then."""

    __slots__ = ("child", "failing", "option")

    def __init__(self, intention: Intention, option: Option) -> None:
        super().__init__(None, intention)
        self.option, self.failing = option, False
        self.child = Strand(self, intention, option.plan.body, option.bindings)
        intention.ready.append(self.child)

    def child_done(self, it: Interpreter, child: Node, ok: bool) -> bool | None:
        if ok or self.failing or not self.option.plan.failing:
            return ok and not self.failing
        self.failing = True
        self.child = Strand(self, self.intention, self.option.plan.failing, self.child.bindings)
        it.ready(self.child)
        return None

    def children(self) -> Iterator[Node]:
        yield self.child


class Branch(Node):
    """Alternatives that are tried in turn until one succeeds."""

    __slots__ = ("at", "before", "bindings", "child", "ways")

    def __init__(self, parent: Strand, branches: Sequence[Sequence[Statement]]) -> None:
        super().__init__(parent, parent.intention)
        self.ways, self.at, self.bindings = branches, -1, parent.bindings
        self.before: Bindings = {}
        self.child: Strand | None = None

    def begin(self, it: Interpreter) -> None:
        """Begin the next alternative, with the variables as they were before the last one."""
        self.at += 1
        self.before = self.bindings.copy()
        self.child = Strand(self, self.intention, self.ways[self.at], self.before.copy())
        it.ready(self.child)

    def child_done(self, it: Interpreter, child: Node, ok: bool) -> bool | None:
        if ok:
            assert self.child is not None
            self.bindings.update(changed(self.before, self.child.bindings))
            return True
        if self.at + 1 == len(self.ways):
            return False
        self.begin(it)
        return None

    def children(self) -> Iterator[Node]:
        if self.child is not None:
            yield self.child


class Loop(Node):
    """A body for each of some bindings in turn. Variables bound in it are forgotten, changes of earlier ones stay."""

    __slots__ = ("before", "bindings", "child", "each", "statements")

    def __init__(self, parent: Strand, statements: Sequence[Statement], each: Iterator[Bindings]) -> None:
        super().__init__(parent, parent.intention)
        self.statements, self.each, self.bindings = statements, each, parent.bindings
        self.before: Bindings = {}
        self.child: Strand | None = None

    def begin(self, it: Interpreter) -> bool:
        """Begin the next round; False if there is none."""
        bindings = next(self.each, None)
        if bindings is None:
            return False
        self.before = self.bindings.copy()
        # All rounds of `each` are known at its beginning, with the values that variables had then.
        self.child = Strand(self, self.intention, self.statements, {**bindings, **self.bindings})
        it.ready(self.child)
        return True

    def child_done(self, it: Interpreter, child: Node, ok: bool) -> bool | None:
        if not ok:
            return False
        assert self.child is not None
        changes = changed(self.before, self.child.bindings)
        self.bindings.update({name: value for name, value in changes.items() if name in self.before})
        return None if self.begin(it) else True

    def children(self) -> Iterator[Node]:
        if self.child is not None:
            yield self.child


class Parallel(Node):
    """Strands side by side that take turns: done when all are done, failed as soon as one fails."""

    __slots__ = ("strands",)

    def __init__(self, parent: Strand, bodies: Sequence[Sequence[Statement]]) -> None:
        super().__init__(parent, parent.intention)
        self.strands: list[Node] = [Strand(self, self.intention, body, parent.bindings) for body in bodies]

    def begin(self, it: Interpreter) -> None:
        """Begin all strands."""
        for strand in self.strands:
            it.ready(strand)

    def child_done(self, it: Interpreter, child: Node, ok: bool) -> bool | None:
        self.strands.remove(child)
        if not ok:
            it.abort(*self.strands)
            return False
        return None if self.strands else True

    def children(self) -> Iterator[Node]:
        return iter(self.strands)


def changed(before: Bindings, after: Bindings) -> Bindings:
    """What of `after` is new or has another value: parallel strands may have changed the rest meanwhile."""
    return {name: value for name, value in after.items() if before.get(name) is not value}


def inside(node: Node, top: Node) -> bool:
    """Whether a node is `top` or below it."""
    at: Node | None = node
    while at is not None:
        if at is top:
            return True
        at = at.parent
    return False
