"""Beliefs: ground facts, indexed by each of their arguments; and the conditions that plans ask of them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from stages.reasoning.procedures.terms import (
    NOT_GROUND,
    WORK,
    Bindings,
    Open,
    PlanError,
    Term,
    Var,
    match,
    resolve,
    show,
    unify,
)

Fact = tuple[Any, ...]
"""A ground compound, `("on", "a", "table")`; a fact without arguments is a tuple of one."""
Sensed = Callable[..., Any]
"""A predicate that is computed, not stored. It is called with its arguments, unbound ones as Var, and returns a truth
value or the argument tuples for which it holds.
"""
_NONE: dict[Fact, None] = {}


class Beliefs:
    """Facts in the order in which they were added, with an index of every argument.

    Args:
        sensed: predicates, by functor, that ask the world when a condition names them.

    Attributes:
        changed: called with (fact, whether it is believed now) at every change; None: no call.
        count: how many facts are believed.
    """

    def __init__(self, facts: Iterable[Fact] = (), sensed: dict[str, Sensed] | None = None) -> None:
        self._of: dict[tuple[Any, ...], dict[Fact, None]] = {}
        self.sensed = dict(sensed or {})
        self.changed: Callable[[Fact, bool], None] | None = None
        self.count = 0
        for fact in facts:
            self.add(fact)

    def __contains__(self, fact: Fact) -> bool:
        return fact in self._of.get((fact[0], len(fact)), _NONE)

    def __iter__(self) -> Iterator[Fact]:
        return (fact for key, facts in self._of.items() if len(key) == 2 for fact in facts)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def add(self, fact: Fact) -> bool:
        """Believe a fact; returns whether it is new.

        Raises:
            PlanError: the fact has a variable.
        """
        if type(fact) is not tuple or not fact:
            raise PlanError(f"Expected a fact without variables, such as on(a, table); got {show(fact)}.")
        if fact in self:
            return False
        for key in _keys(fact):
            self._of.setdefault(key, {})[fact] = None
        self.count += 1
        if self.changed is not None:
            self.changed(fact, True)
        return True

    def remove(self, pattern: Term) -> int:
        """Forget all facts that match the pattern; returns how many there were."""
        gone = [fact for fact in self._candidates(pattern) if unify(pattern, fact, {})]
        for fact in gone:
            for key in _keys(fact):
                del self._of[key][fact]
            self.count -= 1
            if self.changed is not None:
                self.changed(fact, False)
        return len(gone)

    def put(self, fact: Fact) -> None:
        """Believe a fact in place of those with the same functor and equal arguments but the last: `at(robot, 3)`."""
        if fact not in self:
            self.remove(Open((*fact[:-1], Var("_"))))
            self.add(fact)

    def find(self, pattern: Term, bindings: Bindings) -> Iterator[Bindings]:
        """Each way in which the pattern is believed: new bindings that extend `bindings`, which do not change."""
        if pattern[0] in self.sensed:
            yield from self._reckoned(pattern, bindings)
            return
        pattern = resolve(pattern, bindings)
        if type(pattern) is tuple:
            if pattern in self._of.get((pattern[0], len(pattern)), _NONE):
                yield bindings
            return
        for fact in tuple(self._candidates(pattern)):
            WORK.spend()
            extended = bindings.copy()
            if match(pattern, fact, extended):
                yield extended

    def _candidates(self, pattern: Term) -> dict[Fact, None]:
        """The smallest indexed set that contains all matches of a resolved pattern."""
        size = len(pattern)
        best = self._of.get((pattern[0], size), _NONE)
        if len(best) > 1:
            for place in range(1, size):
                part = pattern[place]
                if type(part) is not Var and type(part) is not Open:
                    facts = self._of.get((pattern[0], size, place, part), _NONE)
                    if len(facts) < len(best):
                        best = facts
        return best

    def _reckoned(self, pattern: Term, bindings: Bindings) -> Iterator[Bindings]:
        arguments = resolve(pattern, bindings)[1:]
        try:
            answer = self.sensed[pattern[0]](*arguments)
        except (TypeError, ValueError, LookupError) as error:  # the file's arguments, which only the world knows
            asked = show((pattern[0], *arguments))
            raise PlanError(f"Expected this world to answer '{asked}'; got the error: {error}.") from error
        if isinstance(answer, bool) or answer is None:
            if answer:
                yield bindings
            return
        for values in answer:
            WORK.spend()
            extended = bindings.copy()
            if unify(tuple(values) if len(arguments) else (), Open(arguments), extended):
                yield extended


def _keys(fact: Fact) -> Iterator[tuple[Any, ...]]:
    head, size = fact[0], len(fact)
    yield (head, size)
    for place in range(1, size):
        yield (head, size, place, fact[place])


class Believing(Protocol):
    """What conditions ask: `Beliefs`, or an object in front of them."""

    def find(self, pattern: Term, bindings: Bindings) -> Iterator[Bindings]:
        """As `Beliefs.find`."""
        ...


class Condition:
    """A condition on beliefs. `ways` gives each way in which it holds, `asks` the functors that it depends on."""

    def ways(self, beliefs: Believing, bindings: Bindings) -> Iterator[Bindings]:
        """Bindings extended by the condition, one for each way; those given do not change."""
        raise NotImplementedError

    def first(self, beliefs: Believing, bindings: Bindings) -> Bindings | None:
        """The first way; None if the condition does not hold."""
        return next(self.ways(beliefs, bindings), None)

    def asks(self) -> set[str]:
        """Functors of all its facts."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Believed(Condition):
    """A fact, which may have variables."""

    pattern: Term

    def ways(self, beliefs: Believing, bindings: Bindings) -> Iterator[Bindings]:
        return beliefs.find(self.pattern, bindings)

    def asks(self) -> set[str]:
        return {self.pattern[0]}


