"""Plan files: text to plans. An error gives file, line and column, what was expected and what was found.

    plan clear_by_moving {
        for achieve clear(X)
        when on(Y, X)
        do {
            achieve clear(Y)
            move(Y, table)
        }
    }

The grammar is in docs/reasoning.md. Variables begin with a capital letter or `_`; all other words are atoms. `#` begins
a comment. Line breaks have no meaning.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

from devmind import bounds
from devmind.errors import nearest
from stages.reasoning.procedures.beliefs import ORDERS, All, Believed, Condition, Either, Not, Ordered, Same
from stages.reasoning.procedures.library import CHOOSE, KINDS, Body, Library, Place, Procedure, Statement
from stages.reasoning.procedures.statements import (
    Achieve,
    Act,
    Believe,
    Branched,
    Each,
    Guarded,
    If,
    InParallel,
    Let,
    Post,
    Say,
    Test,
    WaitFor,
    While,
)
from stages.reasoning.procedures.terms import (
    DEEPEST,
    LARGEST,
    LIST,
    PlanError,
    Sum,
    Term,
    Var,
    compound,
    resolve,
    variables,
)

LONGEST_NUMBER = 400
VERBS = (
    "achieve", "test", "wait", "preserve", "maintain", "if", "while", "each", "branch", "parallel", "believe", "forget",
    "now", "let", "post", "suspend", "resume", "pick", "fail",
)  # fmt: skip
CLAUSES = ("for", "when", "utility", "priority", "do", "failing")
TOP = ("plan", "believe", "achieve")
RESERVED = frozenset({*VERBS, *CLAUSES, "plan", "else", "or", "and", "not", "in", "all", "within", "as", "mod"})

FILE_BYTES = 1 << 20
"""The largest plan file."""


FOLDER = Path(__file__).parent


def read_file(path: Path) -> Library:
    """The library in a file.

    Raises:
        PlanError: the file cannot be read or has a fault; the sentence gives line and column.
    """
    return read_library(bounds.read_text(path, PlanError, FILE_BYTES), path.name)


def read_library(text: str, file: str = "plans") -> Library:
    """The library in a text.

    Raises:
        PlanError: the text has a fault; the sentence gives `file`, line and column.
    """
    with bounds.damage(PlanError, f"The plan file '{file}' cannot be read ({{}})."):
        return _Reader(tokens_of(text, file)).library()


@lru_cache
def shipped_library(name: str) -> Library:
    """The library `name` of this folder, read once; do not add to it."""
    return read_file(FOLDER / f"{name}.plan")


def library_of(file: Path) -> Library:
    """The library in a file, or the packaged one of that name.

    Raises:
        PlanError: the file cannot be read or has a fault; the sentence gives line and column.
    """
    if file.exists() and not file.is_dir():
        return read_file(file)
    known = sorted(path.stem for path in FOLDER.glob("*.plan"))
    if str(file) in known:
        return read_file(FOLDER / f"{file}.plan")
    raise PlanError(
        f"There is no plan file '{file}'. Give a path, or the name of a packaged plan file: {', '.join(known)}."
    )


_TOKEN = re.compile(
    r"""(?P<blank>[ \t\r\n]+|\#[^\n]*)
    | (?P<number>\d+\.\d+|\d+)
    | (?P<word>[a-z]\w*)
    | (?P<variable>[A-Z_]\w*)
    | (?P<text>"[^"\n]*")
    | (?P<sign><=|>=|!=|->|[-+*/=<>(){}\[\],])""",
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Token:
    """One word, number, text or sign; `kind` is the group of the pattern, or 'end' after the last one."""

    kind: str
    text: str
    place: Place


def tokens_of(text: str, file: str) -> list[Token]:
    """The tokens of a text, the end included.

    Raises:
        PlanError: a sign is unknown; the sentence gives `file`, line and column.
    """
    tokens, at, line, begins = [], 0, 1, 0
    while at < len(text):
        place = Place(file, line, at - begins + 1)
        match = _TOKEN.match(text, at)
        if match is None:
            what = "a closing '\"' on the same line" if text[at] == '"' else "a word, a number, a text or an operator"
            raise PlanError(f"{place}: expected {what}; got {text[at : at + 20].splitlines()[0]!r}.")
        if match.lastgroup != "blank":
            tokens.append(Token(str(match.lastgroup), match[0], place))
        newlines = match[0].count("\n")
        if newlines:
            line += newlines
            begins = at + match[0].rindex("\n") + 1
        at = match.end()
    return [*tokens, Token("end", "the end of the file", Place(file, line, at - begins + 1))]


def _nested(read: Callable[[_Reader], Any]) -> Callable[[_Reader], Any]:
    """Refuse what is nested deeper than DEEPEST: the reader, and what runs the plans, would run out of stack."""

    def deeper(reader: _Reader) -> Any:
        reader.depth += 1
        if reader.depth > DEEPEST:
            raise reader.too_much(f"at most {DEEPEST} levels, one inside the other")
        found = read(reader)
        reader.depth -= 1
        return found

    return deeper


class _Reader:
    """Recursive descent; each method reads one thing and leaves the rest."""

    def __init__(self, tokens: list[Token]) -> None:
        self.tokens, self.at, self.depth = tokens, 0, 0
        self.names: dict[str, Var] = {}

    # -- tokens --------------------------------------------------------------------------------------------------

    @property
    def next(self) -> Token:
        return self.tokens[self.at]

    def take(self) -> Token:
        token = self.next
        self.at += token.kind != "end"
        return token

    def has(self, *texts: str) -> bool:
        return self.next.text in texts and self.next.kind in ("word", "sign")

    def got(self, text: str) -> bool:
        if self.has(text):
            self.at += 1
            return True
        return False

    def error(self, expected: str, token: Token | None = None, hint: str = "") -> PlanError:
        token = token or self.next
        got = token.text if token.kind == "end" else f"'{token.text}'"
        return PlanError(f"{token.place}: expected {expected}; got {got}{hint or '.'}")

    def too_much(self, limit: str) -> PlanError:
        return PlanError(f"{self.next.place}: expected {limit}; got more. Say it in several facts or plans.")

    def expect(self, text: str, where: str = "") -> Token:
        if not self.has(text):
            raise self.error(f"'{text}'{where}")
        return self.take()

    def word(self, what: str) -> str:
        token = self.next
        if token.kind != "word" or token.text in RESERVED:
            raise self.error(f"{what}, a lowercase word" + " that is not a keyword" * (token.kind == "word"))
        return self.take().text

    # -- files and plans -----------------------------------------------------------------------------------------

    def library(self) -> Library:
        library = Library()
        while self.next.kind != "end":
            self.names = {}
            token = self.take()
            if token.text == "plan":
                library.add(self.plan(token.place))
            elif token.text == "believe":
                library.facts.append(self._ground("a belief"))
            elif token.text == "achieve":
                goal = self._ground("a goal")
                library.goals.append((goal, self.integer() if self.got("priority") else 0))
            else:
                raise self.error("'plan', 'believe' or 'achieve'", token, nearest(token.text, TOP))
        return library

    def _ground(self, what: str) -> Term:
        token, fact = self.next, self.fact()
        if free := variables(fact):
            raise PlanError(
                f"{token.place}: expected {what} without variables; got '{min(v.name for v in free)}'; write a value."
            )
        return resolve(fact, {})

    def plan(self, place: Place) -> Procedure:
        name = self.word("the plan's name")
        where = f" of plan '{name}'"
        self.expect("{", where)
        clauses: dict[str, Any] = {}
        while not self.has("}"):
            token = self.take()
            if token.text not in CLAUSES or token.kind != "word":
                hint = nearest(token.text, CLAUSES)
                raise self.error(f"{', '.join(CLAUSES[:-1])}, failing or '}}' in plan '{name}'", token, hint)
            if token.text in clauses:
                raise PlanError(
                    f"{token.place}: expected one '{token.text}' in plan '{name}'; got a second; merge them."
                )
            clauses[token.text] = self.clause(token.text)
        end = self.expect("}")
        for word, clause in (("for", "for achieve GOAL"), ("do", "do { ... }")):
            if word not in clauses:
                raise PlanError(f"{end.place}: expected '{clause}' in plan '{name}'; got '}}'; add this clause.")
        kind, trigger, choice = cast("tuple[str, Term, Var | None]", clauses.pop("for"))
        body = cast("tuple[Statement, ...]", clauses.pop("do"))
        return Procedure(name, kind, trigger, body, place, choice=choice, **clauses)

    def clause(self, name: str) -> object:
        if name == "for":
            return self.trigger()
        if name == "when":
            return self.condition()
        if name == "utility":
            return self.sum()
        return self.integer() if name == "priority" else self.body()

    def trigger(self) -> tuple[str, Term, Var | None]:
        token = self.take()
        if token.text not in KINDS:
            raise self.error(f"{', '.join(KINDS[:-1])} or {CHOOSE}", token, nearest(token.text, KINDS))
        fact, choice = self.fact(), None
        if token.text == CHOOSE and self.got("as"):
            if self.next.kind != "variable":
                raise self.error("a variable for the choice")
            choice = self.variable()
        return token.text, fact, choice

    def integer(self) -> int:
        minus = self.got("-")
        if self.next.kind != "number" or "." in self.next.text:
            raise self.error("an integer")
        return int(self.number()) * (-1 if minus else 1)

    def number(self) -> float | int:
        token = self.take()
        if len(token.text) < LONGEST_NUMBER:
            value = float(token.text) if "." in token.text else int(token.text)
            if value < LARGEST:
                return value
        raise self.error("a number below 2^63", Token(token.kind, f"{token.text[:20]}...", token.place))

    # -- statements ----------------------------------------------------------------------------------------------

    def body(self) -> Body:
        self.expect("{")
        statements = []
        while not self.has("}"):
            if self.next.kind == "end":
                raise self.error("'}' or a statement")
            statements.append(self.statement())
        self.take()
        return tuple(statements)

    @_nested
    def statement(self) -> Statement:
        token = self.take()
        if token.kind == "word" and token.text in VERBS:
            reads: dict[str, Callable[[Place], Statement]] = {
                "achieve": lambda place: Achieve(place, self.fact()),
                "test": lambda place: Test(place, self.condition()),
                "wait": lambda place: WaitFor(place, self.condition(), self.sum() if self.got("within") else None),
                "preserve": lambda place: Guarded(place, self.condition(), self.body(), False),
                "maintain": lambda place: Guarded(place, Believed(self.fact()), self.body(), True),
                "while": lambda place: While(place, self.condition(), self.body()),
                "branch": lambda place: Branched(place, self.several("or")),
                "parallel": lambda place: InParallel(place, self.several("and")),
                "believe": lambda place: Believe(place, self.fact()),
                "now": lambda place: Believe(place, self.fact(), "now"),
                "forget": lambda place: Believe(place, self.fact(), "forget"),
                "post": lambda place: Post(place, self.fact(), self.sum() if self.got("priority") else 0),
                "fail": lambda place: Say(place, "fail"),
                "if": self.condition_of,
                "each": self.each,
                "let": self.let,
            }
            if token.text in reads:
                return reads[token.text](token.place)
            return Say(token.place, token.text, self.sum())
        if token.kind == "word" and self.has("("):
            arguments = self.arguments(")")
            return Act(token.place, token.text, arguments, self.sum() if self.got("->") else None)
        hint = nearest(token.text, VERBS) if token.kind == "word" else ""
        raise self.error("a statement: one of " + ", ".join(VERBS) + ", or an action with '('", token, hint)

    def several(self, between: str) -> tuple[Body, ...]:
        bodies = [self.body()]
        while self.got(between):
            bodies.append(self.body())
        return tuple(bodies)

    def condition_of(self, place: Place) -> Statement:
        condition, then = self.condition(), self.body()
        if not self.got("else"):
            return If(place, condition, then)
        return If(place, condition, then, (self.statement(),) if self.has("if") else self.body())

    def each(self, place: Place) -> Statement:
        item = self.sum()
        self.expect("in", " after the loop variable")
        source = self.condition() if self.got("all") else self.sum()
        return Each(place, item, source, self.body())

    def let(self, place: Place) -> Statement:
        if self.next.kind != "variable":
            raise self.error("a variable after 'let'")
        name = self.variable()
        self.expect("=", f" after 'let {name}'")
        return Let(place, name, self.sum())

    # -- conditions ----------------------------------------------------------------------------------------------

    def condition(self) -> Condition:
        parts = [self.conjunction()]
        while self.got("or"):
            parts.append(self.conjunction())
            self.check_count(len(parts))
        return parts[0] if len(parts) == 1 else Either(tuple(parts))

    def conjunction(self) -> Condition:
        parts = [self.simple()]
        while self.got("and"):
            parts.append(self.simple())
            self.check_count(len(parts))
        return parts[0] if len(parts) == 1 else All(tuple(parts))

    def check_count(self, parts: int) -> None:
        if parts > DEEPEST:
            raise self.too_much(f"at most {DEEPEST} parts of a condition or sum")

    @_nested
    def simple(self) -> Condition:
        if self.got("not"):
            return Not(self.simple())
        if self.has("("):
            # A condition in parentheses, or a sum that begins with one.
            at, depth = self.at, self.depth
            try:
                self.take()
                inner = self.condition()
                self.expect(")")
                if not self.has(*ORDERS, "!=", "=", *Sum.OPS):
                    return inner
            except PlanError as error:
                farther, self.at, self.depth = self.at, at, depth
                try:
                    self.sum()
                except PlanError as other:
                    # Of the two readings, report the error of the one that got further.
                    raise (error if farther >= self.at else other) from None
            self.at = at
        token, left = self.next, self.sum()
        if self.has(*ORDERS):
            return Ordered(self.take().text, left, self.sum())
        if self.got("="):
            return Same(left, self.sum())
        if self.got("!="):
            return Not(Same(left, self.sum()))
        if isinstance(left, str):
            left = (left,)
        if not isinstance(left, tuple) or left[0] == LIST:
            raise self.error("a fact, or a comparison with < <= > >= = or !=", token)
        return Believed(left)

    # -- terms ---------------------------------------------------------------------------------------------------

    def fact(self) -> Term:
        token = self.next
        functor = self.word("a fact")
        if not self.has("("):
            return (functor,)
        arguments = self.arguments(")")
        if not arguments:
            raise PlanError(
                f"{token.place}: expected an argument between the parentheses; got none; write '{functor}'."
            )
        return compound(functor, arguments)

    def arguments(self, end: str) -> tuple[Term, ...]:
        self.take()
        terms: list[Term] = []
        while not self.has(end):
            if terms:
                self.expect(",", f" or '{end}'")
            terms.append(self.sum())
        self.take()
        return tuple(terms)

    def sum(self) -> Term:
        return self._left(("+", "-"), self.product)

    def product(self) -> Term:
        return self._left(("*", "/", "mod"), self.single)

    def _left(self, signs: tuple[str, ...], part: Callable[[], Term]) -> Term:
        term, parts = part(), 1
        while self.has(*signs):
            term, parts = Sum(self.take().text, term, part()), parts + 1
            self.check_count(parts)
        return term

    @_nested
    def single(self) -> Term:
        token = self.next
        if token.kind == "variable":
            return self.variable()
        if self.got("-"):
            inner = self.single()
            return -inner if isinstance(inner, int | float) else Sum("-", 0, inner)
        if self.got("("):
            inner = self.sum()
            self.expect(")")
            return inner
        if self.has("["):
            return compound(LIST, self.arguments("]"))
        if token.kind == "number":
            return self.number()
        if token.kind == "text":
            return self.take().text[1:-1]
        if token.kind == "word" and token.text not in RESERVED:
            self.take()
            return compound(token.text, self.arguments(")")) if self.has("(") else token.text
        raise self.error("a word, a variable, a number or a list")

    def variable(self) -> Var:
        name = self.take().text
        return Var(name) if name == "_" else self.names.setdefault(name, Var(name))
