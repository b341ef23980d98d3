"""Minimal pairs of the caregiver's grammar, and the exam of which page is more likely."""

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
from stages.language import lessons, parts
from stages.language.caregiver.grammar import check_words, talk
from stages.language.caregiver.scene import HELD_OUT, PAIRS, TAUGHT, name_of
from stages.language.grammar import exam
from stages.language.grammar import lesson as grammar_lesson
from stages.language.grammar.pairs import KINDS_OF_FAULTS, TRUTH, TWICE, pair
from stages.language.read import lesson
from stages.language.read.pages import page_batch, telling

NAMES = tuple(name_of(*each) for each in PAIRS)


@pytest.fixture
def context(tmp_path: Path) -> Context:
    return Context(load("tiny", sets=["exam.episodes_scale=0.2"]), 0, "cpu", tmp_path, worlds.make)


@pytest.fixture(scope="module")
def agent():
    agent = tiny_agent()
    parts.admit(agent)
    return agent.eval()


@pytest.mark.parametrize("kind", [*KINDS_OF_FAULTS, TRUTH])
def test_the_pages_of_a_pair_differ_only_in_the_last_line(kind: str) -> None:
    for number in range(30):
        one = pair(kind, "test", number)
        assert len(one.right) == len(one.wrong) == 1 + (kind == TWICE)
        for right, wrong in zip(map(str.splitlines, one.right), map(str.splitlines, one.wrong), strict=True):
            assert right[:-1] == wrong[:-1]
            assert right[-1] != wrong[-1]
            for line in (*right, wrong[-1]):
                check_words(line)


def told(page: str) -> list[str]:
    """The names in a page, in order."""
    found = sorted((at, name) for name in NAMES for at in range(len(page)) if page.startswith(name, at))
    return [name for _, name in found]


def test_each_name_ends_a_right_page_and_a_wrong_one_in_pairs_told_twice() -> None:
    for number in range(30):
        one = pair(TWICE, "test", number)
        right, wrong = [told(page) for page in one.right], [told(page) for page in one.wrong]
        assert all(len(set(names)) == len(names) for names in right)
        assert all(names[-1] in names[:-1] and len(set(names)) == len(names) - 1 for names in wrong)
        assert len({names[-1] for names in right}) == 2
        assert sorted(names[-1] for names in right) == sorted(names[-1] for names in wrong)
        # There are as many beginnings of either sort, and nothing but the two names differs in them.
        assert [names[:-1] for names in right] == [names[:-1] for names in wrong]
        assert len({tuple(sorted(names)) for names in right}) == 1


def test_the_likelihood_of_names_does_not_decide_pairs_told_twice() -> None:
    asked = [pair(TWICE, "test", number) for number in range(100)]
    costs = dict(zip(NAMES, np.random.default_rng(0).normal(0, 3, len(NAMES)), strict=True))

    def by_name(pages: list[str]) -> np.ndarray:
        return np.array([sum(costs[name] for name in told(page)) for page in pages])

    def last_alone(pages: list[str]) -> np.ndarray:
        return np.array([costs[told(page)[-1]] for page in pages])

    def repeated(pages: list[str]) -> np.ndarray:
        return by_name(pages) + [0.01 * (len(told(page)) - len(set(told(page)))) for page in pages]

    for preferring in (by_name, last_alone):
        assert set(exam.judge_pairs(asked, preferring)) == {0.5}
    assert set(exam.judge_pairs(asked, repeated)) == {1.0}
    # Preferring to hear the same once more is wrong everywhere, and guessing is at chance.
    assert set(exam.judge_pairs(asked, lambda pages: 2 * by_name(pages) - repeated(pages))) == {0.0}
    rng = np.random.default_rng(1)
    assert (
        0.4
        < exam.judge_pairs(asked, lambda pages: rng.permutation(by_name(pages)) + rng.normal(size=len(pages))).mean()
        < 0.6
    )


def test_neither_grams_nor_an_untaught_agent_tell_pairs_told_twice(context: Context, agent) -> None:
    asked = [pair(TWICE, "test", number) for number in range(120)]
    for order in exam.ORDERS:
        assert set(exam.judge_pairs(asked, exam.grams(context, order))) == {0.5}
    with examination(agent):
        # A share of 120 is within 0.13 of a half in 99.6 of 100 draws.
        assert abs(exam.judge_pairs(asked, lambda pages: exam.nats(agent, pages)).mean() - 0.5) < 0.13


