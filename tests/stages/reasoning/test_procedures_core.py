"""Terms, beliefs, plan files and the interpreter, on small plans with known outcomes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

import numpy as np
import pytest

from stages.reasoning.procedures.beliefs import Beliefs
from stages.reasoning.procedures.checking import check
from stages.reasoning.procedures.interpreter import AGAIN, Interpreter
from stages.reasoning.procedures.library import ACHIEVE, Option
from stages.reasoning.procedures.parser import read_library
from stages.reasoning.procedures.terms import Open, PlanError, Sum, Term, Var, resolve, show, unify


def doing(text: str, **actions: Callable) -> tuple[Interpreter, list]:
    """An interpreter whose action `note(X)` appends to the returned list."""
    done: list = []
    it = Interpreter(read_library(text), actions={"note": done.append, **actions})
    return it, done


def test_unification_binds_both_sides_and_refuses_different_terms() -> None:
    x, y, found = Var("X"), Var("Y"), dict[Var, object]()
    assert unify(Open(("f", x, ("g", "b"))), Open(("f", "a", y)), found)
    assert found == {x: "a", y: ("g", "b")}
    assert resolve(Open(("h", y, Open(("k", x)))), found) == ("h", ("g", "b"), ("k", "a"))
    assert not unify(Open(("f", x, x)), ("f", "a", "b"), {})
    assert unify(2, 2.0, {})
    assert not unify("a", ("a",), {})
    chain: dict[Var, object] = {}
    assert unify(x, y, chain)
    assert unify(y, 3, chain)
    assert resolve(x, chain) == 3


@pytest.mark.parametrize(
    ("op", "left", "right"),
    [("+", "a", "b"), ("*", "a", 3), ("*", ("[]", "a"), 2), ("mod", "a", 3), ("mod", "%y", 3), ("-", 1, "a")],
)
def test_words_and_lists_are_not_added_or_multiplied(op: str, left: object, right: object) -> None:
    with pytest.raises(PlanError, match="expects numbers on both sides"):
        Sum(op, left, right).value({})
    with pytest.raises(PlanError, match="a divisor other than zero"):
        Sum("/", 1, 0).value({})
    assert Sum("+", 1, Sum("*", 2, 3.5)).value({}) == 8
    for operator, other in (("/", 3), ("*", 0.5)):
        with pytest.raises(PlanError, match="expects numbers below 1e308"):
            Sum(operator, 10**400, other).value({})


def test_an_indexed_query_equals_a_search_of_all_facts() -> None:
    rng, facts = np.random.default_rng(0), set()
    for _ in range(300):
        facts.add(("on", f"b{rng.integers(9)}", f"b{rng.integers(9)}", int(rng.integers(3))))
    beliefs = Beliefs(facts)
    for gone in list(facts)[:50]:
        beliefs.remove(gone)
        facts.discard(gone)
    for _ in range(100):
        parts = [f"b{rng.integers(9)}", f"b{rng.integers(9)}", int(rng.integers(3))]
        pattern = Open(("on", *(Var(str(k)) if rng.random() < 0.5 else part for k, part in enumerate(parts))))
        wanted = {fact for fact in facts if all(type(p) is Var or p == f for p, f in zip(pattern, fact, strict=True))}
        assert {resolve(pattern, found) for found in beliefs.find(pattern, {})} == wanted


@pytest.mark.parametrize(
    ("text", "place", "wanted"),
    [
        ("plan x {\n", "line 2, column 1", "the end of the file"),
        ("plan x {\n  for achieve a\n  do { acheive b }\n}", "line 3, column 8", "did you mean 'achieve'"),
        ("plan x {\n  for achieve a\n  do { move(X, }\n}", "line 3, column 16", "got '}'"),
        ("plan x {\n  for achieve a\n}", "line 3, column 1", "expected 'do { ... }' in plan 'x'"),
        ("plan x { for achieve a do { } }\nplan x { for achieve b do { } }", "line 2, column 1", "at line 1"),
        ("believe on(a, X)", "line 1, column 9", "without variables"),
        ('plan x { for achieve a do { say("hello) } }', "line 1, column 33", "on the same line"),
        ("plan x { for achieve a when b and (c or do { } }", "line 1, column 41", "'do'"),
        ("plan x { for achieve a do { let y = 3 } }", "line 1, column 33", "a variable after 'let'"),
        ("plan x { for achieve a do { } do { } }", "line 1, column 31", "expected one 'do'"),
        ("plan x { for achieves a do { } }", "line 1, column 14", "did you mean 'achieve'"),
        ("plan x { for achieve a priority 1.5 do { } }", "line 1, column 33", "an integer"),
        ("plan x { for achieve a when [b] do { } }", "line 1, column 29", "a fact, or a comparison"),
        ("achieve a\n\n  ?", "line 3, column 3", "'?'"),
    ],
)
def test_an_error_in_a_plan_file_gives_line_and_column(text: str, place: str, wanted: str) -> None:
    with pytest.raises(PlanError) as error:
        read_library(text, "bad.plan")
    said = str(error.value)
    assert said.startswith(f"bad.plan, {place}: "), said
    assert wanted in said, said
    assert said.endswith((".", "?")), said


def test_unknown_actions_and_goals_are_reported_before_running() -> None:
    library = read_library("plan x { for achieve a do { jmp(1) achieve b(1) achieve a } }", "x.plan")
    told = check(library, ["jump"])
    assert [line.split(":")[0] for line in told] == ["x.plan, line 1, column 29", "x.plan, line 1, column 36"]
    assert "did you mean 'jump'" in told[0]
    assert "achieve b/1" in told[1]
    files = "believe fed believe b(1) achieve fed achieve arangd achieve seen(1) plan x { for achieve arranged do { } }"
    assert check(read_library(files), [], ["seen"]) == [
        "Expected a plan for 'achieve arangd', a goal of the file; got none, so it fails; add a plan for it."
    ]
    with pytest.raises(PlanError, match=r"line 1, column 29: expected an action of this world; got 'jmp'"):
        Interpreter(library, actions={"jump": print}).solve(("a",))


@pytest.mark.parametrize(
    ("body", "column", "wanted"),
    [
        ("jump(a, b)", 29, "expected 'jump(a, b)' to run; got the error: "),
        ("jump()", 29, "expected 'jump()' to run; got the error: "),
        ("jump(a)", 29, "expected 'jump(a)' to run; got the error: invalid literal"),
        ("wait b within soon", 29, "expected a number after 'within'; got soon."),
        ("post c priority high", 29, "expected a number after 'priority'; got high."),
        ("let N = " + " * ".join(["9999999.0"] * 50) + " wait b within N", 635, "after 'within'; got inf."),
    ],
)
def test_an_error_while_a_plan_runs_gives_line_and_column(body: str, column: int, wanted: str) -> None:
    def jump(far: str) -> None:
        int(far)

    library = read_library("plan x { for achieve a do { " + body + " } }", "x.plan")
    with pytest.raises(PlanError, match=f"x.plan, line 1, column {column}: ") as error:
        Interpreter(library, actions={"jump": jump}).solve(("a",))
    assert wanted in str(error.value)


@pytest.mark.parametrize("asked", ["test playing(a)", "test tick", "wait tick(1, 2)"])
def test_a_question_that_the_world_cannot_answer_is_a_fault_of_the_plan(asked: str) -> None:
    beliefs = Beliefs(sensed={"playing": lambda: True, "tick": lambda now: [(1,)]})
    it = Interpreter(read_library("plan x { for achieve a do { " + asked + " } }"), beliefs)
    with pytest.raises(PlanError, match=r"^Expected this world to answer '(playing\(a\)|tick|tick\(1, 2\))'; got the"):
        it.solve(("a",))


def test_fifty_thousand_nested_goals_need_no_stack() -> None:
    it = Interpreter(
        read_library(
            "plan zero { for achieve n(0) do { } } plan more { for achieve n(N) when N > 0 do { achieve n(N - 1) } }"
        )
    )
    assert it.solve(("n", 50_000), cycles=150_000)


def test_sums_in_the_facts_and_goals_of_a_file_are_evaluated() -> None:
    library = read_library("believe left(10 - 3, [2 * 2]) achieve n(1 + 1)")
    assert (library.facts, library.goals) == ([("left", 7, ("[]", 4))], [(("n", 2), 0)])
    assert ("left", 7, ("[]", 4)) in Interpreter(library).beliefs


def test_a_believed_goal_needs_no_plan_and_results_are_returned() -> None:
    it, done = doing("""
        believe done
        plan ask { for achieve sum(X, Y, Z) do { let Z = X + Y } }
        plan go { for achieve go do { achieve done  achieve sum(2, 3, S)  note(S) } }""")
    assert it.solve(("go",))
    assert done == [5]


def test_a_failed_plan_is_cleaned_up_and_followed_by_the_next() -> None:
    it, done = doing("""
        plan one { for achieve a do { note(1) fail note(no) } failing { note(tidy) } }
        plan two { for achieve a when can(X) do { note(X) test X > 1 } }
        believe can(1) believe can(2)""")
    assert it.solve(("a",))
    assert done == [1, "tidy", 1, 2]
    it, done = doing("plan one { for achieve a do { note(1) fail } }")
    assert not it.solve(("a",))
    assert done == [1]


def test_an_events_plan_runs_its_failing_part_with_its_bindings() -> None:
    it, done = doing("plan one { for believed smoke(X) do { let Y = X + 1 fail } failing { note(X) note(Y) fail } }")
    it.beliefs.add(("smoke", 1))
    it.cycle()
    (intention,) = it.intentions
    it.run()
    assert done == [1, 2]
    assert (intention.state, it.intentions) == ("failed", [])
    it, done = doing("plan one { for believed smoke(X) do { note(X) } failing { note(no) } }")
    it.beliefs.add(("smoke", 1))
    it.run()
    assert done == [1]


def test_branches_loops_and_lists() -> None:
    it, done = doing("""
        believe item(c) believe item(d)
        plan go { for achieve go do {
            branch { note(1) fail } or { note(2) } or { note(3) }
            each X in [a, b] { note(X) }
            each X in all item(X) { note(X) }
            let N = 0
            while N < 2 { let N = N + 1 }
            if N = 2 and not item(e) { note(N) } else { note(no) }
        } }""")
    assert it.solve(("go",))
    assert done == [1, 2, "a", "b", "c", "d", 2]


def test_parallel_strands_take_turns_and_fail_together() -> None:
    it, done = doing("plan go { for achieve go do { parallel { note(a) note(b) } and { note(1) note(2) } note(end) } }")
    assert it.solve(("go",))
    assert done == ["a", 1, "b", 2, "end"]
    it, done = doing("plan go { for achieve go do { parallel { note(a) fail } and { note(1) note(2) note(3) } } }")
    assert not it.solve(("go",))
    assert 3 not in done


def test_variables_are_counted_up_in_each_loop() -> None:
    it, done = doing("""
        believe item(a) believe item(b)
        plan go { for achieve go do {
            let N = 0
            each X in [a, b, c] { let N = N + 1 }
            each item(X) in [item(a), other(b)] { let N = N + 10 }
            each X in all item(X) { let N = N + 100 }
            note(N)
        } }""")
    assert it.solve(("go",))
    assert done == [213]


def test_loops_and_branches_keep_what_parallel_strands_change() -> None:
    it, done = doing("""plan go { for achieve go do {
        let A = 0 let N = 0
        parallel { let C = 1 let A = 1 let B = 2 } and { while N < 3 { let N = N + 1 } }
        note(N) note(A) note(B)
        parallel { let C = 3 let A = 3 } and { branch { let D = 4 let D = 5 let D = 6 } or { } }
        note(A) note(C) note(D)
    } }""")
    assert it.solve(("go",))
    assert done == [3, 1, 2, 3, 3, 6]


def test_waiting_takes_no_step_until_believed_or_timed_out() -> None:
    it, done = doing(
        "plan go { for achieve go do { wait ready(X) note(X) wait never within 5 note(no) } failing { note(late) } }"
    )
    it.post(("go",))
    for _ in range(20):
        it.cycle()
    assert done == []
    assert it.last_step is None
    it.beliefs.add(("ready", 7))
    began = it.now
    it.cycle()
    it.cycle()
    assert done == [7]
    it.run(100)
    assert done == [7, "late"]
    assert it.now - began < 15


def test_a_broken_preserve_ends_the_body_and_a_broken_maintain_pauses_it() -> None:
    for how, wanted, ok in (("preserve", [1], False), ("maintain", [1, "mended", 2, 3], True)):
        it, done = doing(f"""
            believe safe
            plan go {{ for achieve go do {{ {how} safe {{ note(1) note(2) note(3) }} }} }}
            plan mend {{ for achieve safe do {{ note(mended) believe safe }} }}""")
        intention = it.post(("go",))
        while done != [1]:
            it.cycle()
        it.beliefs.remove(("safe",))
        it.run(100)
        assert done == wanted, how
        assert (intention.state == "done") == ok, how
        assert not it.intentions
        assert not it._watching


def test_a_maintained_body_stays_paused_when_its_wait_ends() -> None:
    it, done = doing("""
        believe safe
        plan go { for achieve go do { maintain safe { wait bell note(woken) } } }
        plan mend { for achieve safe do { wait fixed believe safe note(mended) } }""")
    it.post(("go",))
    it.run(5)
    it.beliefs.remove(("safe",))
    it.run(5)
    it.beliefs.add(("bell",))
    it.run(5)
    assert done == []
    it.beliefs.add(("fixed",))
    it.run(20)
    assert done == ["mended", "woken"]


def test_a_maintained_body_that_fails_during_its_repair_ends_the_repair_too() -> None:
    """The repair went on and, at its end, failed the plan that had taken over."""
    it, done = doing("""
        believe safe
        believe calm
        plan go { for achieve go do { maintain safe { preserve calm { wait bell } } } }
        plan other { for achieve go do { note(other) wait later note(end) } }
        plan mend { for achieve safe do { note(begun) wait fixed note(mended) } }""")
    intention = it.post(("go",))
    it.run(10)
    it.beliefs.remove(("safe",))
    it.run(10)
    it.beliefs.remove(("calm",))
    it.run(10)
    for fact in ("fixed", "later"):
        it.beliefs.add((fact,))
        it.run(10)
    assert done == ["begun", "other", "end"]
    assert intention.state == "done"
    assert not it.intentions
    assert not it._watching


def test_an_event_interrupts_at_once_and_work_is_resumed() -> None:
    it, done = doing("""
        plan work { for achieve work(N) when N > 0 do { note(N) achieve work(N - 1) } }
        plan stop { for achieve work(0) do { } }
        plan alarm { for believed fire(X) priority 5 do { note(fire) note(X) } }""")
    it.post(("work", 6))
    it.run(5)
    before = len(done)
    it.beliefs.add(("fire", "kitchen"))
    it.cycle()
    assert done[before:] == ["fire"]
    it.run()
    assert done == [6, 5, *done[2:before], "fire", "kitchen", *done[before + 2 :]]
    assert done[-1] == 1
    assert [one for one in done if isinstance(one, int)] == [6, 5, 4, 3, 2, 1]


def test_intentions_are_suspended_resumed_ordered_and_dropped() -> None:
    it, done = doing("""
        plan a { for achieve a do { note(a1) note(a2) } }
        plan b { for achieve b do { suspend a note(b1) note(b2) resume a } }
        plan c { for achieve c do { note(c) } }""")
    first = it.post(("a",))
    it.cycle()
    second = it.post(("b",), priority=1)
    it.post(("c",), after=[first, second])
    it.run()
    assert done == ["b1", "b2", "a1", "a2", "c"]
    third = it.post(("a",))
    it.cycle()
    it.drop(third)
    it.run()
    assert third.state == "dropped"
    assert done.count("a1") == 1


def test_an_unfinished_action_is_asked_again() -> None:
    left = [3]

    def turn() -> object:
        left[0] -= 1
        return AGAIN if left[0] else None

    it, done = doing("plan go { for achieve go do { turn() note(there) } }", turn=turn)
    assert it.solve(("go",))
    assert left == [0]
    assert done == ["there"]


CHOICES = """
    plan walk { for achieve there utility 1 do { note(walk) } }
    plan ride { for achieve there when bus(N) utility 10 - N do { note(N) } }
    believe bus(4) believe bus(6)"""


def test_the_highest_utility_is_chosen_unless_a_meta_plan_decides() -> None:
    it, done = doing(CHOICES)
    assert it.solve(("there",))
    assert done == [4]
    it, done = doing(
        CHOICES
        + """
        plan thrifty { for choose there as Choice when poor and option(Choice, walk)
            do { note(thinking) pick walk } }"""
    )
    assert it.solve(("there",))
    assert done == [4]
    it.beliefs.add(("poor",))
    assert it.solve(("there",))
    assert done == [4, "thinking", "walk"]
    assert not [fact for fact in it.beliefs if fact[0] in ("option", "worth")], "what was offered is withdrawn"


def test_a_plan_may_believe_what_a_choice_believes_too() -> None:
    it, done = doing("""
        believe option believe worth(gold)
        plan one { for achieve go do { note(1) } }
        plan two { for achieve go do { note(2) } }
        plan meta { for choose go as Choice do { pick two } }""")
    assert it.solve(("go",))
    assert done == [2]
    assert sorted(it.beliefs) == [("option",), ("worth", "gold")]


class LastRewards:
    """Utilities that value a plan by what its last run earned; what was never tried comes first."""

    def __init__(self) -> None:
        self.earned: dict[str, float] = {}

    def values(self, goal: Term, options: Sequence[Option]) -> list[float]:
        return [self.earned.get(option.plan.name, np.inf) for option in options]

    def choose(self, values: Sequence[float]) -> int:
        return int(np.argmax(values))

    def situation(self, goal: Term) -> Term:
        return goal

    def ended(self, situation: Hashable, option: Option, reward: float, ok: bool) -> None:
        assert ok
        self.earned[option.plan.name] = reward


@pytest.mark.parametrize("meta", ["", """
        plan best { for choose open as C when worth(C, Name, W) and not (worth(C, _, More) and More > W)
            do { pick Name } }"""], ids=["by utilities", "by a meta plan"])  # fmt: skip
def test_learned_values_choose_and_a_meta_plan_sees_them(meta: str) -> None:
    table = LastRewards()
    library = read_library(
        """
        plan left { for achieve open do { push(0) } }
        plan right { for achieve open do { push(1) } }"""
        + meta
    )
    it, pushed = Interpreter(library, utilities=table), list[int]()

    def push(value: int) -> None:
        pushed.append(value)
        it.earn(float(value))

    it.actions["push"] = push
    for _ in range(10):
        assert it.solve(("open",))
    assert set(pushed[:2]) == {0, 1}
    assert set(pushed[2:]) == {1}
    assert table.earned == {"left": 0.0, "right": 1.0}


def test_applicable_plans_equal_a_search_of_all_plans_and_beliefs() -> None:
    text = "".join(
        f"plan p{k} {{ for achieve fix(d{k % 20}) when broken(d{k % 20}, W) and W > {k // 20} do {{ }} }}\n"
        for k in range(200)
    )
    library, rng = read_library(text), np.random.default_rng(0)
    beliefs = Beliefs(("broken", f"d{rng.integers(40)}", int(rng.integers(12))) for _ in range(2000))
    for device in range(20):
        goal = ("fix", f"d{device}")
        found = {option.key for option in library.applicable(ACHIEVE, goal, beliefs)}
        worn = [fact[2] for fact in beliefs if fact[0] == "broken" and fact[1] == f"d{device}"]
        assert found == {(f"p{k}", w) for k in range(device, 200, 20) for w in worn if w > k // 20}


def test_a_goal_is_parsed_as_it_is_shown() -> None:
    for text in ("on(a, table)", "raining", "at([1, 2.5, x], f(g))"):
        ((goal, priority),) = read_library(f"achieve {text} priority 3").goals
        assert (show(goal), priority) == (text, 3)
    with pytest.raises(PlanError, match=r"plans, line 1, column 12: expected 'plan', 'believe' or 'achieve'"):
        read_library("achieve on b")
