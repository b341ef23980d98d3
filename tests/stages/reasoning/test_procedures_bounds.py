"""Plan files that ask for too much: each ends in one sentence, in the reader, in a run and in a life."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from devmind.acting.directing import Observation
from devmind.live.directing import Directing
from devmind.moment import Moment
from stages.reasoning.procedures import statements
from stages.reasoning.procedures.beliefs import Beliefs
from stages.reasoning.procedures.interpreter import Interpreter
from stages.reasoning.procedures.living import LivingProcedures
from stages.reasoning.procedures.parser import read_file, read_library
from stages.reasoning.procedures.terms import PlanError, show

N = 20_000


def plan(body: str, begin: str = "achieve g") -> str:
    return f"{begin}\nplan p {{ for achieve g do {{ {body} }} }}"


DEEP = {
    "not": plan(f"test {'not ' * N}a"),
    "parentheses": plan(f"test {'(' * N}a{')' * N}"),
    "parentheses of a sum": plan(f"test {'(' * 400}1{')' * 400} < 2"),
    "terms": plan(f"test {'f(' * N}a{')' * N}"),
    "lists": plan(f"test a({'[' * N}{']' * N})"),
    "signs": plan(f"test a({'-' * N}X)"),
    "bodies": plan("if a { " * N + "}" * N),
    "else": plan("if a { } " + "else if a { } " * N),
    "sum": plan(f"test a(1{' + 1' * N})"),
    "product": plan(f"test a(1{' * 1' * N})"),
    "and": plan(f"test a{' and a' * N}"),
    "or": plan(f"test a{' or a' * N}"),
}


@pytest.mark.parametrize("kind", DEEP)
def test_a_file_that_is_nested_too_deeply_is_refused_by_its_place(kind: str) -> None:
    with pytest.raises(PlanError, match=r"^plans, line 2, column \d+: expected at most 100 .*; got more"):
        read_library(DEEP[kind])


def test_a_file_may_be_nested_a_hundred_deep() -> None:
    library = read_library(plan(f"test {'f(' * 90}a{')' * 90} and b" + f"{' and b' * 90} {'if b { ' * 90}{'}' * 90}"))
    it = Interpreter(library)
    it.run(100)
    assert not it.intentions


@pytest.mark.parametrize("number", ["9" * 5000, f"{'9' * 5000}.5", str(2**63), "9223372036854775808.0"])
def test_numbers_are_below_two_to_the_63(number: str) -> None:
    for text in (f"achieve g priority {number}", f"believe a({number})", plan(f"let X = {number}")):
        if "." in number and "priority" in text:
            continue
        with pytest.raises(PlanError, match=r"line \d, column \d+: expected a number below 2\^63; got '9"):
            read_library(text)
    assert read_library(f"believe a({2**63 - 1}, 0.5, {'0' * 300}7)").facts == [("a", 2**63 - 1, 0.5, 7)]


DOUBLED = "let X = [0] " + "let X = [X, X] " * 40
RUNS = {
    "a number that squares itself": (plan("while n(X) { now n(X * X) }", "believe n(3) achieve g"), r"below 2\^63"),
    "a text that repeats itself": (plan('let X = "ab" * 1000000000'), "expects numbers on both sides"),
    "a text that is filled in": (plan('let X = "%1000000000d" mod 7'), "expects numbers on both sides"),
    "a join of all with all": (
        plan(
            "test f(A) and f(B) and f(C) and f(D) and A != A",
            "".join(f"believe f({k}) " for k in range(300)) + "achieve g",
        ),
        "needs at most 100,000 looks",
    ),
    "goals without end": (plan("post g post g"), "at most 1,000 intentions"),
    "events without end": (
        "believe e(0) achieve g plan p { for achieve g do { now e(1) } }"
        "plan q { for believed e(N) do { now e(N + 1) now e(N + 2) wait never } }",
        "at most 1,000 intentions",
    ),
    "beliefs without end": (
        plan("while n(X) { believe b(X) now n(X + 1) }", "believe n(0) achieve g"),
        "at most 500 beliefs",
    ),
    "a list of itself twice": (plan(f"{DOUBLED} now l(X)"), "at most 10,000 parts"),
    "a variable that is in its own value": (plan("let X = f(X)"), "expected a value for 'X'"),
    "terms that unfold": (
        plan("test " + " and ".join(f"X{k} = [X{k + 1}, X{k + 1}]" for k in range(60)) + " and l(X0)"),
        "(needs at most 100,000 looks|at most 10,000 parts)",
    ),
    "a term that grows": (plan("while n(X) { now n(f(X)) }", "believe n(0) achieve g"), "nested at most 100 deep"),
}


@pytest.mark.parametrize("kind", RUNS)
def test_a_plan_that_asks_for_too_much_ends_in_a_sentence(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text, says = RUNS[kind]
    monkeypatch.setattr(statements, "MOST_FACTS", 500)
    with pytest.raises(PlanError, match=says):
        Interpreter(read_library(text)).run(1_000_000)


def test_a_variable_is_not_bound_to_a_term_that_it_is_in() -> None:
    it = Interpreter(read_library(plan("branch { test X = f(Y) and Y = g(X) } or { now done(1) }")))
    it.run(100)
    assert ("done", 1) in it.beliefs


def test_beliefs_outside_of_a_cycle_have_no_limit() -> None:
    beliefs = Beliefs(("f", k) for k in range(400))
    it = Interpreter(read_library(plan("test f(A) and f(B)")), beliefs)
    it.run(10)
    condition = read_library(plan("test f(A) and f(B) and A != A")).plans[0].body[0].condition  # type: ignore[attr-defined]
    assert condition.first(beliefs, {}) is None


def tick(number: int) -> Observation:
    return Observation(Moment(number / 10, {}, first=number == 0), [])


@pytest.mark.parametrize("kind", ["a number that squares itself", "a join of all with all", "goals without end"])
def test_in_a_life_the_procedures_stop_and_say_why(kind: str) -> None:
    text, says = RUNS[kind]
    director = LivingProcedures(read_library(text))
    for number in range(1000):
        director.direct(tick(number))
        if director.fault:
            break
    with pytest.raises(AssertionError, match=says):
        raise AssertionError(director.fault)
    assert director.direct(tick(1001)) == {}
    director.direct(tick(0))
    assert director.fault == "" or "stop until" in director.fault, "a new episode begins anew"


def test_a_tick_ends_when_its_work_is_done() -> None:
    """Sixty steps that each look at just below the limit would take a life's tick seconds."""
    facts = "".join(f"believe f({k}) " for k in range(250))
    library = read_library(
        plan(
            "while go { each X in all f(A) and f(B) and A = B and A > 248 { now last(A) } }",
            f"{facts} believe go achieve g",
        )
    )
    director = LivingProcedures(library)
    director.direct(tick(0))
    assert director.policy.minds[0].now <= 3


