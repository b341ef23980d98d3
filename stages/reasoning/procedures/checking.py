"""Faults of plan files that parse: what no world can do, and what no plan achieves."""

from __future__ import annotations

from collections.abc import Sequence

from devmind.errors import nearest
from stages.reasoning.procedures.library import ACHIEVE, Body, Library, Statement
from stages.reasoning.procedures.statements import Achieve, Act, Post
from stages.reasoning.procedures.terms import show


def check(library: Library, actions: Sequence[str], sensed: Sequence[str] = ()) -> list[str]:
    """Faults of a library that parses, a sentence each: unknown actions, goals that no plan achieves.

    Args:
        actions: the primitive actions of the world.
        sensed: the predicates that the world answers.
    """
    problems = [
        f"Expected a plan for 'achieve {show(goal)}', a goal of the file; got none, so it fails; add a plan for it."
        for goal, _ in library.goals
        if goal not in library.facts and goal[0] not in sensed and not library.relevant(ACHIEVE, goal)
    ]
    for plan in library.plans:
        for statement in _every(plan.body), _every(plan.failing):
            for one in statement:
                if isinstance(one, Act) and one.name not in actions:
                    problems.append(
                        f"{one.place}: expected an action of this world; got '{one.name}'{nearest(one.name, actions)}"
                    )
                elif isinstance(one, Achieve | Post) and not library.relevant(ACHIEVE, one.goal):
                    shape = f"{one.goal[0]}/{len(one.goal) - 1}"
                    if one.goal[0] not in sensed:
                        problems.append(
                            f"{one.place}: expected a plan for 'achieve {shape}'; got none, so the goal fails unless "
                            "it is believed already; add a plan for it."
                        )
    return problems


def _every(body: Body) -> list[Statement]:
    statements = list(body)
    for one in statements:
        for inner in one.bodies():
            statements += inner
    return statements
