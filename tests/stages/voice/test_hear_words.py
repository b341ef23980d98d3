"""Words spelt: the arithmetic of it, and the exam's three laws."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import torch

from devmind.agent.agent import Agent
from devmind.curriculum.exam import Measure
from devmind.curriculum.examining import examine_skill
from devmind.curriculum.stage import Context
from devmind.errors import ExamError
from devmind.sessions.spoken import speaker_group
from devmind.testing import tiny_agent, tiny_context
from stages.voice import parts
from stages.voice.caregiver.formants import Voice, speak
from stages.voice.caregiver.speech import DIGITS, TAUGHT_PHRASES, UNSEEN_PHRASES, levelled
from stages.voice.hear_words import exam, lesson
from stages.voice.spelling import BLANK, SIGNS, ctc, joined, likeliest, read_off, spelt, word_error_rate
from stages.voice.stage import SKILLS, VoiceStage


def logits_of(texts: Sequence[str], frames: int) -> torch.Tensor:
    """Frames that spell texts: each sign twice, nothing between two that are alike."""
    found = torch.zeros(len(texts), frames, len(SIGNS))
    for row, text in enumerate(texts):
        signs = [BLANK]
        for a, b in pairwise([*spelt(text), BLANK]):
            signs += [a, a, BLANK] if a == b else [a, a]
        for at, sign in enumerate(signs + [BLANK] * (frames - len(signs))):
            found[row, at, sign] = 9.0
    return found


def test_frames_are_read_as_ctc_means_them() -> None:
    texts = ["three blue balls", "seven", ""]
    frames, counts = logits_of(texts, 48), torch.tensor([48, 48, 48])
    assert read_off(frames, counts) == texts
    assert ctc(frames, counts, texts).max() < 0.5
    assert ctc(frames, counts, ["two", "two", "two"]).min() > 5
    assert likeliest(frames[1:2], counts[1:2], DIGITS).tolist() == [7]
    whole = frames[0].argmax(-1).numpy()
    for cut in (5, 17, 30):  # in two parts it is the same, as in a life
        assert joined(whole[:cut]) + joined(whole[cut:], int(whole[cut - 1])) == joined(whole)


def test_word_errors_are_counted_by_hand() -> None:
    assert word_error_rate("two red balls", "two red balls") == 0
    assert word_error_rate("two balls", "two red balls") == pytest.approx(1 / 3)
    assert word_error_rate("a too red bowls", "two red balls") == pytest.approx(1.0)
    assert word_error_rate("", "two red balls") == 1


def test_every_word_of_a_phrase_left_out_is_taught_in_others() -> None:
    assert not set(TAUGHT_PHRASES) & set(UNSEEN_PHRASES)
    assert (len(TAUGHT_PHRASES), len(UNSEEN_PHRASES)) == (96, 24)
    taught = {word for phrase in TAUGHT_PHRASES for word in phrase.split()}
    assert {word for phrase in UNSEEN_PHRASES for word in phrase.split()} <= taught


@pytest.fixture(scope="module")
def agent() -> Agent:
    agent = tiny_agent()
    parts.admit(agent)
    return agent.eval()


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of data with digits by two speakers of the small synthesiser, at 8 kHz."""
    folder = tmp_path_factory.mktemp("data")
    (folder / "speech" / "small").mkdir(parents=True)
    for who, pitch_hz in (("ann", 210.0), ("bob", 110.0)):
        for number, word in enumerate(DIGITS):
            for take in range(2):
                wave = levelled(speak(word, Voice(pitch_hz, pitch_hz / 150, 0.02, take), 0.9 + 0.2 * take))
                soundfile.write(folder / "speech" / "small" / f"{number}_{who}_{take}.wav", wave[::2], 8_000)
    return folder


def examined(agent: Agent, context: Context) -> dict[str, Measure]:
    return dict(examine_skill(VoiceStage(), SKILLS[0], agent, context).measures)


def knowing(turn: Callable[[int], np.ndarray]) -> Any:
    """An agent's frames by somebody who knows what is said, or gives the words of another."""
    real = exam.frames_of

    def told(agent: Agent, waves: Sequence[np.ndarray], heads: Sequence[str]) -> Any:
        counts = real(agent, waves[:1], heads)[1].max() * 0 + 64
        texts = [knowing.texts[wave.tobytes()] for wave in waves]  # type: ignore[attr-defined]
        frames = logits_of([texts[i] for i in turn(len(texts))], 64)
        return dict.fromkeys(heads, frames), counts.repeat(len(waves))

    return told


def test_who_knows_the_words_reaches_the_ceiling_and_shuffled_words_fall(
    agent: Agent, recorded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = replace(tiny_context(tmp_path, "exam.episodes_scale=0.1"), data=recorded)
    agent.config.trained_on = [speaker_group("ann")]
    asked = exam.bank("hear_words exam", context.seed, context.episodes(exam.UTTERANCES), UNSEEN_PHRASES, True)
    every = exam.clips(recorded)
    assert every is not None
    knowing.texts = {wave.tobytes(): text for wave, text in zip(asked.waves, asked.texts, strict=True)}  # type: ignore[attr-defined]
    knowing.texts |= {lesson.spoken(every, row).tobytes(): DIGITS[every.labels[row]] for row in range(40)}  # type: ignore[attr-defined]
    told, shuffled = (knowing(turn) for turn in (np.arange, np.random.default_rng(3).permutation))
    monkeypatch.setattr(exam, "frames_of", told)
    best = examined(agent, context)
    assert {name: measure.score for name, measure in best.items()} == {exam.DIGIT: 1.0, exam.CAREGIVER: 0.0}
    assert best[exam.DIGIT].n == 20, "ann was met, bob was not"
    monkeypatch.setattr(exam, "frames_of", shuffled)
    worst = examined(agent, context)
    assert worst[exam.DIGIT].score < 0.4
    assert worst[exam.CAREGIVER].score > 0.4
    assert not exam.GATE.judge(worst, 200).passed
    agent.config.trained_on = []


def test_an_untaught_agent_stays_at_the_floors_and_who_met_all_speakers_is_not_examined(
    agent: Agent, recorded: Path, tmp_path: Path
) -> None:
    context = replace(tiny_context(tmp_path, "exam.episodes_scale=0.1"), data=recorded)
    agent.config.trained_on = [speaker_group("ann")]
    found = examined(agent, context)
    assert found[exam.DIGIT].score < 0.4 <= found[exam.DIGIT].floors["time-normalised log-mel + ridge"]
    assert found[exam.CAREGIVER].score > 0.9 > found[exam.CAREGIVER].floors["a ridge for each of three words"]
    agent.config.trained_on = [speaker_group("ann"), speaker_group("bob")]
    with pytest.raises(ExamError, match="every speaker"):
        examined(agent, context)
    agent.config.trained_on = []
    assert lesson.groups(context) in ((speaker_group("ann"),), (speaker_group("bob"),))
    batch = lesson.lesson_batch(context, 1, 4)
    assert set(batch["texts"]) <= set(DIGITS)
