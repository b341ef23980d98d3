"""The interpreter: each cycle takes in what is new, chooses among applicable plans and intentions, and takes a step.

It is the procedural reasoning system of Georgeff and Lansky (1987, "Reactive reasoning and planning", AAAI). Its goals
are those of Ingrand, Georgeff and Rao (1992, "An architecture for real-time reasoning and system control"): achieve,
test, wait, preserve, maintain. An event that comes before a cycle begins is answered in that cycle, because a step is
one statement and no plan holds up a cycle for longer than a step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from devmind.errors import nearest
from stages.reasoning.procedures.beliefs import Beliefs, Condition, Fact
from stages.reasoning.procedures.guards import Guard
from stages.reasoning.procedures.intentions import Answer, Goal, Intention, Node, Strand, inside
from stages.reasoning.procedures.plans import ACHIEVE, BELIEVED, FORGOTTEN, Library, Option, Plan
from stages.reasoning.procedures.terms import MOST_WORK, WORK, Open, PlanError, Term, Var, is_ground, resolve, show
from stages.reasoning.procedures.utilities import Utilities

Action = Callable[..., Any]
"""A primitive action, called with ground terms. It returns False if it fails, AGAIN to be called again in the next
cycle, else its result, a term.
"""
Trace = Callable[[Goal, Plan], None]
MOST_INTENTIONS = 1000
OPTION, WORTH = "option", "worth"
"""What is believed while a meta-level plan chooses: option(CHOICE, PLAN), worth(CHOICE, PLAN, NUMBER)."""


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
        trace: Trace | None = None,
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


def _value(one: tuple[float, Option]) -> float:
    return one[0]
