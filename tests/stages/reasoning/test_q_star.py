"""Q* on a graph whose distances are known, and on Lights Out."""

from __future__ import annotations

import numpy as np
import pytest

from devmind.errors import ConfigError
from stages.reasoning.puzzles.algebra import Algebra
from stages.reasoning.puzzles.exam import examine, followed, puzzles, search  # noqa: F401
from stages.reasoning.puzzles.lesson import RULES, bounds, for_exams, scrambles
from stages.reasoning.q_star import q_star

MOVES = np.array([[0, 1], [0, -1], [1, 0], [-1, 0]])


def step(states: np.ndarray, actions: np.ndarray) -> np.ndarray:
    """A plane of which x = 2 is a wall below y = 3."""
    to = states + MOVES[actions]
    wall = (to[:, 0] == 2) & (to[:, 1] < 3)
    return np.where(wall[:, None], states, to)


def at_goal(states: np.ndarray) -> np.ndarray:
    return (states == [4, 0]).all(-1)


def manhattan(states: np.ndarray) -> np.ndarray:
    to = states[:, None] + MOVES
    return 1.0 + abs(to - [4, 0]).sum(-1)


def follow(start: np.ndarray, actions: list[int]) -> np.ndarray:
    for action in actions:
        start = step(start[None], np.array([action]))[0]
    return start


def test_an_admissible_guide_finds_a_shortest_way_round_the_wall() -> None:
    starts = np.array([[0, 0], [4, 1], [4, 0], [1, 3]])
    ways = q_star(starts, step, at_goal, manhattan, nodes=500)
    assert [len(way.actions or ()) for way in ways] == [10, 1, 0, 6]
    for start, way in zip(starts, ways, strict=True):
        assert at_goal(follow(start, way.actions or [])[None])[0]
    assert ways[2].nodes == 0


def test_problems_side_by_side_are_searched_as_alone() -> None:
    starts = np.array([[0, 0], [-2, 1], [1, 1]])
    together = q_star(starts, step, at_goal, manhattan, nodes=60, batch=3)
    alone = [q_star(start[None], step, at_goal, manhattan, nodes=60, batch=3)[0] for start in starts]
    assert together == alone


def test_the_budget_holds_and_an_unsolved_problem_says_so() -> None:
    asked = []

    def counted(states: np.ndarray) -> np.ndarray:
        asked.append(len(states))
        return manhattan(states)

    (way,) = q_star(np.array([[0, 0]]), step, at_goal, counted, nodes=5, batch=2)
    assert way.actions is None
    assert way.nodes == sum(asked) <= 5
    with pytest.raises(ConfigError, match="one state at least"):
        q_star(np.array([[0, 0]]), step, at_goal, manhattan, nodes=0)


def test_a_search_without_a_way_ends() -> None:
    (way,) = q_star(np.array([[0, 0]]), lambda states, actions: states, at_goal, manhattan, nodes=100)
    assert way.actions is None
    assert way.nodes == 1


def perfect(lit: np.ndarray) -> np.ndarray:
    """The true Q: what is left after each press, by algebra."""
    after = (lit[:, None] ^ RULES.turns).reshape(-1, RULES.cells)
    return 1.0 + Algebra.of(5).shortest(after).sum(-1).reshape(len(lit), -1)


def test_a_perfect_guide_reaches_the_ceiling_and_shuffled_answers_fall() -> None:
    lit = puzzles(60, 0)
    fewest = Algebra.of(5).shortest(lit).sum(-1)
    ways = search(lit, perfect)
    assert [len(way.actions or ()) for way in ways] == fewest.tolist()
    assert all(way.nodes <= 4 * k for way, k in zip(ways, fewest, strict=True))
    assert followed(lit, perfect) == 1.0
    rng = np.random.default_rng(0)
    shuffled = search(lit, lambda states: rng.permutation(perfect(states).T).T, nodes=60)
    assert np.mean([way.actions is not None for way in shuffled]) < 0.3


def test_lessons_never_show_what_exams_ask() -> None:
    asked = puzzles(100, 0)
    assert for_exams(asked).all()
    assert len(np.unique(asked, axis=0)) == len(asked)
    taught, presses = scrambles(2000, np.random.default_rng(0), held_out=False)
    assert not for_exams(taught).any()
    assert (RULES.pressed(taught, presses) == 0).all()
    assert presses.sum(1).min() == 1
    assert presses.sum(1).max() == 8


def test_bounds_are_never_below_the_true_costs() -> None:
    lit, presses = scrambles(300, np.random.default_rng(1), held_out=False)
    assert (bounds(presses) >= perfect(lit)).all()
    assert (bounds(presses) == perfect(lit)).mean() > 0.9
