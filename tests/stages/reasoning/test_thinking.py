"""Thinking before acting: simulations where the policy is uncertain, an answer at once where it is certain."""

from __future__ import annotations

import numpy as np
import pytest

from devmind.algorithms.selection import softmax
from devmind.errors import ConfigError
from devmind.worlds.boards import Board
from stages.reasoning.games import TICTACTOE, moves
from stages.reasoning.solver import solve
from stages.reasoning.thinking import rounds, think

RULES = TICTACTOE.rules


class Leaning:
    """A judge whose policy leans by `strength` to the lowest free place, and which knows no value."""

    game = TICTACTOE

    def __init__(self, strength: float) -> None:
        self.strength, self.asked = strength, 0

    def __call__(self, board: Board) -> tuple[np.ndarray, np.ndarray]:
        self.asked += len(board)
        legal = RULES.legal(board)["place"]
        lowest = np.arange(RULES.choices) == legal.argmax(-1)[:, None]
        return np.where(lowest, self.strength, 0.0), np.zeros(len(board))


def positions() -> tuple[Board, np.ndarray]:
    """Every seventh position that is not over, and bool [n, 9], the moves that keep its value."""
    game = solve(RULES)
    some = np.flatnonzero(~game.ended)[::7]
    return game.board.take(some), game.best[some]


def test_a_certain_policy_answers_at_once_without_search() -> None:
    board, _ = positions()
    judge = Leaning(9.0)
    thought = think(judge, board, 32, 0.95)  # type: ignore[arg-type]
    assert judge.asked == len(board)
    assert not thought.simulations.any()
    assert (thought.action == RULES.legal(board)["place"].argmax(-1)).all()
    assert (thought.sure >= 0.95).all()


def test_an_uncertain_policy_searches_to_the_last_round_and_moves_by_that_search() -> None:
    board, best = positions()
    thought = think(Leaning(0.0), board, 32, 1.0)  # type: ignore[arg-type]
    searched = moves(Leaning(0.0), board, 32)  # type: ignore[arg-type]
    only = RULES.legal(board)["place"].sum(-1) == 1
    last = ~thought.proven & ~only
    assert last.any()
    assert only.any()
    assert thought.proven.any()
    assert (thought.action[last] == searched[last]).all()
    assert (thought.simulations[last] == 8 + 32).all()
    assert not thought.simulations[only].any()  # a single legal move needs no thought
    right = best[np.arange(len(best)), thought.action]
    assert right[thought.proven].all()
    assert right.mean() > best[np.arange(len(best)), moves(Leaning(0.0), board, 0)].mean()  # type: ignore[arg-type]


def test_a_higher_dial_spends_more_and_every_position_decides_for_itself() -> None:
    board, _ = positions()
    spent = [think(Leaning(1.0), board, 32, sure).simulations for sure in (0.3, 0.6, 0.9, 1.0)]  # type: ignore[arg-type]
    means = [one.mean() for one in spent]
    assert means == sorted(means)
    assert 0 < means[0] < means[-1]
    assert len(np.unique(spent[1])) > 2
    for row in range(0, len(board), 97):
        assert think(Leaning(1.0), board.take([row]), 32, 0.6).simulations[0] == spent[1][row]  # type: ignore[arg-type]


def test_answers_come_at_once_where_the_policy_reaches_the_dial() -> None:
    board, _ = positions()
    policy = softmax(Leaning(2.0)(board)[0], RULES.legal(board)["place"])
    thought = think(Leaning(2.0), board, 32, 0.7)  # type: ignore[arg-type]
    assert ((thought.simulations == 0) == (policy.max(-1) >= 0.7)).all()


def test_without_a_dial_it_is_the_full_search_and_without_simulations_the_network() -> None:
    board, _ = positions()
    for simulations in (16, 0):
        thought = think(Leaning(1.0), board, simulations)  # type: ignore[arg-type]
        assert (thought.action == moves(Leaning(1.0), board, simulations)).all()  # type: ignore[arg-type]
        assert thought.simulations.max() == simulations


def test_rounds_grow_to_the_budget() -> None:
    assert rounds(200) == [12, 50, 200]
    assert rounds(32) == [8, 32]
    assert rounds(3) == [3]
    assert rounds(0) == [0]


@pytest.mark.parametrize(
    ("simulations", "sure", "sentence"),
    [
        (32, 0.0, "a probability above 0 and at most 1, such as 0.9; got 0.0"),
        (32, 1.01, "got 1.01"),
        (32, float("nan"), "got nan"),
        (0, 0.9, "With 0 simulations the network alone answers"),
        (-1, None, "0 simulations .the network alone. or more; got -1"),
    ],
)
def test_invalid_budgets_and_dials_are_refused(simulations: int, sure: float | None, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        think(Leaning(0.0), RULES.initial(np.zeros(1)), simulations, sure)  # type: ignore[arg-type]
