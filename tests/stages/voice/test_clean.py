"""Speech without noise, and continued sound: filters, heads, lessons, and the exam of `echo`."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from devmind.acting import Actor
from devmind.agent.agent import Agent
from devmind.agent.batch import collate_tick
from devmind.agent.features import mel_filterbank
from devmind.learners.gradient import GradientLearner
from devmind.testing import tiny_agent, tiny_context
from stages.voice import parts
from stages.voice.ear import frames
from stages.voice.echo.clean import exam as clean_exam
from stages.voice.echo.clean import lesson as clean
from stages.voice.echo.clean.filters import filter_sound, in_bins, si_sdr_db, spectrum
from stages.voice.echo.go_on import exam as go_on_exam
from stages.voice.echo.go_on import lesson as go_on
from stages.voice.moments import as_batch

NOISE = torch.randn(2, 5 * 1600, generator=torch.Generator().manual_seed(0)) * 0.1


def test_gains_of_one_keep_a_sound_and_gains_of_zero_remove_it() -> None:
    same = filter_sound(NOISE, torch.ones(2, 40, 64))
    torch.testing.assert_close(same[:, :-512], NOISE[:, :-512], atol=1e-4, rtol=1e-3)
    assert filter_sound(NOISE, torch.zeros(2, 40, 64)).abs().max() < 1e-6
    torch.testing.assert_close(in_bins(torch.ones(1, 3, 64)), torch.ones(1, 257, 3))


def test_the_filter_uses_the_ears_frames() -> None:
    """Log-mel of its spectrum is what the ear hears in the same frames."""
    bank = torch.from_numpy(mel_filterbank(16_000, 512, 64))
    mel = ((bank @ spectrum(NOISE).abs().square() + 1e-6).log10() + 2.0) / 2.0
    heard = frames(torch.cat((torch.zeros(2, 1600), NOISE), 1))[:, 7:]
    torch.testing.assert_close(mel.mT, heard, atol=1e-3, rtol=1e-3)


def test_si_sdr_equals_a_hand_calculation_and_ignores_loudness() -> None:
    turn = torch.arange(1600) * 2 * torch.pi / 160
    wanted, other = turn.sin()[None], turn.cos()[None]
    assert si_sdr_db(3 * (wanted + 0.1 * other), wanted).item() == pytest.approx(20.0, abs=0.01)


def test_noise_has_the_requested_level() -> None:
    made = clean.noise(NOISE, torch.tensor([[5.0], [-3.0]]), torch.Generator().manual_seed(0))
    ratio = 10 * (NOISE.square().mean(1) / made.square().mean(1)).log10()
    torch.testing.assert_close(ratio, torch.tensor([5.0, -3.0]), atol=1e-3, rtol=1e-3)


def test_stepping_the_cleaning_head_equals_its_answer_at_once(agent: Agent) -> None:
    with torch.inference_mode():
        output: Any = agent(as_batch(NOISE[:1]), [parts.CLEANED])[parts.CLEANED]
    actor = Actor(agent, 1, effectors=(parts.CLEAN,), standing={parts.CLEAN: (parts.CLEANED,)})
    for _ in range(2):  # the second time it starts anew
        told = []
        for number, moment in enumerate(NOISE[0].reshape(5, 1, 1, 1600).numpy()):
            done = actor.act(collate_tick({parts.SOUND: moment}, np.array([number == 0])))
            told.append(done.action[parts.CLEAN][0])
        torch.testing.assert_close(torch.stack(told), output.value[0], atol=1e-4, rtol=1e-4)


def taught(pupil: Agent, loss: Any, trains: tuple[str, ...], batch: Any, scalar: str, steps: int = 30) -> list[float]:
    learner = GradientLearner(pupil, loss, seed=0, learning_rate=1e-2, trains=trains, steps=steps)
    learner.begin(0)
    return [float(learner.update(batch, step)[scalar]) for step in range(steps)]


def test_both_lessons_lower_their_losses(tmp_path: Path) -> None:
    pupil, context = tiny_agent(3), tiny_context(tmp_path)
    parts.admit(pupil)
    left = taught(pupil, clean.loss, (f"heads.{parts.CLEANED}.",), clean.lesson_batch(context, 0, 4), "left db")
    assert left[-1] < left[0] - 2
    trains = (f"heads.{parts.GOES_ON}.", f"heads.{parts.CODEC}.")  # its decoder is still silent
    far = taught(pupil, go_on.loss, trains, go_on.lesson_batch(context, 0, 4), "go on")
    assert far[-1] < 0.5 * far[0]
    for one, head in ((clean, parts.CLEANED), (go_on, parts.GOES_ON)):
        made: Any = one.lesson(context).make_learner(pupil, context)
        assert made.trains == (f"heads.{head}.",)


def test_the_target_is_the_next_two_moments() -> None:
    mel = torch.arange(5.0)[None, :, None, None].expand(1, 5, 8, 64)
    came = go_on.to_come(mel)
    assert came.shape == (1, 3, 16, 64)
    assert came[0, :, 0, 0].tolist() == [1, 2, 3]
    assert came[0, :, 15, 0].tolist() == [2, 3, 4]


def test_the_target_is_compared_on_the_agents_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """The meta device stands for a GPU: like a GPU, it refuses tensors that lie elsewhere."""
    monkeypatch.setattr(go_on, "continued_mel", lambda agent, batch: torch.zeros(2, 5, 16, 64, device="meta"))
    agent: Any = SimpleNamespace(device=torch.device("meta"))
    moved = {"mel": torch.zeros(2, 5, 8, 64, device="meta"), "counts": torch.tensor([5, 4], device="meta")}
    value, _ = go_on.loss(agent, moved)
    assert value.device.type == "meta"


def test_the_continuation_does_not_depend_on_the_future(agent: Agent) -> None:
    other = NOISE.clone()
    other[0, 3 * 1600 :] = 0.5
    other[1, 2 * 1600 :] = 0.5
    with torch.inference_mode():
        one, two = (go_on_exam.gone_on(agent, sound, torch.tensor([2, 1])) for sound in (NOISE, other))
    assert torch.equal(one, two)
    assert one.shape == (2, 16, 64)


def test_the_clean_sound_scores_high_and_shuffled_or_untaught_gains_nothing(
    agent: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = tiny_context(tmp_path, "exam.episodes_scale=0.08")
    with torch.inference_mode():
        (untaught,) = clean_exam.measure_cleaning(agent, context).in_full()
        assert untaught.score < 3
        assert untaught.floors[clean_exam.GATED] > 1
        assert untaught.rows[clean_exam.BEST] > 5
        assert untaught.exhibits
        kept: list[torch.Tensor] = []
        real = clean_exam.in_a_row

        def noted(*args: Any, **kwargs: Any) -> Any:
            found = real(*args, **kwargs)
            kept.append(found[0])
            return found

        monkeypatch.setattr(clean_exam, "in_a_row", noted)
        monkeypatch.setattr(clean_exam, "by_agent", lambda agent, noisy: kept[-1])
        assert clean_exam.measure_cleaning(agent, context).alone()[0].score > 20
        monkeypatch.setattr(clean_exam, "by_agent", lambda agent, noisy: noisy.roll(1, 0))
        assert clean_exam.measure_cleaning(agent, context).alone()[0].score < 0
    assert clean_exam.measure_cleaning(tiny_agent(), context).in_full() == []


def test_the_true_continuation_has_no_error_and_shuffled_or_untaught_has(
    agent: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = tiny_context(tmp_path, "exam.episodes_scale=0.1")
    with torch.inference_mode():
        (untaught,) = go_on_exam.measure_continuation(agent, context).in_full()
        assert untaught.score > untaught.floors[go_on_exam.COPIED]
        assert {go_on_exam.COPIED, go_on_exam.RIDGE, go_on_exam.ALWAYS} <= set(untaught.floors)
        assert untaught.floors[go_on_exam.ALWAYS] < untaught.chance, "what follows tells more than a sound's mean frame"

        def knowing(agent: Agent, sound: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
            return go_on.to_come(go_on.mel_of(sound))[torch.arange(len(at)), at]

        monkeypatch.setattr(go_on_exam, "gone_on", knowing)
        assert go_on_exam.measure_continuation(agent, context).alone()[0].score == 0
        monkeypatch.setattr(go_on_exam, "gone_on", lambda *args: knowing(*args).roll(1, 0))
        assert go_on_exam.measure_continuation(agent, context).alone()[0].score > 5
    assert go_on_exam.measure_continuation(tiny_agent(), context).in_full() == []
