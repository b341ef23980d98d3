"""Plans and the library of them: what a plan is for, when it applies, what it does; indexed by what they are for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from stages.reasoning.procedures.beliefs import ALWAYS, Believing, Condition
from stages.reasoning.procedures.terms import Bindings, PlanError, Term, Var, is_ground, unify

if TYPE_CHECKING:
    from stages.reasoning.procedures.statements import Statement

ACHIEVE, TEST, BELIEVED, FORGOTTEN, CHOOSE = "achieve", "test", "believed", "forgotten", "choose"
KINDS = (ACHIEVE, TEST, BELIEVED, FORGOTTEN, CHOOSE)

_ANY = object()
"""Stands for a first argument that is not known."""


@dataclass(frozen=True)
class Place:
    """Where something stands in a plan file; lines and columns count from 1."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}, column {self.column}"


@dataclass(frozen=True, eq=False)
class Plan:
    """One procedure.

    Args:
        name: unique in a library.
        kind: what it answers: a goal to 'achieve' or 'test', a fact that is 'believed' or 'forgotten', or, on the meta
            level, the question which of several plans to 'choose' for a goal.
        trigger: the goal or fact it is for.
        body: statements; failing: what is done when the body has failed, before the plan has.
        when: its context.
        utility: a term that comes to a number; the applicable plan with the highest goes first.
        priority: of the intention that an event begins; a higher one interrupts.
        choice: of a meta-level plan, the variable that stands for the choice at hand.
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


@dataclass(frozen=True, eq=False, slots=True)
class Option:
    """A plan with the bindings under which it applies: what Georgeff and Lansky call an instance of a procedure."""

    plan: Plan
    bindings: Bindings

    @property
    def key(self) -> tuple[Any, ...]:
        """Equal for the same plan under the same bindings."""
        return (self.plan.name, *self.bindings.values())


@dataclass
class Library:
    """Plans by what they are for, with the facts and goals that their files begin with.

    Attributes:
        facts, goals: `believe` and `achieve` at the top of a file; goals with their priority.
    """

    plans: list[Plan] = field(default_factory=list)
    facts: list[tuple[Any, ...]] = field(default_factory=list)
    goals: list[tuple[Term, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._index: dict[tuple[str, str, int], dict[Term, list[tuple[int, Plan]]]] = {}
        self._kept: dict[tuple[Any, ...], list[Plan]] = {}
        self._names: dict[str, Plan] = {}
        self._weighed: set[tuple[str, str, int]] = set()
        given, self.plans = self.plans, []
        for plan in given:
            self.add(plan)

    def __getitem__(self, name: str) -> Plan:
        return self._names[name]

    def add(self, plan: Plan) -> None:
        """Take in one more plan; where several are as good, the one that came first is tried first.

        Raises:
            PlanError: there is one of that name.
        """
        if plan.name in self._names:
            raise PlanError(
                f"{plan.place}: there is a plan '{plan.name}' already, at line {self._names[plan.name].place.line};"
                " give each plan a name of its own."
            )
        self._names[plan.name] = plan
        self._kept.clear()
        shape = plan.trigger[0], len(plan.trigger)
        if plan.kind == CHOOSE:
            self._weighed |= {(ACHIEVE, *shape), (TEST, *shape)}
        elif plan.utility != 0:
            self._weighed.add((plan.kind, *shape))
        first = plan.trigger[1] if len(plan.trigger) > 1 and is_ground(plan.trigger[1]) else None
        kinds = self._index.setdefault((plan.kind, *shape), {})
        kinds.setdefault(first, []).append((len(self.plans), plan))
        self.plans.append(plan)

    def relevant(self, kind: str, term: Term) -> Sequence[Plan]:
        """Plans whose trigger may match, in their order."""
        kinds = self._index.get((kind, term[0], len(term)))
        if kinds is None:
            return ()
        first = term[1] if len(term) > 1 else None
        if first is None or is_ground(first):
            # Lists of what is asked for again are kept; of a first argument that no plan names, one for all.
            place = (kind, term[0], len(term), first if first in kinds else None)
        else:
            place = (kind, term[0], len(term), _ANY)
        kept = self._kept.get(place)
        if kept is None:
            if place[3] is _ANY:
                found = [one for part in kinds.values() for one in part]
            else:
                found = kinds.get(None, []) + (kinds[place[3]] if place[3] is not None else [])
            kept = self._kept[place] = [plan for _, plan in sorted(found, key=_number)]
        return kept

    def answers(self, kind: str, fact: Term) -> bool:
        """Whether a plan may be for such an event."""
        return (kind, fact[0], len(fact)) in self._index

    def weighs(self, kind: str, term: Term) -> bool:
        """Whether there is something to choose by: a utility, or a meta-level plan."""
        return (kind, term[0], len(term)) in self._weighed

    def applicable(self, kind: str, term: Term, beliefs: Believing, choice: int | None = None) -> Iterator[Option]:
        """Every plan with every way in which it applies to a goal or an event now.

        Args:
            choice: of a meta-level plan, the number of the choice at hand.
        """
        for plan in self.relevant(kind, term):
            bindings: Bindings = {} if plan.choice is None else {plan.choice: choice}
            # The goal's variables are bound to the plan's, never the other way: `let` may change those.
            if not unify(term, plan.trigger, bindings):
                continue
            if plan.when is ALWAYS:
                yield Option(plan, bindings)
            else:
                for found in plan.when.ways(beliefs, bindings):
                    yield Option(plan, found)

    def joined(self, others: Iterable[Library]) -> Library:
        """One library of this and others, in order."""
        libraries = [self, *others]
        return Library(
            [plan for one in libraries for plan in one.plans],
            [fact for one in libraries for fact in one.facts],
            [goal for one in libraries for goal in one.goals],
        )


def _number(one: tuple[int, Plan]) -> int:
    return one[0]
