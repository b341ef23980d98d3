"""The statements of a plan's body, and how each is run (see `Statement.run`)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from stages.reasoning.procedures.beliefs import Believed, Condition
from stages.reasoning.procedures.interpreter import (
    AGAIN,
    Branch,
    Goal,
    Guard,
    Interpreter,
    Loop,
    Parallel,
    Strand,
    Wait,
)
from stages.reasoning.procedures.library import ACHIEVE, TEST, Body, Statement
from stages.reasoning.procedures.terms import (
    LIST,
    Bindings,
    Open,
    PlanError,
    Term,
    Var,
    resolve,
    show,
    unify,
    variables,
)

MOST_FACTS = 100_000


@dataclass(frozen=True, slots=True)
class Achieve(Statement):
    """`achieve GOAL`: nothing if it is believed already, else a plan for it."""

    goal: Term

    def run(self, it: Interpreter, strand: Strand) -> object:
        term = resolve(self.goal, strand.bindings)
        beliefs = it.beliefs
        if type(term) is tuple and term[0] not in beliefs.sensed:
            return True if term in beliefs else _pursued(it, strand, ACHIEVE, term)
        extended = next(beliefs.find(term, strand.bindings), None)
        if extended is not None:
            strand.bindings.update(extended)
            return True
        return _pursued(it, strand, ACHIEVE, term)


@dataclass(frozen=True, slots=True)
class Test(Statement):
    """`test CONDITION`: binds its variables. If it does not hold and is one fact, a plan may find it out."""

    __test__: ClassVar[bool] = False  # pytest collects what is called so
    condition: Condition

    def run(self, it: Interpreter, strand: Strand) -> object:
        extended = self.condition.first(it.beliefs, strand.bindings)
        if extended is not None:
            strand.bindings.update(extended)
            return True
        if isinstance(self.condition, Believed):
            return _pursued(it, strand, TEST, resolve(self.condition.pattern, strand.bindings))
        return False


def _pursued(it: Interpreter, strand: Strand, kind: str, term: Term) -> object:
    goal = Goal(strand, strand.intention, kind, term)
    strand.child = goal
    return None if goal.begin(it) else False


@dataclass(frozen=True, slots=True)
class Post(Statement):
    """`post GOAL priority N`: an intention of its own; this one goes on at once."""

    goal: Term
    priority: Term = 0

    def run(self, it: Interpreter, strand: Strand) -> object:
        it.post(resolve(self.goal, strand.bindings), priority=_number(self, "priority", self.priority, strand))
        return True


def _number(of: Statement, word: str, term: Term, strand: Strand) -> int:
    """The number that a term stands for now, without its fraction.

    Raises:
        PlanError: it is not a finite number.
    """
    value = resolve(term, strand.bindings)
    if isinstance(value, bool) or not isinstance(value, int | float) or value in (math.inf, -math.inf):
        raise PlanError(f"{of.place}: expected a number after '{word}'; got {show(value)}.")
    return int(value)


def _shown(arguments: Sequence[Term]) -> str:
    return ", ".join(show(one) for one in arguments)


@dataclass(frozen=True, slots=True)
class Act(Statement):
    """`name(arguments) -> RESULT`: a primitive action. False fails, AGAIN is called again."""

    name: str
    arguments: tuple[Term, ...]
    result: Term | None = None

    def run(self, it: Interpreter, strand: Strand) -> object:
        action = it.actions.get(self.name)
        if action is None:
            hint = it.nearest_action(self.name)
            raise PlanError(f"{self.place}: expected an action of this world; got '{self.name}'{hint}")
        arguments = [resolve(one, strand.bindings) for one in self.arguments]
        for one in arguments:
            if type(one) is Var or type(one) is Open:
                raise PlanError(
                    f"{self.place}: expected values as arguments of '{self.name}'; got {show(one)}, which has an "
                    "unbound variable; bind it first."
                )
        try:
            outcome = action(*arguments)
        except (TypeError, ValueError, LookupError) as error:  # the file's arguments, which only the action knows
            raise PlanError(
                f"{self.place}: expected '{self.name}({_shown(arguments)})' to run; got the error: {error}."
            ) from error
        if outcome is False or outcome is AGAIN:
            return outcome
        if self.result is not None:
            return outcome is not None and unify(self.result, outcome, strand.bindings)
        return True


@dataclass(frozen=True, slots=True)
class WaitFor(Statement):
    """`wait CONDITION within N`: waits until it holds; fails after N cycles."""

    condition: Condition
    within: Term | None = None

    def run(self, it: Interpreter, strand: Strand) -> object:
        extended = self.condition.first(it.beliefs, strand.bindings)
        if extended is not None:
            strand.bindings.update(extended)
            return True
        until = None if self.within is None else it.now + _number(self, "within", self.within, strand)
        strand.child = wait = Wait(strand, self.condition, until)
        it.watch(wait, self.condition, until is not None)
        return None


@dataclass(frozen=True, slots=True)
class Guarded(Statement):
    """`preserve CONDITION { }`, `maintain FACT { }`."""

    condition: Condition
    body: Body
    maintains: bool

    def run(self, it: Interpreter, strand: Strand) -> object:
        strand.child = guard = Guard(strand, self.condition, self.maintains, self.body)
        return None if guard.begin(it) else False

    def bodies(self) -> Iterator[Body]:
        yield self.body


@dataclass(frozen=True, slots=True)
class If(Statement):
    """`if CONDITION { } else { }`."""

    condition: Condition
    then: Body
    otherwise: Body = ()

    def run(self, it: Interpreter, strand: Strand) -> object:
        extended = self.condition.first(it.beliefs, strand.bindings)
        if extended is not None:
            strand.bindings.update(extended)
        body = self.otherwise if extended is None else self.then
        if not body:
            return True
        strand.child = child = Strand(strand, strand.intention, body, strand.bindings)
        it.ready(child)
        return None

    def bodies(self) -> Iterator[Body]:
        yield from (self.then, self.otherwise)


@dataclass(frozen=True, slots=True)
class While(Statement):
    """`while CONDITION { }`."""

    condition: Condition
    body: Body

    def run(self, it: Interpreter, strand: Strand) -> object:
        def rounds() -> Iterator[Bindings]:
            while (extended := self.condition.first(it.beliefs, strand.bindings)) is not None:
                yield extended

        return _looped(it, strand, self.body, rounds())

    def bodies(self) -> Iterator[Body]:
        yield self.body


@dataclass(frozen=True, slots=True)
class Each(Statement):
    """`each X in LIST { }`, and `each X in all CONDITION { }`: every way in which it holds at the beginning."""

    item: Term
    source: Term | Condition
    body: Body

    def run(self, it: Interpreter, strand: Strand) -> object:
        if isinstance(self.source, Condition):
            return _looped(it, strand, self.body, iter(list(self.source.ways(it.beliefs, strand.bindings))))
        items = resolve(self.source, strand.bindings)
        if not isinstance(items, tuple) or items[0] != LIST:
            raise PlanError(f"{self.place}: expected a list after 'in'; got {show(items)}.")
        all_bindings: list[Bindings] = []
        for item in items[1:]:
            extended = strand.bindings.copy()
            if unify(self.item, item, extended):
                all_bindings.append(extended)
        return _looped(it, strand, self.body, iter(all_bindings))

    def bodies(self) -> Iterator[Body]:
        yield self.body


def _looped(it: Interpreter, strand: Strand, body: Body, each: Iterator[Bindings]) -> object:
    strand.child = loop = Loop(strand, body, each)
    return None if loop.begin(it) else True


@dataclass(frozen=True, slots=True)
class Branched(Statement):
    """`branch { } or { }`: the first way that succeeds."""

    ways: Sequence[Body]

    def run(self, it: Interpreter, strand: Strand) -> object:
        strand.child = branch = Branch(strand, self.ways)
        branch.begin(it)
        return None

    def bodies(self) -> Iterator[Body]:
        yield from self.ways


@dataclass(frozen=True, slots=True)
class InParallel(Statement):
    """`parallel { } and { }`."""

    strands: Sequence[Body]

    def run(self, it: Interpreter, strand: Strand) -> object:
        strand.child = both = Parallel(strand, self.strands)
        both.begin(it)
        return None

    def bodies(self) -> Iterator[Body]:
        yield from self.strands


@dataclass(frozen=True, slots=True)
class Believe(Statement):
    """`believe FACT`; `now FACT`, in place of facts that differ only in the last argument; `forget FACT`."""

    fact: Term
    how: str = "believe"

    def run(self, it: Interpreter, strand: Strand) -> object:
        fact = resolve(self.fact, strand.bindings)
        if self.how == "forget":
            it.beliefs.remove(fact)
        elif type(fact) is Open:
            raise PlanError(
                f"{self.place}: expected a fact without unbound variables; got {show(fact)}; bind them first."
            )
        elif self.how == "now":
            it.beliefs.put(fact)
        else:
            it.beliefs.add(fact)
        if it.beliefs.count > MOST_FACTS:
            raise PlanError(f"{self.place}: expected at most {MOST_FACTS:,} beliefs; a plan believes ever more.")
        return True


@dataclass(frozen=True, slots=True)
class Let(Statement):
    """`let X = TERM`: X has this value from here on, whatever it was."""

    name: Var
    term: Term

    def run(self, it: Interpreter, strand: Strand) -> object:
        value = resolve(self.term, strand.bindings)
        if value is not self.name and self.name in variables(value):
            raise PlanError(f"{self.place}: expected a value for '{self.name}'; got {show(value)}, which it is in.")
        strand.bindings[self.name] = value
        return True


@dataclass(frozen=True, slots=True)
class Say(Statement):
    """`fail`; `pick PLAN` of a meta-level plan; `suspend NAME` and `resume NAME` of the intentions of that name."""

    verb: str
    what: Term = None

    def run(self, it: Interpreter, strand: Strand) -> object:
        if self.verb == "fail":
            return False
        name = show(resolve(self.what, strand.bindings))
        if self.verb == "pick":
            node = strand.parent
            while node is not None and not (isinstance(node, Goal) and node.choosing is not None):
                node = node.parent
            if node is None:
                raise PlanError(
                    f"{self.place}: expected 'pick' in a plan for 'choose'; got it in another plan; begin that plan "
                    "with 'for choose GOAL'."
                )
            assert isinstance(node, Goal)
            node.picked = name
            return True
        for intention in it.intentions:
            if intention.name == name:
                intention.suspended = self.verb == "suspend"
        return True
