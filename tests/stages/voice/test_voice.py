"""The stage as a whole: its ear, and how it treats bad sounds; its laws are in `tests/test_testing_stages.py`."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import torch

from devmind.agent.agent import Agent
from devmind.agent.batch import clip, collate
from devmind.errors import ConfigError, SessionError
from devmind.moment import Moment
from devmind.sessions.sounds import moments_of
from devmind.testing import tiny_agent
from stages.voice import parts
from stages.voice.caregiver import espeak, formants
from stages.voice.caregiver.speech import NEW_WORDS, TAUGHT_VOICES, UNSEEN_VOICES, WORDS, bank
from stages.voice.listening import Hearing, repeat
from stages.voice.moments import as_batch, in_a_row
from stages.voice.transcript import KNOWN, read_off


def noise(seconds: float, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 0.1, round(16_000 * seconds)).astype(np.float32)


def test_hearing_and_speaking_when_stepping_equal_the_pass_at_once(agent: Agent) -> None:
    """The ear sees the Moment before, the arc its state, and the words of a Moment continue in the next."""
    wave = noise(1.0)
    moments = list(wave.reshape(-1, 1600))
    padded = np.concatenate((wave, np.zeros(2 * 1600, np.float32)))
    with torch.inference_mode():
        outputs: Any = agent(as_batch(torch.from_numpy(padded)[None]), [parts.WORDS_ARC, parts.CODEC])
    streamed = " ".join(words for _, words in Hearing(agent, moments).words())
    frames = outputs[parts.WORDS_ARC].numbers().flatten(1, 2)
    assert streamed == read_off(frames, [frames.shape[1]])[0]
    codes, sound = repeat(agent, moments)
    np.testing.assert_array_equal(codes, outputs[parts.CODEC].mode()[0, :10].numpy())
    assert codes.shape == (10, 4, 2)
    assert sound.shape == wave.shape


def test_a_word_that_spans_moments_is_heard_once(agent: Agent) -> None:
    steady, word = copy.deepcopy(agent), 3
    with torch.no_grad():
        for parameter in steady.head(parts.WORDS_ARC).parameters():
            parameter.zero_()
        bias = list(steady.head(parts.WORDS_ARC).parameters())[-1]
        bias.view(-1, len(KNOWN))[:, word] = 1.0  # the same word in every frame, whatever is heard
    heard = list(Hearing(steady, list(noise(0.5).reshape(-1, 1600))).words())
    assert heard == [(0.1, KNOWN[word])]


@pytest.mark.parametrize("ears", [1, 2])
@torch.inference_mode()
def test_the_ear_changes_no_earlier_sense_and_ignores_sight(ears: int) -> None:
    """Older senses keep their features to the bit; sound with two channels, as in the nursery, is not speech."""
    sound = torch.from_numpy(noise(0.6).reshape(1, 3, 2, 1600))[:, :, :ears]
    picture = torch.randint(0, 256, (1, 3, 64, 64, 3), dtype=torch.uint8)
    before, after = tiny_agent(), tiny_agent()
    for sense in (parts.SOUND, parts.SIGHT):
        before.add_encoder(sense)
    parts.admit(after)
    taps, view = ["trunk", f"trunk:{parts.SOUND}"], {parts.SOUND: sound, parts.SIGHT: picture}
    seen = [one.eval().perceive(clip(view), taps) for one in (before, after)]
    assert torch.equal(seen[0].readout, seen[1].readout)  # type: ignore[arg-type]
    assert torch.equal(*(one.of_senses[parts.SOUND].tokens for one in seen))
    words = [f"trunk:{parts.LISTEN}"]
    listened = [after.perceive(clip(one), words).of_senses[parts.LISTEN] for one in (view, {parts.SOUND: sound})]
    assert torch.equal(*(one.tokens for one in listened))
    assert listened[0].present.all() == (ears == 1)
    assert listened[0].present.any() == (ears == 1)


@torch.inference_mode()
def test_a_microphone_is_heard_the_same_beside_sound_of_two_ears(agent: Agent) -> None:
    """Each row's answer is its own: in a batch the second ear that the first row lacks is no silence and no copy."""
    one, two = noise(0.3).reshape(3, 1, 1600), noise(0.6, 1).reshape(3, 2, 1600)
    rows = [[Moment(t / 10, {parts.SOUND: tick}, first=not t) for t, tick in enumerate(row)] for row in (one, two)]
    wanted = [parts.SOUND, parts.LISTEN, f"trunk:{parts.LISTEN}"]
    beside, (alone, other) = agent.perceive(collate(rows), wanted), (agent.perceive(collate([r]), wanted) for r in rows)
    assert beside.encoded[parts.LISTEN].present.any((1, 2)).tolist() == [True, False]
    for row, expected in enumerate((alone, other)):
        for sense in (parts.SOUND, parts.LISTEN):
            got, want = beside.encoded[sense], expected.encoded[sense]
            torch.testing.assert_close(got.tokens[row], want.tokens[0])
            assert torch.equal(got.present[row], want.present[0])
    heard = beside.of_senses[parts.LISTEN].tokens[0], alone.of_senses[parts.LISTEN].tokens[0]
    torch.testing.assert_close(*heard)


