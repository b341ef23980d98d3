"""Connect-4's exam: judged positions, its floors, and its gate."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

from devmind.curriculum.gate import Gate
from devmind.errors import ConfigError
from devmind.testing import tiny_agent, tiny_context
from stages.reasoning import parts
from stages.reasoning.connect4 import exam
from stages.reasoning.connect4.positions import after, load_positions, rated_positions
from stages.reasoning.games import CONNECT4, TICTACTOE
from stages.reasoning.judged import RatedPositions, by_chance, endings
from stages.reasoning.solver import minimax, solve
from tests.stages.floors import held_to_the_floors

POSITION = "4455\t5\t-2,1,5,x,0,1,1"


def test_minimax_to_the_end_equals_the_solver() -> None:
    game = solve(TICTACTOE.rules)
    some = np.flatnonzero(~game.ended & (game.ply >= 3))[::7]
    assert (minimax(TICTACTOE.rules, game.board.take(some), 9) == game.q[some]).all()


def test_minimax_takes_a_win_and_blocks_one() -> None:
    wins = minimax(CONNECT4.rules, after("112233"), 1)[0]
    assert wins.argmax() == 3
    assert wins[3] == 1
    stops = minimax(CONNECT4.rules, after("11223"), 2)[0]
    assert (stops[[0, 1, 2, 4, 5, 6]] == -1).all()
    assert stops[3] > -1


def test_endings_are_judged_as_by_minimax() -> None:
    ends = endings(CONNECT4, 24, 36, 3)
    assert len(ends.board) == 24
    assert len(np.unique(ends.episodes)) == 24
    q = minimax(CONNECT4.rules, ends.board, 6)
    assert ((q == q.max(-1, keepdims=True)) == ends.best).all()
    assert (ends.best.sum(-1) < CONNECT4.rules.legal(ends.board)["place"].sum(-1)).all()
    assert ends.mistakes(ends.best.argmax(-1)).sum() == 0
    assert 0 < ends.by_chance < 1


def test_endings_differ_between_seeds_and_from_the_starts_of_lessons(tmp_path: Path) -> None:
    from stages.reasoning.lessons import lesson_episodes

    first, again, other = (endings(CONNECT4, 16, 36, seed).episodes for seed in (0, 0, 1))
    assert (first == again).all()
    assert not set(first) & set(other)
    assert not set(first) & set(lesson_episodes(tiny_context(tmp_path), 200, CONNECT4))


def test_by_chance_gives_the_requested_number_of_positions() -> None:
    marks = by_chance(CONNECT4, 5, 30, np.random.default_rng(0))
    assert marks.shape == (5, 42)
    assert (np.count_nonzero(marks, axis=1) == 30).all()
    assert not CONNECT4.rules.ended(marks).any()


def test_positions_are_read_from_files(tmp_path: Path) -> None:
    file = tmp_path / "L2_R2.tsv"
    file.write_text(f"{POSITION}\n\n444444\t0\t0,0,0,x,0,0,-1\n")
    found = load_positions(file, 10)
    assert found.name == "L2_R2"
    assert found.best[0].tolist() == [False, True, True, False, False, True, True]
    assert found.best[1].tolist() == [True, True, True, False, True, True, False]
    assert found.board.marks[0].reshape(6, 7)[5, 3] == 1  # the first player has the lower disc and moves next
    assert len(load_positions(file, 1).board) == 1


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "Expected a position a line"),
        ("4455 5\n", "Line 1 of .* should be moves, score and seven scores"),
        (f"{POSITION}\n4444444\t0\t0,0,0,x,0,0,0\n", "Line 2 of .* should be moves"),
        ("4490\t0\t0,0,0,0,0,0,0\n", "Line 1"),
        ("44\t0\t0,0,0\n", "should have seven scores, one a column; got '0,0,0'"),
        ("44\t0\tx,x,x,x,x,x,x\n", "should have seven scores"),
        ("44\t0\t0,0,0,?,0,0,0\n", "Line 1"),
    ],
)
def test_an_invalid_file_is_refused_by_its_line(text: str, sentence: str, tmp_path: Path) -> None:
    file = tmp_path / "L2_R2.tsv"
    file.write_text(text)
    with pytest.raises(ConfigError, match=sentence):
        load_positions(file, 10)


def test_without_files_endings_of_games_are_asked(tmp_path: Path) -> None:
    assert [one.name for one in rated_positions(tmp_path, 8, 0)] == ["endings"]
    assert [one.name for one in rated_positions(None, 8, 0)] == ["endings"]
    folder = tmp_path / "games" / "connect4"
    folder.mkdir(parents=True)
    for name in ("L2_R2", "L1_R1"):
        (folder / f"{name}.tsv").write_text(POSITION)
    assert [one.name for one in rated_positions(tmp_path, 8, 0)] == ["L2_R2", "L1_R1"]


def lost(*values: int) -> np.ndarray:
    return np.array(values * 50, float)


def judge(gate: Gate, taught: np.ndarray, untrained: np.ndarray, alone: np.ndarray, centre: np.ndarray) -> bool:
    marks = by_chance(CONNECT4, len(taught), 20, np.random.default_rng(0))
    one = RatedPositions(CONNECT4, "L2_R2", CONNECT4.rules.of(marks), np.tile(np.arange(7) == 3, (len(marks), 1)))
    measures = [exam._learned(one, taught, untrained), exam._alone(one, alone, centre)]
    assert abs(measures[0].score - taught.mean() / untrained.mean()) < 1e-9
    return gate.judge({measure.name: measure for measure in measures}).passed


def test_the_gate_requires_fewer_mistakes_than_search_alone_and_the_centre() -> None:
    few, many = lost(0, 0, 0, 0, 0, 0, 0, 1), lost(0, 1, 0, 1, 0, 0, 1, 0)
    assert judge(exam.GATE, few, many, few, many)
    assert not judge(exam.GATE, many, many, few, many)  # a search without learning
    assert not judge(exam.GATE, few, many, many, many)  # a network no better than the centre column
    assert not judge(exam.GATE, many, few, few, many)
    number = np.arange(400) % 50  # seven mistakes against ten, on other positions: 0.7 is not shown to be below 0.75
    assert not judge(exam.GATE, (number < 7).astype(float), (number >= 40).astype(float), few, many)


def test_the_exam_has_three_players_and_two_rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exam, "SIMULATIONS", 32)
    monkeypatch.setattr(exam, "DEPTH", 3)  # most of the time of a whole exam
    agent = tiny_agent()
    parts.admit(agent)
    found = held_to_the_floors("connect4", agent, tmp_path).measures
    assert set(found) == {"connect4", "connect4/alone"}
    main = found["connect4"]
    assert set(main.rows) == {exam.TAUGHT, exam.ALONE, exam.UNTRAINED, exam.THINKING}
    assert set(main.floors) == {exam.MINIMAX, exam.CENTRE}
    assert main.score == main.rows[exam.TAUGHT]
    assert main.floors[exam.MINIMAX] < main.floors[exam.CENTRE] < main.chance
    assert found["connect4/alone"].score == pytest.approx(main.rows[exam.ALONE] - main.floors[exam.CENTRE])
    (glimpse,) = exam.examine(agent, tiny_context(tmp_path).glimpse()).alone()
    assert glimpse.n < main.n
    json.dumps(dict(main.rows))


def test_the_gate_has_all_its_measures_on_pons_positions(
    tmp_path: Path, data_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exam, "SIMULATIONS", 32)
    monkeypatch.setattr(exam, "DEPTH", 3)  # most of the time of a whole exam
    agent = tiny_agent()
    context = dataclasses.replace(tiny_context(tmp_path, "exam.episodes_scale=0.03"), data=data_folder)
    parts.admit(agent)
    found = {measure.name: measure for measure in exam.examine(agent, context).in_full()}
    assert {threshold.measure for threshold in exam.GATE.thresholds} <= set(found)
    alone, searched = found["connect4/elsewhere"], found["connect4/elsewhere/searched"]
    assert alone.score == found["connect4/L1_R1"].rows[exam.ALONE]
    assert searched.floors.keys() == {exam.MINIMAX, exam.RANDOM_GAMES}
    for measure in (alone, searched):
        paired = found[f"{measure.name}/gain"]
        assert paired.score == pytest.approx(measure.score - min(measure.floors.values()))
        assert paired.interval()[0] < paired.score < paired.interval()[1]
    assert "Pascal Pons" in found["connect4"].note
    assert not exam.GATE.judge(found).passed  # it is untaught


def test_known_answers_make_no_mistake_and_shuffled_ones_are_at_chance() -> None:
    ends = endings(CONNECT4, 60, 36, 5)
    known = ends.best.argmax(-1)
    shuffled = np.random.default_rng(0).permutation(known)
    assert ends.mistakes(known).sum() == 0
    assert ends.mistakes(shuffled).mean() > ends.by_chance - 0.1
