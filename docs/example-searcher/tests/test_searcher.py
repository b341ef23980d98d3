"""The package keeps devmind's laws; run beside an installed devmind: `pip install -e . && pytest`."""

import numpy as np
import pytest
from devmind_searcher.game import NoughtsRules
from devmind_searcher.stage import NoughtsStage, best, lost_lines, positions, search

from devmind.errors import WorldError
from devmind.seeding import numpy_rng
from devmind.testing import check_stage, check_world, tiny_agent

RULES = NoughtsRules()


def after(*cells: int):
    """The position after these moves, and its outcome."""
    position = RULES.initial(np.zeros(1))
    for cell in cells:
        position = RULES.step(position, {"place": np.array([cell])})
    return position, RULES.outcome(position)


def test_the_world_keeps_its_laws() -> None:
    check_world(RULES)


def test_the_stage_keeps_its_laws() -> None:
    check_stage(NoughtsStage())


def test_there_are_5478_positions_and_255168_games() -> None:
    """The numbers are well known: they fail if a line is missing or a game goes on after its end."""
    ways, seen, games = {((0,) * 9): 1}, 0, 0
    while ways:
        marks = np.array(list(ways), np.int8)
        position = RULES.initial(np.zeros(len(marks)))
        position.marks[:] = marks
        ended = RULES.outcome(position).terminal
        seen += len(marks)
        games += sum(n for n, over in zip(ways.values(), ended, strict=True) if over)
        following: dict[tuple[int, ...], int] = {}
        for (key, n), over in zip(list(ways.items()), ended, strict=True):
            for cell in np.flatnonzero(np.array(key) == 0) if not over else ():
                then = tuple(-mark if i != cell else -1 for i, mark in enumerate(key))
                following[then] = following.get(then, 0) + n
        ways = following
    assert (seen, games) == (5478, 255168)


def test_three_in_a_row_win_and_a_taken_cell_is_refused() -> None:
    _, outcome = after(0, 3, 1, 4, 2)
    assert (outcome.reward[0], outcome.terminal[0], outcome.player[0], outcome.discount[0]) == (1, True, 1, 0)
    _, outcome = after(0, 3)
    assert (outcome.reward[0], outcome.terminal[0], outcome.player[0], outcome.discount[0]) == (0, False, 0, -1)
    with pytest.raises(WorldError, match="Cell 4 is taken"):
        after(4, 4)


def test_a_search_wins_and_prevents_a_win_whatever_the_network_thinks() -> None:
    agent = tiny_agent().eval()
    NoughtsStage().admit(agent)
    won, held = search(agent, after(0, 3, 1, 4)[0]), search(agent, after(0, 8, 1)[0])
    assert (won.action[0], won.value[0], won.proven[0]) == (2, 1.0, True)
    assert held.action[0] == 2


def test_every_line_is_played() -> None:
    first_free = lost_lines(lambda position: best(position, np.zeros((len(position), 9))), 1)
    assert first_free.any()
    assert not first_free.all()
    assert len(first_free) > 300


def test_lessons_search_positions_that_are_not_over() -> None:
    position = positions(500, numpy_rng("test"))
    assert not RULES.outcome(position).terminal.any()
    assert set(np.abs(position.marks).sum(-1)) == set(range(8))
