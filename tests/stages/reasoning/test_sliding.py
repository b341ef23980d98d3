"""Sliding puzzles as Rules, their exact distances, and the exam's search."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest

from devmind.curriculum.exam import Measure
from devmind.errors import ConfigError, WorldError
from devmind.testing import check_world, tiny_agent, tiny_context
from devmind.worlds.sliding import SlidingRules
from stages.reasoning import parts
from stages.reasoning.paired import ratio
from stages.reasoning.puzzles.lesson import for_exams
from stages.reasoning.sliding import exam, lesson
from stages.reasoning.sliding.exam import distances, manhattan, puzzles, read_boards, search
from stages.reasoning.sliding.lesson import make, mix_boards, perimeter, rules, targets
from stages.reasoning.sliding.patterns import moves_left


@pytest.fixture(scope="module")
def q() -> np.ndarray:
    """The cost of each move, by all distances: int64 [181440, 4], a row per board of `distances`."""
    tiles, fewest = distances()
    keys = tiles @ 9 ** np.arange(9)
    order = np.argsort(keys)
    reached = rules(3).slid(np.repeat(tiles, 4, 0), np.tile(np.arange(4), len(tiles))) @ 9 ** np.arange(9)
    return 1 + fewest[order[np.searchsorted(keys, reached, sorter=order)]].reshape(-1, 4)


@cache
def in_order() -> tuple[np.ndarray, np.ndarray]:
    """The numbers of all boards in ascending order, and the row of each in `distances`, int64 [181440]."""
    every = distances()[0] @ 9 ** np.arange(9)
    order = np.argsort(every)
    return every[order], order


def looked_up(tiles: np.ndarray, q: np.ndarray) -> np.ndarray:
    every, order = in_order()
    return q[order[np.searchsorted(every, tiles @ 9 ** np.arange(9))]]


@pytest.mark.parametrize("level", ["3", "4", "2-9", "5-30"])
def test_sliding_keeps_the_laws_of_worlds(level: str) -> None:
    check_world(SlidingRules(level))


@pytest.mark.parametrize("level", ["", "1", "7", "3-0", "3-x", "3x3"])
def test_a_board_of_another_side_is_refused(level: str) -> None:
    with pytest.raises(WorldError, match="level of the world 'sliding' is a side from 2 to 6"):
        SlidingRules(level)


def test_a_missing_tile_cannot_be_moved() -> None:
    start = rules(3).of(rules(3).goal[None])
    mixed = rules(3).step(rules(3).of(rules(3).slid(start.tiles, np.array([0]))), {"slide": np.array([2])})
    assert rules(3).legal(mixed)["slide"][0].tolist() == [True, True, True, True]
    edge = rules(3).of(rules(3).slid(start.tiles, np.array([0])))
    for move in (3, 4, -1):
        with pytest.raises(WorldError, match="no tile is there"):
            rules(3).step(edge, {"slide": np.array([move])})


def test_all_distances_are_the_published_ones(q: np.ndarray) -> None:
    tiles, fewest = distances()
    assert len(tiles) == 181_440
    assert len(np.unique(tiles, axis=0)) == 181_440
    # Reinefeld 1993, "Complete solution of the eight-puzzle": two boards take 31 moves, the mean is 21.97.
    assert fewest.max() == 31
    assert (fewest == 31).sum() == 2
    assert fewest.mean() == pytest.approx(21.97, abs=0.01)
    assert (manhattan(3, tiles) <= q).all()
    assert (q[1:].min(1) == fewest[1:]).all()


def test_half_of_all_orders_are_solvable_and_those_are_the_reachable_ones() -> None:
    every = np.array(list(permutations(range(9))), np.int8)
    solvable = every[rules(3).solvable(every)]
    assert (np.unique(solvable, axis=0) == np.unique(distances()[0], axis=0)).all()
    moved = rules(4).mixed(np.arange(1, 200), np.random.default_rng(0))[0]
    assert rules(4).solvable(moved).all()
    moved[:, [0, 1]] = moved[:, [1, 0]]
    swapped = moved[(moved[:, :2] > 0).all(1)]
    assert not rules(4).solvable(swapped).any()


def test_an_observation_shows_every_tile() -> None:
    tiles, _ = rules(4).mixed(np.full(50, 60), np.random.default_rng(1))
    board = rules(4).observe(rules(4).of(tiles))["puzzle"]
    number = board[:, :4].argmax(1) * 4 + board[:, 4:].argmax(1) + 1
    assert (np.where(board.any(1), number, 0).reshape(50, -1) == tiles).all()


def test_bounds_of_mixed_boards_hold_and_are_often_exact(q: np.ndarray) -> None:
    tiles, bound = mix_boards(3, 300, 31, np.random.default_rng(0), held_out=False)
    exact = looked_up(tiles, q)
    assert (bound >= exact).all()
    assert (bound == exact).mean() > 0.4
    assert not for_exams(tiles).any()


def test_with_the_true_costs_search_visits_only_the_path(q: np.ndarray) -> None:
    tiles, fewest = puzzles(50, 0)
    ways = search(3, tiles, lambda states: looked_up(states, q).astype(float))
    assert [len(way.actions or ()) for way in ways] == fewest.tolist()
    assert [way.nodes for way in ways] == fewest.tolist()
    by_hand = search(3, tiles[:10], lambda states: manhattan(3, states), 100_000)
    assert [len(way.actions or ()) for way in by_hand] == fewest[:10].tolist()


def test_targets_of_3_by_3_are_the_true_costs_whatever_the_network_says(tmp_path: Path, q: np.ndarray) -> None:
    context, seen = tiny_context(tmp_path), []

    def told(side: int, tiles: np.ndarray, cost: np.ndarray) -> dict[str, np.ndarray]:
        seen.append((side, tiles, cost))
        return {}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lesson, "cost_batch", told)
        for update in (0, 21, 38):
            make(tiny_agent(), context, update, 32, 40)
    for side, tiles, cost in seen:
        assert side == 3
        assert (cost == looked_up(tiles, q)).all()
        assert not for_exams(tiles).any()
    assert np.concatenate([looked_up(tiles, q).min(1) for _, tiles, _ in seen]).max() > 20


def test_beyond_the_proven_depth_targets_are_the_networks_clipped_at_both_bounds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tiles, bound = mix_boards(4, 400, 40, np.random.default_rng(0), held_out=False)
    near = perimeter(4)
    # Published counts of 15-puzzles by their fewest moves (OEIS A089473).
    assert np.bincount(near.fewest)[:12].tolist() == [1, 2, 4, 10, 24, 54, 107, 212, 446, 946, 1948, 3938]
    assert len(near.tiles) <= lesson.NEAR
    known = near.distance(tiles)
    assert (known[known >= 0] <= bound.min(1)[known >= 0]).all()
    assert 0.1 < (known < 0).mean() < 0.9
    asked = []

    def says(number: float) -> None:
        def of(self: object, agent: object, board: np.ndarray, head: str = "") -> np.ndarray:
            asked.append((len(board), head))
            return np.full((len(board), 4), number)

        monkeypatch.setattr(type(lesson.COSTS), "of", of)

    def told_by(number: float) -> np.ndarray:
        says(number)
        return targets(tiny_agent(), 4, tiles, bound)

    low, middle, high = told_by(-50.0), told_by(near.depth + 3.0), told_by(500.0)
    following = rules(4).slid(np.repeat(tiles, 4, 0), np.tile(np.arange(4), len(tiles)))
    far = near.distance(following).reshape(-1, 4) < 0
    assert asked == [(far.sum(), lesson.COSTS.glance)] * 3
    least = 1 + np.maximum(near.depth + 1, moves_left(following)).reshape(-1, 4)
    assert (low[far] == np.minimum(bound, least)[far]).all()
    assert (low[far] > near.depth + 2).any()
    assert (middle[far] == np.minimum(bound, np.maximum(near.depth + 4, least))[far]).all()
    assert (high[far] == bound[far]).all()
    assert (low[~far] == high[~far]).all()
    assert (high <= bound).all()


def test_views_are_as_deep_as_the_step_and_resume_equally(tmp_path: Path) -> None:
    agent, context = tiny_agent(), tiny_context(tmp_path)
    parts.admit(agent)
    learner = lesson.lesson(context).make_learner(agent, context)
    learner.steps = 40
    batch = make(agent, context, 3, 8, 40)
    some = [one["senses"]["puzzle"] for one in learner.views(batch, 3)]
    assert len(some) == lesson.GLANCES
    assert all(one.shape == batch["senses"]["puzzle"].shape for one in some)
    assert all((one == two["senses"]["puzzle"]).all() for one, two in zip(some, learner.views(batch, 3), strict=True))
    assert [lesson.deepest(4, update, 40) for update in (0, 14, 28, 39)] == [24, 52, 80, 80]
    assert lesson.deepest(3, 0, 40) == 100


def test_a_ratio_has_the_right_mean_and_the_bound_of_the_difference() -> None:
    rng = np.random.default_rng(0)
    own, others = rng.integers(0, 2, 200).astype(float), rng.integers(0, 3, 200).astype(float)
    values = ratio(own, others, 0.75)
    assert values.mean() == pytest.approx(own.mean() / others.mean())
    drawn = rng.integers(0, 200, (500, 200))
    assert ((values[drawn].mean(1) <= 0.75) == ((own - 0.75 * others)[drawn].mean(1) <= 0)).all()
    assert np.isfinite(ratio(own, np.zeros(200), 0.75)).all()


def test_lines_of_a_file_are_checked(tmp_path: Path) -> None:
    file = tmp_path / "puzzle15.tsv"
    good = " ".join(map(str, [*range(1, 16), 0]))
    file.write_text(f"{good}\t0\n{good}\t7\n")
    tiles, fewest = read_boards(file, 1)
    assert tiles.tolist() == [[*range(1, 16), 0]]
    assert fewest.tolist() == [0]
    for wrong in (f"{good}\n", f"1 {good}\t3\n", f"{good}\tmany\n", "\n"):
        file.write_text(wrong)
        with pytest.raises(ConfigError, match=r"Line 1 of .* should be the numbers 0 to 15"):
            read_boards(file, 1)


def of_an_untaught_agent(found: Mapping[str, Measure]) -> None:
    """The exam reports solved puzzles and their cost."""
    assert set(found) == {"sliding", "sliding/shortest", "sliding/nodes"}
    assert set(found["sliding"].rows) == {"network alone", "untrained, with search"}
    assert not exam.GATE.judge(found).passed  # it is untaught


def test_a_knowing_guide_solves_all_and_a_shuffled_one_few(q: np.ndarray) -> None:
    tiles, fewest = puzzles(12, 3)
    rng = np.random.default_rng(0)
    ways = search(3, tiles, lambda states: looked_up(states, q).astype(float))
    assert [len(way.actions or ()) for way in ways] == fewest.tolist()
    shuffled = search(3, tiles, lambda states: rng.permutation(looked_up(states, q).astype(float)))
    assert exam.is_solved(shuffled).mean() < exam.is_solved(ways).mean() - 0.3
