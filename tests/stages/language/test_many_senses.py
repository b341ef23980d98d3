"""Many senses in one step: the senses and questions of each row, and that the stage teaches it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from devmind.algorithms.ridge import fit_ridge_classifier
from devmind.curriculum.stage import Context
from devmind.seeding import exam_seeds, lesson_seeds, numpy_rng
from devmind.testing import tiny_agent
from stages.language import lessons, parts
from stages.language.caregiver.scene import COLOURS, HELD_OUT, NOUNS, TAUGHT
from stages.language.name.lesson import COLOUR, KIND
from stages.language.parts import SIGHT, SOUND, TEXT
from stages.language.senses import lesson
from stages.language.senses.lesson import BOTH, THINGS, lesson_batch, sounding, things
from stages.language.senses.measured import BALANCED, IN_TURN, TOGETHER, Measured, measured_senses
from stages.language.stage import LanguageStage


def texts(batch: dict) -> list[tuple[str, str]]:
    """Each row's question and answer."""
    pages = [bytes(n for n in page if 0 <= n < 256).decode() for page in batch["senses"][TEXT][:, 0].tolist()]
    said = [bytes(n for n in row if n >= 0).decode() for row in batch["written"][:, 0].tolist()]
    return [(page.removesuffix(told), told) for page, told in zip(pages, said, strict=True)]


def test_every_part_has_its_senses_and_answerable_questions(context: Context) -> None:
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


def test_lessons_have_taught_pairs_and_true_answers(context: Context) -> None:
    seeds = lesson_seeds(40, 0, "test")
    batch = things(context, seeds, [BOTH] * 40, numpy_rng("test"))
    of = sounding(context, seeds, TAUGHT)
    for (question, told), (colour, noun) in zip(texts(batch), of.shown.pairs[:, 0].tolist(), strict=True):
        assert (colour, noun) in TAUGHT
        assert told.strip(" .").split()[-1] == (NOUNS[noun] if question == KIND else COLOURS[colour])
    assert torch.equal(batch["senses"][SOUND][:, 0], torch.from_numpy(of.sound))


def test_the_form_can_be_heard(context: Context) -> None:
    """A linear rule on the spectrum tells held-out things' forms far above chance, so it can be learned."""

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


def test_a_step_learns_and_reports_how_the_senses_agree(context: Context) -> None:
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


def test_the_lesson_belongs_to_the_stage_and_continues_in_turns(context: Context) -> None:
    taught = [one.name for one in LanguageStage().lessons(context)]
    assert taught.index("senses") < taught.index("talk")
    assert "senses" in lessons.TURNS[lessons.TALK]


def told(together: list[float], in_turn: list[float], balanced: list[float]) -> Measured:
    """Nats per byte of each seed: reading costs one more than form, a shift that the comparison must ignore."""
    ways = {TOGETHER: together, IN_TURN: in_turn, BALANCED: balanced}
    nats = {way: {"form": each, "reading": [1 + value for value in each]} for way, each in ways.items()}
    return Measured("fresh small agents", 100, list(range(len(together))), nats, {SIGHT: 0.812, TEXT: 1.5})


def test_many_senses_win_only_where_every_comparison_shows_it() -> None:
    better = told([1.0, 1.2, 1.1, 1.4], [1.5, 1.6, 1.7, 1.9], [1.0, 1.3, 1.0, 1.4])
    assert better.beats
    mean, low, high = better.fewer(TOGETHER, IN_TURN)
    assert mean == pytest.approx(0.5)
    apart = np.array([0.5, 0.4, 0.6, 0.5])
    half = 3.182 * apart.std(ddof=1) / 2  # Student's t with three degrees of freedom
    assert (low, high) == (pytest.approx(0.5 - half, abs=1e-3), pytest.approx(0.5 + half, abs=1e-3))
    assert better.fewer(TOGETHER, IN_TURN, "form") == pytest.approx(better.fewer(TOGETHER, IN_TURN))
    said = better.verdict()
    assert said.startswith("Beats one sense after the other at equal steps: +0.500 [+0.370, +0.630] nats a byte fewer")
    assert "4 pairs of fresh small agents, 100 steps" in said
    assert "Weights are 1 for all" in said
    assert better.weights == {SIGHT: 1.0, TEXT: 1.0}


def test_an_undecided_comparison_claims_nothing_and_better_weights_are_chosen() -> None:
    undecided = told([1.0, 1.2, 1.1, 1.4], [1.5, 0.9, 1.3, 1.2], [0.7, 0.8, 0.8, 1.0])
    assert not undecided.beats
    assert undecided.verdict().startswith("Does not beat one sense after the other")
    assert "shown to be worse" not in undecided.verdict()
    assert undecided.weights == {SIGHT: 0.81, TEXT: 1.5}
    assert "Weights are those that balance the gradients" in undecided.verdict()
    worse = told([1.5, 1.6, 1.7, 1.9], [1.0, 1.2, 1.1, 1.4], [1.5, 1.6, 1.7, 1.9])
    assert worse.verdict().startswith("Does not beat")
    assert "It is shown to be worse." in worse.verdict()


def test_the_lesson_has_the_measured_weights_and_reports_the_verdict(context: Context) -> None:
    found = measured_senses()
    assert found.weights == lesson.WEIGHTS
    assert len(found.seeds) >= 5
    assert all(len(values) == len(found.seeds) for way in found.nats.values() for values in way.values())
    asked = {"colour by both", "colour by sight", "form by both", "form by sight", "form by sound", "reading"}
    assert set(found.nats) == {TOGETHER, BALANCED, IN_TURN}
    assert all(set(each) == asked for each in found.nats.values())
    (senses,) = [one for one in LanguageStage().lessons(context) if one.name == "senses"]
    assert senses.compared == found.verdict()