class Failing:
    """A director of somebody else, which fails in its third tick."""

    fault = ""

    def __init__(self) -> None:
        self.ticks = 0

    def direct(self, observation: Observation) -> dict[str, np.ndarray]:
        self.ticks += 1
        if self.ticks == 3:
            raise KeyError("cup")
        return {"look": np.zeros(2, np.float32)}

    def doing(self) -> list[str]:
        return []


def test_a_director_that_fails_stops_and_never_ends_the_life() -> None:
    notes: list[Any] = []
    directing, agent, output = Directing(Failing(), lambda *note: notes.append(note)), _Bare(), _Bare()
    done = [directing.act(agent, Moment(k / 10, first=k in (0, 5)), output, None, {}) for k in range(7)]  # type: ignore[arg-type]
    assert [len(orders) for orders in done] == [1, 1, 0, 0, 0, 1, 1]
    assert directing.fault == ""
    assert [note[1]["effectors"] for note in notes] == [["look"], [], ["look"]]


def test_the_fault_of_a_director_names_what_failed() -> None:
    directing = Directing(Failing(), lambda *note: None)
    for k in range(3):
        directing.act(_Bare(), Moment(k / 10, first=k == 0), _Bare(), None, {})  # type: ignore[arg-type]
    assert directing.fault == "The director failed and stops until the next episode begins: KeyError: 'cup'."


