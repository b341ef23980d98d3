"""Lines of play: read off a search, said in a sentence, held against one; positions for lessons and for exams."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from devmind.agent.agent import Agent
from devmind.testing import tiny_context
from stages.reasoning.explain import exam
from stages.reasoning.explain.lesson import Explaining, held_out
from stages.reasoning.explain.lines import (
    FREE,
    NUMBERS,
    QUESTION,
    ends_told,
    expected,
    moved,
    positions,
    sentence,
    understood,
)
from stages.reasoning.games import TICTACTOE


def test_a_line_is_of_its_search_and_every_move_of_it_is_legal(agent: Agent) -> None:
    mine = moved(agent, positions())
    assert set((mine.line >= 0).sum(-1).tolist()) == {1, 2}
    for at, line in enumerate(mine.line.tolist()):
        known = [move for move in line if move >= 0]
        assert mine.has_looked_at(at, known)
        assert len(set(known)) == len(known)
        assert not mine.after[at, known].any(), "cells that are taken"
        assert not mine.has_looked_at(at, [int(np.flatnonzero(mine.after[at])[0])])
    assert not mine.has_looked_at(0, [])


def test_what_is_expected_of_a_won_position_is_the_move_that_wins(agent: Agent) -> None:
    """Two in a row and the third free: who has just moved fears it."""
    line, value = expected(agent, np.array([[1, 1, 0, -1, -1, 0, 0, 0, 0]], np.int8))
    assert sentence(line[0].tolist(), value[0]) == " i fear three."


@pytest.mark.parametrize(
    ("line", "value", "said"),
    [
        ([4, 0, -1], 0.0, " i expect five one."),
        ([8, -1, -1], -1.0, " i fear nine."),
        ([0, 1, 2], 1.0, " i hope for one two three."),
    ],
)
def test_sentences_are_understood_as_they_were_meant(line: list[int], value: float, said: str) -> None:
    assert sentence(line, value) == said
    assert understood(said) == (
        said.split(" ")[2] + (" for" if "hope" in said else ""),
        [one for one in line if one >= 0],
    )


@pytest.mark.parametrize(
    "text", ["", " i expect.", " i expect ten.", " i hope for one two", "we fear one.", " i fear one, two."]
)
def test_what_is_no_sentence_names_no_line(text: str) -> None:
    assert understood(text) is None


def test_no_image_of_a_position_of_exams_is_in_lessons(agent: Agent) -> None:
    learner = Explaining(agent, seed=0, learning_rate=1e-3)
    drawn = np.concatenate([learner.drawn(update, 64)["senses"]["position"].numpy()[:, 0] for update in range(4)])
    shown = (drawn[:, 0].astype(np.int8) - drawn[:, 1].astype(np.int8)).reshape(-1, 9)
    assert not held_out(shown).any()
    assert held_out(exam.own_moves(agent, 0).after).all()
    assert 0.25 < held_out(positions()).mean() < 0.45


def test_an_images_sentence_is_true_of_the_image(agent: Agent) -> None:
    """Cells and moves are turned alike: what is said of an image names free cells of it, and half of the pages ask for
    no line."""
    learner = Explaining(agent, seed=0, learning_rate=1e-3)
    batch = learner.drawn(3, 64)
    pages = batch["senses"]["text"][:, 0].tolist()
    met = Counter[str]()
    for row, page in enumerate(pages):
        question, _, told = bytes(token for token in page if token).decode().partition("?")
        taken = batch["senses"]["position"][row, 0, :2].reshape(2, 9).sum(0).numpy() > 0
        met[question] += 1
        if question == QUESTION.rstrip("?"):
            (_, moves) = understood(told) or ("", [])
            assert moves
        else:
            moves = [NUMBERS.index(word) for word in told.strip(" .").replace(",", "").split() if word != "none"]
            assert question != FREE.rstrip("?") or len(moves) == (~taken).sum()
        assert not taken[moves].any()
    assert met == {"what now": 32, "which are free": 16, "what ends it": 16}


@pytest.mark.parametrize(
    ("marks", "told"),
    [
        ([1, 1, 0, -1, -1, 0, 0, 0, 0], " three, six."),
        ([0] * 9, " none, none."),
        ([-1, 0, 0, 0, -1, 0, 1, 0, 0], " none, nine."),
        ([1, 0, 1, 0, -1, 0, 1, 0, -1], " two four, none."),
    ],
)
def test_what_ends_a_game_is_told_for_who_is_to_move_and_for_the_other(marks: list[int], told: str) -> None:
    assert ends_told(np.array(marks, np.int8)) == told


def test_who_says_its_lines_is_right_and_shuffled_answers_fall(
    agent: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = exam.own_moves(agent, 0)
    known = {
        key: sentence(line, value)
        for key, line, value in zip(
            TICTACTOE.keys(mine.after).tolist(), mine.line.tolist(), mine.value.tolist(), strict=True
        )
    }
    monkeypatch.setattr(exam, "said_of", lambda agent, marks: [known[key] for key in TICTACTOE.keys(marks).tolist()])
    context = tiny_context(tmp_path, "exam.episodes_scale=1")
    said, elsewhere = exam.examine(agent, context, "full")
    assert said.score == 1.0
    assert min(said.rows.values()) > 0.95, "where two moves lead to one position, one line of both is said"
    assert elsewhere.score < 0.4, "shuffled"
    assert 0 <= said.floors["canned sentence"] < 0.4


def test_an_untaught_agent_says_nothing_true(agent: Agent, tmp_path: Path) -> None:
    said, _ = exam.examine(agent, tiny_context(tmp_path), "glimpse")
    assert said.score == 0.0
    assert set(said.episodes.tolist()).isdisjoint(exam.taught(tiny_context(tmp_path), 1000).tolist())
