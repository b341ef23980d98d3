"""Recordings of any rate, silent, clipped, of a millisecond or an hour: an unusable one is refused clearly, without a
crash.

They come as files to hear, and among the recordings of lessons and exams.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch

from devmind.acting import Actor
from devmind.agent.agent import Agent
from devmind.agent.batch import collate_tick
from devmind.curriculum.start import give_settings, load_stage
from devmind.errors import ExamError, SessionError
from devmind.sessions.sounds import HIGHEST_RATE_HZ, LOWEST_RATE_HZ, moments_of, mono_wave
from devmind.sessions.spoken import speaker_group
from devmind.testing import tiny_agent, tiny_config, tiny_context
from stages.voice import parts
from stages.voice.hear_words import exam as words_exam
from stages.voice.hear_words import lesson, listen
from stages.voice.listening import Hearing
from stages.voice.sounds import exam as sounds_exam
from stages.voice.sounds import lesson as sounds_lesson
from stages.voice.sounds.recorded import groups


def tone(rate_hz: int, seconds: float = 0.5, loud: float = 0.3) -> np.ndarray:
    return (loud * np.sin(np.arange(round(rate_hz * seconds)) * 2 * np.pi * 300 / rate_hz)).astype(np.float32)


def noisy(seconds: float, loud: float = 0.1) -> np.ndarray:
    return np.random.default_rng(0).normal(0, loud, round(16_000 * seconds)).astype(np.float32)


BAD: dict[str, Callable[[], tuple[np.ndarray, int]]] = {
    "of the lowest rate": lambda: (tone(LOWEST_RATE_HZ), LOWEST_RATE_HZ),
    "of 11 kHz": lambda: (tone(11_025), 11_025),
    "of the highest rate": lambda: (tone(HIGHEST_RATE_HZ), HIGHEST_RATE_HZ),
    "in eight channels": lambda: (np.stack([tone(16_000)] * 8, 1), 16_000),
    "silent": lambda: (np.zeros(8_000, np.float32), 16_000),
    "clipped": lambda: (np.sign(noisy(0.5)), 16_000),
    "of a millisecond": lambda: (noisy(0.001), 16_000),
    "empty": lambda: (np.zeros(0, np.float32), 16_000),
    "of a minute": lambda: (noisy(60.0), 16_000),
}
HEARD = {"of the lowest rate", "of 11 kHz", "of the highest rate", "in eight channels", "clipped", "of a minute"}


@pytest.mark.parametrize("named", BAD)
def test_a_file_is_heard_or_refused(named: str, agent: Agent, tmp_path: Path) -> None:
    wave, rate_hz = BAD[named]()
    soundfile.write(tmp_path / "a.wav", wave, rate_hz)
    told: list[str] = []
    if named not in HEARD:
        with pytest.raises(SessionError, match=r"is silent|shorter than a Moment"):
            moments_of(tmp_path / "a.wav", 60.0, told.append)
        return
    moments = moments_of(tmp_path / "a.wav", 60.0, told.append)
    assert len(moments) == pytest.approx(10 * len(wave) / rate_hz, abs=1)
    assert all(np.isfinite(moment).all() and moment.shape == (1600,) for moment in moments)
    assert [("clipped" in line) for line in told] == ([True] if named == "clipped" else [])
    hearing = Hearing(agent, moments[:20])
    assert all(second > 0 and words for second, words in hearing.words())
    assert hearing.kind() is not None


@pytest.mark.parametrize("rate_hz", [LOWEST_RATE_HZ - 1, HIGHEST_RATE_HZ + 1])
def test_an_impossible_sample_rate_is_refused_everywhere(rate_hz: int, tmp_path: Path) -> None:
    soundfile.write(tmp_path / "a.wav", noisy(0.5), rate_hz)
    with pytest.raises(SessionError, match="samples a second"):
        moments_of(tmp_path / "a.wav", 60.0, print)
    with pytest.raises(ExamError, match="samples a second"):
        mono_wave(tmp_path / "a.wav")


def test_an_hour_is_heard_to_its_end_and_a_labelled_one_is_read_only_at_its_start(tmp_path: Path) -> None:
    hour = tmp_path / "hour.wav"
    soundfile.write(hour, np.tile((3000 * noisy(1.0)).astype(np.int16), 3600), 16_000)
    told: list[str] = []
    moments = moments_of(hour, 3600.0, told.append)
    assert (len(moments), told) == (36_000, [])
    np.testing.assert_array_equal(moments[-1], moments[9])
    assert len(mono_wave(hour, 5.0)) == 80_000


@pytest.mark.parametrize("kind", ["gru", "conv"])
def test_the_carried_state_does_not_grow_with_the_length_of_speech(kind: str) -> None:
    speaker = tiny_agent()
    give_settings(
        load_stage("voice"), speaker, tiny_config(f"stages.voice.encoder={kind}", "stages.voice.words=seq2seq")
    )
    parts.admit(speaker)
    standing = {parts.NOTE: (parts.WORDS_ARC,), parts.TELL: (parts.WRITTEN_ARC,), parts.SORT: (parts.KINDS_ARC,)}
    actor = Actor(speaker.eval(), 1, effectors=tuple(standing), trunk=False, standing=standing)
    sizes = []
    for number, moment in enumerate(noisy(16.0).reshape(-1, 1, 1, 1600)):
        done = actor.act(collate_tick({parts.SOUND: moment}, np.array([number == 0])))
        assert all(torch.isfinite(done.outputs[head].numbers()).all() for head in (parts.WORDS_ARC, parts.KINDS_ARC))
        carry = actor.state.carry
        sizes.append(sum(one.numel() for kept in carry.values() for one in kept.values() if torch.is_tensor(one)))
    assert len(set(sizes[1:])) == 1


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Bad recordings among good ones: digits of two speakers, and two kinds of sounds from three sources."""
    folder = tmp_path_factory.mktemp("data")
    for where in ("speech/some", "sounds/some/rain", "sounds/some/dog"):
        (folder / where).mkdir(parents=True)
    for number, (wave, rate_hz) in enumerate(made() for made in BAD.values()):
        for who in ("ann", "bob"):
            soundfile.write(folder / "speech" / "some" / f"{number}_{who}_0.wav", wave, rate_hz)
        for kind in ("rain", "dog"):
            soundfile.write(folder / "sounds" / "some" / kind / f"{kind}{number}.wav", wave, rate_hz)
    return folder


