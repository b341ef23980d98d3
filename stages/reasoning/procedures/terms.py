"""Terms, and unification (Robinson 1965).

A term is an atom (str), a number, a variable, a compound or a sum that is not evaluated yet. A compound is a tuple of
its functor and arguments: `on(a, X)` is ("on", a, X), the list [a, b] is ("[]", a, b). Without variables it is a plain
tuple, else an `Open`. So a ground term is recognised by its type alone, and never copied.
"""

from __future__ import annotations

import math
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
LARGEST = 2**63
"""Whole numbers stay below this, so that no plan multiplies itself a number that takes hours."""
DEEPEST, MOST_PARTS = 100, 10_000
"""How deep terms and files are nested at most, and how many parts a term has."""
MOST_WORK = 100_000
"""Facts looked at, terms unified and terms made in one cycle of the interpreter. Ordinary cycles need some ten."""


class Work:
    """What is left of a cycle's work; without limit outside of an interpreter's cycle."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = math.inf

    def spend(self, amount: int = 1) -> None:
        """Spend some.

        Raises:
            PlanError: nothing is left.
        """
        self.left -= amount
        if self.left < 0:
            raise PlanError(
                f"Expected a step that needs at most {MOST_WORK:,} looks at beliefs and terms; it needs more. Ask for "
                "fewer things at once, or for the one with the fewest facts first."
            )


WORK = Work()


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


def _multiplied(left: Any, right: Any) -> Any:
    if isinstance(left, WORDS) or isinstance(right, WORDS):  # Python would repeat a text, a billion times if asked
        raise TypeError
    return left * right


def _remainder(left: Any, right: Any) -> Any:
    if isinstance(left, WORDS):  # Python would fill in a text
        raise TypeError
    return left % right


class Sum:
    """`left OP right` of two terms; a number as soon as both are."""

    __slots__ = ("left", "op", "reckon", "right")

    OPS: ClassVar[dict[str, Callable[[Any, Any], Any]]] = {
        "+": operator.add,
        "-": operator.sub,
        "*": _multiplied,
        "/": operator.truediv,
        "mod": _remainder,
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
            if type(value) is int and not -LARGEST < value < LARGEST:
                raise PlanError(f"'{self.op}' expects whole numbers below 2^63; got a larger one.")
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
        WORK.spend()
        ground, nested, parts = True, False, []
        for part in term:
            if type(part) in NOT_GROUND:
                part = part.value(bindings) if type(part) is Sum else resolve(part, bindings)
                if type(part) in NOT_GROUND:
                    ground = False
            nested = nested or isinstance(part, tuple)
            parts.append(part)
        if nested:
            _check_size(parts)
        return tuple(parts) if ground else Open(parts)
    if kind is Var:
        while kind is Var:
            value = bindings.get(term)
            if value is None:
                return term
            term, kind = value, type(value)
        return resolve(term, bindings) if kind is Open else term
    return term.value(bindings) if kind is Sum else term


def _check_size(parts: Iterable[Term]) -> None:
    """Refuse a term that would take hours to compare: shared parts count each time, as they are hashed each time.

    Raises:
        PlanError: it has over MOST_PARTS parts, or is nested over DEEPEST deep.
    """
    terms, count = [(part, 1) for part in parts], 0
    for term, depth in terms:
        if isinstance(term, tuple):
            count += len(term)
            if count > MOST_PARTS or depth > DEEPEST:
                raise PlanError(
                    f"Expected terms of at most {MOST_PARTS:,} parts, nested at most {DEEPEST} deep; got a larger one."
                )
            terms += [(part, depth + 1) for part in term]
    WORK.spend(count // 100)


def unify(left: Term, right: Term, bindings: Bindings) -> bool:
    """Make both terms equal by binding variables of either, in place. If it returns False some are bound: pass a copy.

    Numbers are equal by value, so 2 equals 2.0. No variable is bound to a term that it is in.
    """
    WORK.spend()
    left, right = _resolve(left, bindings), _resolve(right, bindings)
    if left is right:
        return True
    if type(left) is Var:
        return _bind(left, right, bindings)
    if type(right) is Var:
        return _bind(right, left, bindings)
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


def _bind(variable: Var, term: Term, bindings: Bindings) -> bool:
    """Bind a variable; False if the term has it inside (the occurs check)."""
    if type(term) is Open:
        parts, seen = [term], set[int]()
        for part in parts:
            part = bindings.get(part, part) if type(part) is Var else part
            if part is variable:
                return False
            if type(part) is Sum:
                parts += [part.left, part.right]
            elif type(part) is Open and id(part) not in seen:
                seen.add(id(part))
                parts += part
            elif type(part) is Var and part in bindings:
                parts.append(part)
        WORK.spend(len(parts))
    bindings[variable] = term
    return True


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


def _resolve(term: Term, bindings: Bindings) -> Term:
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


def rename_variables(term: Term, fresh: Bindings) -> Term:
    """The term with a new variable for each of its own; `fresh` maps old to new."""
    if type(term) is Var:
        return fresh.setdefault(term, Var(term.name))
    return Open(rename_variables(part, fresh) for part in term) if type(term) is Open else term


def show(term: Term) -> str:
    """The term as a plan file writes it."""
    if not isinstance(term, tuple):
        return f"{term:g}" if isinstance(term, float) else str(term)
    inside = ", ".join(map(show, term[1:]))
    if term[0] == LIST:
        return f"[{inside}]"
    return f"{term[0]}({inside})" if len(term) > 1 else str(term[0])
