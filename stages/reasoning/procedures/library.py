"""Procedures as data, and their library: what each is for, when it applies and what it does.

A plan file (`parser`) has one procedure for each `plan` in it; the library finds them by what they are for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from stages.reasoning.procedures.beliefs import ALWAYS, Believing, Condition
from stages.reasoning.procedures.terms import NOT_GROUND, Bindings, PlanError, Term, Var, is_ground, match, unify

ACHIEVE, TEST, BELIEVED, FORGOTTEN, CHOOSE = "achieve", "test", "believed", "forgotten", "choose"
KINDS = (ACHIEVE, TEST, BELIEVED, FORGOTTEN, CHOOSE)


@dataclass(frozen=True)
class Place:
    """A place in a plan file; lines and columns count from 1."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}, column {self.column}"


@dataclass(frozen=True, slots=True)
class Statement:
    """One thing to do in a procedure's body; `statements` has each kind of them."""

    place: Place

    def run(self, it: Any, strand: Any) -> object:
        """Do it, or begin to: True if it is done, False if it has failed, AGAIN if it is to be called again in the next
        cycle, None if a node goes on for it.

        Args:
            it: the Interpreter.
            strand: the Strand that the statement belongs to.
        """
        raise NotImplementedError

    def bodies(self) -> Iterator[Body]:
        """The bodies within it."""
        return iter(())


Body = Sequence[Statement]


@dataclass(frozen=True, eq=False)
class Procedure:
    """What a plan of a file says: what it is for, when it applies and what it does.

    Args:
        name: unique in a library.
        kind: what it answers: a goal to 'achieve' or 'test', a fact that is 'believed' or 'forgotten', or, on the meta
            level, which of several plans to 'choose' for a goal.
        trigger: the goal or fact that it is for.
        body: its statements.
        failing: statements that run after the body has failed, before the plan fails.
        when: its context.
        utility: a term with a number as its value; the applicable plan with the highest goes first.
        priority: of the intention that an event begins; a higher one interrupts.
        choice: of a meta-level plan, the variable for the current choice.
    """

    name: str
    kind: str
    trigger: Term
    body: tuple[Statement, ...]
    place: Place
    when: Condition = ALWAYS
    failing: tuple[Statement, ...] = ()
    utility: Term = 0
    priority: int = 0
    choice: Var | None = None

    def bound(self, term: Term, choice: int | None = None) -> Bindings | None:
        """The bindings under which the plan is for a goal or event; None if it is not.

        The goal's variables are bound to the plan's, never the other way, because `let` may change the plan's.
        """
        bindings: Bindings = {} if self.choice is None else {self.choice: choice}
        fits = match(self.trigger, term, bindings) if type(term) is tuple else unify(term, self.trigger, bindings)
        return bindings if fits else None


@dataclass(eq=False, slots=True)
class Option:
    """A plan with the bindings under which it applies; Georgeff and Lansky call it an instance of a procedure."""

    plan: Procedure
    bindings: Bindings

    @property
    def key(self) -> tuple[Any, ...]:
        """Equal for the same plan under the same bindings."""
        return (self.plan.name, *self.bindings.values())


class Candidates:
    """The plans for goals or events of one kind, functor and number of arguments, in their order.

    Attributes:
        weighed: whether a plan has a utility, or there is a meta-level plan.
    """

    __slots__ = ("_by_first", "_open", "plans", "weighed")

    def __init__(self) -> None:
        self.plans: list[Procedure] = []
        self.weighed = False
        # By each first argument that some plan names, the plans that may match it; and the plans that match any.
        self._by_first: dict[Term, list[Procedure]] = {}
        self._open: list[Procedure] = []

    def add(self, plan: Procedure) -> None:
        """Add a plan behind the others."""
        self.plans.append(plan)
        if len(plan.trigger) > 1 and is_ground(plan.trigger[1]):
            self._by_first.setdefault(plan.trigger[1], self._open.copy()).append(plan)
            return
        for plans in (self._open, *self._by_first.values()):
            plans.append(plan)

    def relevant(self, term: Term) -> Sequence[Procedure]:
        """The plans whose trigger may match."""
        if len(term) > 1 and type(term[1]) not in NOT_GROUND:
            return self._by_first.get(term[1], self._open)
        return self.plans

    def applicable(self, term: Term, beliefs: Believing, choice: int | None = None) -> Iterator[Option]:
        """Every plan with every way in which it applies now.

        Args:
            choice: of a meta-level plan, the number of the current choice.
        """
        for plan in self.relevant(term):
            bindings = plan.bound(term, choice)
            if bindings is not None:
                for extended in plan.when.ways(beliefs, bindings):
                    yield Option(plan, extended)

    def first(self, term: Term, beliefs: Believing) -> Option | None:
        """The first of `applicable`."""
        for plan in self.relevant(term):
            bindings = plan.bound(term)
            if bindings is not None and plan.when is not ALWAYS:
                bindings = plan.when.first(beliefs, bindings)
            if bindings is not None:
                return Option(plan, bindings)
        return None


_NO_CANDIDATES = Candidates()


@dataclass
class Library:
    """Plans by what they are for, with the facts and goals of their files.

    Attributes:
        facts, goals: `believe` and `achieve` at the top of a file; goals with their priority.
    """

    plans: list[Procedure] = field(default_factory=list)
    facts: list[tuple[Any, ...]] = field(default_factory=list)
    goals: list[tuple[Term, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._candidates: dict[tuple[str, str, int], Candidates] = {}
        self._names: dict[str, Procedure] = {}
        plans, self.plans = self.plans, []
        for plan in plans:
            self.add(plan)

    def __getitem__(self, name: str) -> Procedure:
        return self._names[name]

    def add(self, plan: Procedure) -> None:
        """Add a plan; among equally good plans, the one added first is tried first.

        Raises:
            PlanError: the library has a plan of that name.
        """
        if plan.name in self._names:
            raise PlanError(
                f"{plan.place}: expected a new plan name; got '{plan.name}', the name of the plan at line "
                f"{self._names[plan.name].place.line}; rename one of them."
            )
        self._names[plan.name] = plan
        self.plans.append(plan)
        shape = plan.trigger[0], len(plan.trigger)
        self._candidates.setdefault((plan.kind, *shape), Candidates()).add(plan)
        weighed = (ACHIEVE, TEST) if plan.kind == CHOOSE else (plan.kind,) if plan.utility != 0 else ()
        for kind in weighed:
            self._candidates.setdefault((kind, *shape), Candidates()).weighed = True

    def candidates(self, kind: str, term: Term) -> Candidates:
        """The plans for such a goal or event."""
        return self._candidates.get((kind, term[0], len(term)), _NO_CANDIDATES)

    def relevant(self, kind: str, term: Term) -> Sequence[Procedure]:
        """The plans whose trigger may match, in their order."""
        return self.candidates(kind, term).relevant(term)

    def applicable(self, kind: str, term: Term, beliefs: Believing, choice: int | None = None) -> Iterator[Option]:
        """As `Candidates.applicable`."""
        return self.candidates(kind, term).applicable(term, beliefs, choice)

    def joined(self, others: Iterable[Library]) -> Library:
        """One library of this and the others, in order."""
        libraries = [self, *others]
        return Library(
            [plan for one in libraries for plan in one.plans],
            [fact for one in libraries for fact in one.facts],
            [goal for one in libraries for goal in one.goals],
        )
