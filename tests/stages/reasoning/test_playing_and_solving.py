"""`devmind play` and `devmind solve`: their output, and sentences for what is impossible."""

from __future__ import annotations

import io
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console

from devmind.agent.agent import Agent
from devmind.cli import show
from devmind.cli.app import app
from devmind.testing import tiny_agent
from devmind.worlds.sliding import SlidingRules
from stages.reasoning import commands, parts
from stages.reasoning.games import GAMES, TICTACTOE
from stages.reasoning.puzzles.lesson import RULES
from stages.reasoning.table import Table


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    agent = tiny_agent()
    parts.admit(agent)
    agent.config.stages = ["reasoning"]
    place = tmp_path_factory.mktemp("agent")
    agent.save_pretrained(place)
    return place


def run(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        app(list(args))
    said = capsys.readouterr()
    return int(ended.value.code or 0), said.out, said.err


def typing(monkeypatch: pytest.MonkeyPatch, *lines: str) -> None:
    rest = iter(lines)

    def typed(prompt: str) -> str:
        try:
            return next(rest)
        except StopIteration:
            raise EOFError from None

    monkeypatch.setattr("builtins.input", typed)


def test_a_game_is_played_and_illegal_moves_are_reported(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    typing(monkeypatch, "ten", "0", "5", "5", "q")
    code, out, _ = run(capsys, "play", "tictactoe", "--agent", str(folder), "--simulations", "8")
    assert code == 0
    assert out.count("is no move here; type one of 1, 2, 3, 4, 5, 6, 7, 8, 9") == 2
    assert "The agent places" in out
    assert "'5' is no move here" in out
    assert out.rstrip().endswith("You have left the game.")


def test_the_end_of_input_ends_the_game(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    typing(monkeypatch)
    code, out, _ = run(capsys, "play", "tictactoe", "--agent", str(folder), "--simulations", "0", "--second")
    assert code == 0
    assert "(its network alone)" in out
    assert "x" in out


def test_a_certain_agent_moves_at_once(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for sure, said in (("0.01", "at once, 0."), ("1", " simulations).")):
        typing(monkeypatch, "q")
        code, out, _ = run(
            capsys, "play", "tictactoe", "--agent", str(folder), "--simulations", "8", "--sure", sure, "--second"
        )
        assert code == 0
        assert said in out


def test_the_page_is_served_until_it_is_stopped(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(commands, "wait", stopped)
    code, out, _ = run(capsys, "play", "connect4", "--agent", str(folder), "--page", "0", "--second")
    assert code == 0
    assert out.startswith("open this page: http://127.0.0.1:")


def test_every_game_ends(folder: Path) -> None:
    table = Table(Agent.from_pretrained(folder), TICTACTOE, 4, agent_begins=True)
    said: list[str] = []

    def first_free(prompt: str) -> str:
        return str(int(np.flatnonzero(TICTACTOE.rules.legal(table.board)["place"][0])[0]) + 1)

    table.play(said.append, first_free)
    assert said[0].startswith("The agent has x and begins, you have o; places ")
    assert sum("you have o" in sentence for sentence in said) == 1
    won = bool(TICTACTOE.rules.finished(table.board.marks)[1][0])
    assert said[-1] == (
        "A draw." if not won else "The agent has won." if table.board.player[0] == 1 else "You have won."
    )


def test_only_legal_places_have_a_number(folder: Path) -> None:
    agent = Agent.from_pretrained(folder)
    table = Table(agent, GAMES["othello"], 0, agent_begins=False)
    assert table.legend.startswith("You have x and begin, the agent has o; ")
    numbers = {int(sign) - 1 for sign in table.drawn().split() if sign.isdecimal()}
    assert numbers == set(np.flatnonzero(table.legal))
    assert len(numbers) == 4
    columns = Table(agent, GAMES["connect4"], 0, agent_begins=False)
    assert columns.drawn().split() == ["."] * 42 + list("1234567")


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (("play", "tictactoes"), "There is no game 'tictactoes'; did you mean 'tictactoe'?"),
        (("play", "tictactoe", "--simulations", "-1"), "greater than or equal to 0"),
        (("play", "tictactoe", "--sure", "1.5"), "a probability above 0 and at most 1, such as 0.9; got 1.5"),
        (("play", "tictactoe", "--sure", "0.9", "--simulations", "0"), "With 0 simulations the network alone answers"),
        (("solve", "lights-off", "0" * 25), "did you mean 'lights-out'?"),
        (("solve", "lights-out", "0101"), "Expected 25 lights, 5 rows of 5; got 4."),
        (("solve", "lights-out", "x" * 25), "got 'x'"),
        (("solve", "lights-out", "1" + "0" * 24), "cannot be put out by any presses"),
        (("solve", "lights-out", "0" * 25, "--nodes", "0"), "greater than or equal to 1"),
        (("solve", "8-puzzles", "1"), "did you mean '8-puzzle'?"),
        (("solve", "8-puzzle", "2 1 3 4 5 6 7 8 0"), "cannot be put in order by any moves: their parity"),
        (("solve", "15-puzzle", "1 2 3"), "Expected the numbers 0 to 15, each once, 4 rows of 4; got 3"),
        (("solve", "8-puzzle", "1 2 3 4 5 6 7 8 8"), "got 9 numbers: 1 2 3 4 5 6 7 8 8"),
        (("solve", "8-puzzle", "1 2 3 4 5 6 7 x 0"), "got 'x'"),
        (("solve", "8-puzzle", "1 2 3 4 5 6 7 8 0", "--nodes", "0"), "greater than or equal to 1"),
    ],
)
def test_impossible_requests_are_refused(
    args: tuple[str, ...], sentence: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, *args, "--agent", str(folder))
    assert code == 2
    assert sentence in err
    assert not out


def test_without_an_agent_the_error_says_how_to_raise_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("devmind.raised.most_raised", lambda through: None)
    code, _, err = run(capsys, "play", "tictactoe")
    assert code == 2
    assert "devmind stage run reasoning" in err
    code, _, err = run(capsys, "play", "othello", "--agent", "newborn")
    assert code == 2
    assert "was never taught othello: it has no head 'othello_policy'; of those that come with devmind" in err
    assert "'newborn'" not in err.partition("(--agent NAME): ")[2]
    assert "after-reasoning" in err.partition("(--agent NAME): ")[2]


def test_without_a_raised_agent_the_packaged_one_plays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for game in GAMES:
        typing(monkeypatch, "1", "9", "q")  # each game allows one of these
        code, out, err = run(capsys, "play", game, "--simulations", "4")
        assert code == 0
        assert "'after-voice', which comes with devmind" in err
        assert "The agent places" in out


def test_a_puzzle_is_solved_by_a_right_solution(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    presses = np.zeros((1, 25), np.int8)
    presses[0, [3, 12]] = 1
    lit = RULES.pressed(np.zeros_like(presses), presses)
    text = "".join(map(str, lit[0]))
    code, out, _ = run(capsys, "solve", "lights-out", text, "--agent", str(folder), "--nodes", "3000")
    assert code == 0
    places = [tuple(map(int, pair.split(","))) for pair in out.splitlines()[0].split(": ")[1].split()]
    for row, column in places:
        lit[0] ^= RULES.turns[(row - 1) * 5 + column - 1]
    assert not lit.any()
    told = "2 presses, proven shortest" if len(places) == 2 else "not shortest: 2 would do"
    assert told in out
    assert "visited in" in out


def test_lights_that_are_out_need_no_press(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "solve", "lights-out", "00000 " * 5, "--agent", str(folder))
    assert code == 0
    assert "nothing, all lights are out" in out


def test_too_small_a_budget_is_reported(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = "".join(map(str, RULES.initial(np.array([5])).lit[0]))
    code, out, _ = run(capsys, "solve", "lights-out", state, "--agent", str(folder), "--nodes", "1")
    assert code == 1
    assert "not solved: 1 state visited" in out


def slid(out: str, name: str, state: str) -> bool:
    """Whether the printed tiles put all in order."""
    rules = SlidingRules({"8-puzzle": "3", "15-puzzle": "4"}[name])
    tiles = np.array([[int(tile) for tile in state.split()]], np.int8)
    for tile in out.splitlines()[0].split(": ")[1].split():
        moved = (rules.slid(np.repeat(tiles, 4, 0), np.arange(4)) == 0).argmax(-1)
        tiles = rules.slid(tiles, (tiles[0, moved] == int(tile)).nonzero()[0])
    return bool(rules.solved(tiles)[0])


@pytest.mark.parametrize(
    ("name", "state"),
    [("8-puzzle", "1 2 3 4 5 6 0 7 8"), ("15-puzzle", "1 2 3 4 5 6 7 8 9 10 0 12 13 14 11 15")],
)
def test_tiles_are_put_in_order_with_a_proof(
    name: str, state: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    args = ("solve", name, state, "--agent", str(folder), "--nodes", "3000")
    code, out, _ = run(capsys, *args)
    assert code == 0
    assert slid(out, name, state)
    moves = len(out.splitlines()[0].split(": ")[1].split())
    by = {"8-puzzle": "Manhattan", "15-puzzle": "pattern databases"}[name]
    assert (f"2 moves, proven shortest, by A* with {by}" if moves == 2 else "not shortest: 2 would do") in out
    assert ("by pattern databases (the agent's own guide found " in out) == (name == "15-puzzle")


def test_a_far_15_puzzle_is_solved_by_an_untaught_agent(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = "5 7 2 13 0 12 9 4 11 1 8 15 10 6 3 14"
    code, out, _ = run(capsys, "solve", "15-puzzle", state, "--agent", str(folder), "--nodes", "1000")
    assert code == 0
    assert slid(out, "15-puzzle", state)
    assert "the agent's own guide found none in 1,000 states" in out


def test_a_beam_solves_without_a_proof(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    state = "1 2 3 4 5 6 0 7 8"
    args = ("solve", "8-puzzle", state, "--agent", str(folder), "--beam", "50")
    code, out, _ = run(capsys, *args)
    assert code == 0
    assert slid(out, "8-puzzle", state)
    assert "2 moves, proven shortest, by A* with Manhattan; " in out, "two levels of a beam of 50 hold all there is"
    assert " by a beam of 50" in out
    assert "proves nothing" not in out, "A* has proven it"
    with monkeypatch.context() as patch:
        given_up = SimpleNamespace(actions=None, nodes=20_000)
        patch.setattr("stages.reasoning.sliding.exam.search", lambda *_: [given_up])
        code, out, _ = run(capsys, *args)
    assert "not proven shortest in 20,000 states; more than --nodes 10000 may do" in out
    assert " by a beam of 50, which proves nothing" in out
    code, out, _ = run(capsys, "solve", "lights-out", "01000 11100 01000 00000 00000", *args[3:])
    assert code == 0
    assert out.startswith("press (row,column): 2,2\n1 press, proven shortest")
    assert "proves nothing" not in out
    args = ("solve", "8-puzzle", "8 6 7 2 5 4 3 0 1", "--agent", str(folder), "--beam", "2", "--nodes", "5")
    code, out, _ = run(capsys, *args)
    assert code == 1
    assert "try a wider --beam than 2, or more than --nodes 5" in out


def test_tiles_in_order_need_no_move_and_too_few_nodes_are_reported(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = run(capsys, "solve", "8-puzzle", "1 2 3 4 5 6 7 8 0", "--agent", str(folder))
    assert code == 0
    assert "nothing, all tiles are in order" in out
    hard = "8 6 7 2 5 4 3 0 1"  # one of the two that take 31 moves
    code, out, _ = run(capsys, "solve", "8-puzzle", hard, "--agent", str(folder), "--nodes", "5")
    assert code == 1
    assert "not solved: 5 states visited" in out


def test_only_a_terminal_shows_the_progress_of_the_search(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    args = ("solve", "8-puzzle", "1 2 3 4 5 6 0 7 8", "--agent", str(folder), "--nodes", "3000")
    code, out, err = run(capsys, *args)
    assert (code, len(out.splitlines()), err) == (0, 2, f"{show.LOADING}\n")
    asked = re.search(r"; (\d+) states? visited", out)
    assert asked is not None
    screen = io.StringIO()
    monkeypatch.setattr(show, "console", lambda: Console(file=screen, force_terminal=True, width=100, highlight=False))
    code, _, err = run(capsys, *args)
    assert (code, err) == (0, f"{show.LOADING}\n")
    seen = re.sub(r"\x1b\[[0-9;]*m", "", screen.getvalue())
    bars = {"loading": "", "loading the agent": "", "searching": rf" +{asked[1]}/3000", "proving": r" +\d+/6000"}
    for what, number in bars.items():
        assert re.search(rf"{what} [━╸╺ ]+{number} 0:00:\d\d", seen), what
    assert seen.count("\x1b[2K") >= len(bars), "each bar is gone when its work is done"


def test_a_failed_search_leaves_no_progress_bar(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(show, "console", lambda: Console(file=screen, force_terminal=True, width=100, highlight=False))
    args = ("8 6 7 2 5 4 3 0 1", "--agent", str(folder), "--nodes", "5")
    assert run(capsys, "solve", "8-puzzle", *args)[0] == 1
    last = screen.getvalue().rpartition("\x1b[2K")[2]
    assert "not solved: 5 states visited" in last
    assert "5/5" not in last


def test_a_table_continues_its_search_tree_after_moves(folder: Path) -> None:
    table = Table(Agent.from_pretrained(folder), TICTACTOE, 100, agent_begins=True)
    first = table.think()
    assert first.visits.sum() == first.simulations[0] == 100
    table.answer(first)
    answer = int(table.tree.nodes.child_visits[0, 0].argmax())
    table.place(answer)
    kept = int(table.tree.nodes.child_visits[0, 0].sum())
    assert kept > 0
    asked = table.judge.asked
    second = table.think()
    assert second.simulations[0] == 100 or second.proven[0]
    assert second.visits.sum() == kept + second.simulations[0]
    assert table.judge.asked - asked <= second.simulations[0], "the position itself was judged before"
    again = table.think()
    assert again.visits.sum() == second.visits.sum() + again.simulations[0]
    table.begin(agent_begins=True)
    assert table.tree is None
    assert table.think().visits.tolist() == first.visits.tolist()


def test_a_table_starts_a_new_tree_after_an_unsearched_move_or_on_another_board(folder: Path) -> None:
    agent = Agent.from_pretrained(folder)
    table = Table(agent, TICTACTOE, 1, agent_begins=False)
    tried = int(table.think().visits[0].argmax())
    table.place((tried + 1) % 9)
    assert table.tree.size.tolist() == [0]
    anew = Table(agent, TICTACTOE, 1, agent_begins=True)
    anew.board = table.board
    assert table.think().visits.tolist() == anew.think().visits.tolist()
    table.board = TICTACTOE.rules.of(np.array([[1, -1, 0, 0, 0, 0, 0, 0, 0]], np.int8))
    thought = table.think()
    assert thought.visits.sum() == thought.simulations[0] == 1
    assert thought.visits[0, :2].tolist() == [0, 0]


def test_hand_rules_solve_puzzles_without_an_agent(capsys: pytest.CaptureFixture[str]) -> None:
    state = "8 6 7 2 5 4 3 0 1"  # one of the two farthest boards: 31 moves (Reinefeld 1993)
    code, out, err = run(capsys, "solve", "8-puzzle", state, "--hand-rules", "--nodes", "100000")
    assert (code, err) == (0, "")
    assert slid(out, "8-puzzle", state)
    assert "31 moves, proven shortest, by A* with Manhattan" in out
    code, out, _ = run(capsys, "solve", "8-puzzle", state, "--hand-rules", "--nodes", "5")
    assert code == 1
    assert "not solved: " in out
    code, out, _ = run(capsys, "solve", "lights-out", "01000 11100 01000 00000 00000", "--hand-rules")
    assert out.splitlines() == ["press (row,column): 2,2", "1 press, proven shortest, by algebra mod 2"]


def test_a_puzzle_that_is_not_known_is_refused_before_its_state_is_asked_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, _, err = run(capsys, "solve", "sudoku")
    assert (code, err) == (2, "There is no puzzle 'sudoku'; known are: 15-puzzle, 8-puzzle, lights-out.\n")
    code, _, err = run(capsys, "solve", "15-puzzle")
    assert code == 2
    assert "'15-puzzle' needs its state, row by row: devmind solve 15-puzzle 1 2 3" in err
