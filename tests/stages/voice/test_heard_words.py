"""Heard words on the page: those of the agent's arc with their confidence; none of an agent that failed its exam."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from devmind.acting.standing import has_passed
from devmind.agent.agent import Agent
from devmind.agent.output import Categorical
from devmind.errors import CheckpointError
from devmind.live.loop import LiveLoop, Tick
from devmind.live.virtual import Mailbox, SoundMailbox, VirtualClock
from devmind.moment import Moment
from devmind.raised import raised_agents
from devmind.testing import tiny_agent
from devmind.worlds.room import Room
from stages.voice import parts
from stages.voice.abilities.heard_words import EXAM, MOST, PAUSE_S, HeardWords
from stages.voice.caregiver.speech import UNSEEN_PHRASES, bank
from stages.voice.moments import as_batch
from stages.voice.parts import WORDS, WORDS_ARC
from stages.voice.transcript import KNOWN, read_off

PASSED = {"skills": [{"measures": [{"name": "hear_words/caregiver", "passed": True}]}]}
EAR = parts.LISTEN


@pytest.fixture(scope="module")
def taught() -> Agent:
    """The packaged agent after the voice stage."""
    return Agent.from_pretrained(raised_agents()["after-voice"])


def listening(
    agent: Agent, wave: np.ndarray, heard: HeardWords, deaf: bool = False, view: np.ndarray | None = None
) -> Iterator[Tick]:
    """A life on a virtual clock that plays a sound of whole Moments once, then two quiet ones; `view` is seen."""
    clock, ear = VirtualClock(), SoundMailbox()
    eye = Mailbox("sight", clock)
    sensors: dict[str, Any] = {"ear": ear} if view is None else {"ear": ear, "eye": eye}
    room = Room(sensors, now=clock.now, sleep=clock.sleep)
    loop = LiveLoop(agent, room, watchers={"words": heard.see}, hears_itself=lambda: deaf)
    loop.heads, going = heard.heads, loop.ticks()
    for part in np.concatenate((wave, np.zeros(3200, np.float32))).reshape(-1, 1, 1600):
        ear.post(part)
        if view is not None:
            eye.post(view)
        tick = next(going)
        assert tick is not None
        yield tick


def phrases() -> list[tuple[str, np.ndarray]]:
    """Phrases of the caregiver, by any speaker, in whole Moments."""
    said = bank("words on the page", 0, 3, UNSEEN_PHRASES, True)
    return [(text, np.pad(wave, (1600, -len(wave) % 1600))) for text, wave in zip(said.texts, said.waves, strict=True)]


def test_life_hears_the_words_of_its_exam(taught: Agent) -> None:
    right = 0
    for text, wave in phrases():
        heard = HeardWords(taught, PASSED)
        list(listening(taught, wave, heard))
        sound = torch.from_numpy(np.concatenate((wave, np.zeros(3200, np.float32))))[None]
        with torch.inference_mode():
            frames_of_it = taught(as_batch(sound), [WORDS_ARC])[WORDS_ARC].numbers().flatten(1, 2)
        [wanted] = read_off(frames_of_it, [frames_of_it.shape[1]])
        shown = heard.shown()
        assert shown["examined"]
        assert " ".join(word for word, _ in shown["words"]) == wanted
        assert all(0.05 < sure <= 1 for _, sure in shown["words"])
        right += wanted == text
    assert right >= 1, "this agent was taught them"


def test_sight_does_not_change_heard_words(taught: Agent) -> None:
    """Regression (2026-11-27): the head on the trunk's features hears three of four words wrong beside a picture."""
    view = np.random.default_rng(0).integers(0, 255, (240, 320, 3), np.uint8)
    for _, wave in phrases():
        dark, light = HeardWords(taught, PASSED), HeardWords(taught, PASSED)
        list(listening(taught, wave, dark))
        for tick in listening(taught, wave, light, view=view):
            assert "sight" in tick.moment.senses
        assert dark.shown()["words"]
        assert light.shown() == dark.shown()


def test_own_voice_is_not_heard_as_words(taught: Agent) -> None:
    [(_, wave), *_] = phrases()
    heard = HeardWords(taught, PASSED)
    list(listening(taught, wave, heard, deaf=True))
    assert heard.shown() == {}


def test_words_of_a_failed_agent_are_hidden_and_of_an_unexamined_one_shown(taught: Agent) -> None:
    def told(*passed: bool | None) -> dict[str, Any]:
        return {"skills": [{"measures": [{"name": "hear_words/x", "passed": one} for one in passed]}]}

    assert [has_passed(told(*passed), EXAM) for passed in ((True, None), (True, False), (None,), ())] == [
        True, False, None, None,
    ]  # fmt: skip
    assert has_passed({"skills": [{"measures": [{"name": "see", "passed": False}]}]}, EXAM) is None
    assert HeardWords(taught, told(False)).heads == ()
    assert HeardWords(taught, None).heads == (WORDS_ARC,)
    assert HeardWords(tiny_agent(), PASSED).heads == ()
    with pytest.raises(CheckpointError, match="not what an exam writes"):
        has_passed({"skills": [{"measures": [3]}]}, EXAM)


def frames(*rows: dict[str, float]) -> Any:
    """A tick whose frames have these words with these probabilities; the rest is "nothing"."""
    logits = torch.full((1, len(rows), len(KNOWN)), -40.0)
    for at, shares in enumerate(rows):
        for word, share in {"": 1 - sum(shares.values()), **shares}.items():
            logits[0, at, KNOWN.index(word)] = float(np.log(max(share, 1e-9)))
    return logits


def see(heard: HeardWords, time_s: float, logits: Any, present: bool = True) -> None:
    ear = SimpleNamespace(present=torch.tensor([[present]]))
    heard.see(
        SimpleNamespace(  # type: ignore[arg-type]
            output=SimpleNamespace(outputs={WORDS_ARC: Categorical(logits)}),
            percepts=SimpleNamespace(encoded={EAR: ear}),
            moment=Moment(time_s, {"sound": np.zeros((1, 1600), np.float32)} if present else {}),
        )
    )


def test_continued_word_counts_once_with_its_highest_probability() -> None:
    agent = tiny_agent()
    parts.admit(agent)
    assert agent.labels_of(WORDS) == list(KNOWN)
    heard = HeardWords(agent, PASSED)
    see(heard, 0.1, frames({}, {"two": 0.6}))
    see(heard, 0.2, frames({"two": 0.9}, {}))
    see(heard, 0.3, frames({"two": 0.7}, {"red": 0.8}))
    assert heard.shown()["words"] == [["two", 0.9], ["two", 0.7], ["red", 0.8]]
    see(heard, 0.4, frames({"box": 1.0}, {}), present=False)
    see(heard, 0.5, frames({"red": 0.5001}, {}))
    assert [word for word, _ in heard.shown()["words"]] == ["two", "two", "red", "red"], "it was deaf between them"
    see(heard, 0.5 + PAUSE_S + 0.2, frames({}, {"ball": 0.75}))
    assert heard.shown()["words"] == [["ball", 0.75]]
    for tick in range(20):
        see(heard, 3 + tick / 10, frames({}, {"box": 0.75}))
    assert len(heard.shown()["words"]) == MOST
