"""Many senses in one step: what is sensed of each row, what can be told by it, and that the stage teaches it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from devmind import worlds
from devmind.algorithms.ridge import fit_ridge_classifier
from devmind.config import load
from devmind.curriculum.stage import Context
from devmind.seeding import exam_seeds, lesson_seeds, numpy_rng
from devmind.testing import tiny_agent
from stages.language import lessons, parts
from stages.language.caregiver.scene import COLOURS, HELD_OUT, NOUNS, TAUGHT
from stages.language.name.lesson import COLOUR, KIND
from stages.language.parts import SIGHT, SOUND, TEXT
from stages.language.senses import lesson
from stages.language.senses.lesson import BOTH, THINGS, lesson_batch, part_batch, sounding, things
from stages.language.stage import LanguageStage


@pytest.fixture
def context(tmp_path: Path) -> Context:
    return Context(load("tiny"), 0, "cpu", tmp_path, worlds.make)


def texts(batch: dict) -> list[tuple[str, str]]:
    """Each row's question and answer."""
    pages = [bytes(n for n in page if 0 <= n < 256).decode() for page in batch["senses"][TEXT][:, 0].tolist()]
    said = [bytes(n for n in row if n >= 0).decode() for row in batch["written"][:, 0].tolist()]
    return [(page.removesuffix(told), told) for page, told in zip(pages, said, strict=True)]


def test_every_part_has_its_senses_and_questions_that_they_can_answer(context: Context) -> None:
    batch = lesson_batch(context, 3, 64)
    assert set(batch) == {SIGHT, SOUND, BOTH, TEXT}
    assert sum(len(part["first"]) for part in batch.values()) == 64
    assert len(batch[TEXT]["first"]) == 16
    for part, senses in THINGS.items():
        assert batch[part]["senses"].keys() == batch[part]["present"].keys() == {*senses, TEXT}
        asked = {question for question, _ in texts(batch[part])}
        assert asked == ({KIND} if part == SOUND else {KIND, COLOUR})
        for question, told in texts(batch[part]):
            words = NOUNS if question == KIND else COLOURS
            assert told.strip(" .").split()[-1] in words
    again = lesson_batch(context, 3, 64)
    assert torch.equal(again[SOUND]["senses"][SOUND], batch[SOUND]["senses"][SOUND])
    assert not torch.equal(lesson_batch(context, 4, 64)[TEXT]["pieces"], batch[TEXT]["pieces"])


def test_a_part_alone_is_of_that_part(context: Context) -> None:
    for part in (*THINGS, TEXT):
        batch = part_batch(context, 0, 6, part)
        assert list(batch) == [part]
        assert len(batch[part]["first"]) == 6


def test_lessons_have_taught_pairs_and_the_answers_are_true(context: Context) -> None:
    seeds = lesson_seeds(40, 0, "test")
    batch = things(context, seeds, [BOTH] * 40, numpy_rng("test"))
    of = sounding(context, seeds, TAUGHT)
    for (question, told), (colour, noun) in zip(texts(batch), of.shown.pairs[:, 0].tolist(), strict=True):
        assert (colour, noun) in TAUGHT
        assert told.strip(" .").split()[-1] == (NOUNS[noun] if question == KIND else COLOURS[colour])
    assert torch.equal(batch["senses"][SOUND][:, 0], torch.from_numpy(of.sound))


def test_the_form_is_heard_by_who_listens(context: Context) -> None:
    """A linear rule on how loud each pitch is tells held-out things' forms far above chance, so it can be learned."""

    def spectrum(sound: np.ndarray) -> np.ndarray:
        return np.log(np.abs(np.fft.rfft(sound.mean(1))) + 1e-3)

    taught, met = (
        sounding(context, seeds, pairs)
        for seeds, pairs in ((lesson_seeds(600, 0, "rule"), TAUGHT), (exam_seeds(200, 0, "rule"), HELD_OUT))
    )
    assert np.abs(taught.sound).max((1, 2)).min() > 0.01, "each sounds"
    rule = fit_ridge_classifier(spectrum(taught.sound), taught.shown.pairs[:, 0, 1])
    told = rule.predict(spectrum(met.sound))
    assert (told == met.shown.pairs[:, 0, 1]).mean() > 0.5


def test_a_step_learns_and_tells_how_the_senses_go_together(context: Context) -> None:
    agent = tiny_agent()
    parts.admit(agent)
    agent.config.stages = ["reflex", "language"]
    learner = lesson.lesson(context).make_learner(agent, context)
    learner.steps = 4
    learner.begin(0)
    told = learner.update(lesson_batch(context, 0, 24), 0)
    cosines = {name for name in told if name.startswith("cosine/")}
    assert len(cosines) == 6
    assert all(abs(float(told[name])) <= 1.001 for name in cosines)
    assert {f"{part}/gradient norm" for part in (*THINGS, TEXT)} < set(told)
    assert {"sight/said right", "sound/said right", "text/nats"} < set(told)


def test_it_is_a_lesson_of_the_stage_and_goes_on_in_turns_of_pages(context: Context) -> None:
    taught = [one.name for one in LanguageStage().lessons(context)]
    assert taught.index("senses") < taught.index("talk")
    assert "senses" in lessons.TURNS[lessons.TALK]