def test_faults_are_as_named() -> None:
    last = {
        kind: (pair(kind, 3).right[0].splitlines()[-1], pair(kind, 3).wrong[0].splitlines()[-1])
        for kind in KINDS_OF_FAULTS
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
    name = next(name for name in NAMES if name in last[TWICE][1])
    assert pair(TWICE, 3).wrong[0].count(name) == 2
    assert pair(TWICE, 3).right[0].count(name) == 1


def test_held_out_pairs_occur_only_in_the_exam() -> None:
    said = talk(60_000, "test")[0]
    assert not any(name_of(*pair) in said for pair in HELD_OUT)
    assert all(name_of(*pair) in said for pair in TAUGHT)
    pages = "".join("".join(pair(kind, number).right) for kind in KINDS_OF_FAULTS for number in range(30))
    assert all(name_of(*pair) in pages for pair in HELD_OUT)
    assert not any(name_of(*pair) in pages for pair in TAUGHT)


def test_the_lesson_uses_taught_pairs_and_none_of_the_exam(context: Context) -> None:
    batch, rows = grammar_lesson.lesson_batch(context, 0, 40), []
    for page, length in zip(batch["pieces"].flatten(1).tolist(), batch["length"].tolist(), strict=True):
        rows.append(bytes(page[:length]).decode())
        assert set(page[length:]) <= set(grammar_lesson.FILLS)
    assert not any(name_of(*each) in page for each in HELD_OUT for page in rows)
    assert {name for page in rows for name in told(page)} == {name_of(*each) for each in TAUGHT}
    pages = np.array(rows).reshape(40, 2, 2)
    for right, wrong in pages:
        assert all(len(set(told(page))) == len(told(page)) for page in right)
        assert all(told(page)[-1] in told(page)[:-1] for page in wrong)
    asked = exam.pairs(context, exam.EACH)
    assert not set(rows) & {page for one in asked for page in (*one.right, *one.wrong)}
    assert not torch.equal(batch["length"], grammar_lesson.lesson_batch(context, 1, 40)["length"])


def test_the_loss_compares_both_right_pages_with_both_wrong_ones(agent) -> None:
    asked = [pair(TWICE, "test", number, of=TAUGHT) for number in range(3)]
    with torch.no_grad():
        value, told_of_it = grammar_lesson.loss(agent, grammar_lesson.of_pairs(asked))
        right, wrong = (np.array([exam.nats(agent, list(pages)) for pages in sort])
                        for sort in ([one.right for one in asked], [one.wrong for one in asked]))  # fmt: skip
    length = sum(len(page) for one in asked for page in one.right)
    behind = (right - wrong).sum(1)
    assert float(told_of_it["nats"]) == pytest.approx(right.sum() / length, rel=1e-4)
    preferring = grammar_lesson.PREFERRING * np.log1p(np.exp(behind)).mean()
    assert float(value) == pytest.approx(right.sum() / length + preferring, rel=1e-4)
    assert float(told_of_it["told apart"]) == pytest.approx((behind < 0).mean())


def test_a_grammar_pair_replaces_one_page_of_reading(context: Context) -> None:
    batch = lessons.batch_in_turn(context, lessons.READ, 1, 32)
    assert set(batch) == {"read", "grammar"}
    assert len(batch["read"]["pieces"]) == lessons.PAGES - 1
    assert len(batch["grammar"]["pieces"]) == 4
    again = lessons.batch_in_turn(context, lessons.TALK, 1, 32)["grammar"]
    assert not torch.equal(batch["grammar"]["pieces"][:, 0, :40], again["pieces"][:, 0, :40])
    assert set(lessons.batch_in_turn(context, lessons.TALK, 0, 32)) == {"answer"}


def test_padding_costs_nothing(agent) -> None:
    texts = ["look, a red ball.\n", "here is a can.\n", "where is the magenta box? on the left.\n"]
    alone = []
    with torch.no_grad():
        for text in texts:
            data = np.frombuffer(text.encode().ljust(40, b"?"), np.uint8)
            alone.append(float(telling(agent, page_batch(data[None]))[0, : len(text)].double().sum()))
        np.testing.assert_allclose(exam.nats(agent, texts), alone, rtol=1e-5)


def test_known_answers_are_right_guesses_are_at_chance_and_ties_are_a_half(
    context: Context, agent, monkeypatch
) -> None:
    right = {page for one in exam.pairs(context, context.episodes(exam.EACH)) for page in one.right}
    shuffled = np.random.default_rng(0).permutation
    players = {
        1.0: lambda agent, texts: np.array([float(text not in right) for text in texts]),
        0.5: lambda agent, texts: np.zeros(len(texts)),
    }
    with examination(agent):
        for score, player in players.items():
            monkeypatch.setattr(exam, "nats", player)
            (measure,) = exam.examine(agent, context).alone()
            assert measure.score == score
        monkeypatch.setattr(exam, "nats", lambda agent, texts: shuffled(len(texts)).astype(float))
        (measure,) = exam.examine(agent, context).alone()
    assert abs(measure.score - 0.5) < 0.2
    assert not exam.GATE.judge({exam.NAME: measure}).passed


def test_counting_nine_characters_is_a_floor_above_an_untaught_agent(context: Context, agent) -> None:
    with examination(agent):
        (measure,) = exam.examine(agent, context).in_full()
    assert set(measure.rows) == {*KINDS_OF_FAULTS, TRUTH}
    assert measure.floor > 0.65
    assert measure.score < measure.floor
    assert not exam.GATE.judge({exam.NAME: measure}).passed


def test_a_given_text_is_read_beside_the_caregiver(tmp_path: Path, context: Context) -> None:
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "x.txt").write_text("x" * 5000)
    given = Context(context.config, 0, "cpu", tmp_path, worlds.make, tmp_path)
    pages = lesson.lesson_batch(given, 0, 16)["pieces"]
    assert int((pages == ord("x")).all(-1).sum()) == 14
    assert not bool((lesson.lesson_batch(context, 0, 16)["pieces"] == ord("x")).all(-1).any())
