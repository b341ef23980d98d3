"""Lines of play: read from a search, said in a sentence, and compared; positions for lessons and for exams."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from devmind.agent.agent import Agent
from devmind.curriculum.ablation import control
from devmind.errors import MomentError
from devmind.testing import tiny_context
from stages.reasoning import table as tables
from stages.reasoning.explain import exam
from stages.reasoning.explain.lesson import STRANGERS, Explaining, held_out, lesson
from stages.reasoning.explain.lines import (
    QUESTION,
    line_of,
    parse_sentence,
    positions,
    said_of,
    searched_moves,
    sentence,
    weighed_moves,
)
from stages.reasoning.explain.lookahead import LookaheadEncoder
from stages.reasoning.games import SIMULATIONS, TICTACTOE


def test_a_line_comes_from_its_search_and_all_its_moves_are_legal(agent: Agent) -> None:
    mine = searched_moves(agent, positions())
    assert set((mine.line >= 0).sum(-1).tolist()) == {1, 2}
    for at, line in enumerate(mine.line.tolist()):
        known = [move for move in line if move >= 0]
        assert mine.has_looked_at(at, known)
        assert len(set(known)) == len(known)
        assert not mine.after[at, known].any(), "cells that are taken"
        assert not mine.has_looked_at(at, [int(np.flatnonzero(mine.after[at])[0])])
    assert not mine.has_looked_at(0, [])


def test_a_won_position_expects_the_winning_move(agent: Agent) -> None:
    """Two in a row and the third free: the player that has just moved fears it."""
    told = weighed_moves(agent, np.array([[1, 1, 0, -1, -1, 0, 0, 0, 0]], np.int8))
    assert sentence(told.line[0].tolist(), told.value[0]) == " i fear three."


def test_lookahead_numbers_equal_a_loop_over_the_tree(agent: Agent) -> None:
    mine = searched_moves(agent, positions()[::20])
    tree, choices = mine.tree, TICTACTOE.rules.choices
    for at, (row, node) in enumerate(zip(mine.row.tolist(), mine.node.tolist(), strict=True)):
        all_visits = tree.nodes.child_visits[row, node].sum()
        for answer in range(choices):
            below = int(tree.nodes.child[row, node, answer])
            assert mine.lookahead[at, 0, answer, answer] == (below >= 0)
            assert mine.lookahead[at, 1, answer, answer] == pytest.approx(
                tree.nodes.child_visits[row, node, answer] / all_visits
            )
            for move in set(range(choices)) - {answer}:
                looked, share, worth = mine.lookahead[at, :, answer, move]
                assert looked == mine.has_looked_at(at, [answer, move])
                if looked:
                    visits = tree.nodes.child_visits[row, below]
                    assert share == pytest.approx(visits[move] / visits.sum())
                    assert worth == pytest.approx(tree.nodes.child_q[row, below, move])
                else:
                    assert share == worth == 0


def test_every_searched_answer_is_its_own_token(agent: Agent) -> None:
    mine = searched_moves(agent, positions()[::50])
    encoder = agent.encoder("lookahead").eval()
    found = encoder(torch.from_numpy(mine.lookahead))
    assert found.present.tolist() == (mine.tree.nodes.child[mine.row, mine.node] >= 0).tolist()
    changed = torch.from_numpy(mine.lookahead.copy())
    changed[:, 1, 4, 2] += 0.5
    differs = (encoder(changed).tokens - found.tokens).abs().amax(-1) > 1e-6
    assert differs[:, 4].all(), "a move behind the answer five"
    assert not differs[:, [cell for cell in range(9) if cell != 4]].any()
    with pytest.raises(MomentError, match="3 planes of 4 answers"):
        LookaheadEncoder(8, choices=4)(torch.zeros(1, 3, 9, 9))


def test_weighed_moves_include_the_moves_made(agent: Agent) -> None:
    marks = positions()[::10]
    mine, every = searched_moves(agent, marks), weighed_moves(agent, marks)
    known = list(zip(every.row.tolist(), every.node.tolist(), strict=True))
    assert len(known) > 2 * len(mine.after)
    for at, where in enumerate(zip(mine.row.tolist(), mine.node.tolist(), strict=True)):
        here = known.index(where)
        assert (every.after[here] == mine.after[at]).all()
        assert (every.lookahead[here] == mine.lookahead[at]).all()
        assert (every.line[here] == mine.line[at]).all()


def test_a_line_follows_visits_first_and_values_next() -> None:
    seen = np.zeros((4, 3, 9, 9), np.float32)
    seen[1, :, 4, 4] = 1, 0.6, 0.0
    seen[1, :, 2, 2] = 1, 0.4, 1.0
    seen[1, :, 4, 8] = 1, 0.5, -0.1
    seen[1, :, 4, 7] = 1, 0.5, 0.1
    seen[1, :, 2, 0] = 1, 0.9, 0.0
    seen[2, :, 3, 3] = 1, 1.0, -1.0
    seen[3, :, [5, 6], [5, 6]] = 1, 0.5, 0.0
    assert line_of(seen).tolist() == [[-1, -1], [4, 7], [3, -1], [5, -1]]


@pytest.mark.parametrize(
    ("line", "value", "said"),
    [
        ([4, 0, -1], 0.0, " i expect five one."),
        ([8, -1, -1], -1.0, " i fear nine."),
        ([0, 1, 2], 1.0, " i hope for one two three."),
    ],
)
def test_sentences_round_trip(line: list[int], value: float, said: str) -> None:
    assert sentence(line, value) == said
    assert parse_sentence(said) == (
        said.split(" ")[2] + (" for" if "hope" in said else ""),
        [one for one in line if one >= 0],
    )


@pytest.mark.parametrize(
    "text", ["", " i expect.", " i expect ten.", " i hope for one two", "we fear one.", " i fear one, two."]
)
def test_a_text_that_is_no_sentence_names_no_line(text: str) -> None:
    assert parse_sentence(text) is None


def test_no_image_of_an_exam_position_is_in_lessons(agent: Agent) -> None:
    learner = Explaining(agent, seed=0, learning_rate=1e-3)
    drawn = np.concatenate([learner.drawn(update, 64)["senses"]["position"].numpy()[:, 0] for update in range(4)])
    shown = (drawn[:, 0].astype(np.int8) - drawn[:, 1].astype(np.int8)).reshape(-1, 9)
    assert not held_out(shown).any()
    assert held_out(exam.own_moves(agent, 0).after).all()
    assert 0.25 < held_out(positions()).mean() < 0.45


def test_a_mirrored_positions_sentence_is_true_of_it_and_its_search(agent: Agent) -> None:
    """Cells and moves are transformed alike: the sentence names free cells that were searched most."""
    batch, strange = Explaining(agent, seed=0, learning_rate=1e-3).drawn(3, 64)["senses"], []
    for row, page in enumerate(batch["text"][:, 0].tolist()):
        question, _, told = bytes(token for token in page if token).decode().partition("?")
        assert question + "?" == QUESTION
        (_, moves) = parse_sentence(told) or ("", [])
        assert moves
        looked, share, _ = batch["lookahead"][row, 0].numpy()
        taken = batch["position"][row, 0, :2].reshape(2, 9).sum(0).numpy() > 0
        strange.append(bool(looked[taken].any() or looked[:, taken].any()))
        assert strange[-1] or not taken[moves].any()
        assert share.diagonal()[moves[0]] == share.diagonal().max()
        if len(moves) == 2:
            behind = np.delete(share[moves[0]], moves[0])
            assert share[moves[0], moves[1]] == behind.max() > 0
    others = 64 // STRANGERS
    assert sum(strange[:others]) > others / 2, "beside another page's position"
    assert not any(strange[others:])


def test_known_lines_are_right_and_shuffled_answers_fall(
    agent: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = exam.own_moves(agent, 0)
    known = {
        key: sentence(line, value)
        for key, line, value in zip(
            TICTACTOE.keys(mine.after).tolist(), mine.line.tolist(), mine.value.tolist(), strict=True
        )
    }

    def knowing(agent: Agent, marks: np.ndarray, lookahead: np.ndarray) -> list[str]:
        return [known[key] for key in TICTACTOE.keys(marks).tolist()]

    monkeypatch.setattr(exam, "said_of", knowing)
    context = tiny_context(tmp_path, "exam.episodes_scale=1")
    said, elsewhere = exam.examine(agent, context).in_full()
    assert said.score == 1.0
    by_search = said.rows.pop("its own search with another position")
    assert min(said.rows.values()) > 0.95, "where two moves lead to one position, one line of both is said"
    assert by_search == pytest.approx(elsewhere.score, abs=0.05)
    assert elsewhere.score < 0.4, "shuffled"
    assert 0 <= said.floors["canned sentence"] < 0.4
    assert said.floors["a template filled in from the search"] == 1.0


def test_an_untaught_agent_says_nothing_true(agent: Agent, tmp_path: Path) -> None:
    said, _ = exam.examine(agent, tiny_context(tmp_path).glimpse()).alone()
    assert said.score == 0.0
    assert set(said.episodes.tolist()).isdisjoint(exam.lesson_episodes(tiny_context(tmp_path), 1000).tolist())


def test_the_twin_learns_to_write_from_the_lookahead(agent: Agent, tmp_path: Path) -> None:
    """A head that reads the trunk alone could say nothing on an identity trunk."""
    for entry in agent.config.heads + agent.config.encoders:
        entry["stage"] = "language" if entry["name"] == "text" else entry["stage"]
    agent.config.stages = ["language", "reasoning"]
    taught = lesson(tiny_context(tmp_path))
    assert taught.control is not None
    before = {name: value.clone() for name, value in agent.state_dict().items()}
    learner = control(taught, agent, tiny_context(tmp_path))
    assert isinstance(learner, Explaining)
    rates = {id(p): group["rate"] for group in learner.optimizer.param_groups for p in group["params"]}
    named = {name: rates[id(p)] for name, p in learner.trained_parameters()}
    assert named["heads.text.out.weight"] == named["encoders.position.norm.weight"] == learner.learning_rate
    learner.steps = 20
    learner.begin(0)
    learner.update({"update": 0, "rows": 8}, 0)
    changed = {name.split(".")[1] for name, value in agent.state_dict().items() if not torch.equal(value, before[name])}
    assert {"text", "position", "lookahead"} <= changed
    assert not changed & {"decoder", "slots"}, "the trunk"


def test_a_reader_of_the_search_is_right_on_any_board(
    agent: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows of the exam tell a reader of the search from a reader of the board."""

    def reading(agent: Agent, marks: np.ndarray, lookahead: np.ndarray) -> list[str]:
        lines = []
        for _, share, _ in lookahead:
            answer = int(share.diagonal().argmax())
            behind = np.where(np.arange(9) == answer, 0, share[answer])
            lines.append([answer, int(behind.argmax())] if behind.any() else [answer])
        return [sentence(line, 0.0) for line in lines]

    monkeypatch.setattr(exam, "said_of", reading)
    said, elsewhere = exam.examine(agent, tiny_context(tmp_path, "exam.episodes_scale=1")).in_full()
    assert said.score == said.rows["its own search with another position"] == 1.0
    assert said.rows["another search with its own position"] == pytest.approx(elsewhere.score, abs=0.05)
    assert elsewhere.score < 0.4


def test_the_table_shows_the_agent_what_the_exam_shows(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the same move and search, the sentence at the table is the exam's."""
    table = tables.Table(agent, TICTACTOE, SIMULATIONS, agent_begins=True)
    for move in (0, 4):
        table.place(move)
    marks = table.board.marks
    shown = []

    def noting(agent: Agent, marks: np.ndarray, lookahead: np.ndarray) -> list[str]:
        shown.append((marks, lookahead))
        return said_of(agent, marks, lookahead)

    monkeypatch.setattr(tables, "said_of", noting)
    told = table.answer(table.think())
    mine = searched_moves(agent, marks)
    assert (shown[0][0] == mine.after).all()
    assert (shown[0][1] == mine.lookahead).all()
    assert told[1] == f"It says:{said_of(agent, mine.after, mine.lookahead)[0]}"


def test_the_table_says_nothing_of_an_unsearched_move(agent: Agent) -> None:
    for simulations, sure in ((0, None), (1, None), (SIMULATIONS, 1e-6)):
        table = tables.Table(agent, TICTACTOE, simulations, agent_begins=True, sure=sure)
        assert len(table.answer(table.think())) == 1