class _Bare:
    """Stands for an agent without a tracker, and for what it answered."""

    tracker = None
    beliefs = None


def _random_text(rng: random.Random) -> str:
    """A plan file by the grammar, then damaged: a part repeated, nested, or cut out."""
    terms: list[Callable[[int], str]] = [
        lambda depth: rng.choice(["a", "b", "X", "Y", "_", "3", "0.5", '"t"', "[]"]),
        lambda depth: f"f({some(terms, depth)}, {some(terms, depth)})",
        lambda depth: f"[{some(terms, depth)}, {some(terms, depth)}]",
        lambda depth: f"{some(terms, depth)} {rng.choice(['+', '-', '*', '/', 'mod'])} {some(terms, depth)}",
    ]
    conditions: list[Callable[[int], str]] = [
        lambda depth: f"f({some(terms, depth)}, {some(terms, depth)})",
        lambda depth: f"{some(terms, depth)} {rng.choice(['<', '=', '!=', '>='])} {some(terms, depth)}",
        lambda depth: f"not {some(conditions, depth)}",
        lambda depth: f"({some(conditions, depth)} {rng.choice(['and', 'or'])} {some(conditions, depth)})",
    ]
    statements: list[Callable[[int], str]] = [
        lambda depth: f"{rng.choice(['believe', 'now', 'forget'])} f({some(terms, depth)}, {some(terms, depth)})",
        lambda depth: f"let X = {some(terms, depth)}",
        lambda depth: f"test {some(conditions, depth)}",
        lambda depth: f"while {some(conditions, depth)} {{ {some(statements, depth)} }}",
        lambda depth: f"each X in all {some(conditions, depth)} {{ {some(statements, depth)} }}",
        lambda depth: f"branch {{ {some(statements, depth)} }} or {{ {some(statements, depth)} }}",
        lambda depth: f"post g priority {some(terms, depth)}",
        lambda depth: f"achieve {rng.choice(['g', 'h'])}",
    ]

    def some(kinds: list[Callable[[int], str]], depth: int) -> str:
        return kinds[0 if depth > 3 else rng.randrange(len(kinds))](depth + 1)

    body = " ".join(some(statements, 0) for _ in range(rng.randrange(1, 6)))
    text = f"believe f(a, 3) believe f(b, 2) achieve g plan p {{ for achieve g do {{ {body} }} }}"
    words = text.split(" ")
    at, end = sorted(rng.sample(range(len(words)), 2))
    if rng.random() < 0.3:
        words[at:end] = words[at:end] * rng.randrange(0, 200)
    return " ".join(words)


def test_files_by_the_grammar_and_damaged_ones_run_or_end_in_a_sentence() -> None:
    outcomes, said = {"refused": 0, "stopped": 0, "ran": 0}, list[str]()
    for seed in range(150):
        try:
            library = read_library(_random_text(random.Random(seed)))
        except PlanError as error:
            said.append(str(error))
            outcomes["refused"] += 1
            continue
        it = Interpreter(library)
        try:
            it.run(200)
            outcomes["ran"] += 1
        except PlanError as error:
            said.append(str(error))
            outcomes["stopped"] += 1
        assert all(isinstance(show(fact), str) for fact in it.beliefs)
    assert min(outcomes.values()) > 5, outcomes
    assert all("\n" not in sentence and sentence.endswith((".", "?")) for sentence in said)


def test_a_plan_file_is_a_plain_file_of_at_most_a_megabyte(tmp_path: Path) -> None:
    (tmp_path / "big.plan").write_text("# " + "x" * (1 << 20))
    for path, says in (
        (Path("/dev/zero"), "no plain file"),
        (tmp_path / "big.plan", "over 1,048,576 bytes"),
        (tmp_path / "none.plan", "no file"),
    ):
        with pytest.raises(PlanError, match=says):
            read_file(path)
