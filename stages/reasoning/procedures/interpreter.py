"""The interpreter: each cycle takes in what is new, chooses among applicable plans and intentions, and takes a step.

It is the procedural reasoning system of Georgeff and Lansky (1987, "Reactive reasoning and planning", AAAI). Its goals
are those of Ingrand, Georgeff and Rao (1992, "An architecture for real-time reasoning and system control"): achieve,
test, wait, preserve, maintain. An event that comes before a cycle begins is answered in that cycle, because a step is
one statement and no plan holds up a cycle for longer than a step.

What it is committed to is the intention graph: a tree of nodes for each intention, with orders and interrupts between
intentions. A node is a goal, a plan's body, a branch, parallel strands, a wait or a guard. Nodes that can take a step
are in their intention's `ready`; changes of belief wake waiting nodes. A child that ends tells its parent, which goes
on or ends in turn. So a hundred thousand nested subgoals need no stack.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from devmind.errors import nearest
from stages.reasoning.procedures.beliefs import Beliefs, Believed, Condition, Fact
from stages.reasoning.procedures.library import (
    ACHIEVE,
    BELIEVED,
    CHOOSE,
    FORGOTTEN,
    Library,
    Option,
    Procedure,
    Statement,
)
from stages.reasoning.procedures.terms import (
    MOST_WORK,
    WORK,
    Bindings,
    Open,
    PlanError,
    Term,
    Var,
    is_ground,
    rename_variables,
    resolve,
    show,
    unify,
)

Action = Callable[..., Any]
"""A primitive action, called with ground terms. It returns False if it fails, AGAIN to be called again in the next
cycle, else its result, a term.
"""
MOST_INTENTIONS = 1000
OPTION, WORTH = "option", "worth"
"""What is believed while a meta-level plan chooses: option(CHOICE, PLAN), worth(CHOICE, PLAN, NUMBER)."""
AGAIN = object()
"""The result of a statement or primitive that is not over yet: it is called again in the intention's next cycle."""


class Utilities(Protocol):
    """Learned utilities, as an Interpreter asks for them."""

    def values(self, goal: Term, options: Sequence[Option]) -> Sequence[float] | None:
        """The worth of each option; None: as the plans say."""
        ...

    def choose(self, values: Sequence[float]) -> int:
        """The option that is taken."""
        ...

    def situation(self, goal: Term) -> Hashable:
        """What the worth of a plan depends on, at the time of the choice."""
        ...

    def ended(self, situation: Hashable, option: Option, reward: float, ok: bool) -> None:
        """The option's plan, chosen in that situation, is over; meanwhile `reward` was earned."""
        ...


