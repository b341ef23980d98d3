"""A picture found by its spoken name: the layout of four pictures, the head, the lesson, and the exam's laws."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from devmind.acting import Actor
from devmind.agent.agent import Agent
from devmind.agent.batch import collate_tick
from devmind.agent.heads import Inlet
from devmind.agent.taps import Tapped
from devmind.curriculum.exam import Measure
from devmind.curriculum.examining import examine_skill
from devmind.curriculum.stage import Context
from devmind.sessions.spoken import Clips
from devmind.sessions.written import Pictures, pictures, split_pictures
from devmind.testing import tiny_agent, tiny_context
from stages.voice import parts, utterances
from stages.voice.caregiver.speech import DIGITS
from stages.voice.ear import TOKENS
from stages.voice.name_heard import exam, lesson
from stages.voice.name_heard.head import NamedHead, by_picture
from stages.voice.name_heard.shown import as_batch, draw_views, views
from stages.voice.recogniser import Recogniser
from stages.voice.stage import SKILLS, VoiceStage

SKILL = next(skill for skill in SKILLS if skill.name == "name_heard")


def examined(agent: Agent, context: Context) -> dict[str, Measure]:
    return dict(examine_skill(VoiceStage(), SKILL, agent, context).measures)


def test_each_picture_is_in_its_quarter_and_has_its_quarters_tokens() -> None:
    grey = np.array([40, 90, 140, 190], np.uint8)
    shown = views(np.broadcast_to(grey[None, :, None, None], (1, 4, 8, 8)))[0, ..., 0]
    corners = shown[16, 16], shown[16, 48], shown[48, 16], shown[48, 48]
    assert [int(corner) for corner in corners] == grey.tolist()
    cells = shown[8::16, 8::16].reshape(1, 16, 1).float()  # the layout of the eye's 4 x 4 tokens
    assert torch.equal(by_picture(cells)[0], torch.from_numpy(grey).float()[:, None].expand(4, 4))


def test_a_picture_is_read_from_its_own_tokens_in_both_inputs() -> None:
    """In the trunk's features, and in the encoders' tokens behind them."""
    count, at = TOKENS + 16, TOKENS + 5  # the fourth token of the first picture
    head = NamedHead(Inlet(8, 2 * count))
    tokens = torch.randn(1, 1, 2 * count, 8, generator=torch.Generator().manual_seed(0))
    present = torch.ones(tokens.shape[:-1], dtype=torch.bool)
    before = head.respond(Tapped(tokens, present))
    for where in (at, at + count):
        other = tokens.clone()
        other[:, :, where] += 1
        after = head.respond(Tapped(other, present))
        differs = (after.shown != before.shown).any(-1)[0, 0]
        assert differs.tolist() == [True, False, False, False]
        assert torch.equal(after.meant, before.meant)
    heard = tokens.clone()
    heard[:, :, 0] += 1
    assert torch.equal(head.respond(Tapped(heard, present)).shown, before.shown)
    assert not torch.equal(head.respond(Tapped(heard, present)).meant, before.meant)


def test_one_of_four_pictures_of_different_kinds_is_named() -> None:
    taught, _ = split_pictures(pictures(None), 0)
    named = np.arange(40) % 10
    of = draw_views(np.random.default_rng(0), taught, named)
    assert all(len(set(row)) == 4 for row in of.kinds.tolist())
    assert np.array_equal(of.kinds[np.arange(40), of.which], named)
    assert np.array_equal(taught.labels[of.rows], of.kinds)
    assert set(of.which.tolist()) == {0, 1, 2, 3}


def test_another_clip_says_another_digit_though_clips_are_sorted() -> None:
    assert exam.says_another(np.array([3, 3, 3, 5, 5, 8])).tolist() == [3, 3, 3, 5, 5, 0]


def test_kernels_find_the_picture_whose_kind_sounds_most_like_what_is_heard() -> None:
    """A kind that is heard less surely than one that is not shown is still the likeliest of those that are."""
    rng = np.random.default_rng(0)
    tones = [np.sin(2 * np.pi * 200 * (1 + kind) * np.arange(6000) / 16_000).astype(np.float32) for kind in range(10)]
    noisy = [tone + 0.01 * rng.standard_normal(6000).astype(np.float32) for tone in tones]
    shapes = rng.integers(0, 255, (10, 8, 8)).astype(np.uint8)
    known = Pictures(np.repeat(shapes, 2, 0), np.repeat(np.arange(10), 2), "shapes")
    others = (tuple(noisy), tuple(DIGITS))
    shown = np.array([[3, 8, 0, 9], [9, 1, 5, 4]])
    found = exam._floors(others, known, [tones[8], tones[2]], shapes[shown])[exam.KERNELS]
    assert found[0] == 1
    assert shown[1, found[1]] in (1, 4), "2 is not shown, so one that sounds like it is taken"


def test_lessons_show_no_exam_picture_and_train_only_the_head(tmp_path: Path) -> None:
    pupil, context = tiny_agent(3), tiny_context(tmp_path)
    parts.admit(pupil)
    batch = lesson.lesson_batch(context, 0, 6)
    assert batch["senses"][parts.SIGHT].shape[:2] == batch["senses"][parts.SOUND].shape[:2]
    learner: Any = lesson.lesson(context).make_learner(pupil, context)
    learner.steps = 30
    kept = {name: value.clone() for name, value in pupil.state_dict().items()}
    learner.begin(0)
    missed = [float(learner.update(batch, step)["names"]) for step in range(30)]
    assert missed[-1] < 0.5 * missed[0]
    changed = {name for name, value in pupil.state_dict().items() if not torch.equal(value, kept[name])}
    assert changed
    assert all(name.startswith(f"heads.{parts.NAMED}.") for name in changed)


def test_stepping_the_head_equals_its_answer_at_once_and_an_episode_resets_it(agent: Agent) -> None:
    sound = torch.randn(1, 4 * 1600, generator=torch.Generator().manual_seed(1)) * 0.1
    sight = torch.randint(0, 255, (1, 64, 64, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(2))
    with torch.inference_mode():
        output: Any = agent(as_batch(sound, sight), [parts.NAMED])[parts.NAMED]
    actor = Actor(agent, 1, effectors=(parts.PICK,), standing={parts.PICK: (parts.NAMED,)})
    for _ in range(2):  # the second time it starts anew
        told = []
        for number, moment in enumerate(sound[0].reshape(4, 1, 1, 1600).numpy()):
            senses = {parts.SOUND: moment, parts.SIGHT: sight.numpy()}
            told.append(actor.act(collate_tick(senses, np.array([number == 0]))).outputs[parts.NAMED].numbers()[0])
        torch.testing.assert_close(torch.stack(told), output.logits[0], atol=1e-4, rtol=1e-4)


def test_known_pictures_reach_the_ceiling_and_others_stay_at_chance(
    agent: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = tiny_context(tmp_path, "exam.episodes_scale=0.2")
    untaught = examined(agent, context)[exam.CAREGIVER]
    assert untaught.score < 0.5
    assert untaught.floors[exam.KERNELS] >= untaught.floors[exam.CLASSIFIERS] > 0.5
    assert untaught.floors[exam.KERNELS] > 0.75, "of 24 clips and 1,197 pictures"
    assert untaught.floors[exam.NETWORK] > 0.5
    assert {"another name heard", "nothing seen"} <= set(untaught.rows)
    met: list[np.ndarray] = []
    real = exam.draw_views

    def noted(*args: Any) -> Any:
        of = real(*args)
        met.append(of.which)
        return of

    monkeypatch.setattr(exam, "draw_views", noted)
    monkeypatch.setattr(exam, "find_pictures", lambda agent, waves, sight: met[-1][: len(waves)])
    best = examined(agent, context)
    assert best[exam.CAREGIVER].score == 1.0
    assert exam.GATE.judge(best, 200).passed
    shuffle = np.random.default_rng(0).permutation
    monkeypatch.setattr(exam, "find_pictures", lambda agent, waves, sight: shuffle(met[-1])[: len(waves)])
    worst = examined(agent, context)
    assert worst[exam.CAREGIVER].score < 0.5
    assert not exam.GATE.judge(worst, 200).passed


def test_the_baseline_knows_no_speaker_that_is_asked_about(
    agent: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent raised without recordings is asked about all speakers, also those that lessons here would teach."""
    speakers = np.array(["ann", "ben", "eve"] * 10)
    waves = np.random.default_rng(0).normal(0, 0.1, (30, 16_000)).astype(np.float32)
    every = Clips(waves, np.full(30, 16_000), np.arange(30) // 3, speakers)
    for module in (exam, utterances):
        monkeypatch.setattr(module, "clips", lambda data: every)
    utterances.sources.cache_clear()
    lesson.sources.cache_clear()
    fitted: list[set[bytes]] = []
    real = exam.Recogniser.of

    def noted(waves: Sequence[np.ndarray], labels: np.ndarray) -> Recogniser:
        fitted.append({wave.tobytes() for wave in waves})
        return real(waves, labels)

    monkeypatch.setattr(exam.Recogniser, "of", noted)
    context = tiny_context(tmp_path, "exam.episodes_scale=0.02")
    for met in ((), ("speaker:ann",)):
        monkeypatch.setattr(agent.config, "trained_on", list(met))
        fitted.clear()
        exam.examine(agent, context).in_full()
        asked = {wave.tobytes() for wave, name in zip(waves, speakers, strict=True) if f"speaker:{name}" not in met}
        assert len(fitted) == 2
        assert not fitted[1] & asked
        assert bool(fitted[1] & {wave.tobytes() for wave in waves}) == bool(met)
    utterances.sources.cache_clear()
    lesson.sources.cache_clear()


def test_an_agent_without_the_head_is_not_examined(tmp_path: Path) -> None:
    assert exam.examine(tiny_agent(), tiny_context(tmp_path)).in_full() == []
