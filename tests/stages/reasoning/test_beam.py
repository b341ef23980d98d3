"""The beam on a graph with known distances, on 8-puzzles and on Lights Out."""

from __future__ import annotations

import numpy as np
import pytest

from devmind.errors import ConfigError
from stages.reasoning.beam import beam
from stages.reasoning.puzzles import exam as lights
from stages.reasoning.puzzles.algebra import Algebra
from stages.reasoning.puzzles.lesson import RULES
from stages.reasoning.sliding import exam as sliding
from stages.reasoning.sliding.lesson import perimeter, rules

LEADS = np.array([[1, 2], [0, 3], [0, 4], [1, 3], [5, 5], [5, 5]])
"""Six places: by 2 and 4 to the goal 5; 1 and 3 are a dead end."""
LURED = np.array([[2.0, 3.0], [9.0, 1.0], [9.0, 2.0], [9.0, 1.0], [1.0, 1.0], [0.0, 0.0]])
"""Costs as a guide says them that takes the dead end for the shorter way."""


def walk(states: np.ndarray, actions: np.ndarray) -> np.ndarray:
    return LEADS[states[:, 0], actions][:, None]


def there(states: np.ndarray) -> np.ndarray:
    return states[:, 0] == 5


def lured(states: np.ndarray) -> np.ndarray:
    return LURED[states[:, 0]]


def lights_left_exactly(lit: np.ndarray) -> np.ndarray:
    after = (lit[:, None] ^ RULES.turns).reshape(-1, RULES.cells)
    return 1.0 + Algebra.of(5).shortest(after).sum(-1).reshape(len(lit), -1)


def moves_left(tiles: np.ndarray) -> np.ndarray:
    reached = rules(3).slid(np.repeat(tiles, 4, 0), np.tile(np.arange(4), len(tiles)))
    return 1.0 + perimeter(3).distance(reached).reshape(-1, 4)


def test_a_beam_of_width_one_runs_into_a_dead_end_and_width_two_does_not() -> None:
    start = np.array([[0]])
    (narrow,) = beam(start, walk, there, lured, width=1, depth=9, nodes=99)
    (wide,) = beam(start, walk, there, lured, width=2, depth=9, nodes=99)
    assert (narrow.actions, narrow.nodes) == (None, 3), "0, 1 and 3: what was met is left out, so nothing is left"
    assert (wide.actions, wide.nodes) == ([1, 1, 0], 5)


@pytest.mark.parametrize("width", [1, 7])
def test_true_costs_give_shortest_paths(width: int) -> None:
    tiles, fewest = sliding.puzzles(20, 2)
    ways = sliding.beam_search(3, tiles, moves_left, width)
    assert [len(way.actions or ()) for way in ways] == fewest.tolist()
    if width == 1:
        assert [way.nodes for way in ways] == fewest.tolist()
    for start, way in zip(tiles, ways, strict=True):
        for action in way.actions or []:
            start = rules(3).slid(start[None], np.array([action]))[0]
        assert rules(3).solved(start[None])[0]
    lit = lights.puzzles(20, 2)
    pressed = lights.beam_search(lit, lights_left_exactly, width)
    assert [len(way.actions or ()) for way in pressed] == Algebra.of(5).shortest(lit).sum(-1).tolist()


def test_the_guide_is_asked_once_per_level_for_all_beams() -> None:
    tiles, _ = sliding.puzzles(6, 4)
    asked: list[np.ndarray] = []

    def told(states: np.ndarray) -> np.ndarray:
        asked.append(states)
        return sliding.manhattan(3, states)

    ways = sliding.beam_search(3, tiles, told, 30, 5000)
    assert all(way.actions is not None for way in ways)
    assert len(asked) == max(len(way.actions or ()) for way in ways)
    assert sum(map(len, asked)) == sum(way.nodes for way in ways)
    assert max(map(len, asked)) <= 6 * 30
    alone = [
        sliding.beam_search(3, one[None], lambda states: sliding.manhattan(3, states), 30, 5000)[0] for one in tiles
    ]
    assert alone == ways
    (one,) = sliding.beam_search(
        3, tiles[:1], lambda states: asked.append(states) or sliding.manhattan(3, states), 30, 5000
    )
    seen = np.concatenate(asked[-len(one.actions or ()) :])
    assert len(np.unique(seen, axis=0)) == len(seen) == one.nodes, "no state is asked about twice"


def test_depth_and_budget_are_kept() -> None:
    tiles, fewest = sliding.puzzles(8, 5)
    step, solved = rules(3).slid, rules(3).solved
    least = int(fewest.min())
    ways = beam(tiles, step, solved, moves_left, width=1, depth=least, nodes=999)
    assert [way.actions is not None for way in ways] == (fewest == least).tolist()
    assert all(way.nodes == least for way in ways)
    flat = beam(tiles, step, solved, lambda states: np.ones((len(states), 4)), width=4, depth=999, nodes=10)
    assert all(way.actions is None and way.nodes == 10 for way in flat)
    (at_once,) = beam(rules(3).goal[None], step, solved, moves_left, width=1, depth=1, nodes=1)
    assert (at_once.actions, at_once.nodes) == ([], 0)
    for bounds in ({"width": 0}, {"depth": 0}, {"nodes": 0}):
        with pytest.raises(ConfigError, match="A beam needs a width, a depth and nodes of at least 1"):
            beam(tiles, step, solved, moves_left, **{"width": 1, "depth": 1, "nodes": 1, **bounds})