class Interpreter:
    """Runs one agent's procedures.

    Args:
        library: its plans; its facts are believed and its goals posted.
        beliefs: the first beliefs; by default new ones.
        actions: primitive actions by name.
        utilities: learned utilities of choices; by default those in the plans.
        trace: called whenever a plan begins.

    Attributes:
        now: cycles so far.
        work: what the last cycle took of MOST_WORK.
        reward: the sum of all that `earn` was given.
        intentions: the intentions that are not over, the oldest first.
        last_step: the node that took the last cycle's step; None if none could.
    """

    def __init__(
        self,
        library: Library,
        beliefs: Beliefs | None = None,
        actions: Mapping[str, Action] | None = None,
        utilities: Utilities | None = None,
        trace: Callable[[Goal, Procedure], None] | None = None,
    ) -> None:
        self.library, self.beliefs = library, Beliefs() if beliefs is None else beliefs
        self.actions, self.utilities, self.trace = dict(actions or {}), utilities, trace
        self.now, self.reward, self.work = 0, 0.0, 0.0
        self.intentions: list[Intention] = []
        self.last_step: Node | None = None
        self._events: list[tuple[str, Fact]] = []
        self._watchers: dict[str, dict[Node, None]] = {}
        self._watching: dict[Node, frozenset[str]] = {}
        self._always: dict[Node, None] = {}
        self._stirred: dict[Node, None] = {}
        self.beliefs.changed = self._noticed
        for fact in library.facts:
            self.beliefs.add(fact)
        for goal, priority in library.goals:
            self.post(goal, priority=priority)

    # -- for callers ---------------------------------------------------------------------------------------------

    def post(
        self, goal: Term, kind: str = ACHIEVE, priority: int = 0, after: Sequence[Intention] = (), name: str = ""
    ) -> Intention:
        """Commit to a goal; it is taken up when its turn comes.

        Args:
            after: intentions that must be over before it begins.
            name: for `suspend` and `resume`; by default the goal as written.
        """
        intention = Intention(name or show(goal), priority, after)
        intention.root = Starting(intention, kind, goal)
        intention.ready.append(intention.root)
        self._add(intention)
        return intention

    def drop(self, intention: Intention) -> None:
        """Give up an intention; it is over at once."""
        if intention.root is not None and intention.state == "going":
            self.abort(intention.root)
            self._over(intention, "dropped")

    def earn(self, reward: float) -> None:
        """Add a reward; it counts for every choice whose plan is at work."""
        self.reward += reward

    def run(self, cycles: int = 1_000_000) -> int:
        """Cycle until nothing can go on, or for `cycles` cycles; returns how many it took."""
        began = self.now
        while self.now - began < cycles and self.cycle():
            pass
        return self.now - began

    def solve(self, goal: Term, cycles: int = 1_000_000) -> bool:
        """Post a goal and run; returns whether it was achieved."""
        intention = self.post(goal)
        self.run(cycles)
        return intention.state == "done"

    def cycle(self) -> bool:
        """One cycle; returns whether there is anything left to do.

        Raises:
            PlanError: a plan asks for something impossible, or for more work than a cycle may take.
        """
        WORK.left = MOST_WORK
        try:
            return self._cycle()
        except RecursionError:
            raise PlanError(
                "Expected terms that are less deep: variables that stand for each other nest too far."
            ) from None
        finally:
            self.work, WORK.left = MOST_WORK - WORK.left, math.inf

    def _cycle(self) -> bool:
        self.now += 1
        if self._events:
            self._answer()
        if self._stirred or self._always:
            looking, self._stirred = {**self._stirred, **self._always}, {}
            for node in looking:
                if node in self._watching:
                    node.look(self)
        chosen: Intention | None = None
        for one in self.intentions:
            if not one.ready or one.suspended or (one.after and one.waits()):
                continue
            if (
                chosen is None
                or one.priority > chosen.priority
                or (one.priority == chosen.priority and one.ran < chosen.ran)
            ):
                chosen = one
        if chosen is None:
            self.last_step = None
            return bool(self._events or self._stirred or self._always)
        chosen.ran = self.now
        node = self.last_step = chosen.ready.popleft()
        node.step(self)
        return True

    # -- for nodes -----------------------------------------------------------------------------------------------

    def ready(self, node: Node) -> None:
        """Mark that a node can take a step; a guard may hold it back."""
        intention = node.intention
        for guard in intention.guards:
            if inside(node, guard.strand):
                guard.held.append(node)
                return
        intention.ready.append(node)

    def finish(self, node: Node, ok: bool) -> None:
        """End a node, and all nodes above it that end with it."""
        while (parent := node.parent) is not None:
            verdict = parent.child_done(self, node, ok)
            if verdict is None:
                return
            node, ok = parent, verdict
        self._over(node.intention, "done" if ok else "failed")

    def abort(self, *nodes: Node) -> None:
        """End nodes and everything below them without telling the nodes above."""
        nodes_below = list(nodes)
        for node in nodes_below:
            nodes_below += node.children()
            self.unwatch(node)
            if isinstance(node, Guard) and node in node.intention.guards:
                node.intention.guards.remove(node)
            if isinstance(node, Goal) and node.choosing is not None:
                self.withdraw(node)
        gone = {id(node) for node in nodes_below}
        for intention in {id(node.intention): node.intention for node in nodes}.values():
            remaining = [node for node in intention.ready if id(node) not in gone]
            intention.ready.clear()
            intention.ready.extend(remaining)
            for guard in intention.guards:
                guard.held = [node for node in guard.held if id(node) not in gone]

    def watch(self, node: Node, condition: Condition, timed: bool = False) -> None:
        """Let a node look whenever a fact of its condition changes; in every cycle if such a fact is sensed, or if
        `timed`.
        """
        functors = frozenset(condition.asks())
        self._watching[node] = functors
        if timed or any(functor in self.beliefs.sensed for functor in functors):
            self._always[node] = None
        for functor in functors:
            self._watchers.setdefault(functor, {})[node] = None

    def unwatch(self, node: Node) -> None:
        """Stop watching for a node."""
        functors = self._watching.pop(node, None)
        if functors is not None:
            self._always.pop(node, None)
            for functor in functors:
                self._watchers[functor].pop(node, None)

    def hold(self, guard: Guard) -> list[Node]:
        """Hold back the ready nodes below a guard's body, and return them."""
        intention = guard.intention
        held = [node for node in intention.ready if inside(node, guard.strand)]
        remaining = [node for node in intention.ready if node not in held]
        intention.ready.clear()
        intention.ready.extend(remaining)
        intention.guards.append(guard)
        return held

    def release(self, guard: Guard) -> list[Node]:
        """End a guard's hold, and return the nodes that it held."""
        if guard in guard.intention.guards:
            guard.intention.guards.remove(guard)
        held, guard.held = guard.held, []
        return held

    def best(self, goal: Term, options: Sequence[Option]) -> Option:
        """The option of the highest utility, the first of equals."""
        if len(options) == 1 and self.utilities is None:
            return options[0]
        values = self.values(goal, options)
        if self.utilities is not None:
            return options[self.utilities.choose(values)]
        return options[max(range(len(options)), key=values.__getitem__)]

    def values(self, goal: Term, options: Sequence[Option]) -> Sequence[float]:
        """The worth of each option: learned, or as its plan says."""
        if self.utilities is not None:
            learned = self.utilities.values(goal, options)
            if learned is not None:
                return learned
        utilities = []
        for option in options:
            value = resolve(option.plan.utility, option.bindings)
            if isinstance(value, bool) or not isinstance(value, int | float):
                name = option.plan.name
                raise PlanError(
                    f"{option.plan.place}: expected a number as the utility of '{name}'; got {show(value)}."
                )
            utilities.append(float(value))
        return utilities

    def offered(self, goal: Goal, options: Sequence[Option]) -> list[Fact]:
        """The facts that a meta-level plan believes about a choice."""
        values = self.values(goal.term, options)
        names = {option.plan.name: value for value, option in sorted(zip(values, options, strict=True), key=_value)}
        facts: list[Fact] = [(OPTION, id(goal), name) for name in names]
        return facts + [(WORTH, id(goal), name, value) for name, value in names.items()]

    def offer(self, goal: Goal, options: Sequence[Option]) -> None:
        """Believe these facts until `withdraw`."""
        for fact in self.offered(goal, options):
            self.beliefs.add(fact)

    def withdraw(self, goal: Goal) -> None:
        """Forget them: the choice is made."""
        self.beliefs.remove(Open((OPTION, id(goal), Var("Plan"))))
        self.beliefs.remove(Open((WORTH, id(goal), Var("Plan"), Var("Number"))))

    def nearest_action(self, name: str) -> str:
        """A hint for an unknown action's name."""
        return nearest(name, self.actions)

    # -- within --------------------------------------------------------------------------------------------------

    def _noticed(self, fact: Fact, here: bool) -> None:
        watchers = self._watchers.get(fact[0])
        if watchers:
            self._stirred.update(watchers)
        kind = BELIEVED if here else FORGOTTEN
        if self.library.candidates(kind, fact).plans:
            self._events.append((kind, fact))

    def _answer(self) -> None:
        """Make an intention for each event to which a plan applies."""
        events, self._events = self._events, []
        for kind, fact in events:
            options = list(self.library.applicable(kind, fact, self.beliefs))
            if options:
                option = self.best(fact, options)
                intention = Intention(option.plan.name, option.plan.priority)
                intention.root = Answer(intention, option)
                self._add(intention)

    def _add(self, intention: Intention) -> None:
        if len(self.intentions) >= MOST_INTENTIONS:
            raise PlanError(
                f"Expected at most {MOST_INTENTIONS:,} intentions at once; '{intention.name}' would be one more. A "
                "plan posts goals faster than they are over."
            )
        self.intentions.append(intention)

    def _over(self, intention: Intention, state: str) -> None:
        intention.state = state
        intention.ready.clear()
        self.intentions.remove(intention)


def _value(one: tuple[float, Option]) -> float:
    return one[0]


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
        self.term = term if type(term) is tuple else rename_variables(term, {})
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


class Starting(Strand):
    """The root of a posted goal: its first step looks whether the goal is believed, else begins a plan for it."""

    __slots__ = ("goal", "kind")

    def __init__(self, intention: Intention, kind: str, goal: Term) -> None:
        super().__init__(None, intention, (), {})
        self.kind, self.goal = kind, goal

    def step(self, it: Interpreter) -> None:
        if next(it.beliefs.find(self.goal, self.bindings), None) is not None:
            it.finish(self, True)
            return
        goal = Goal(self, self.intention, self.kind, self.goal if is_ground(self.goal) else Open(self.goal))
        self.child = goal
        if not goal.begin(it):
            it.finish(self, False)

    def child_done(self, it: Interpreter, child: Node, ok: bool) -> bool | None:
        return ok


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
            self.bindings.update(changed_bindings(self.before, self.child.bindings))
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
        changes = changed_bindings(self.before, self.child.bindings)
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


def changed_bindings(before: Bindings, after: Bindings) -> Bindings:
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
