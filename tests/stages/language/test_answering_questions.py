"""Questions about scenes in view: their truth, the exam and its floors."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch

from devmind import worlds
from devmind.agent.agent import Agent
from devmind.config import load
from devmind.curriculum.examining import examination
from devmind.curriculum.stage import Context
from devmind.testing import tiny_agent
from stages.language import parts, seeing
from stages.language.answer import exam, lesson
from stages.language.answering import SURE, TOGETHER, answers_with_confidence
from stages.language.caregiver.grammar import check_words
from stages.language.caregiver.scene import COLOURS, HELD_OUT, NOUNS, TAUGHT, Scene, Thing
from stages.language.hand_rules import CLASSIFIERS, HUE, CutOuts
from stages.language.parts import SIGHT, TEXT
from stages.language.seeing import Page


@pytest.fixture
def context(tmp_path: Path) -> Context:
    return Context(load("tiny", sets=["exam.episodes_scale=0.1"]), 0, "cpu", tmp_path, worlds.make)


@pytest.fixture(scope="module")
def agent() -> Agent:
    agent = tiny_agent()
    agent.add_encoder("sight")
    parts.admit(agent)
    return agent.eval()


def test_questions_are_about_visible_things_and_answers_are_true(context: Context) -> None:
    questions = lesson.draw_questions(context, np.arange(120), TAUGHT)
    shown = questions.shown
    for row, scene in enumerate(shown.scenes):
        here = shown.boxes[row, :, 2] > shown.boxes[row, :, 0]
        pairs = shown.pairs[row][here]
        assert sorted((thing.colour, thing.noun) for thing in scene.things) == sorted(map(tuple, pairs.tolist()))
        middles = (shown.boxes[row, here, 0] + shown.boxes[row, here, 2]) / 2
        by_pixels = np.digitize(middles, (22, 42))
        told = {(thing.colour, thing.noun): thing.place for thing in scene.things}
        assert [told[tuple(pair)] for pair in pairs.tolist()] == by_pixels.tolist()
        question, answer = questions.exchanges[row]
        check_words(f"{question} {answer}")
    assert {len(scene.things) for scene in shown.scenes} == {2, 3, 4}
    assert set(questions.kinds) == set(lesson.ASKED)
    said = Counter(answer for _, answer in questions.exchanges)
    assert {"yes.", "no.", "none.", "unknown."} <= set(said)
    assert 0.5 < said["yes."] / said["no."] < 2.0


def test_exams_show_held_out_pairs_and_lessons_do_not(context: Context) -> None:
    for of in (TAUGHT, HELD_OUT):
        questions = lesson.draw_questions(context, np.arange(40), of)
        assert {tuple(pair) for pair in questions.shown.pairs.reshape(-1, 2).tolist()} <= set(of)


def test_about_gives_the_things_that_a_question_means() -> None:
    ball, box, can = Thing(0, 0, 0), Thing(1, 1, 0), Thing(1, 2, 2)
    scene = Scene((ball, box, can))
    for question, things in {
        "what colour is the ball?": [ball], "where is the green can?": [can], "where is the red can?": [],
        "what is on the right?": [can], "is there a green box?": [box], "is there a blue ball?": [],
        "is the red ball on the right?": [ball], "how many cans are there?": [can], "how many boxes are there?": [box],
        "what is on the left?": [ball, box],
    }.items():  # fmt: skip
        assert lesson.about(question, scene) == {(thing.colour, thing.noun) for thing in things}, question


def test_a_lesson_points_at_the_things_asked_about(context: Context) -> None:
    """It points at exactly those things: as many as the answer counts, and none where there is none."""
    batch, told = lesson.lesson_batch(context, 0, 48), Counter[int]()
    for row in range(48):
        page = bytes(n for n in batch["senses"][TEXT][row, 0].tolist() if 0 <= n < 256).decode()
        many = int((batch["pointed"][row, 0] > 0).sum())
        if page.endswith(("unknown.", " none.")) or (page.startswith("is there") and page.endswith("no.")):
            assert many == 0
        elif not page.startswith("how many"):
            assert many == 1, page
        told[many] += 1
    assert told[0] > 2
    assert told[1] > 20


def test_a_batch_holds_the_question_with_its_answer(context: Context, agent: Agent) -> None:
    questions = lesson.draw_questions(context, np.arange(8), TAUGHT)
    pages = [Page(*each) for each in zip(questions.questions, questions.answers, strict=True)]
    batch = seeing.batch_of(questions.shown, pages, np.random.default_rng(0))
    for row in range(8):
        page, written = batch["senses"][TEXT][row, 0], batch["written"][row, 0]
        whole = questions.questions[row] + questions.answers[row]
        assert bytes(n for n in page.tolist() if 0 <= n < 256).decode() == whole
        assert bytes(n for n in written.tolist() if n >= 0).decode() == questions.answers[row]
    loss, scalars = seeing.loss(agent, batch)
    assert loss.isfinite()
    assert scalars["said right"] == 0.0, "nobody taught it"
    right = torch.nn.functional.one_hot(batch["written"].clamp_min(0), 256).float()
    assert seeing.nats_of(right, batch["written"])[1] == 1.0
    assert seeing.nats_of(right.roll(1, -1), batch["written"])[1] == 0.0


def test_no_answer_in_plain_light_names_colour_and_noun(context: Context) -> None:
    batch, plain = lesson.lesson_batch(context, 0, 200), 0
    sight = batch["senses"][SIGHT][:, 0].float()
    own = ((sight.amax(-1) - sight.amin(-1)) / sight.amax(-1).clamp_min(1)).flatten(1)
    for row, written in enumerate(batch["written"][:, 0].tolist()):
        learned = bytes(n for n in written if n >= 0).decode()
        words = learned.strip(" .").split()
        assert not (set(words) & set(COLOURS) and set(words) & set(NOUNS)), learned
        if set(words) & set(COLOURS):
            plain += 1
            assert own[row].std() > 0.05, "who is asked for a colour sees colours"
    assert plain > 20


def test_known_answers_score_one_and_shuffled_answers_fall_below_the_floors(
    context: Context, agent, monkeypatch
) -> None:
    asked = lesson.draw_questions
    last: list = []

    def remembered(*given):
        last.append(asked(*given))
        return last[-1]

    def judged(order) -> dict[str, float]:
        known = lambda agent, senses, most: [last[-1].answers[i] for i in order(len(senses[TEXT]))]  # noqa: E731
        monkeypatch.setattr(exam, "draw_questions", remembered)
        monkeypatch.setattr(
            exam, "answers_with_confidence", lambda *given: (known(*given), np.ones(len(given[1][TEXT])))
        )
        return {measure.name: measure.score for measure in exam.examine(agent, context).alone()}

    with examination(agent):
        assert judged(np.arange) == {exam.SCENES: 1.0, exam.PAIRS: 1.0}
        assert max(judged(np.random.default_rng(0).permutation).values()) < 0.5


def test_an_untaught_agent_is_wrong_and_floors_are_between(context: Context, agent: Agent, monkeypatch) -> None:
    told: list[np.ndarray] = []

    def noted(*given):
        told.append(answers_with_confidence(*given)[1])
        return answers_with_confidence(*given)

    monkeypatch.setattr(exam, "answers_with_confidence", noted)
    with examination(agent):
        measures = {measure.name: measure for measure in exam.examine(agent, context).in_full()}
    for measure, sure in zip(measures.values(), told, strict=True):
        assert measure.score == 0.0
        assert measure.rows[SURE] == pytest.approx(sure.mean()), "who is never right is off by all that it is sure"
        assert 0.1 < measure.floors["the question alone"] < 0.7
        assert measure.floors[CLASSIFIERS] < 1.0
        assert measure.floors[HUE] < 1.0
        assert measure.rows["sight off"] == 0.0
    assert not exam.GATE.judge(measures).passed


def test_the_rule_answers_rightly_when_things_are_named_rightly(context: Context, monkeypatch) -> None:
    """The floor's reasoning is sound: with each thing named rightly it answers as the scene's truth."""
    rules, questions = exam.Rules(context), lesson.draw_questions(context, np.arange(60), TAUGHT)
    pairs = questions.shown.pairs.reshape(-1, 2)
    monkeypatch.setattr(CutOuts, "called", lambda self, crops: pairs)
    assert rules.seen(questions) == {CLASSIFIERS: questions.answers, HUE: questions.answers}


def test_the_certainty_of_an_answer_is_the_same_alone_and_in_a_batch(agent: Agent) -> None:
    sight = np.random.default_rng(0).integers(0, 255, (TOGETHER + 2, 64, 64, 3), dtype=np.uint8)
    senses = {SIGHT: sight, TEXT: ["what colour is the ball?"] * len(sight)}
    said, sure = answers_with_confidence(agent, senses, 4)
    assert sure.shape == (TOGETHER + 2,)
    assert ((sure > 0) & (sure <= 1)).all()
    alone = answers_with_confidence(agent, {SIGHT: sight[-1:], TEXT: senses[TEXT][-1:]}, 4)
    assert alone[0] == said[-1:]
    assert alone[1][0] == pytest.approx(sure[-1], rel=1e-4)
