"""OpenSpiel's games as Rules: they agree with our own, pass the check of worlds, and can be searched."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from devmind import worlds
from devmind.errors import ConfigError, WorldError
from devmind.seeding import numpy_rng
from devmind.testing import check_world
from devmind.worlds import openspiel
from devmind.worlds.boards import Board, BoardRules, MnkRules
from devmind.worlds.openspiel import OpenSpielRules, Positions, playable
from devmind.worlds.othello import OthelloRules
from stages.reasoning.games import search_by

needed = pytest.mark.skipif(not openspiel.openspiel_installed(), reason=openspiel.MISSING)
GAMES = 300


@needed
@pytest.mark.parametrize(
    ("level", "ours"),
    [
        ("tic_tac_toe", MnkRules("tictactoe")),
        ("connect_four", MnkRules("connect4")),
        ("othello", OthelloRules("8x8")),
        ("mnk(m=4,n=4,k=4)", MnkRules("4x4x4")),
    ],
)
def test_random_games_equal_those_of_our_own_rules(level: str, ours: BoardRules) -> None:
    theirs, games = OpenSpielRules(level), GAMES if ours.cells < 64 else 40
    mine, other = ours.initial(np.zeros(games)), theirs.initial(np.zeros(games))
    rng, ended = numpy_rng("openspiel", level), np.zeros(games, bool)
    results = []
    for _ in range(ours.horizon):
        legal, as_theirs = ours.legal(mine)["place"], theirs.legal(other)["move"]
        np.testing.assert_array_equal(as_theirs[~ended], legal[~ended])
        np.testing.assert_array_equal(other.player[~ended], mine.player[~ended])
        moves = np.where(legal, rng.random(legal.shape), -1).argmax(-1)
        mine, other = ours.step(mine, {"place": moves}), theirs.step(other, {"move": moves})
        own, found = ours.outcome(mine), theirs.outcome(other)
        for name in ("reward", "terminal", "discount"):
            np.testing.assert_array_equal(getattr(found, name), getattr(own, name), name)
        results += own.reward[own.terminal & ~ended].tolist()
        ended = own.terminal
    assert ended.all()
    assert len(results) == games
    assert len(set(results)) >= 2


@needed
@pytest.mark.parametrize("level", ["tic_tac_toe", "breakthrough(rows=4,columns=4)", "oware", "dots_and_boxes", "nim"])
def test_openspiel_games_keep_the_laws_of_worlds(level: str) -> None:
    check_world(OpenSpielRules(level))


@needed
def test_planes_form_a_board_that_shows_whose_turn_it_is() -> None:
    rules = OpenSpielRules("connect_four")
    first = rules.initial(np.zeros(2))
    after = rules.step(first, {"move": np.array([3, 0])})
    board = rules.observe(after)["position"]
    assert board.shape == (2, 4, 6, 7)
    assert board.dtype == np.int8
    assert (board[:, -1] == 1).all()
    assert not rules.observe(first)["position"][:, -1].any()
    assert rules.moves(after) == [["x3"], ["x0"]]
    assert "x" in rules.drawn(after)[0]
    assert OpenSpielRules("chess").observation_space.spaces.keys() == {"observation"}


@needed
def test_the_discount_stays_positive_when_a_player_moves_again() -> None:
    """In dots and boxes a completed box gives another turn, so the next value belongs to the same player."""
    rules, rng = OpenSpielRules("dots_and_boxes"), numpy_rng("boxes")
    state, again = rules.initial(np.zeros(200)), 0
    while not state.terminal.all():
        going, player = ~state.terminal, state.player
        legal = rules.legal(state)["move"]
        state = rules.step(state, {"move": np.where(legal, rng.random(legal.shape), -1).argmax(-1)})
        same = going & ~state.terminal & (state.player == player)
        assert (state.discount[same] == 1).all()
        assert (state.discount[going & ~state.terminal & ~same] == -1).all()
        again += int(same.sum())
    assert again


def nothing(state: Positions) -> tuple[np.ndarray, np.ndarray]:
    """A judge that knows nothing of tic-tac-toe."""
    return np.zeros((len(state), 9)), np.zeros(len(state))


@needed
def test_a_search_finds_and_proves_a_forced_win() -> None:
    rules = OpenSpielRules("tic_tac_toe")
    state = rules.initial(np.zeros(2))
    for moves in ([0, 4], [1, 1], [3, 0]):  # the first game has two corners of an open side, so there is a fork
        state = rules.step(state, {"move": np.array(moves)})
    found = search_by(rules, nothing, state, 400)
    assert found.proven.all()
    assert found.value.tolist() == [-1.0, -1.0]
    state = rules.step(rules.initial(np.zeros(1)), {"move": np.array([0])})
    state = rules.step(state, {"move": np.array([1])})
    found = search_by(rules, nothing, state, 600)
    assert found.proven[0]
    assert found.value[0] == 1.0
    reply = rules.step(state, {"move": found.action})
    answered = search_by(rules, nothing, reply, 600)
    assert answered.value[0] == -1.0


@needed
def test_equal_searches_on_both_rules_give_the_same_tree() -> None:
    ours, theirs = MnkRules("connect4"), OpenSpielRules("connect_four")

    def flat(state: Board | Positions) -> tuple[np.ndarray, np.ndarray]:
        return np.zeros((len(state), 7)), np.zeros(len(state))

    mine, other = ours.initial(np.zeros(8)), theirs.initial(np.zeros(8))
    rng = numpy_rng("same tree")
    for _ in range(12):
        legal = ours.legal(mine)["place"]
        moves = np.where(legal, rng.random(legal.shape), -1).argmax(-1)
        mine, other = ours.step(mine, {"place": moves}), theirs.step(other, {"move": moves})
    going = np.flatnonzero(~other.terminal)
    one = search_by(ours, flat, mine.take(going), 100)
    two = search_by(theirs, flat, other.take(going), 100)
    np.testing.assert_array_equal(one.visits, two.visits)
    np.testing.assert_array_equal(one.value, two.value)


@needed
def test_a_world_is_made_by_name() -> None:
    world = worlds.make("openspiel", "hex(board_size=3)", [1, 2])
    senses, _ = world.reset(np.array([1, 2]))
    assert senses["position"].shape == (2, 10, 3, 3)
    assert {"tic_tac_toe", "connect_four", "chess", "go", "hex", "oware"} <= set(playable())


@needed
@pytest.mark.parametrize(
    ("level", "said"),
    [
        ("conect_four", r"OpenSpiel has no game 'conect_four'; did you mean 'connect_four'"),
        ("goofspiel", "'goofspiel' cannot be played: both move at once"),
        ("backgammon", "chance has a part in it"),
        ("kuhn_poker", "something is hidden from a player"),
        ("chinese_checkers(players=3)", "it has 3 players"),
        ("connect_four(rows=many)", "OpenSpiel cannot make the game"),
    ],
)
def test_unplayable_games_are_refused_with_the_reason(level: str, said: str) -> None:
    with pytest.raises(WorldError, match=said):
        OpenSpielRules(level)


@needed
def test_illegal_moves_and_empty_budgets_are_refused() -> None:
    rules = OpenSpielRules("tic_tac_toe")
    state = rules.step(rules.initial(np.zeros(1)), {"move": np.array([4])})
    for move in (4, 9, -1):
        with pytest.raises(WorldError, match=f"one of 0 to 8 that `legal` allows; {move} is none here"):
            rules.step(state, {"move": np.array([move])})
    with pytest.raises(ConfigError, match="one simulation at least"):
        search_by(rules, nothing, state, 0)


def test_without_openspiel_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspiel", None)
    monkeypatch.setattr(openspiel, "find_spec", lambda name: None)
    with pytest.raises(WorldError, match=r"extra 'games': pip install 'devmind\[games\]'"):
        OpenSpielRules()
    with pytest.raises(WorldError, match="OpenSpiel's games cannot be played"):
        playable()
