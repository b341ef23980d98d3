"""Terms, and unification (Robinson 1965).

A term is an atom (str), a number, a variable, a compound or a sum that is not evaluated yet. A compound is a tuple of
its functor and arguments: `on(a, X)` is ("on", a, X), the list [a, b] is ("[]", a, b). Without variables it is a plain
tuple, else an `Open`. So a ground term is recognised by its type alone, and never copied.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from devmind.errors import ConfigError

Term = Any
"""str, int, float, Var, tuple, Open or Sum."""
Bindings = dict["Var", Term]
LIST = "[]"
"""Functor of lists."""
WORDS = str, tuple
"""Types of ground terms that are no numbers; Python's operators would join or repeat them."""


class PlanError(ConfigError):
    """A plan file has a fault, or a plan asks for something impossible; the sentence says where."""


class Var:
    """A variable, equal only to itself: each plan has its own, so two plans may use the same name."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


class Open(tuple[Any, ...]):
    """A compound with variables or sums in it."""

    __slots__ = ()


class Sum:
    """`left OP right` of two terms; a number as soon as both are."""

    __slots__ = ("left", "op", "reckon", "right")

    OPS: ClassVar[dict[str, Callable[[Any, Any], Any]]] = {
        "+": operator.add,
        "-": operator.sub,
        "*": operator.mul,
        "/": operator.truediv,
        "mod": operator.mod,
    }

    def __init__(self, op: str, left: Term, right: Term) -> None:
        self.op, self.left, self.right, self.reckon = op, left, right, self.OPS[op]

    def __repr__(self) -> str:
        return f"{show(self.left)} {self.op} {show(self.right)}"

    def value(self, bindings: Bindings) -> float | int:
        """The value of the sum.

        Raises:
            PlanError: a part is not a number, or it divides by zero.
        """
        left, right = bindings.get(self.left, self.left), bindings.get(self.right, self.right)
        if type(left) in NOT_GROUND:
            left = resolve(left, bindings)
        if type(right) in NOT_GROUND:
            right = resolve(right, bindings)
        expected = "numbers on both sides"
        try:
            value: float | int = self.reckon(left, right)
        except (TypeError, ValueError):  # `mod` formats a text
            pass
        except ZeroDivisionError:
            expected = "a divisor other than zero"
        except OverflowError:
            raise PlanError(f"'{self.op}' expects numbers below 1e308; got a larger one.") from None
        else:
            if not isinstance(value, WORDS):
                return value
        raise PlanError(f"'{self.op}' expects {expected}; got {show(left)} {self.op} {show(right)}.")


NOT_GROUND = frozenset({Var, Open, Sum})
"""Types of terms with variables or unevaluated sums (`is_ground`)."""


def compound(functor: str, arguments: Iterable[Term]) -> tuple[Any, ...]:
    """A compound; an Open one if an argument is not ground."""
    term = (functor, *arguments)
    return term if all(map(is_ground, term)) else Open(term)


def is_ground(term: Term) -> bool:
    """Whether the term has no variable and no unevaluated sum."""
    return type(term) not in NOT_GROUND


def resolve(term: Term, bindings: Bindings) -> Term:
    """The term with bound variables replaced and sums evaluated; unbound variables stay."""
    kind = type(term)
    if kind is Open:
        ground, parts = True, []
        for part in term:
            if type(part) in NOT_GROUND:
                part = part.value(bindings) if type(part) is Sum else resolve(part, bindings)
                if type(part) in NOT_GROUND:
                    ground = False
            parts.append(part)
        return tuple(parts) if ground else Open(parts)
    if kind is Var:
        while kind is Var:
            value = bindings.get(term)
            if value is None:
                return term
            term, kind = value, type(value)
        return resolve(term, bindings) if kind is Open else term
    return term.value(bindings) if kind is Sum else term


def unify(left: Term, right: Term, bindings: Bindings) -> bool:
    """Make both terms equal by binding variables of either, in place. If it returns False some are bound: pass a copy.

    Numbers are equal by value, so 2 equals 2.0. There is no occurs check, as in Prolog.
    """
    left, right = _walked(left, bindings), _walked(right, bindings)
    if left is right:
        return True
    if type(left) is Var:
        bindings[left] = right
        return True
    if type(right) is Var:
        bindings[right] = left
        return True
    if isinstance(left, tuple) and isinstance(right, tuple):
        if type(left) is tuple and type(right) is tuple:
            return left == right
        if len(left) != len(right):
            return False
        for a, b in zip(left, right, strict=True):  # noqa: SIM110 - a generator takes half as long again
            # Identical objects are equal without a call; nearly always the functor.
            if a is not b and not unify(a, b, bindings):
                return False
        return True
    return bool(left == right)


def match(pattern: Term, fact: Term, bindings: Bindings) -> bool:
    """Like `unify`, for a ground fact with as many parts as the pattern, in a third of the time; its bindings are
    ground.
    """
    for part, value in zip(pattern, fact, strict=True):
        kind = type(part)
        if kind is Var:
            if bindings.setdefault(part, value) != value:
                return False
        elif kind is Open or kind is Sum:
            if not unify(part, value, bindings):
                return False
        elif part != value:
            return False
    return True


def _walked(term: Term, bindings: Bindings) -> Term:
    while type(term) is Var:
        value = bindings.get(term)
        if value is None:
            return term
        term = value
    return term.value(bindings) if type(term) is Sum else term


def variables(term: Term) -> set[Var]:
    """All variables in it."""
    if type(term) is Var:
        return {term}
    if type(term) is Sum:
        return variables(term.left) | variables(term.right)
    return set().union(*map(variables, term)) if type(term) is Open else set()


def renamed(term: Term, fresh: Bindings) -> Term:
    """The term with a new variable for each of its own; `fresh` maps old to new."""
    if type(term) is Var:
        return fresh.setdefault(term, Var(term.name))
    return Open(renamed(part, fresh) for part in term) if type(term) is Open else term


def show(term: Term) -> str:
    """The term as a plan file writes it."""
    if not isinstance(term, tuple):
        return f"{term:g}" if isinstance(term, float) else str(term)
    inside = ", ".join(map(show, term[1:]))
    if term[0] == LIST:
        return f"[{inside}]"
    return f"{term[0]}({inside})" if len(term) > 1 else str(term[0])
