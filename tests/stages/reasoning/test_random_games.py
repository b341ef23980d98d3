"""The rollout search: known positions, the solver's answers, and sentences for what it cannot do."""

from __future__ import annotations

import numpy as np
import pytest

from devmind.errors import ConfigError
from devmind.worlds.boards import MnkRules
from stages.reasoning.connect4.positions import after
from stages.reasoning.games import CONNECT4, TICTACTOE
from stages.reasoning.judged import endings
from stages.reasoning.random_games import _won, bits, search_positions, visits
from stages.reasoning.solver import solve


def test_every_simulation_tries_one_move_and_a_seed_repeats() -> None:
    board = CONNECT4.rules.of(np.concatenate([after("4").marks, after("4441").marks]))
    found = visits(CONNECT4.rules, board, 500, seed=3)
    assert found.sum(-1).tolist() == [500, 500]
    assert np.array_equal(found, visits(CONNECT4.rules, board, 500, seed=3))
    assert not np.array_equal(found, visits(CONNECT4.rules, board, 500, seed=4))


def test_full_columns_and_taken_cells_are_never_tried() -> None:
    full = visits(CONNECT4.rules, after("444444"), 200, seed=0)
    assert full[0, 3] == 0
    assert (np.delete(full[0], 3) > 0).all()
    marks = np.zeros((1, 9), np.int8)
    marks[0, [0, 4]] = 1, -1
    assert (visits(TICTACTOE.rules, TICTACTOE.rules.of(marks), 200, seed=0)[0] > 0).tolist() == [
        cell not in (0, 4) for cell in range(9)
    ]


@pytest.mark.parametrize("played", ["112233", "121212", "11223", "12121", "4455"])
def test_a_win_is_taken_and_a_loss_is_averted(played: str) -> None:
    rules, board = CONNECT4.rules, after(played)
    best = visits(rules, board, 3000, seed=0).argmax(-1)
    taken = rules.outcome(rules.step(board, {"place": best}))
    wins = [
        int(m)
        for m in np.flatnonzero(rules.legal(board)["place"][0])
        if rules.outcome(rules.step(board, {"place": np.array([m])})).reward[0] > 0
    ]
    if wins:
        assert taken.reward[0] == 1
    else:
        reached = rules.step(board, {"place": best})
        legal = np.flatnonzero(rules.legal(reached)["place"][0])
        answers = rules.step(reached.take(np.zeros(len(legal), int)), {"place": legal})
        assert not (rules.outcome(answers).reward > 0).any()


def test_many_simulations_lose_nothing_in_tic_tac_toe_and_solved_endings() -> None:
    game = solve(TICTACTOE.rules)
    asked = np.flatnonzero(~game.ended)[::9]
    moves = visits(TICTACTOE.rules, game.board.take(asked), 3000, seed=0).argmax(-1)
    assert game.best[asked, moves].mean() > 0.98
    ends = endings(CONNECT4, 40, 34, seed=0)
    few, many = (ends.mistakes(visits(CONNECT4.rules, ends.board, n, seed=0).argmax(-1)).mean() for n in (10, 20_000))
    assert many == 0 < few


def test_the_value_is_the_best_moves_for_the_player_to_move() -> None:
    game = solve(TICTACTOE.rules)
    asked = np.flatnonzero(~game.ended & (game.ply >= 4))[::5]
    found, value = search_positions(TICTACTOE.rules, game.board.take(asked), 3000, seed=0)
    assert (abs(value - game.value[asked]) < 0.2).all()
    assert np.array_equal(found, visits(TICTACTOE.rules, game.board.take(asked), 3000, seed=0))
    at_once = search_positions(CONNECT4.rules, after("112233"), 2000, seed=0)[1]
    assert at_once.tolist() == [1.0]


def test_bits_of_a_column_are_consecutive_from_the_bottom_up() -> None:
    board = after("3331")
    assert bits(CONNECT4.rules, board.marks != 0).tolist() == [(0b111 << 14) | 1]


@pytest.mark.parametrize("level", ["connect4", "5x5x4", "6x4x4", "5x5x3", "6x6x5"])
def test_lines_are_found_where_the_rules_find_them(level: str) -> None:
    rules, rng = MnkRules(level), np.random.default_rng(0)
    marked = rng.random((2000, rules.cells)) < rng.uniform(0.2, 0.7, (2000, 1))
    lines = rules.finished(-marked.astype(np.int8))[1] == 1
    found = [_won(one, rules.rows + 1, rules.k) for one in bits(rules, marked)]
    assert found == lines.tolist()
    assert 0 < lines.mean() < 1


def test_unsupported_searches_are_refused() -> None:
    large = MnkRules("9x9x5")
    with pytest.raises(ConfigError, match="boards of up to 64 bits"):
        visits(large, large.initial(np.zeros(1)), 10, seed=0)
    for wrong in (0, -1, 20_000_000):
        with pytest.raises(ConfigError, match="takes 1 to 10,000,000 simulations"):
            visits(CONNECT4.rules, after("4"), wrong, seed=0)
    assert visits(CONNECT4.rules, CONNECT4.rules.initial(np.zeros(0)), 10, seed=0).shape == (0, 7)
