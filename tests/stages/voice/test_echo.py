"""The codec and its sound, its judge, and the exam's three laws."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from devmind.agent.agent import Agent
from devmind.curriculum.exam import Measure
from devmind.curriculum.examining import examine_skill
from devmind.curriculum.stage import Context
from devmind.learners.gradient import GradientLearner
from devmind.testing import tiny_agent, tiny_context
from stages.voice import parts
from stages.voice.caregiver.speech import NEW_WORDS, bank
from stages.voice.codec import CODES, LEVELS, codes_of, levels_of, quantise
from stages.voice.ear import frames
from stages.voice.echo import exam, lesson
from stages.voice.moments import as_batch, in_a_row
from stages.voice.recogniser import Recogniser
from stages.voice.stage import SKILLS, VoiceStage
from stages.voice.vocoder import sound_of


def test_codes_are_whole_levels_and_gradients_pass_the_rounding() -> None:
    free = torch.randn(50, 10, requires_grad=True)
    rounded = quantise(free)
    assert torch.equal(rounded, rounded.round())
    highest = torch.tensor([(level - 1) / 2 for level in LEVELS * 2])
    assert (rounded.abs() <= highest).all()
    codes = codes_of(rounded)
    assert torch.equal(levels_of(codes), rounded)
    assert (codes.min() >= 0) & (codes.max() < CODES)
    every = torch.stack((torch.arange(CODES), torch.arange(CODES).flip(0)), -1)
    assert torch.equal(codes_of(levels_of(every)), every)
    rounded.sum().backward()
    assert free.grad is not None
    torch.testing.assert_close(free.grad, (1 - free.detach().tanh() ** 2) * highest)


def test_log_mel_inverts_to_sound() -> None:
    wave = bank("test echo", 0, 1, NEW_WORDS, False).waves[0]
    sound, _ = in_a_row([wave])
    mel = frames(torch.cat((torch.zeros(1, 200), sound), 1))
    back = frames(torch.cat((torch.zeros(1, 200), sound_of(mel)), 1))
    n = min(mel.shape[1], back.shape[1])
    assert float((mel[:, 3 : n - 3] - back[:, 3 : n - 3]).abs().mean()) < 0.1
    assert torch.equal(sound_of(mel), sound_of(mel))


def test_equal_frames_sound_equal_in_every_row() -> None:
    """What an exam judges in a batch is what a life plays alone."""
    mel = torch.rand(2, 16, 64, generator=torch.Generator().manual_seed(0)) - 1
    together = sound_of(torch.cat((mel, mel[:1])))
    for row, alone in enumerate((mel[0], mel[1], mel[0])):
        torch.testing.assert_close(together[row], sound_of(alone[None])[0], atol=1e-4, rtol=0)


def test_a_short_lesson_halves_the_error(agent: Agent, tmp_path: Path) -> None:
    pupil, context = tiny_agent(1), tiny_context(tmp_path)
    parts.admit(pupil)
    learner = GradientLearner(pupil, lesson.loss, seed=0, learning_rate=1e-2, trains=("heads.codec.",), steps=60)
    learner.begin(0)
    batch = lesson.batch(context, 0, 8)
    losses = [float(learner.update(batch, step)["codec"]) for step in range(60)]
    assert losses[-1] < 0.5 * losses[0]


def test_the_lesson_hears_what_the_ear_hears(agent: Agent) -> None:
    """Cut from a row of frames, a Moment with the one before it is what the ear gives the codec."""
    sound = torch.randn(1, 5 * 1600, generator=torch.Generator().manual_seed(0)) * 0.1
    with torch.inference_mode():
        heard = agent.perceive(as_batch(sound), [parts.LISTEN]).encoded[parts.LISTEN].maps["mel"][0, 1:, :, 0]
    row = frames(torch.cat((torch.zeros(1, 1600), sound), 1))[:, 1:]
    windows = lesson.moments_in(row)[0, :, :, 0]
    # Frame 0 of a Moment begins before its 200 ms, so the ear has it incomplete.
    torch.testing.assert_close(windows[..., 1:], heard[..., 1:], atol=1e-5, rtol=1e-5)


def test_the_judge_recognises_originals_and_is_saved_with_its_hash(tmp_path: Path) -> None:
    taught, asked = bank("test judge", 0, 64, NEW_WORDS, True), bank("test asked", 0, 32, NEW_WORDS, True)
    judge = Recogniser.of(taught.waves, np.array(taught.texts))
    assert (judge.named(asked.waves) == np.array(asked.texts)).mean() > 0.8
    assert judge.sha256 == Recogniser.of(taught.waves, np.array(taught.texts)).sha256
    judge.save(tmp_path / "judge.npz")
    assert np.array_equal(np.load(tmp_path / "judge.npz", allow_pickle=False)["weights"], judge.ridge.weights)


def test_principal_components_are_a_codec(tmp_path: Path) -> None:
    """A second implementation of the floor: with unlimited levels it is the projection on ten axes."""
    mel = torch.randn(20, 40, 64, generator=torch.Generator().manual_seed(0))
    floor = exam.Linear.of(mel)
    pairs = mel.reshape(-1, 128).numpy()
    _, _, axes = np.linalg.svd(pairs - pairs.mean(0), full_matrices=False)
    near = (pairs - pairs.mean(0)) @ axes[:10].T @ axes[:10] + pairs.mean(0)
    apart = floor(mel).reshape(-1, 128).numpy()
    assert np.abs(apart - near).mean() < np.abs(pairs - near).mean()


def examined(agent: Agent, context: Context) -> dict[str, Measure]:
    return dict(examine_skill(VoiceStage(), SKILLS[1], agent, context).measures)


def test_a_perfect_echo_is_understood_and_a_shuffled_or_untaught_one_is_not(
    agent: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = tiny_context(tmp_path, "exam.episodes_scale=0.1")
    untaught = examined(agent, context)
    assert untaught[exam.WORD].score < 0.4
    assert untaught[exam.ERROR].score > untaught[exam.ERROR].floor
    assert (tmp_path / "recognisers" / "words.npz").is_file()
    assert untaught[exam.WORD].exhibits
    assert all(shown.wav and shown.png for shown in untaught[exam.WORD].exhibits)
    real = exam.repeat_sound

    def repeating(agent: Agent, sound: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        mel = real(agent, sound)[0]
        return mel, mel

    monkeypatch.setattr(exam, "repeat_sound", repeating)
    best = examined(agent, context)
    assert best[exam.WORD].score >= 0.9
    assert best[exam.ERROR].score == 0

    def shuffled(agent: Agent, sound: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        mel = real(agent, sound)[0]
        return mel, mel[torch.randperm(len(mel), generator=torch.Generator().manual_seed(1))]

    monkeypatch.setattr(exam, "repeat_sound", shuffled)
    worst = examined(agent, context)
    assert worst[exam.WORD].score < 0.5
    assert not exam.GATE.judge(worst, 200).passed
