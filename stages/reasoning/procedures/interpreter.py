"""The interpreter: in each cycle it takes in what is new, chooses among applicable plans and intentions, takes a step.

The procedural reasoning system of Georgeff and Lansky (1987, "Reactive reasoning and planning", AAAI), its goals as
Ingrand, Georgeff and Rao list them (1992, "An architecture for real-time reasoning and system control"): achieve, test,
wait, preserve, maintain. An event that comes before a cycle begins is answered in it: a step is one statement, and
nothing that a plan does takes longer than a step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from devmind.errors import nearest
from stages.reasoning.procedures.beliefs import Beliefs, Condition, Fact
from stages.reasoning.procedures.guards import Guard
from stages.reasoning.procedures.intentions import Answer, Goal, Intention, Node, Strand, inside
from stages.reasoning.procedures.plans import ACHIEVE, BELIEVED, FORGOTTEN, Library, Option, Plan
from stages.reasoning.procedures.terms import Open, PlanError, Term, is_ground, resolve, show
from stages.reasoning.procedures.utilities import Utilities

Action = Callable[..., Any]
"""A primitive action, called with ground terms: False has failed, AGAIN goes on in the next cycle, else what it found,
a term."""
Trace = Callable[[Goal, Plan], None]
OPTION, WORTH = "option", "worth"
"""What a meta-level plan believes while it chooses: option(CHOICE, PLAN), worth(CHOICE, PLAN, NUMBER)."""


class Interpreter:
    """One agent's procedures at work.

    Args:
        library: its plans; their facts are believed, their goals set.
        beliefs: what it believes at first; new ones by default.
        actions: primitive actions by name.
        utilities: what choices are worth, where that is learned; else what the plans say.
        trace: called whenever a plan sets out.

    Attributes:
        now: cycles so far; reward: all that `earn` was given; intentions: those that are not over, oldest first.
        last_step: the plan statement's strand that took the last cycle's step; None where nothing could.
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
        self.now, self.reward = 0, 0.0
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

    # -- what others ask -----------------------------------------------------------------------------------------

    def post(
        self, goal: Term, kind: str = ACHIEVE, priority: int = 0, after: Sequence[Intention] = (), name: str = ""
    ) -> Intention:
        """Commit to a goal; it is taken up when its turn comes.

        Args:
            after: intentions that must be over before it begins.
            name: for `suspend` and `resume`; by default the goal as it is written.
        """
        intention = Intention(name or show(goal), priority, after)
        intention.root = Starting(intention, kind, goal)
        intention.ready.append(intention.root)
        self.intentions.append(intention)
        return intention

    def drop(self, intention: Intention) -> None:
        """Give up an intention; it is over at once."""
        if intention.root is not None and intention.state == "going":
            self.abort(intention.root)
            self._over(intention, "dropped")

    def earn(self, reward: float) -> None:
        """What happened was worth that: it counts for every choice whose plan is at work."""
        self.reward += reward

    def run(self, cycles: int = 1_000_000) -> int:
        """Cycle until nothing can go on, or so many cycles have passed; how many it took."""
        began = self.now
        while self.now - began < cycles and self.cycle():
            pass
        return self.now - began

    def solve(self, goal: Term, cycles: int = 1_000_000) -> bool:
        """Post a goal and run; whether it was achieved."""
        intention = self.post(goal)
        self.run(cycles)
        return intention.state == "done"

    def cycle(self) -> bool:
        """One cycle; whether there is anything to go on with."""
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

    # -- what nodes ask ------------------------------------------------------------------------------------------

    def ready(self, node: Node) -> None:
        """The node can take a step, unless a guard holds it back."""
        intention = node.intention
        for guard in intention.guards:
            if inside(node, guard.strand):
                guard.held.append(node)
                return
        intention.ready.append(node)

    def finish(self, node: Node, ok: bool) -> None:
        """A node has ended; so do all above it that end with it."""
        while (parent := node.parent) is not None:
            verdict = parent.child_done(self, node, ok)
            if verdict is None:
                return
            node, ok = parent, verdict
        self._over(node.intention, "done" if ok else "failed")

    def abort(self, *nodes: Node) -> None:
        """End nodes and all below them without a word to what is above."""
        every = list(nodes)
        for node in every:
            every += node.children()
            self.unwatch(node)
            if isinstance(node, Guard) and node in node.intention.guards:
                node.intention.guards.remove(node)
            if isinstance(node, Goal) and node.choosing is not None:
                self.withdraw(node)
        gone = {id(node) for node in every}
        for intention in {id(node.intention): node.intention for node in nodes}.values():
            kept = [node for node in intention.ready if id(node) not in gone]
            intention.ready.clear()
            intention.ready.extend(kept)
            for guard in intention.guards:
                guard.held = [node for node in guard.held if id(node) not in gone]

    def watch(self, node: Node, condition: Condition, timed: bool = False) -> None:
        """Let a node look whenever a fact changes that its condition hangs on; every cycle where that is sensed."""
        functors = frozenset(condition.asks())
        self._watching[node] = functors
        if timed or any(functor in self.beliefs.sensed for functor in functors):
            self._always[node] = None
        for functor in functors:
            self._watchers.setdefault(functor, {})[node] = None

    def unwatch(self, node: Node) -> None:
        """It looks no more."""
        functors = self._watching.pop(node, None)
        if functors is not None:
            self._always.pop(node, None)
            for functor in functors:
                self._watchers[functor].pop(node, None)

    def hold(self, guard: Guard) -> list[Node]:
        """Hold back what is ready below a guard's body; what was."""
        intention = guard.intention
        held = [node for node in intention.ready if inside(node, guard.strand)]
        kept = [node for node in intention.ready if node not in held]
        intention.ready.clear()
        intention.ready.extend(kept)
        intention.guards.append(guard)
        return held

    def release(self, guard: Guard) -> list[Node]:
        """Hold nothing back any more; what was."""
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
        """What each option is worth: learned, or as its plan says."""
        if self.utilities is not None:
            learned = self.utilities.values(goal, options)
            if learned is not None:
                return learned
        found = []
        for option in options:
            value = resolve(option.plan.utility, option.bindings)
            if isinstance(value, bool) or not isinstance(value, int | float):
                name = option.plan.name
                raise PlanError(f"{option.plan.place}: the utility of '{name}' should be a number; got {show(value)}.")
            found.append(float(value))
        return found

    def offered(self, goal: Goal, options: Sequence[Option]) -> list[Fact]:
        """What a meta-level plan believes of a choice."""
        values = self.values(goal.term, options)
        names = {option.plan.name: value for value, option in sorted(zip(values, options, strict=True), key=_value)}
        facts: list[Fact] = [(OPTION, id(goal), name) for name in names]
        return facts + [(WORTH, id(goal), name, value) for name, value in names.items()]

    def offer(self, goal: Goal, options: Sequence[Option]) -> None:
        """Let it be believed, until `withdraw`."""
        for fact in self.offered(goal, options):
            self.beliefs.add(fact)

    def withdraw(self, goal: Goal) -> None:
        """The choice is made."""
        for fact in [fact for fact in self.beliefs if fact[0] in (OPTION, WORTH) and fact[1] == id(goal)]:
            self.beliefs.remove(fact)

    def nearest_action(self, name: str) -> str:
        """A hint for who asked for an action that is not there."""
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
        """Intend a plan for each event that one applies to."""
        events, self._events = self._events, []
        for kind, fact in events:
            options = list(self.library.applicable(kind, fact, self.beliefs))
            if options:
                option = self.best(fact, options)
                intention = Intention(option.plan.name, option.plan.priority)
                intention.root = Answer(intention, option)
                self.intentions.append(intention)

    def _over(self, intention: Intention, state: str) -> None:
        intention.state = state
        intention.ready.clear()
        self.intentions.remove(intention)


class Starting(Strand):
    """The root of a posted goal: in its first step it sees whether that is believed, or sets out."""

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
