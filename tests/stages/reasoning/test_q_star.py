"""Q* on a graph with known distances, on 8-puzzles and on Lights Out."""

from __future__ import annotations

import numpy as np
import pytest

from devmind.errors import ConfigError
from stages.reasoning.puzzles.algebra import Algebra
from stages.reasoning.puzzles.exam import examine, puzzles, search, solved_greedily  # noqa: F401
from stages.reasoning.puzzles.lesson import RULES, bounds, for_exams, out, press_lights, scrambles
from stages.reasoning.q_star import q_star
from stages.reasoning.sliding import exam as sliding
from stages.reasoning.sliding.lesson import perimeter, rules

MOVES = np.array([[0, 1], [0, -1], [1, 0], [-1, 0]])


def step(states: np.ndarray, actions: np.ndarray) -> np.ndarray:
    """A step on a plane with a wall at x = 2 below y = 3."""
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


def test_an_admissible_guide_finds_a_shortest_path_around_the_wall() -> None:
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


def test_the_budget_is_kept_and_an_unsolved_problem_has_no_actions() -> None:
    asked = []

    def counted(states: np.ndarray) -> np.ndarray:
        asked.append(len(states))
        return manhattan(states)

    (way,) = q_star(np.array([[0, 0]]), step, at_goal, counted, nodes=5, batch=2)
    assert way.actions is None
    assert way.nodes == sum(asked) <= 5
    with pytest.raises(ConfigError, match=r"at least (one node|1)"):
        q_star(np.array([[0, 0]]), step, at_goal, manhattan, nodes=0)


def test_a_search_without_a_solution_ends() -> None:
    (way,) = q_star(np.array([[0, 0]]), lambda states, actions: states, at_goal, manhattan, nodes=100)
    assert way.actions is None
    assert way.nodes == 1


def exact(tiles: np.ndarray) -> np.ndarray:
    """The true Q of 8-puzzles, by breadth-first search."""
    reached = rules(3).slid(np.repeat(tiles, 4, 0), np.tile(np.arange(4), len(tiles)))
    return 1.0 + perimeter(3).distance(reached).reshape(-1, 4)


def test_q_star_finds_the_lengths_of_breadth_first_search_and_evaluates_one_state_a_step() -> None:
    tiles, fewest = sliding.puzzles(30, 1)
    asked = tiles, rules(3).slid, rules(3).solved
    ways = q_star(*asked, exact, nodes=1000)
    assert [len(way.actions or ()) for way in ways] == fewest.tolist()
    assert [way.nodes for way in ways] == [way.expanded for way in ways] == fewest.tolist()
    by_hand = q_star(tiles[:5], *asked[1:], lambda states: sliding.manhattan(3, states), nodes=20_000)
    assert [len(way.actions or ()) for way in by_hand] == fewest[:5].tolist()
    lit = puzzles(20, 1)
    ways = q_star(lit, press_lights, out, perfect, nodes=1000)
    assert [way.nodes for way in ways] == Algebra.of(5).shortest(lit).sum(-1).tolist()


def perfect(lit: np.ndarray) -> np.ndarray:
    """The true Q: the presses left after each press, by algebra."""
    after = (lit[:, None] ^ RULES.turns).reshape(-1, RULES.cells)
    return 1.0 + Algebra.of(5).shortest(after).sum(-1).reshape(len(lit), -1)


def test_a_perfect_guide_reaches_the_ceiling_and_shuffled_answers_fall() -> None:
    lit = puzzles(60, 0)
    fewest = Algebra.of(5).shortest(lit).sum(-1)
    ways = search(lit, perfect)
    assert [len(way.actions or ()) for way in ways] == fewest.tolist()
    assert all(way.nodes <= 4 * k for way, k in zip(ways, fewest, strict=True))
    assert solved_greedily(lit, perfect) == 1.0
    rng = np.random.default_rng(0)
    shuffled = search(lit, lambda states: rng.permutation(perfect(states).T).T, nodes=60)
    assert np.mean([way.actions is not None for way in shuffled]) < 0.3


def test_lessons_never_show_exam_puzzles() -> None:
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
