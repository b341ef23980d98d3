"""Pattern databases of the 15-puzzle, paths found with them, and the lesson boards taken from these."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from devmind.testing import tiny_agent, tiny_context
from devmind.worlds.sliding import SlidingRules
from stages.reasoning.puzzles.lesson import for_exams
from stages.reasoning.sliding import exam, lesson, patterns
from stages.reasoning.sliding.exam import manhattan, pattern_bounds
from stages.reasoning.sliding.lesson import along, boards, perimeter
from stages.reasoning.sliding.patterns import mirrored, moves_left, tables, ways

RULES = SlidingRules("4")


@pytest.fixture(scope="module")
def found() -> patterns.Ways:
    return ways(30, np.random.default_rng(0))


def test_every_placement_of_five_tiles_has_an_entry_and_the_goal_costs_nothing() -> None:
    assert ((tables() < 127).sum(1) == 16 * 15 * 14 * 13 * 12).all()
    assert moves_left(RULES.goal[None]).tolist() == [0]


def test_tables_are_admissible_and_at_least_manhattan() -> None:
    near = perimeter(4)
    said = moves_left(near.tiles)
    assert (said <= near.fewest).all()
    assert ((near.fewest - said) % 2 == 0).all()
    assert (said == near.fewest).mean() > 0.5
    mixed, _ = RULES.mixed(np.full(300, 120), np.random.default_rng(1))
    # By Manhattan a move costs one more than the board it leads to; for the tables, compare what moves leave.
    apart = manhattan(4, mixed)[RULES.able(mixed)]
    rows = np.nonzero(RULES.able(mixed))
    reached = moves_left(RULES.slid(mixed[rows[0]], rows[1]))
    assert (1 + reached >= apart).all()
    assert (1 + reached > apart).mean() > 0.5
    # By an odd number, often 1: an entry assumes the free place where it serves its tiles best.
    assert ((reached - moves_left(mixed)[rows[0]]) % 2 == 1).all()


def test_a_mirror_image_takes_as_many_moves_and_often_says_more() -> None:
    near, rng = perimeter(4), np.random.default_rng(3)
    some = rng.permutation(len(near.tiles))[:500]
    assert (near.distance(mirrored(near.tiles[some])) == near.fewest[some]).all()
    assert (mirrored(mirrored(near.tiles[some])) == near.tiles[some]).all()
    far, _ = RULES.mixed(np.full(300, 200), rng)
    assert (moves_left(far) == moves_left(mirrored(far))).all()
    assert (moves_left(far) > patterns._bound(far)).mean() > 0.25


def test_an_unweighted_search_finds_a_shortest_path(monkeypatch: pytest.MonkeyPatch) -> None:
    near, rng = perimeter(4), np.random.default_rng(2)
    some = rng.permutation(np.flatnonzero(near.fewest > 8))[:60]
    lengths = [
        len(
            patterns._solve(
                tiles.astype(np.int64), tables(), patterns._of_tile(), patterns._power(), RULES.leads, 1.0, 10**6
            )
        )
        for tiles in near.tiles[some]
    ]
    assert lengths == near.fewest[some].tolist()


def test_a_path_leads_to_the_goal_move_by_move(found: patterns.Ways) -> None:
    reached = RULES.slid(found.tiles, found.first)
    on = found.moves > 1
    assert RULES.solved(reached[~on]).all()
    assert (reached[:-1][on[:-1]] == found.tiles[1:][on[:-1]]).all()
    assert (found.moves >= moves_left(found.tiles)).all()
    begins = found.tiles[np.unique(found.way, return_index=True)[1]]
    # 155 of 180 boards of six seeds were solved within the search's limit: less than half of 30 are over five standard
    # deviations below.
    assert len(begins) >= 15
    assert RULES.solvable(begins).all()
    # Korf 1985: random boards take 53 moves on average.
    assert 48 < np.bincount(found.way)[np.unique(found.way)].mean() < 60


def test_an_aborted_search_gives_no_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patterns, "NODES", 3)
    none = ways(5, np.random.default_rng(0))
    assert none.tiles.shape == (0, 16)
    assert len(none.moves) == len(none.first) == 0


def test_puzzles_of_a_file_are_compared_with_both_rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    near, context = perimeter(4), tiny_context(tmp_path)
    some = np.flatnonzero(near.fewest == 14)[:8]
    (tmp_path / "puzzles").mkdir()
    lines = (f"{' '.join(map(str, near.tiles[row]))}\t{near.fewest[row]}" for row in some)
    (tmp_path / exam.FIFTEEN_FILE).write_text("\n".join(lines) + "\n")
    monkeypatch.setattr(exam, "costs", lambda agent, side, tiles: pattern_bounds(tiles))
    solved, length = exam.fifteens(tiny_agent(), replace(context, data=tmp_path))
    assert solved.floors == {exam.HAND: 1.0, exam.TABLED: 1.0}
    assert solved.score == 1.0, "who knows as much as the tables solves as much"
    assert length.score == length.floors[exam.TABLED]


def test_lesson_boards_are_far_and_near_and_not_the_exams(monkeypatch: pytest.MonkeyPatch) -> None:
    tiles, bound = along(200, np.random.default_rng(3))
    assert tiles.shape == (200, 16)
    assert bound.shape == (200, 4)
    assert not for_exams(tiles).any()
    assert (bound.min(1) >= moves_left(tiles)).all()
    assert bound.min(1).mean() > 30
    both, _ = boards(4, 200, 80, np.random.default_rng(3))
    again, _ = boards(4, 200, 80, np.random.default_rng(3))
    assert both.shape == (200, 16)
    assert (both == again).all()
    monkeypatch.setattr(lesson, "FAR", 0.0)
    near, _ = boards(4, 200, 80, np.random.default_rng(3))
    assert moves_left(both).mean() > moves_left(near).mean() + 2
    assert boards(3, 50, 100, np.random.default_rng(3))[0].shape == (50, 9)
