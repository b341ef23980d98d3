"""Games of k in a row, Othello and Lights Out as Rules, and their exact solvers."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from devmind.errors import WorldError
from devmind.testing import check_world
from devmind.worlds.boards import MnkRules
from devmind.worlds.lights_out import LightsOutRules, turns
from devmind.worlds.othello import OthelloRules
from stages.reasoning.games import CONNECT4, OTHELLO, TICTACTOE
from stages.reasoning.puzzles.algebra import Algebra
from stages.reasoning.solver import solve


@pytest.mark.parametrize("level", ["tictactoe", "connect4", "5x4x4", "4x5x4-falling"])
def test_boards_keep_the_laws_of_worlds(level: str) -> None:
    check_world(MnkRules(level))


@pytest.mark.parametrize("level", ["4x4", "othello"])
def test_othello_keeps_the_laws_of_worlds(level: str) -> None:
    check_world(OthelloRules(level))


@pytest.mark.parametrize("level", ["5x5", "6x8", "6", "", "10x10"])
def test_another_board_of_othello_is_refused(level: str) -> None:
    with pytest.raises(WorldError, match="level of the world 'othello' is one of '4x4', '6x6', '8x8'"):
        OthelloRules(level)


def test_othello_has_the_published_number_of_games() -> None:
    # https://www.aartbik.com/strategy.php: 8 x 8, games of one to six moves.
    rules = OthelloRules("8x8")
    board, counted = rules.initial(np.zeros(1)), []
    for _ in range(6):
        rows, places = np.nonzero(rules.legal(board)["place"])
        board = rules.step(board.take(rows), {"place": places})
        counted.append(len(board))
    assert counted == [4, 12, 56, 244, 1396, 8200]


def test_a_player_without_a_move_passes_and_more_discs_win() -> None:
    rules = OthelloRules("4x4")
    marks = np.zeros((1, 4, 4), np.int8)
    marks[0, 0] = (1, 1, -1, 0)  # the opponent encloses nothing at the right end; the player to move encloses one
    closed = rules.step(rules.of(-marks.reshape(1, -1)), {"place": np.array([rules.passing])})
    assert rules.legal(closed)["place"][0].nonzero()[0].tolist() == [3]
    with pytest.raises(WorldError, match="one of 0 to 16 that `legal` allows"):
        rules.step(closed, {"place": np.array([rules.passing])})
    last = rules.outcome(rules.step(closed, {"place": np.array([3])}))
    assert last.terminal[0]
    assert last.reward[0] == 1
    assert last.discount[0] == 0


@pytest.mark.parametrize("rules", [MnkRules("connect4"), OthelloRules("6x6")], ids=lambda rules: rules.name)
def test_an_empty_batch_of_games_is_stepped(rules) -> None:
    none = rules.initial(np.zeros(0))
    assert len(rules.step(none, {"place": np.zeros(0, np.int64)})) == 0
    assert rules.outcome(none).terminal.shape == (0,)


def test_the_second_player_wins_othello_on_four_by_four() -> None:
    assert solve(OthelloRules("4x4")).value[0] == -1


@pytest.mark.parametrize("level", ["5", "3-2", "7-20"])
def test_lights_out_keeps_the_laws_of_worlds(level: str) -> None:
    check_world(LightsOutRules(level))


@pytest.mark.parametrize("level", ["chess", "3x3", "3x3x9", "0x3x3", "40x3x3", "3x3x1"])
def test_an_unknown_board_is_refused(level: str) -> None:
    with pytest.raises(WorldError, match=r"level of the world 'mnk' is tictactoe, connect4"):
        MnkRules(level)


@pytest.mark.parametrize("level", ["", "1", "11", "5-0", "5-x"])
def test_lights_out_of_another_side_is_refused(level: str) -> None:
    with pytest.raises(WorldError):
        LightsOutRules(level)


def test_a_press_of_no_light_is_refused() -> None:
    rules = LightsOutRules("3")
    for press in (-1, 9):
        with pytest.raises(WorldError, match="one of the lights 0 to 8"):
            rules.step(rules.initial(np.array([5])), {"press": np.array([press])})


def played(rules: MnkRules, *places: int):
    board = rules.initial(np.zeros(1))
    for place in places:
        board = rules.step(board, {"place": np.array([place])})
    return board


def test_illegal_moves_are_refused() -> None:
    rules = MnkRules("tictactoe")
    for place in (4, 9, -1):
        with pytest.raises(WorldError, match="that `legal` allows"):
            rules.step(played(rules, 4), {"place": np.array([place])})
    four = MnkRules("connect4")
    full = played(four, 3, 3, 3, 3, 3, 3)
    assert not four.legal(full)["place"][0, 3]
    with pytest.raises(WorldError, match="one of 0 to 6 that `legal` allows"):
        four.step(full, {"place": np.array([3])})


def test_marks_fall_and_four_in_a_row_win() -> None:
    rules = MnkRules("connect4")
    board = played(rules, 0, 1, 1, 2, 2, 3, 2, 3, 3, 6, 3)  # a diagonal from the lower left corner
    outcome = rules.outcome(board)
    assert outcome.terminal[0]
    assert outcome.reward[0] == 1
    assert outcome.discount[0] == 0
    assert (board.marks.reshape(6, 7)[[5, 4, 3, 2], [0, 1, 2, 3]] == -1).all()


def test_a_draw_earns_nothing() -> None:
    rules = MnkRules("tictactoe")
    outcome = rules.outcome(played(rules, 0, 1, 2, 4, 3, 5, 7, 6, 8))
    assert outcome.terminal[0]
    assert outcome.reward[0] == 0


def test_the_solver_finds_the_known_counts() -> None:
    game = solve(MnkRules("tictactoe"))
    assert len(game) == 5478
    assert (~game.ended).sum() == 4520
    endings = game.endings()
    assert len(endings) == 255_168
    assert [(endings == end).sum() for end in (1, 0, -1)] == [131_184, 46_080, 77_904]
    assert game.value[0] == 0
    assert len(np.unique(TICTACTOE.canonical(game.board.marks)[0])) == 765


def test_a_smaller_connect_four_has_its_known_value() -> None:
    # Tromp's table (https://tromp.github.io/c4/c4.html): 4 x 4 is a draw.
    game = solve(MnkRules("4x4x4-falling"))
    assert game.value[0] == 0


def test_perfect_play_never_loses_and_the_worst_does() -> None:
    game = solve(MnkRules("tictactoe"))
    best, worst = game.best.argmax(1), np.where(game.child >= 0, -game.q, -np.inf).argmax(1)
    for side in (0, 1):
        assert (game.endings(best, side) >= 0).all()
        assert (game.endings(worst, side) < 0).any()


@pytest.mark.parametrize("game", [TICTACTOE, CONNECT4, OTHELLO])
def test_a_symmetry_keeps_the_winner_and_the_legal_moves(game) -> None:
    rng, board = np.random.default_rng(0), game.rules.initial(np.zeros(300))
    for _ in range(game.rules.cells * 2 // 3):
        among = np.where(game.rules.legal(board)["place"], rng.random((300, game.rules.choices)), -1)
        board = game.rules.step(board, {"place": among.argmax(-1)})
    went = game.rules.finished  # (over, winner)
    assert game is OTHELLO or 0 < went(board.marks)[1].sum() < 300
    for cells, choices in zip(*game.symmetries, strict=True):
        image = game.rules.of(board.marks[:, cells])
        assert np.array_equal(went(image.marks), went(board.marks))
        assert (game.rules.legal(image)["place"] == game.rules.legal(board)["place"][:, choices]).all()
        assert (game.canonical(image.marks)[0] == game.canonical(board.marks)[0]).all()


def test_algebra_finds_the_fewest_presses_of_solvable_patterns() -> None:
    side = 3
    algebra, press = Algebra.of(4), turns(4).astype(int)
    assert len(algebra.null) == 4
    assert not (algebra.null.astype(int) @ press % 2).any()
    assert [len(Algebra.of(n).null) for n in (2, 3, 5, 6, 7, 9)] == [0, 0, 2, 0, 0, 8]
    every = np.array(list(product((0, 1), repeat=side * side)), np.int8)
    rules, small = LightsOutRules("3"), Algebra.of(3)
    assert not rules.pressed(every, small.shortest(every)).any()
    few = np.array(list(product((0, 1), repeat=16)), np.int8)
    lit = (few.astype(int) @ press) % 2
    fewest: dict[bytes, int] = {}
    for row, presses in zip(lit.astype(np.int8), few, strict=True):
        fewest[row.tobytes()] = min(fewest.get(row.tobytes(), 99), int(presses.sum()))
    some = lit[::64].astype(np.int8)
    assert algebra.solvable(some).all()
    assert algebra.shortest(some).sum(1).tolist() == [fewest[row.tobytes()] for row in some]


def test_unsolvable_patterns_are_detected() -> None:
    lit = np.random.default_rng(0).integers(0, 2, (4000, 25)).astype(np.int8)
    solvable = Algebra.of(5).solvable(lit)
    assert 0.22 < solvable.mean() < 0.28
    left = LightsOutRules("5").pressed(lit, Algebra.of(5).shortest(lit))
    assert (left.any(1) == ~solvable).all()
