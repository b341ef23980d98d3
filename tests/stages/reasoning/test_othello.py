"""Othello's exam, and a game with passes in a terminal."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from devmind.curriculum.exam import Measure
from devmind.testing import tiny_agent, tiny_context
from stages.reasoning import parts
from stages.reasoning.games import OTHELLO, moves
from stages.reasoning.judged import RatedPositions, endings
from stages.reasoning.othello import exam
from stages.reasoning.table import Table


class Even:
    """A judge that knows nothing."""

    game = OTHELLO

    def __call__(self, board: object) -> tuple[np.ndarray, np.ndarray]:
        return np.zeros((len(board), OTHELLO.rules.choices)), np.zeros(len(board))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def ends() -> RatedPositions:
    return endings(OTHELLO, 30, 28, 0)


def test_search_to_the_end_makes_no_mistakes(ends: RatedPositions) -> None:
    assert ends.mistakes(moves(Even(), ends.board, 400)).sum() == 0  # type: ignore[arg-type]
    assert ends.mistakes(moves(Even(), ends.board, 0)).sum() > 0  # type: ignore[arg-type]


def test_most_discs_takes_the_move_with_most_discs(ends: RatedPositions) -> None:
    chosen = exam.most_discs(ends)
    for row in range(len(ends.board)):
        board = ends.board.take([row])
        own = {
            int(move): int((OTHELLO.rules.step(board, {"place": np.array([move])}).marks == -1).sum())
            for move in np.flatnonzero(OTHELLO.rules.legal(board)["place"][0])
        }
        assert own[int(chosen[row])] == max(own.values())


def test_the_gate_requires_fewer_mistakes_than_search_alone_and_the_rule(tmp_path: Path) -> None:
    agent, context = tiny_agent(), tiny_context(tmp_path)
    parts.admit(agent)
    (found,) = exam.examine(agent, context).in_full()
    assert set(found.rows) == {exam.TAUGHT, exam.ALONE, exam.UNTRAINED}
    assert found.floor <= found.rows[exam.UNTRAINED]
    few = np.array([0.0] * 190 + [1.0] * 10)
    for floor, passes in ((0.2, True), (0.05, False)):
        told = Measure(
            "othello", "", few, chance=0.5, ceiling=0.0, floors={"a": floor}, rate=True, higher_is_better=False
        )
        assert exam.GATE.judge({"othello": told}).passed == passes


def test_a_player_without_a_move_passes_without_being_asked() -> None:
    agent = tiny_agent()
    parts.admit(agent)
    said: list[str] = []
    for seed in range(20):
        table, rng = Table(agent, OTHELLO, 0, agent_begins=bool(seed % 2)), np.random.default_rng(seed)

        def by_chance(prompt: str, table: Table = table, rng: np.random.Generator = rng) -> str:
            able = np.flatnonzero(OTHELLO.rules.legal(table.board)["place"][0])
            assert OTHELLO.rules.passing not in able
            return str(rng.choice(able) + 1)

        table.play(said.append, by_chance)
        discs = table.board.marks[0] * (1 if table.board.player[0] == table.agents else -1)
        assert said[-1] == {1: "The agent has won.", 0: "A draw.", -1: "You have won."}[int(np.sign(discs.sum()))]
        if any("must pass" in line for line in said):
            return
    pytest.fail("nobody had to pass in twenty games")


def test_known_answers_make_no_mistake_and_shuffled_ones_are_at_chance(ends: RatedPositions) -> None:
    known = ends.best.argmax(-1)
    shuffled = np.random.default_rng(0).permutation(known)
    assert ends.mistakes(known).sum() == 0
    assert ends.mistakes(shuffled).mean() > ends.by_chance - 0.1