def test_lessons_of_bad_recordings_have_finite_losses(agent: Agent, data: Path, tmp_path: Path) -> None:
    context = replace(tiny_context(tmp_path), data=data)
    losses = []
    for update in range(6):
        losses.append(listen.loss(agent, listen.batch(context, update, 8, 8))[0])
        losses.append(lesson.loss(agent, lesson.lesson_batch(context, update, 8))[0])
        losses.append(sounds_lesson.arc_loss(agent, sounds_lesson.arc_batch(context, update, 8))[0])
        losses.append(sounds_lesson.loss(agent, sounds_lesson.lesson_batch(context, update, 8))[0])
    assert torch.isfinite(torch.stack(losses)).all()


def test_exams_of_bad_recordings_give_scores(agent: Agent, data: Path, tmp_path: Path) -> None:
    context = replace(tiny_context(tmp_path, "exam.episodes_scale=0.02"), data=data)
    agent.config.trained_on = [speaker_group("ann"), *groups(context)]
    try:
        with torch.inference_mode():
            found = [*words_exam.examine(agent, context).in_full(), *sounds_exam.examine(agent, context).in_full()]
    finally:
        agent.config.trained_on = []
    words, sounds = ("digits", "caregiver", "naming"), ("esc10", "folds", "unknown")
    wanted = {*(f"hear_words/{name}" for name in words), *(f"sounds/{name}" for name in sounds)}
    assert {measure.name for measure in found} == wanted
    for measure in found:
        assert np.isfinite([measure.score, *measure.floors.values(), *measure.rows.values()]).all()