@dataclass(frozen=True, slots=True)
class Same(Condition):
    """`left = right`: unifies two terms."""

    left: Term
    right: Term

    def ways(self, beliefs: Believing, bindings: Bindings) -> Iterator[Bindings]:
        extended = bindings.copy()
        if unify(resolve(self.left, bindings), resolve(self.right, bindings), extended):
            yield extended

    def asks(self) -> set[str]:
        return set()


@dataclass(frozen=True, slots=True)
class Ordered(Condition):
    """Two terms compared by one of ORDERS."""

    op: str
    left: Term
    right: Term

    def ways(self, beliefs: Believing, bindings: Bindings) -> Iterator[Bindings]:
        if self.first(beliefs, bindings) is not None:
            yield bindings

    def first(self, beliefs: Believing, bindings: Bindings) -> Bindings | None:
        left, right = bindings.get(self.left, self.left), bindings.get(self.right, self.right)
        if type(left) in NOT_GROUND:
            left = resolve(left, bindings)
        if type(right) in NOT_GROUND:
            right = resolve(right, bindings)
        try:
            return bindings if ORDERS[self.op](left, right) else None
        except TypeError:
            comparison = f"{show(left)} {self.op} {show(right)}"
            raise PlanError(f"'{self.op}' expects two numbers or two words; got {comparison}.") from None

    def asks(self) -> set[str]:
        return set()


ORDERS: Mapping[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True, slots=True)
class All(Condition):
    """All of the parts, from left to right."""

    parts: tuple[Condition, ...]

    def ways(self, beliefs: Believing, bindings: Bindings) -> Iterator[Bindings]:
        return self._from(0, beliefs, bindings)

    def _from(self, at: int, beliefs: Believing, bindings: Bindings) -> Iterator[Bindings]:
        if at == len(self.parts):
            yield bindings
            return
        for extended in self.parts[at].ways(beliefs, bindings):
            yield from self._from(at + 1, beliefs, extended)

    def asks(self) -> set[str]:
        return set().union(*(part.asks() for part in self.parts))


@dataclass(frozen=True, slots=True)
class Either(Condition):
    """One of the parts; the ways of the first come first."""

    parts: tuple[Condition, ...]

    def ways(self, beliefs: Believing, bindings: Bindings) -> Iterator[Bindings]:
        for part in self.parts:
            yield from part.ways(beliefs, bindings)

    def asks(self) -> set[str]:
        return set().union(*(part.asks() for part in self.parts))


@dataclass(frozen=True, slots=True)
class Not(Condition):
    """Negation as failure: holds if no belief makes the part hold."""

    part: Condition

    def ways(self, beliefs: Believing, bindings: Bindings) -> Iterator[Bindings]:
        if self.part.first(beliefs, bindings) is None:
            yield bindings

    def asks(self) -> set[str]:
        return self.part.asks()


ALWAYS = All(())
"""The condition of a plan without a context."""
