"""Words of the agent are spoken in turn, without blocking, and a fault is reported once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from devmind import plugins
from devmind.config import LiveConfig, PageConfig
from devmind.errors import DevmindError
from devmind.live import speaking as speaking_module
from devmind.live.opening import open_life
from devmind.live.options import LiveOptions
from devmind.live.speaking import NO_VOICE, Speaking, installed_voice
from devmind.testing import tiny_agent
from sensors.synthetic import SyntheticCamera


class Sink(ExitStack):
    """A speaker that only notes its input and the time."""

    def __init__(self) -> None:
        super().__init__()
        self.played: list[tuple[float, np.ndarray]] = []

    def act(self, value: np.ndarray) -> None:
        """Like a speaker's."""
        self.played.append((time.monotonic(), value))


def sound(seconds: float, level: float = 0.1) -> np.ndarray:
    return np.full((1, int(16_000 * seconds)), level, np.float32)


def until(true: Callable[[], Any]) -> None:
    give_up_s = time.monotonic() + 60
    while not true():
        assert time.monotonic() < give_up_s
        time.sleep(0.005)


def test_words_are_said_in_turn_without_blocking() -> None:
    sink, asked, may = Sink(), list[str](), threading.Event()

    def voice(text: str) -> np.ndarray:
        asked.append(text)
        may.wait(20)
        return sound(0.2)

    with Speaking(sink, lambda: voice) as speaking:
        assert speaking._waiting.maxlen == 4, "of more the oldest is dropped (test_worker.py)"
        speaking.say("red")
        until(lambda: asked)
        for word in ("red", "blue", "blue", " ", "green"):  # being said or waiting: not said again
            speaking.say(word)
        assert sink.played == [], "the voice is still at it, and say has come back"
        may.set()
        until(lambda: len(sink.played) == 3)
    assert asked == ["red", "blue", "green"]
    times = [at for at, _ in sink.played]
    assert np.diff(times).min() >= 0.19, "one voice at a time"


def test_utterances_are_played_unless_words_are_being_said() -> None:
    sink, may = Sink(), threading.Event()

    def voice(text: str) -> np.ndarray:
        may.wait(20)
        return sound(0.05, 0.2)

    with Speaking(sink, lambda: voice) as speaking:
        speaking.act(sound(0.1))
        speaking.say("red")
        until(lambda: speaking.working)
        speaking.act(sound(0.1, 0.3))
        may.set()
        until(lambda: not speaking.working)
        speaking.act(sound(0.1, 0.4))
    assert [float(value.max()) for _, value in sink.played] == pytest.approx([0.1, 0.2, 0.4])


def test_failing_voice_is_reported_once_and_tried_again() -> None:
    def voice(text: str) -> np.ndarray:
        if text != "red":
            raise DevmindError(f"It cannot say '{text}'.")
        return sound(0.01)

    sink = Sink()
    with Speaking(sink, lambda: voice) as speaking:
        for word in ("cup", "box"):
            speaking.say(word)
            until(lambda: not speaking._waiting and not speaking.working)
        assert speaking.fault == "It cannot say 'cup'."
        speaking.say("red")
        until(lambda: sink.played)
        until(lambda: not speaking.fault)


def test_installed_voice_is_the_caregivers_and_a_missing_one_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    assert callable(installed_voice())
    monkeypatch.setattr(plugins, "available", lambda group: {})
    with pytest.raises(DevmindError, match="No voice is installed"):
        installed_voice()
    with Speaking(Sink()) as speaking:
        speaking.say("red")
        until(lambda: speaking.fault)
    assert speaking.fault == NO_VOICE


def test_speaker_of_a_life_has_the_installed_voice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny_agent().save_pretrained(tmp_path / "agent")
    voice = SimpleNamespace(load=lambda: lambda text: sound(0.01, 0.25))
    others = plugins.available
    monkeypatch.setattr(plugins, "available", lambda group: {"mine": voice} if group == "voices" else others(group))
    sink, config = Sink(), LiveConfig(page=PageConfig(shown=False))
    options = LiveOptions(
        tmp_path / "agent", {"eye": SyntheticCamera()}, speaker=sink, memory=tmp_path / "memory", config=config
    )
    with open_life(options) as (life, _):
        assert isinstance(life.speaker, Speaking)
        life.speaker.say("red")
        until(lambda: sink.played)
    assert sink.played[0][1].max() == pytest.approx(0.25)


def test_voice_counts_as_heard_from_its_first_sample_until_after_its_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(speaking_module, "ECHO_S", 0.3)
    sink, may = Sink(), threading.Event()

    def voice(text: str) -> np.ndarray:
        may.wait(20)
        return sound(0.2)

    with Speaking(sink, lambda: voice) as speaking:
        speaking.say("red")
        until(lambda: speaking.working)
        assert not speaking.is_heard, "it is being made, and nothing sounds yet"
        may.set()
        until(lambda: speaking.is_heard)
        until(lambda: not speaking.is_heard)
        over_s = time.monotonic()
        assert over_s - sink.played[0][0] >= 0.49
        speaking.act(sound(0.1))
        assert speaking.is_heard, "what it utters is its own, too"


def test_slow_sounds_are_played_in_turn_and_an_empty_one_is_not_heard() -> None:
    sink = Sink()
    with Speaking(sink, lambda: lambda text: sound(0.05)) as speaking:
        speaking.play(lambda: sound(0))
        speaking.play(lambda: sound(0.05, 0.3))
        speaking.say("red")
        until(lambda: len(sink.played) == 2)
        assert [round(float(value.max()), 2) for _, value in sink.played] == [0.3, 0.1]
    quiet = Sink()
    with Speaking(quiet) as speaking:
        speaking.play(lambda: sound(0))
        until(lambda: not speaking._waiting and not speaking.working)
        assert not speaking.is_heard
    assert not quiet.played


def test_long_speech_is_passed_in_pieces_that_fit_the_speaker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speaking_module, "PIECE_S", 0.4)
    monkeypatch.setattr(speaking_module, "AHEAD_S", 0.1)
    sink, said = Sink(), np.arange(16_000, dtype=np.float32)[None] / 16_000
    with Speaking(sink, lambda: lambda text: said) as speaking:
        speaking.say("red")
        until(lambda: len(sink.played) == 3)
        until(lambda: not speaking.working)
    np.testing.assert_array_equal(np.concatenate([value for _, value in sink.played], 1), said)
    begun_s, *later = (at for at, _ in sink.played)
    assert [at - begun_s >= due - 0.01 for at, due in zip(later, (0.3, 0.7), strict=True)] == [True, True]


def test_late_speaker_counts_as_heard_for_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speaking_module, "ECHO_S", 0.05)

    class Late(Sink):
        pending_s = 0.0

    late = Late()
    speaking = Speaking(late)
    speaking.act(sound(0.01))
    until(lambda: not speaking.is_heard)
    late.pending_s = 0.2
    assert speaking.is_heard
    late.pending_s = 0.0
    until(lambda: not speaking.is_heard)
