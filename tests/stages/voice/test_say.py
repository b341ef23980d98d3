"""Words said: what is read and imitated, the head in a life, and the exam's laws."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from devmind.acting import Actor
from devmind.agent.agent import Agent
from devmind.agent.batch import collate_tick
from devmind.curriculum.exam import Measure
from devmind.curriculum.examining import examine_skill
from devmind.curriculum.stage import Context
from devmind.learners.gradient import GradientLearner
from devmind.testing import tiny_agent, tiny_context
from stages.voice import parts
from stages.voice.caregiver import formants
from stages.voice.caregiver.speech import SPOKEN
from stages.voice.codec import codes_of
from stages.voice.recogniser import Recogniser
from stages.voice.say import exam, lesson
from stages.voice.say.head import MOMENTS
from stages.voice.stage import SKILLS, VoiceStage

SKILL = next(skill for skill in SKILLS if skill.name == "say")


def examined(agent: Agent, context: Context) -> dict[str, Measure]:
    return dict(examine_skill(VoiceStage(), SKILL, agent, context).measures)


def test_each_of_fifty_words_is_held_out_in_a_quarter_of_its_manners() -> None:
    assert len(set(SPOKEN)) == 50
    taught, asked = lesson.manners(False), lesson.manners(True)
    assert not set(taught) & set(asked)
    assert len(taught) == 3 * len(asked) == 600
    for word in SPOKEN:
        assert sum(of[0] == word for of in asked) == 4
    assert set(SPOKEN) <= set(formants.SAID), "without espeak-ng each is said, too"


def test_a_page_is_encoded_as_in_a_life(agent: Agent) -> None:
    encoder: Any = agent.encoder(parts.TEXT)
    read = lesson.pages(["two", "middle"])["senses"][parts.TEXT][:, 0]
    lived = torch.zeros(2, 8, dtype=torch.uint8)
    for row, word in enumerate(("two", "middle")):
        lived[row, : len(word)] = torch.tensor(list(word.encode()))
    there = encoder.numbers(lived)
    assert torch.equal(encoder.numbers(read)[:, : there.shape[1]], there)


def test_a_word_is_said_over_its_moments_and_then_nothing(agent: Agent) -> None:
    actor = Actor(agent, 1, effectors=(parts.SPEAK,), standing={parts.SPEAK: (parts.SAY,)})
    with torch.inference_mode():
        wanted = agent(lesson.pages(["two"]), [parts.SAY])[parts.SAY].mode()[0, 0]
    uttered = []
    for tick in range(MOMENTS + 1):
        senses: dict[str, Any] = {parts.SOUND: np.zeros((1, 1, 1600), np.float32)}
        if tick == 0:
            senses[parts.TEXT] = ["two"]
        done = actor.act(collate_tick(senses, np.array([tick == 0])))
        uttered.append(done.action[parts.SPEAK][0] if parts.SPEAK in done.action else None)
    assert uttered[-1] is None
    assert torch.equal(torch.stack(uttered[:-1]), wanted)  # type: ignore[arg-type]
    assert wanted.shape == (MOMENTS, 4, 2)


def test_manners_and_words_differ_and_samples_follow_their_generator() -> None:
    agent = tiny_agent()
    parts.admit(agent)
    head: Any = agent.eval().head(parts.SAY)
    with torch.no_grad():  # a newborn head hardly moves a level
        head.net[-1].weight.mul_(100.0)
        head.manner.weight.mul_(10.0)
    with torch.inference_mode():
        output: Any = agent(lesson.pages(["two", "red"]), [parts.SAY])[parts.SAY]
        slow, fast = (output.levels(torch.full((2, 1, 2), how)) for how in (-1.0, 1.0))
        middle, codes = codes_of(output.levels(torch.zeros(2, 1, 2))), output.mode()
        one, two, other = (output.sample(torch.Generator().manual_seed(seed)) for seed in (0, 0, 1))
    assert not torch.equal(slow, fast)
    assert not torch.equal(slow[0], slow[1])
    assert torch.equal(one, two)
    assert not torch.equal(one, other)
    assert torch.equal(middle, codes)


def test_a_short_lesson_lowers_the_distance(tmp_path: Path) -> None:
    """Together with the codec, whose decoder is still silent here."""
    pupil, context = tiny_agent(3), tiny_context(tmp_path)
    parts.admit(pupil)
    trains = (f"heads.{parts.SAY}.", f"heads.{parts.CODEC}.")
    learner = GradientLearner(pupil, lesson.loss, seed=0, learning_rate=1e-2, trains=trains, steps=40)
    learner.begin(0)
    batch = lesson.lesson_batch(context, 0, 8)
    missed = [float(learner.update(batch, step)["say"]) for step in range(40)]
    assert missed[-1] < 0.5 * missed[0]
    made: Any = lesson.lesson(context).make_learner(pupil, context)
    assert made.trains == (f"heads.{parts.SAY}.",)


def test_the_teaching_voice_is_understood_and_shuffled_words_are_not(
    agent: Agent, judge: Recogniser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = tiny_context(tmp_path, "exam.episodes_scale=0.2")
    monkeypatch.setattr(exam, "the_judge", lambda context: judge)
    untaught = examined(agent, context)[exam.WORDS]
    assert untaught.score < 0.2
    assert untaught.exhibits
    assert untaught.rows[exam.OWN] > 0.6
    assert (tmp_path / "recognisers" / "say.npz").is_file()
    monkeypatch.setattr(exam, "say_words", lambda agent, own: list(own.waves))
    best = examined(agent, context)
    assert best[exam.WORDS].score > 0.6
    shuffle = np.random.default_rng(0).permutation
    monkeypatch.setattr(exam, "say_words", lambda agent, own: [own.waves[i] for i in shuffle(len(own.waves))])
    worst = examined(agent, context)
    assert worst[exam.WORDS].score < 0.3
    assert not exam.GATE.judge(worst, 200).passed
    assert exam.examine(tiny_agent(), context).in_full() == []