def test_a_token_does_not_depend_on_later_sound(agent: Agent) -> None:
    first, other = noise(0.4), noise(0.4)
    other[2 * 1600 + 800 :] = 0.0
    with torch.inference_mode():
        tokens = [
            agent.perceive(as_batch(torch.from_numpy(wave)[None]), [parts.LISTEN]).encoded[parts.LISTEN].tokens[0]
            for wave in (first, other)
        ]
    same = torch.isclose(tokens[0], tokens[1], atol=1e-6).all(-1).flatten()
    assert same.tolist() == [True] * 5 + [False] * 3


def write(path: Path, wave: np.ndarray, rate_hz: int = 16_000) -> Path:
    soundfile.write(path, wave, rate_hz)
    return path


@pytest.mark.parametrize("rate_hz", [8_000, 11_025, 44_100, 96_000])
def test_a_recording_of_any_rate_is_heard(agent: Agent, tmp_path: Path, rate_hz: int) -> None:
    wave = np.stack([0.3 * np.sin(np.arange(rate_hz) * 2 * np.pi * 300 / rate_hz)] * 2, 1)
    moments = moments_of(write(tmp_path / "a.wav", wave, rate_hz), 60.0, print)
    assert 9 <= len(moments) <= 10
    assert all(moment.shape == (1600,) for moment in moments)
    list(Hearing(agent, moments).words())


def test_channels_that_cancel_out_are_not_called_silent(tmp_path: Path) -> None:
    left = 0.4 * np.sin(np.arange(16_000) * 0.1)
    with pytest.raises(SessionError, match="cancel each other out"):
        moments_of(write(tmp_path / "a.wav", np.stack([left, -left], 1), 16_000), 60.0, print)


def test_bad_recordings_get_a_clear_answer(agent: Agent, tmp_path: Path) -> None:
    told: list[str] = []
    with pytest.raises(SessionError, match="silent"):
        moments_of(write(tmp_path / "silence.wav", np.zeros(16_000)), 60.0, told.append)
    with pytest.raises(SessionError, match="shorter than a Moment"):
        moments_of(write(tmp_path / "short.wav", noise(0.001)), 60.0, told.append)
    (tmp_path / "no.wav").write_text("no sound")
    with pytest.raises(SessionError, match="cannot be read as sound"):
        moments_of(tmp_path / "no.wav", 60.0, told.append)
    assert not told
    assert len(moments_of(write(tmp_path / "loud.wav", np.sign(noise(0.5))), 60.0, told.append)) == 5
    assert "clipped" in told.pop()
    hour = write(tmp_path / "hour.wav", np.tile((3000 * noise(1.0)).astype(np.int16), 3600))
    assert len(moments_of(hour, 2.0, told.append)) == 20
    assert "is longer than 2 s" in told.pop()
    with pytest.raises(ConfigError, match="devmind stage run voice"):
        list(Hearing(tiny_agent(), [noise(0.1)]).words())


def test_lessons_use_no_voice_word_or_phrase_of_exams() -> None:
    assert not set(TAUGHT_VOICES) & set(UNSEEN_VOICES)
    assert not set(WORDS) & set(NEW_WORDS)
    rng = np.random.default_rng(0)
    taught, unseen = ({formants.Voice.drawn(of, rng).name for _ in range(200)} for of in (False, True))
    assert not taught & unseen
    assert len(taught) > 10
    assert len(unseen) > 5


@pytest.mark.parametrize("by", ["espeak-ng", "devmind's formant synthesiser"])
def test_a_seed_repeats_its_speech_and_other_voices_differ(by: str) -> None:
    if by == "espeak-ng" and not espeak.espeak_installed():
        pytest.skip("espeakng-loader is not installed (extra 'voice')")
    once = bank("test", 0, 24, WORDS, False, by)
    bank.cache_clear()
    again, other = bank("test", 0, 24, WORDS, False, by), bank("test", 0, 24, WORDS, True, by)
    assert once.texts == again.texts
    assert all(np.array_equal(a, b) for a, b in zip(once.waves, again.waves, strict=True))
    assert once.texts == other.texts
    assert not any(np.array_equal(a, b) for a, b in zip(once.waves, other.waves, strict=True))
    for wave in once.waves:
        assert 0.1 < len(wave) / 16_000 < 2.0
        assert np.isclose(np.abs(wave).max(), 0.5)
        assert np.isfinite(wave).all()


def test_sounds_in_a_row_are_padded_with_silence() -> None:
    sound, counts = in_a_row([noise(0.25), noise(0.5)])
    assert counts.tolist() == [4, 7]
    assert sound.shape == (2, 7 * 1600)
    assert sound[:, :800].abs().max() < 1e-3
    assert sound[0, 800 + 4000 :].abs().max() < 1e-3
