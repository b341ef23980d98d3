"""Minimal pairs of the caregiver's grammar, and the exam that asks which is the likelier page."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from devmind import worlds
from devmind.config import load
from devmind.curriculum.examining import examination
from devmind.curriculum.stage import Context
from devmind.testing import tiny_agent
from stages.language import parts
from stages.language.caregiver.grammar import check_words, talk
from stages.language.caregiver.scene import HELD_OUT, TAUGHT, name_of
from stages.language.grammar import exam
from stages.language.grammar.pairs import KINDS_OF_FAULTS, TRUTH, TWICE, pair
from stages.language.read import lesson
from stages.language.read.pages import page_batch, telling


@pytest.fixture
def context(tmp_path: Path) -> Context:
    return Context(load("tiny", sets=["exam.episodes_scale=0.2"]), 0, "cpu", tmp_path, worlds.make)


@pytest.fixture(scope="module")
def agent():
    agent = tiny_agent()
    parts.admit(agent)
    return agent.eval()


@pytest.mark.parametrize("kind", [*KINDS_OF_FAULTS, TRUTH])
def test_a_pair_differs_in_its_last_line_alone_and_says_known_words(kind: str) -> None:
    for number in range(30):
        one = pair(kind, "test", number)
        right, wrong = one.right.splitlines(), one.wrong.splitlines()
        assert right[:-1] == wrong[:-1]
        assert right[-1] != wrong[-1]
        for line in (*right, wrong[-1]):
            check_words(line)


def test_faults_are_what_they_are_called() -> None:
    last = {
        kind: (pair(kind, 3).right.splitlines()[-1], pair(kind, 3).wrong.splitlines()[-1]) for kind in KINDS_OF_FAULTS
    }
    assert " an " in f" {last['article'][1]}"
    assert last["word order"][0].split()[-5:-3] == last["word order"][1].split()[-5:-3][::-1] or sorted(
        last["word order"][0].split()) == sorted(last["word order"][1].split())  # fmt: skip
    assert last["number"][0].split()[2] in ("balls", "boxes", "cans")
    assert last["number"][1].split()[2] in ("ball", "box", "can")
    assert "where is a " in last["determiner"][1]
    assert last["verb"][1].startswith("are the")
    assert last["answer to where"][0].startswith("where is the")
    assert last["answer to where"][1].endswith(("? yes.", "? no."))
    assert last["answer to whether"][1].startswith("is there a")
    told = pair(TWICE, 3)
    name = [pair for pair in HELD_OUT if name_of(*pair) in told.wrong.splitlines()[-1]]
    assert told.wrong.count(name_of(*name[0])) == 2
    assert told.right.count(name_of(*name[0])) == 1


def test_held_out_pairs_are_spoken_of_in_the_exam_alone() -> None:
    said = talk(60_000, "test")[0]
    assert not any(name_of(*pair) in said for pair in HELD_OUT)
    assert all(name_of(*pair) in said for pair in TAUGHT)
    pages = "".join(pair(kind, number).right for kind in KINDS_OF_FAULTS for number in range(30))
    assert all(name_of(*pair) in pages for pair in HELD_OUT)
    assert not any(name_of(*pair) in pages for pair in TAUGHT)


def test_what_fills_a_page_up_costs_nothing(agent) -> None:
    texts = ["look, a red ball.\n", "here is a can.\n", "where is the magenta box? on the left.\n"]
    alone = []
    with torch.no_grad():
        for text in texts:
            data = np.frombuffer(text.encode().ljust(40, b"?"), np.uint8)
            alone.append(float(telling(agent, page_batch(data[None]))[0, : len(text)].double().sum()))
        np.testing.assert_allclose(exam.nats(agent, texts), alone, rtol=1e-5)


def test_who_knows_is_right_who_guesses_is_at_chance_and_ties_are_a_half(context: Context, agent, monkeypatch) -> None:
    right = {one.right for one in exam.pairs(context, context.episodes(exam.EACH))}
    shuffled = np.random.default_rng(0).permutation
    players = {
        1.0: lambda agent, texts: np.array([float(text not in right) for text in texts]),
        0.5: lambda agent, texts: np.zeros(len(texts)),
    }
    with examination(agent):
        for score, player in players.items():
            monkeypatch.setattr(exam, "nats", player)
            (measure,) = exam.examine(agent, context, "retention")
            assert measure.score == score
        monkeypatch.setattr(exam, "nats", lambda agent, texts: shuffled(len(texts)).astype(float))
        (measure,) = exam.examine(agent, context, "retention")
    assert abs(measure.score - 0.5) < 0.2
    assert not exam.GATE.judge({exam.NAME: measure}).passed


def test_counting_nine_characters_is_a_floor_and_an_untaught_agent_is_below_it(context: Context, agent) -> None:
    with examination(agent):
        (measure,) = exam.examine(agent, context, "full")
    assert set(measure.rows) == {*KINDS_OF_FAULTS, TRUTH}
    assert measure.floor > 0.65
    assert measure.score < measure.floor
    assert not exam.GATE.judge({exam.NAME: measure}).passed


def test_a_text_is_read_beside_the_caregiver(tmp_path: Path, context: Context) -> None:
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "x.txt").write_text("x" * 5000)
    given = Context(context.config, 0, "cpu", tmp_path, worlds.make, tmp_path)
    pages = lesson.lesson_batch(given, 0, 16)["pieces"]
    assert int((pages == ord("x")).all(-1).sum()) == 14
    assert not bool((lesson.lesson_batch(context, 0, 16)["pieces"] == ord("x")).all(-1).any())
